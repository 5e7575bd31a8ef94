package cgroup

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestBaseName: a base is found again by whoever has the directory, whatever the path.
func TestBaseName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(dir, "also-a")); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, path := range []string{"a", "b", "also-a"} {
		name, err := baseName(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		names[path] = name
	}
	if names["a"] != names["also-a"] || names["a"] == names["b"] {
		t.Errorf("names %v: want the same for a and also-a, and another for b", names)
	}
	if _, err := baseName(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there has a name")
	}
}

// TestVersion1: each controller has a group in its own hierarchy, and what others have
// chosen is left alone.
func TestVersion1(t *testing.T) {
	root := t.TempDir()
	own := map[string]string{}
	for _, c := range []string{"memory", "cpu", "pids", "freezer"} {
		own[c] = filepath.Join(root, c)
		if err := os.Mkdir(own[c], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b, err := open(own, "headrace-x", makeDir)
	if err != nil {
		t.Fatal(err)
	}
	if want := 4; len(b.group.Dirs()) != want {
		t.Errorf("groups %v, want %d", b.group.Dirs(), want)
	}
	b.Make("t1", Limits{Memory: 1 << 30}, nil)
	b.Make("t2", Limits{}, nil)
	if got := b.Names(); !slices.Equal(got, []string{"t1", "t2"}) {
		t.Errorf("tasks %v", got)
	}
	if g := b.Find("t1"); len(g.Dirs()) != 4 {
		t.Errorf("the group of t1 is %+v", g)
	}
	if g := b.Find("t2"); len(g.Dirs()) != 3 || g.Memory != "" {
		t.Errorf("the group of t2, without a limit of memory, is %+v", g)
	}
	if g := b.Find("t3"); len(g.Dirs()) != 0 {
		t.Errorf("the group of no task is %+v", g)
	}
	b.Close()
	if len(b.Names()) != 2 {
		t.Error("groups of tasks were removed")
	}
}

// TestShared: in version 2 tasks without a limit of memory are below a group that has all
// controllers but memory, and are found there like the others; a bound of all together
// gives each one of its own. What a sweep removes is made again whole.
func TestShared(t *testing.T) {
	b, err := fakeTree(t, "", map[string]string{"cgroup.controllers": "memory cpu pids", "cgroup.subtree_control": "", "cgroup.procs": "", "memory.max": "max"})
	if b == nil {
		t.Fatal(err)
	}
	base := b.group.Memory
	shared := filepath.Join(base, sharedName)
	limited := func(name string, l Limits) bool {
		t.Helper()
		g, err := b.Make(name, l, nil)
		if err != nil || g != b.Find(name) || len(g.Dirs()) != 1 || g.Freezer != g.CPU || g.CPU != g.PIDs {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
		if want := filepath.Join(base, name); g.Memory != "" && g.Memory == want && g.CPU == want {
			return true
		}
		if g.Memory != "" || g.CPU != filepath.Join(shared, name) {
			t.Errorf("%s is in %+v", name, g)
		}
		return false
	}
	if limited("t1", Limits{}) || !limited("t2", Limits{Memory: 1 << 30}) {
		t.Error("a group for memory without a limit, or none with one")
	}
	if err := b.LimitMemory(1 << 30); err != nil || !limited("t3", Limits{}) {
		t.Errorf("no group for memory below a bound of all, %v", err)
	}
	if got := b.Names(); !slices.Equal(got, []string{"t1", "t2", "t3"}) {
		t.Errorf("tasks %v", got)
	}
	whole := func() {
		t.Helper()
		for dir, want := range map[string]string{base: "+memory +cpu +pids", shared: "+cpu +pids"} {
			if got, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")); string(got) != want {
				t.Errorf("%s lets groups below it have %q, %v, want %q", dir, got, err, want)
			}
		}
	}
	whole()
	if err := errors.Join(b.LimitMemory(0), os.RemoveAll(base)); err != nil {
		t.Fatal(err)
	}
	if limited("t4", Limits{}) {
		t.Error("a group for memory without a limit")
	}
	whole()
}

// fakeTree makes cgroups that hold these files, and the base in them.
func fakeTree(t *testing.T, hierarchy string, files map[string]string) (*Base, error) {
	t.Helper()
	root := t.TempDir()
	fill := func(dir string) error {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(root); err != nil {
		t.Fatal(err)
	}
	return open(map[string]string{hierarchy: root}, "headrace-x", func(dir string) error {
		if err := makeDir(dir); err != nil {
			return err
		}
		return fill(dir)
	})
}

// TestIOWeight: a weight reaches each file that the kernel has for it, in that file's
// range, and who wants one where there is none is told.
func TestIOWeight(t *testing.T) {
	const same = "as the kernel made it"
	unified := map[string]string{"cgroup.controllers": "cpu io", "cgroup.subtree_control": "", "cgroup.procs": ""}
	with := func(m map[string]string, names ...string) map[string]string {
		m = maps.Clone(m)
		for _, name := range names {
			m[name] = same
		}
		return m
	}
	for _, c := range []struct {
		name, hierarchy string
		files           map[string]string
		weight          int
		want            map[string]string
		fails           bool
	}{
		{"iocost", "", with(unified, "io.weight"), 300, map[string]string{"io.weight": "300"}, false},
		{"iocost and bfq", "", with(unified, "io.weight", "io.bfq.weight"), 10000, map[string]string{"io.weight": "10000", "io.bfq.weight": "1000"}, false},
		{"none in version 2", "", unified, 300, nil, true},
		{"bfq", "blkio", with(map[string]string{}, "blkio.bfq.weight"), 10, map[string]string{"blkio.bfq.weight": "10"}, false},
		{"cfq", "blkio", with(map[string]string{}, "blkio.weight"), 1, map[string]string{"blkio.weight": "10"}, false},
		{"the default", "blkio", with(map[string]string{}, "blkio.weight"), 100, map[string]string{"blkio.weight": same}, false},
		{"not asked for", "", with(unified, "io.weight"), 0, map[string]string{"io.weight": same}, false},
		{"none in version 1", "cpu,blkio", map[string]string{"blkio.throttle.read_bps_device": ""}, 300, nil, true},
		{"none, and none wanted", "cpu,blkio", nil, 100, nil, false},
	} {
		b, err := fakeTree(t, c.hierarchy, c.files)
		if b == nil {
			t.Fatal(err)
		}
		g, err := b.Make("t1", Limits{IOWeight: c.weight}, nil)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
		for name, want := range c.want {
			if got, err := os.ReadFile(filepath.Join(g.IO, name)); string(got) != want {
				t.Errorf("%s: %s holds %q, %v, want %q", c.name, name, got, err, want)
			}
		}
	}
	var none *Base
	if _, err := none.Make("t1", Limits{IOWeight: 300, Memory: 1}, nil); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("without any cgroups: %v", err)
	}
}

// TestCPUShare: a share of the processors reaches the file that the kernel has for it, within what that takes.
func TestCPUShare(t *testing.T) {
	for _, c := range []struct {
		hierarchy, file string
		cpus            float64
		want            string
	}{
		{"", "cpu.weight", 2, "200"},
		{"", "cpu.weight", 0.001, "1"},
		{"", "cpu.weight", 1000, "10000"},
		{"cpu,cpuacct", "cpu.shares", 2, "2048"},
		{"cpu,cpuacct", "cpu.shares", 0.001, "2"},
		{"cpu,cpuacct", "cpu.shares", 1000, "262144"},
	} {
		files := map[string]string{c.file: "as the kernel made it"}
		if c.hierarchy == "" {
			files["cgroup.controllers"], files["cgroup.subtree_control"], files["cgroup.procs"] = "cpu io", "", ""
		}
		b, err := fakeTree(t, c.hierarchy, files)
		if b == nil {
			t.Fatal(err)
		}
		g, err := b.Make("t1", Limits{CPUs: c.cpus}, nil)
		if err != nil {
			t.Errorf("%v CPUs: %v", c.cpus, err)
		}
		if got, err := os.ReadFile(filepath.Join(g.CPU, c.file)); string(got) != c.want {
			t.Errorf("%v CPUs: %s holds %q, %v, want %q", c.cpus, c.file, got, err, c.want)
		}
	}
}

// TestWithoutControllers: a limit, and a share that is another than all have, for which there is
// no controller are told.
func TestWithoutControllers(t *testing.T) {
	b, err := fakeTree(t, "freezer", nil)
	if b == nil {
		t.Fatal(err)
	}
	if _, err := b.Make("t1", Limits{CPUs: 1}, nil); err != nil {
		t.Errorf("without limits: %v", err)
	}
	_, err = b.Make("t2", Limits{Memory: 1 << 20, CPUs: 2, PIDs: 100}, nil)
	for _, want := range []string{"no limit of memory", "no share of the processors", "no limit of processes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// TestScaleWeight: the least, the standard and the greatest weight correspond in all
// ranges, and none between is out of order.
func TestScaleWeight(t *testing.T) {
	for _, f := range ioWeights {
		last := f.least
		for w := 1; w <= 10000; w++ {
			got := scaleWeight(w, f.least, f.standard, f.greatest)
			if got < last || got > f.greatest || w == 1 && got != f.least || w == 100 && got != f.standard || w == 10000 && got != f.greatest {
				t.Fatalf("%s: %d becomes %d after %d", f.name, w, got, last)
			}
			last = got
		}
	}
}

// realBase returns a base in the cgroups of this machine, or skips the test with the
// reason.
func realBase(t testing.TB) *Base {
	t.Helper()
	b, err := Open(t.TempDir())
	if b == nil {
		t.Skip(err)
	}
	t.Cleanup(b.Close)
	return b
}

// TestSweepNames: only bases of other daemons go.
func TestSweepNames(t *testing.T) {
	root := t.TempDir()
	b, err := open(map[string]string{"cpu": root}, "headrace-00000001", makeDir)
	if b == nil {
		t.Fatal(err)
	}
	b.place(filepath.Join(root, "gone"))
	stay := []string{"headrace-00000001", "headrace-000000010", "headrace-1", "headrace-doctor-1", "headrace-tests000", "other", "headrace-0000000f/t1"}
	for _, dir := range append([]string{"headrace-0000000a"}, stay...) {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.Sweep()
	if exists(filepath.Join(root, "headrace-0000000a")) {
		t.Error("an empty base is still there")
	}
	for _, dir := range stay {
		if !exists(filepath.Join(root, dir)) {
			t.Errorf("%s was removed", dir)
		}
	}
}

// TestSweep: a base of nobody goes when another daemon starts, one with a task's group
// stays.
func TestSweep(t *testing.T) {
	b := realBase(t)
	empty, used := realBase(t), realBase(t)
	g, err := used.Make("t1", Limits{Memory: 1 << 30}, nil)
	if len(g.Dirs()) == 0 {
		t.Fatal(err)
	}
	defer g.Remove()
	b.Sweep()
	if left := empty.group.Present().Dirs(); len(left) != 0 {
		t.Errorf("%v are still there, empty and of nobody", left)
	}
	if used.group.Present() != used.group {
		t.Errorf("of the base in use there is %+v", used.group.Present())
	}
	// It was not of nobody: its daemon had no task just then.
	made, err := empty.Make("t1", Limits{PIDs: 7, Memory: 1 << 30}, nil)
	if len(made.Dirs()) != len(empty.group.Dirs()) {
		t.Errorf("after the sweep a task gets %+v, %v", made, err)
	}
	if err := made.Remove(); err != nil {
		t.Error(err)
	}
}

// TestSweepRace: groups are made, complete, while another daemon sweeps all the time.
func TestSweepRace(t *testing.T) {
	b, other := realBase(t), realBase(t)
	var swept atomic.Int64
	var sweeper sync.WaitGroup
	stop := make(chan struct{})
	defer sweeper.Wait()
	defer close(stop)
	sweeper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				other.Sweep()
				swept.Add(1)
			}
		}
	})
	for i := 0; i < 200 || swept.Load() < 10; i++ {
		g, err := b.Make("t1", Limits{Memory: 1 << 30}, nil)
		if err != nil || len(g.Dirs()) != len(b.group.Dirs()) {
			t.Fatalf("round %d: %+v, %v", i, g, err)
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRemakeKeepsTheBound: the bound of all tasks together outlives a sweep.
func TestRemakeKeepsTheBound(t *testing.T) {
	b := realBase(t)
	if b.group.Memory == "" {
		t.Skip("there is no memory cgroup here")
	}
	const bound = 1 << 30
	if err := b.LimitMemory(bound); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.group.Memory); err != nil && !os.IsNotExist(err) { // a daemon here may have swept it
		t.Fatal(err)
	}
	g, err := b.Make("t1", Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	if n, err := readNumber(either(b.group.Memory, "memory.max", "memory.limit_in_bytes")); n != bound {
		t.Errorf("after the base was removed tasks may use %d bytes, %v, want %d", n, err, bound)
	}
}

// TestBelow: what a task has made below its group is counted, ended and removed with it.
func TestBelow(t *testing.T) {
	b := realBase(t)
	g, err := b.Make("t1", Limits{Memory: 1 << 30}, nil)
	if len(g.Dirs()) == 0 {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	for _, dir := range g.Dirs() {
		below := filepath.Join(dir, "below")
		if err := os.MkdirAll(filepath.Join(below, "deep"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Add(below, cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	if n := g.Count(); n != 1 {
		t.Errorf("there are %d processes in it", n)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process has ended by itself")
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if left := g.Present().Dirs(); len(left) > 0 {
		t.Errorf("%v are still there", left)
	}
}
