package lab

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes swap files, loop devices, mounts")
	}
}

func newTestScratch(t *testing.T, parent string) *scratch {
	t.Helper()
	s, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSwapFileComesAndGoes(t *testing.T) {
	needRoot(t)
	s := newTestScratch(t, t.TempDir())
	if err := s.addSwap(16 << 20); err != nil {
		t.Skipf("no swap file here: %v", err)
	}
	path := filepath.Join(s.dir, "swap")
	if files, err := swapFiles(); err != nil || !slices.Contains(files, path) {
		t.Errorf("in use: %v, %v; want %s", files, err, path)
	}
	if err := s.remove(); err != nil {
		t.Fatal(err)
	}
	if files, err := swapFiles(); err != nil || slices.Contains(files, path) {
		t.Errorf("still in use: %v, %v", files, err)
	}
}

// slowDevice is a device of 64 MB in two scratches, throttled to the bandwidth.
func slowDevice(t *testing.T, bandwidth int64) (*device, *scratch, string) {
	t.Helper()
	memory := newTestScratch(t, shmDir(t))
	s := newTestScratch(t, t.TempDir())
	d, err := s.addDevice("slow", 64<<20, memory)
	if err != nil {
		t.Skipf("no loop devices here: %v", err)
	}
	group, err := s.throttle(d, bandwidth)
	if err != nil {
		t.Skipf("no throttling here: %v", err)
	}
	return d, s, group
}

func shmDir(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip("needs /dev/shm")
	}
	dir, err := os.MkdirTemp("/dev/shm", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestThrottledDevice(t *testing.T) {
	needRoot(t)
	const bandwidth = 40e6
	d, s, group := slowDevice(t, bandwidth)
	if group != "" {
		t.Skip("version 2 cgroups slow down only the processes in them")
	}
	write, read, err := measureDisk(d.dir, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]float64{"write": write, "read": read} {
		if got < 0.6*bandwidth || got > 1.5*bandwidth {
			t.Errorf("%s: %.0f MB/s, want about %.0f", what, got/1e6, bandwidth/1e6)
		}
	}
	if err := s.remove(); err != nil {
		t.Fatal(err)
	}
	if points, err := linux.ProcFS("").MountedIn("self", s.dir); err != nil || slices.Contains(points, d.dir) {
		t.Errorf("still mounted, or %v", err)
	}
	if throttled(t, findCgroups(), d.String()) {
		t.Errorf("device %s is still throttled", d)
	}
}

func throttled(t *testing.T, c cgroups, number string) bool {
	t.Helper()
	for _, f := range throttleFiles {
		text, err := os.ReadFile(filepath.Join(c.blkio, f))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+string(text), "\n"+number+" ") {
			return true
		}
	}
	return false
}

// A run that was killed leaves everything behind; the next one, with the same
// parents, removes it.
func TestLeftoversAreRemoved(t *testing.T) {
	needRoot(t)
	d, s, group := slowDevice(t, 40e6)
	if group != "" {
		t.Skip("version 2 cgroups are removed with their processes")
	}
	left := leaveProcess(t, s.dir)

	parent := filepath.Dir(s.dir)
	if err := sweep(parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.dir); err != nil {
		t.Fatalf("the scratch of a living run is gone: %v", err)
	}

	s.lock.Close()
	if err := sweep(parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover is there: %v", err)
	}
	if points, err := linux.ProcFS("").MountedIn("self", s.dir); err != nil || slices.Contains(points, d.dir) {
		t.Errorf("still mounted, or %v", err)
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the leftover process still runs")
	}
}

// leaveProcess starts a program called headrace-... that has its directory in dir
// and would run for long; the channel is closed at its end.
func leaveProcess(t *testing.T, dir string) <-chan struct{} {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "headrace-sleeps")
	copyFile(t, sleep, program)
	cmd := exec.Command(program, "600")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	return ended
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
