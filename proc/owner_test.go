package proc_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// ofRootAndAnother runs a test with a task of root's, and with one of another user's, which it skips where that cannot be checkpointed.
func ofRootAndAnother(t *testing.T, another uint32, test func(t *testing.T, user uint32)) {
	t.Run("root's task", func(t *testing.T) { test(t, 0) })
	t.Run("another user's", func(t *testing.T) {
		needSysResource(t)
		test(t, another)
	})
}

// needSysResource skips the test where CRIU may not read the limits of another
// user's processes.
func needSysResource(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`).FindSubmatch(b)
	if m == nil {
		t.Fatal("/proc/self/status does not tell the capabilities")
	}
	set, err := strconv.ParseUint(string(m[1]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if set&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		t.Skip("checkpoints of other users' tasks need CAP_SYS_RESOURCE, which this root does not have")
	}
}

// A task of another user comes back as that user, with that user's rights.
func TestCheckpointOfAnotherUser(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	needSysResource(t)
	secret := filepath.Join(t.TempDir(), "secret")
	w.must(os.WriteFile(secret, []byte("secret"), 0o600))
	tell := `n += 1; print(os.getresuid(), os.getresgid(), os.getgroups(), os.access(sys.argv[1], os.R_OK), file=sys.stderr, flush=True)`
	s := w.spec("count", "python3", "-c", strings.Replace(counter, "n += 1", tell, 1), secret)
	s.UID, s.GID, s.Groups = 12345, 12346, []uint32{12346, 12347}
	task := w.start(s)
	for i, at := range []string{"\n3 ", "\n15 "} {
		w.awaitOutput(task, at)
		if res := w.checkpoint(task); res.Chain != i+1 {
			t.Errorf("checkpoint %d: %+v, want one that builds on the last", i+1, res)
		}
		if n := len(w.taskProcesses("count")); n != 0 {
			t.Errorf("%d processes run after a checkpoint", n)
		}
		task.Close()
		task = w.restore(s, proc.RestoreOptions{})
	}
	if e := w.end(task); e.Code != 9 || e.Lost {
		t.Errorf("ended with %+v, want code 9", e)
	}
	w.checkCounter("count")
	ids := strings.Split(strings.TrimSpace(w.log("count", "stderr")), "\n")
	for i, l := range ids {
		if l != "(12345, 12345, 12345) (12346, 12346, 12346) [12346, 12347] False" {
			t.Fatalf("before line %d its identity was %s", i+1, l)
		}
	}
	if len(ids) != 40 {
		t.Errorf("its identity was told %d times, want 40", len(ids))
	}
}

// What runs in a task while it is dumped has nothing open of root's: its user could take that, by pidfd_getfd(2).
func TestDumpLeavesNothingOfRootsInATask(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s := w.spec("large", "/usr/bin/python3", "-uc", "import time; kept = b'x' * (256 << 20); print('ready'); time.sleep(1000)")
	task := w.start(s)
	w.awaitOutput(task, "ready")
	dir := fmt.Sprintf("/proc/%d/fd", slices.Max(w.taskPIDs("large")))
	done := make(chan error, 1)
	go func() {
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		done <- err
	}()
	looked, seen := 0, map[string]bool{}
	for gone := false; !gone; {
		entries, err := os.ReadDir(dir)
		gone = err != nil
		for _, e := range entries {
			if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, filepath.Dir(w.store)+"/") {
				seen[to] = true
			}
		}
		looked++
	}
	w.must(<-done)
	for _, own := range []string{"stdout", "stderr"} {
		delete(seen, filepath.Join(w.rt.TaskDir("large"), own))
	}
	if len(seen) > 0 || looked < 10 {
		t.Errorf("seen in the task, which was looked at %d times: %v", looked, slices.Sorted(maps.Keys(seen)))
	}
}
