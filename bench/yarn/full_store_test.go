package yarn

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Containers are to be checkpointed to a store that is too small, and later to one
// with room.
func TestFullStore(t *testing.T) {
	t.Parallel()
	needCRIU(t)
	c := startTest(t, Options{Mode: Headrace, NoDaemons: true, ManagerFlags: []string{"--min-run", "0s"}})
	j := startJobs(t, c)
	store := tinyStore(t)
	flags := func(int) []string { return []string{"--store", "tiny=" + store} }
	t.Run("full", func(t *testing.T) {
		if err := c.StartDaemons(within(t, patience), "checkpoint", flags); err != nil {
			t.Fatal(err)
		}
		giveWayWithoutStore(t, j)
		if err := c.StopDaemons(); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() {
		return
	}
	if left := must(os.ReadDir(store))(t); len(left) > 0 {
		t.Errorf("in the full store are left: %v", left)
	}
	t.Run("ten rounds", func(t *testing.T) {
		if err := c.StartDaemons(within(t, patience), "checkpoint", nil); err != nil {
			t.Fatal(err)
		}
		tenCheckpoints(t, j)
	})
}

// tinyStore is a directory with much room by its size, in which hardly a file can be
// made.
func tinyStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=64m,nr_inodes=8"); err != nil {
		t.Skipf("a small file system cannot be made, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return filepath.Join(dir, "store")
}

// A dump fails for lack of room: the container is suspended instead, and goes on.
func giveWayWithoutStore(t *testing.T, j *jobs) {
	low := j.start(t, ShellJob{Name: "low-full", Queue: "low", Memory: 2048}, 60)
	low.awaitSteps(t, 10)
	high := j.start(t, ShellJob{Name: "high-full", Queue: "high", Memory: 1024}, 10)
	id := awaitState(t, j.c, "suspended", 1)[0]
	high.finished(t)
	low.finished(t)
	idle(t, j.c)
	var decided []string
	for _, d := range must(j.c.Decisions())(t) {
		if d.Container == id {
			decided = append(decided, d.Mechanism)
		}
	}
	if len(decided) < 2 || decided[0] != "checkpoint" || decided[1] != "suspend" {
		t.Errorf("was decided: %v; want first checkpoint, then suspend", decided)
	}
}

// One container is checkpointed and restored again and again.
func tenCheckpoints(t *testing.T, j *jobs) {
	const rounds = 10
	low := j.start(t, ShellJob{Name: "ten", Queue: "low", Memory: 2048}, 8*rounds+10)
	for round := range rounds {
		low.awaitSteps(t, round*8+5)
		high := j.start(t, ShellJob{Name: fmt.Sprint("ten", round), Queue: "high", Memory: 1024}, 1)
		high.finished(t)
	}
	low.finished(t)
	idle(t, j.c)
	all := must(low.steps.Attempts())(t)["0"]
	task := must(j.c.TaskOf(t.Context(), 0, all[0].Container))(t)
	dumps := 0
	for _, e := range task.History {
		if e.State == "checkpointed" {
			dumps++
		}
	}
	if task.Preemptions != rounds || dumps != rounds {
		t.Errorf("the container was preempted %d times and checkpointed %d times, want %d", task.Preemptions, dumps, rounds)
	}
}
