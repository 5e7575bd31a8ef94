package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
)

// TestVolumeHangs: a disk that does not answer holds nobody up for longer than patience,
// and then nobody at all; others are found beside it.
func TestVolumeHangs(t *testing.T) {
	testkit.NoLeaks(t)
	bad, good := newDataDir(t, layout32), newDataDir(t, layout32)
	fail := testkit.SilentFS(t, bad.dir)
	v := volumes(t, bad, good)
	const patience = time.Second
	v.volumes[0].line.patience = patience

	var wg sync.WaitGroup
	for range 3 * maxAsked {
		wg.Go(func() {
			_, err := v.Find(t.Context(), testBlock)
			wantError(t, "nowhere else", err, ErrVolume, "hangs")
		})
	}
	wg.Wait()
	good.add(subdir(layout32))
	from := time.Now()
	for range 100 {
		if r, err := v.Find(t.Context(), testBlock); err != nil {
			t.Error(err)
		} else if r.Close(); r.Volume != good.dir {
			t.Errorf("found on %s", r.Volume)
		}
	}
	if took := time.Since(from); took > 50*patience { // it would be all of it for each
		t.Errorf("a disk that is known to hang held up 100 questions for %v", took)
	}
	problems := v.Check(t.Context())
	if len(problems) != 1 {
		t.Errorf("problems %v", problems)
	}
	wantError(t, "the volume", problems[bad.dir], ErrVolume, "hangs")

	fail()
	testkit.Await(t, "the kernel to answer", func() bool { return v.volumes[0].line.silent() == nil })
	v.volumes[0].line.patience = time.Hour
	wantError(t, "a disk that fails", v.Check(t.Context())[bad.dir], ErrVolume, "not connected")
	if r, err := v.Find(t.Context(), testBlock); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
	if err := unix.Unmount(bad.dir, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
	if problems := v.Check(t.Context()); len(problems) != 0 {
		t.Errorf("after it is well: %v", problems)
	}
}

// TestAskerLeaves: who asks may leave before the answer, which is dropped then.
func TestAskerLeaves(t *testing.T) {
	testkit.NoLeaks(t)
	l := newLine(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	release, dropped := make(chan struct{}), make(chan int)
	asked := make(chan struct{})
	go func() { <-asked; cancel() }()
	_, err := Ask(ctx, l, func() (int, error) { close(asked); <-release; return 7, nil }, func(n int) { dropped <- n })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	if n := <-dropped; n != 7 {
		t.Errorf("%d is dropped", n)
	}
	n, err := Ask(t.Context(), l, func() (int, error) { return 8, nil }, func(int) { t.Error("dropped, too") })
	if n != 8 || err != nil {
		t.Error(n, err)
	}
}

const asStranger = "HEADRACE_TEST_VOLUME"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asStranger); dir != "" {
		stranger(dir)
		return
	}
	os.Exit(m.Run())
}

// stranger looks at a volume and prints what is wrong.
func stranger(dir string) {
	v, err := Open([]string{dir})
	if err != nil {
		panic(err)
	}
	_, err = v.Find(context.Background(), testBlock)
	fmt.Println(errors.Is(err, ErrRights), err)
	err = v.Check(context.Background())[dir]
	fmt.Println(errors.Is(err, ErrRights), err)
}

// TestStranger looks as a user whose volumes it is not.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	// Temporary directories of tests are closed to others, this one is not.
	dir, err := os.MkdirTemp("/tmp", "headrace-volume-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := dataDir{t, dir}
	d.write("program", "")
	program, err := os.ReadFile("/proc/self/exe")
	d.must(err)
	d.must(os.WriteFile(d.path("program"), program, 0o600))
	d.must(os.Chmod(d.path("program"), 0o755))
	d.must(os.Chmod(dir, 0o755))
	volume := dataDir{t, d.path("volume")}
	volume.write("current/"+testPool+"/current/VERSION", version(testPool, -57))
	volume.add(subdir(layout32))
	d.must(os.Chmod(volume.dir, 0o700))
	d.must(os.Chown(volume.dir, 54321, 54321))
	found(t, volumes(t, volume)) // root may

	cmd := exec.Command(d.path("program"))
	cmd.Env = append(os.Environ(), asStranger+"="+volume.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "true ") || !strings.Contains(line, "run as root or as user 54321") {
			t.Errorf("%q", line)
		}
	}
}
