package rig

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/lab/work"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes swap files, loop devices, mounts")
	}
}

func newTestScratch(t *testing.T, parent string) *Scratch {
	t.Helper()
	s, err := NewScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSwapFileComesAndGoes(t *testing.T) {
	needRoot(t)
	s := newTestScratch(t, t.TempDir())
	if err := s.AddSwap(16 << 20); err != nil {
		t.Skipf("no swap file here: %v", err)
	}
	path := filepath.Join(s.Dir, "swap")
	if files, err := SwapFiles(); err != nil || !slices.Contains(files, path) {
		t.Errorf("in use: %v, %v; want %s", files, err, path)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if files, err := SwapFiles(); err != nil || slices.Contains(files, path) {
		t.Errorf("still in use: %v, %v", files, err)
	}
}

// slowDevice returns a device of 64 MB in two scratches, throttled to the bandwidth.
func slowDevice(t *testing.T, bandwidth int64) (*device, *Scratch, string) {
	t.Helper()
	memory := newTestScratch(t, shmDir(t))
	s := newTestScratch(t, t.TempDir())
	d, err := s.AddDevice("slow", 64<<20, memory)
	if err != nil {
		t.Skipf("no loop devices here: %v", err)
	}
	group, err := s.Throttle(d, bandwidth)
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
	// A busy machine may hold up one measurement, and lifts no limit.
	var write, read float64
	for range 50 {
		w, r, err := work.MeasureDisk(d.Dir, 16<<20)
		if err != nil {
			t.Fatal(err)
		}
		if write, read = max(write, w), max(read, r); min(write, read) >= 0.6*bandwidth {
			break
		}
	}
	for what, got := range map[string]float64{"write": write, "read": read} {
		if got < 0.6*bandwidth || got > 1.5*bandwidth {
			t.Errorf("%s: %.0f MB/s, want about %.0f", what, got/1e6, bandwidth/1e6)
		}
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if points, err := linux.ProcFS("").MountedIn("self", s.Dir); err != nil || slices.Contains(points, d.Dir) {
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
	left := leaveProcess(t, s.Dir)

	parent := filepath.Dir(s.Dir)
	if err := sweep(parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Dir); err != nil {
		t.Fatalf("the scratch of a living run is gone: %v", err)
	}

	s.lock.Close()
	if err := sweep(parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover is there: %v", err)
	}
	if points, err := linux.ProcFS("").MountedIn("self", s.Dir); err != nil || slices.Contains(points, d.Dir) {
		t.Errorf("still mounted, or %v", err)
	}
	<-left
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
	return testkit.Start(t, cmd)
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

// Processor time of a group is that of its processes, also of those that are gone
// and that nobody waited for.
func TestReadGroupCountsProcessorTime(t *testing.T) {
	needRoot(t)
	s := newTestScratch(t, t.TempDir())
	g, err := s.NewGroup(0)
	if err != nil {
		t.Skip(err)
	}
	before, err := g.Used()
	if err != nil {
		t.Fatal(err)
	}
	// The inner shell burns processor time and is orphaned before it ends.
	burn := g.Enter(exec.Command("/bin/sh", "-c", `(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done) & exit`))
	if out, err := Run(t.Context(), burn); err != nil || out != "done\n" {
		t.Fatalf("%q, %v", out, err)
	}
	after, err := g.Used()
	if err != nil || after-before < 0.01 || after-before > 30 {
		t.Errorf("%.3f s, %v", after-before, err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if IsDir(g.cpu) {
		t.Errorf("%s is left", g.cpu)
	}
}

func TestMemoryGroupComesAndGoes(t *testing.T) {
	needRoot(t)
	s := newTestScratch(t, t.TempDir())
	group, err := s.MemoryGroup(64 << 20)
	if err != nil {
		t.Skipf("no memory cgroups here: %v", err)
	}
	if again, err := s.MemoryGroup(32 << 20); err != nil || again != group {
		t.Errorf("made again: %s, %v", again, err)
	}
	out, err := enterGroup(group, tool("cat", "/proc/self/cgroup")).Output()
	if err != nil || !strings.Contains(string(out), filepath.Base(group)) {
		t.Errorf("a process that was started in it is in %s, %v", out, err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if IsDir(group) {
		t.Errorf("%s is still there", group)
	}
}
