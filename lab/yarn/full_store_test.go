package yarn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/wire"
)

// Containers are to be checkpointed to a store that is too small, and later to one
// with room.
func fullStore(t *testing.T, j *jobs) {
	needCRIU(t)
	g, c := gate(t.TempDir()), j.c
	c.o.NodeFlags = []string{"--criu", g.criu(t)}
	for _, try := range []struct {
		name, mount string
		giveWay     func(*testing.T, *jobs, gate, string)
	}{
		{"no file left", ",nr_inodes=8", giveWayWithoutFiles},
		{"room taken meanwhile", "", giveWayWhileFilled},
		{"no room", "", giveWayWithoutRoom},
	} {
		t.Run(try.name, func(t *testing.T) {
			if try.mount != "" {
				testkit.Long(t) // it fails as that below does; TestDiskFullLeavesTheTask in proc has both
			}
			store := filepath.Join(smallFileSystem(t, try.mount), "store")
			withDaemons(t, c, "gives way", "checkpoint", []string{"--store", "small=" + store}, func(t *testing.T) { try.giveWay(t, j, g, store) })
			if left := slices.DeleteFunc(must(os.ReadDir(store))(t), marksStore); len(left) > 0 {
				t.Errorf("in the full store is left: %v", left)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Run("ten rounds", func(t *testing.T) {
		testkit.Long(t)
		withDaemons(t, c, "checkpointed", "checkpoint", nil, func(t *testing.T) { tenCheckpoints(t, j) })
	})
}

// smallFileSystem returns one of 64 MB.
func smallFileSystem(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=64m"+options); err != nil {
		t.Skipf("a small file system cannot be made, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// The room is there, but hardly a file can be made.
func giveWayWithoutFiles(t *testing.T, j *jobs, _ gate, _ string) {
	low := j.startHeld(t, ShellJob{Name: "low-files", Queue: "low", Memory: 2048}, 60, 10)
	low.standStill(t, 10)
	high := j.startHeld(t, ShellJob{Name: "high-files", Queue: "high", Memory: 1024}, 10, 1)
	suspendedInstead(t, low, high, "checkpoint", "suspend")
}

// The room is there when the dump begins, and gone when it is written.
func giveWayWhileFilled(t *testing.T, j *jobs, g gate, store string) {
	low := j.startBig(t, "low-filled", 30<<20)
	g.close(t, "checkpointing")
	high := j.startHeld(t, ShellJob{Name: "high-filled", Queue: "high", Memory: 1024}, 10, 1)
	awaitDoing(t, j.c, "checkpointing")
	fillUp(t, filepath.Join(filepath.Dir(store), "other"), 8<<20)
	g.open(t, "checkpointing")
	suspendedInstead(t, low, high, "checkpoint", "suspend")
}

// It is seen beforehand that there is no room.
func giveWayWithoutRoom(t *testing.T, j *jobs, _ gate, _ string) {
	low := j.startBig(t, "low-room", 100<<20)
	low.awaitSteps(t, 1)
	// The node reports every second, and the manager decides.
	id := must(low.steps.Attempts())(t)["0"][0].Container
	err := await(within(t, patience), "wait for the manager to know that there is no room", patience, func(ctx context.Context) (bool, error) {
		would, err := j.c.Manager().Preempt(ctx, &wire.PreemptRequest{Observe: true, Victims: []*wire.Victim{{Container: id}}})
		return err == nil && strings.Contains(would.Decisions[0].Reason, "store small has"), err
	})
	if err != nil {
		t.Fatal(err)
	}
	high := j.startHeld(t, ShellJob{Name: "high-room", Queue: "high", Memory: 1024}, 10, 1)
	suspendedInstead(t, low, high, "suspend")
}

// startBig starts a job of one container, and returns when that has changed so much memory.
func (j *jobs) startBig(t *testing.T, name string, bytes int64) *job {
	t.Helper()
	script := fmt.Sprintf("import subprocess, sys; x = bytes([1]) * %d; sys.exit(subprocess.call(sys.argv[1:]))", bytes)
	big := j.startHeld(t, ShellJob{Name: name, Queue: "low", Memory: 2048, Command: "python3 -c '" + script + "' %s"}, 60, 1)
	err := j.c.AwaitTasks(within(t, patience), "a container to have changed much memory", patience, func(tasks []*wire.Task) bool {
		return slices.ContainsFunc(tasks, func(task *wire.Task) bool { return task.State == "running" && task.Usage.GetDirty() >= bytes })
	})
	if err != nil {
		t.Fatal(err)
	}
	return big
}

// fillUp makes a file so large that so many bytes are left of its file system.
func fillUp(t *testing.T, path string, left int64) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &fs); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, int64(fs.Bavail)*fs.Bsize-left), 0o600); err != nil {
		t.Fatal(err)
	}
}

// suspendedInstead fails unless the container of the low job is suspended after what
// was decided about it, and goes on. A checkpoint that failed must have failed for want
// of room.
func suspendedInstead(t *testing.T, low, high *job, want ...string) {
	t.Helper()
	id := awaitState(t, low.c, "suspended", 1, low, high)[0]
	low.goOn(t)
	high.goOn(t)
	high.finished(t)
	low.finished(t)
	idle(t, low.c)
	var decided []string
	for _, d := range must(low.c.Decisions())(t) {
		if d.Container == id {
			decided = append(decided, d.Mechanism)
		}
	}
	if len(decided) < len(want) || !slices.Equal(decided[:len(want)], want) {
		t.Errorf("was decided: %v; want first %v", decided, want)
	}
	failed := id + ` node=\S+ verb=checkpoint .* no space left`
	log := must(os.ReadFile(low.c.logFile("headrace-manager")))(t)
	if want[0] == "checkpoint" && !regexp.MustCompile(failed).Match(log) {
		t.Errorf("the manager's log has no line %q", failed)
	}
}

// One container is checkpointed and restored again and again.
func tenCheckpoints(t *testing.T, j *jobs) {
	const rounds = 10
	task := giveWayAgain(t, j, "ten", rounds, 8*rounds+10, 1)
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

// marksStore tells whether a file of a checkpoint store says what the store is, and whose.
func marksStore(e os.DirEntry) bool { return e.Name() == ".id" || e.Name() == ".owner" }
