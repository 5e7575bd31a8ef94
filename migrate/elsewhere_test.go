package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/blob"
	"headrace/internal/criu"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/needs"
)

// goesOn counts in a file in its working directory and on standard output, with a
// file open that its scheduler has localized. The last numbers come when there is the file that it is told of, so that a test may be slow.
const goesOn = `
import os, sys, time
f, data = open("count", "w"), open("data")
for n in range(60):
    f.write("%d\n" % n); f.flush()
    print(n, flush=True)
    time.sleep(0.05)
    while n == 30 and not os.path.exists(sys.argv[1]): time.sleep(0.01)
print(data.read(), open("data").read(), os.getcwd(), flush=True)
sys.exit(9)
`

// machine is a node of a cluster whose directories have the same paths on all.
type machine struct {
	rt    *proc.Runtime
	store *checkpoint.Store
	dir   string
}

// TestElsewhere: a real task is checkpointed, put, and goes on where there is
// nothing of it but what the archive brings. Its directory has the same path there:
// its first process writes into it.
func TestElsewhere(t *testing.T) {
	eachPlace(t, func(t *testing.T, p blob.Place) { testElsewhere(t, p) })
}

func testElsewhere(t *testing.T, p blob.Place) {
	m := newMachine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	local, goOn := filepath.Join(m.dir, "local"), filepath.Join(m.dir, "go")
	layout(t, local, "container_1/data@"+filepath.Join(local, "filecache/10/data"), "filecache/10/data")
	spec := proc.Spec{ID: "a1", Argv: []string{"python3", "-c", goesOn, goOn}, Cwd: filepath.Join(local, "container_1"), Umask: 0o22,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LANG=C.UTF-8"}, UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	task, err := m.rt.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer task.Close()
	awaitLine(t, filepath.Join(m.rt.TaskDir("a1"), "stdout"), "5\n")
	if _, err := task.Suspend(ctx, 0); err != nil {
		t.Fatal(err)
	}
	needed, err := needs.Observe(below(t, m.rt.TaskDir("a1")))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(needed.Mapped, func(path string) bool { return strings.HasPrefix(filepath.Base(path), "headrace-shim-") }) {
		t.Errorf("nobody asks on the other machine for the headrace-shim that the images need: %q", needed.Mapped)
	}
	if _, err := task.Checkpoint(ctx, proc.CheckpointOptions{Store: m.store.Dir}); err != nil {
		t.Fatal(err)
	}

	// Put, as the machine that it comes from does.
	a := newArchive(t, p, Options{Compress: true})
	o := &Observer{CRIU: says("4.2", nil)}
	roots := []Root{{Path: local}, {Path: m.rt.Dir}}
	if err := m.put(ctx, a, o, needed, roots); err != nil {
		t.Fatal(err)
	}
	// Another machine, where the application has its directory but none of its files.
	if err := errors.Join(m.rt.Remove(ctx, "a1"), m.store.Remove("a1"), os.RemoveAll(local), os.Mkdir(local, 0o755)); err != nil {
		t.Fatal(err)
	}

	claim, err := a.Claim(ctx, Want{Key: testKey("k"), UID: spec.UID, Claimant: "node2", Accept: func(m *Manifest) error {
		here, err := o.Machine(ctx)
		if err != nil {
			return err
		}
		here, err = m.Fingerprint.Here(ctx, o, here, func(f func() error) error { return f() })
		if diff := m.Fingerprint.Compare(here); err == nil && diff != nil {
			err = errors.New(strings.Join(diff, "; "))
		}
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := claim.Fetch(ctx, Target{Store: m.store, Task: "a1", Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Use(ctx); err != nil {
		t.Fatal(err)
	}
	restored, res, err := m.rt.Restore(ctx, spec, proc.RestoreOptions{Store: m.store.Dir, MovedFrom: m.rt.TaskDir("a1")})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if res.Seq != got.Image.Seq || len(res.Skipped) != 0 {
		t.Errorf("restored %+v", res)
	}
	if err := claim.Remove(ctx); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-restored.Exited():
	case <-ctx.Done():
		t.Fatal("the task does not end")
	}
	if e := restored.Exit(); e.Code != 9 {
		t.Errorf("exit %+v", e)
	}
	var numbers strings.Builder
	for n := range 60 {
		fmt.Fprintln(&numbers, n)
	}
	if b, err := os.ReadFile(filepath.Join(local, "container_1/count")); err != nil || string(b) != numbers.String() {
		t.Errorf("its file has %q, %v", b, err)
	}
	wantOut := numbers.String() + fmt.Sprintf("filecache/10/data filecache/10/data %s\n", spec.Cwd)
	if b, err := os.ReadFile(filepath.Join(m.rt.TaskDir("a1"), "stdout")); err != nil || string(b) != wantOut {
		t.Errorf("it wrote %q, %v", b, err)
	}
}

func (m *machine) put(ctx context.Context, a *Archive, o *Observer, needed needs.Files, roots []Root) error {
	var wanted []Wanted
	for _, path := range slices.Concat(needed.Open, needed.Mapped) {
		wanted = append(wanted, Wanted{path, strings.HasPrefix(path, roots[0].Path)})
	}
	carried, err := Carry(ctx, wanted, roots)
	if err != nil {
		return err
	}
	for _, w := range needed.Writing {
		if slices.Contains(carried.Outside, w) {
			return fmt.Errorf("%s: %w", w, ErrUncarried)
		}
	}
	d := describe("k")
	d.UID = uint32(os.Getuid())
	if d.Fingerprint, err = o.Machine(ctx); err != nil {
		return err
	}
	if err := d.Fingerprint.AddFiles(ctx, o, carried.Outside); err != nil {
		return err
	}
	images, err := m.store.Images("a1")
	if err != nil {
		return err
	}
	_, err = a.Put(ctx, NewID(), d, func(w *Writer) error {
		return errors.Join(w.AddImage(images[len(images)-1]), w.AddFiles(carried))
	})
	return err
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("checkpoints need root")
	}
	c, err := criu.Find()
	if err != nil {
		t.Skipf("checkpoints need CRIU: %v", err)
	}
	dir, err := os.MkdirTemp("", "headrace-machine")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{dir: dir, rt: &proc.Runtime{Shim: testkit.Shim(t), Dir: filepath.Join(dir, "tasks"), CRIU: c.Path}}
	t.Cleanup(func() { m.end(t) })
	if m.store, err = checkpoint.Open(filepath.Join(dir, "store"), checkpoint.Options{}); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	names, _ := os.ReadDir(m.rt.Dir)
	for _, n := range names {
		if t.Failed() {
			for _, f := range []string{"shim.log", "dump.log", "restore.log", "stderr"} {
				if b, err := os.ReadFile(filepath.Join(m.rt.Dir, n.Name(), f)); err == nil && len(b) > 0 {
					t.Logf("%s/%s:\n%s", n.Name(), f, b[max(0, len(b)-2500):])
				}
			}
		}
		if err := m.rt.Remove(ctx, headrace.TaskID(n.Name())); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}
	os.RemoveAll(m.dir)
}

func awaitLine(t *testing.T, path, text string) {
	t.Helper()
	testkit.Await(t, fmt.Sprintf("%q in %s", text, path), func() bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(b), text)
	})
}

// below returns the processes of a task: those below its supervisor.
func below(t *testing.T, taskDir string) []int {
	t.Helper()
	var procs linux.ProcFS
	all, err := procs.All()
	if err != nil {
		t.Fatal(err)
	}
	family := make(map[int]bool)
	for _, p := range all {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); err == nil && strings.Contains(string(b), "supervise\x00-dir\x00"+taskDir+"\x00") {
			family[p.PID] = true
		}
	}
	var pids []int
	for range all { // as deep as there are processes
		for _, p := range all {
			if family[p.PPID] && !family[p.PID] {
				family[p.PID] = true
				pids = append(pids, p.PID)
			}
		}
	}
	if len(pids) < 2 {
		t.Fatalf("the task has processes %v", pids)
	}
	return pids
}
