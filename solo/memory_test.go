package solo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"connectrpc.com/connect"

	"headrace"
	"headrace/internal/linux"
	"headrace/policy"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/wire"
)

// TestPageOut: the memory of a suspended task goes to swap while the urgent task
// runs, as far as the budget asks for it.
func TestPageOut(t *testing.T) {
	b := newBed(t, policy.Suspend)
	b.cfg.Memory = 150 << 20
	b.start()
	low := b.run(headrace.Low)
	b.await(low, "measured", func(w *wire.Task) bool { return w.Usage.Resident > 0 })
	high := b.run(headrace.High, func(q *wire.RunRequest) { q.Memory = 100 << 20 })
	b.awaitState(high, headrace.Running)
	b.await(low, "paged out", func(w *wire.Task) bool { return w.Usage.Swapped >= 50<<20 })
	var paged int64
	for _, e := range b.get(low).History {
		if e.State == journal.PagedOut {
			paged += e.Bytes
		}
	}
	if paged < 50<<20 || paged > 100<<20 {
		t.Errorf("%d bytes were paged out, want 50 MB or a little more", paged)
	}
	b.finish(high, 0)
	b.awaitState(low, headrace.Running)
	b.await(low, "paged in", func(w *wire.Task) bool { return w.Usage.Swapped == 0 && w.Usage.Resident > 0 })
}

// TestStartBesidePageOut: the urgent task does not wait for the page-out.
func TestStartBesidePageOut(t *testing.T) {
	b := newBed(t, policy.Suspend)
	b.cfg.Memory = 150 << 20
	con := &conn{world: b.world}
	release := make(chan struct{})
	con.after = func(op string, _ headrace.TaskID) error {
		if op == "pageout" {
			<-release
		}
		return nil
	}
	if err := b.startWith(con); err != nil {
		t.Fatal(err)
	}
	low := b.run(headrace.Low)
	b.await(low, "measured", func(w *wire.Task) bool { return w.Usage.Resident > 0 })
	high := b.run(headrace.High, func(q *wire.RunRequest) { q.Memory = 100 << 20 })
	b.awaitState(high, headrace.Running)
	for _, e := range b.get(low).History {
		if e.State == journal.PagedOut {
			t.Error("the page-out has ended already")
		}
	}
	close(release)
	b.await(low, "paged out", func(w *wire.Task) bool { return w.Usage.Swapped >= 50<<20 })
	b.finish(high, 0)
	b.awaitState(low, headrace.Running)
}

// TestSwapFull: without room in swap the guard has the task checkpointed.
func TestSwapFull(t *testing.T) {
	b := newBed(t, policy.Suspend)
	b.cfg.Memory = 150 << 20
	b.mem.SwapFree = 10 << 20
	b.start()
	low := b.run(headrace.Low)
	b.await(low, "measured", func(w *wire.Task) bool { return w.Usage.Resident > 0 })
	high := b.run(headrace.High, func(q *wire.RunRequest) { q.Memory = 100 << 20 })
	b.awaitState(high, headrace.Running)
	b.awaitState(low, headrace.Checkpointed)
}

// TestOneDumpAtATime: dumps to one device queue.
func TestOneDumpAtATime(t *testing.T) {
	b := newBed(t, policy.Checkpoint)
	b.cfg.Slots = 2
	con := &conn{world: b.world}
	release := make(chan struct{})
	var now, most atomic.Int32
	con.dumping = func(headrace.TaskID) <-chan struct{} {
		most.Store(max(most.Load(), now.Add(1)))
		return release
	}
	con.after = func(op string, _ headrace.TaskID) error {
		if op == "checkpoint" {
			now.Add(-1)
		}
		return nil
	}
	if err := b.startWith(con); err != nil {
		t.Fatal(err)
	}
	first, second := b.run(headrace.Low), b.run(headrace.Low)
	b.awaitState(first, headrace.Running)
	b.awaitState(second, headrace.Running)
	high := b.run(headrace.High, func(q *wire.RunRequest) { q.Cpus = 2 })
	leaving := func(w *wire.Task) bool { return w.Doing == "checkpointing" }
	b.await(first, "leaving", leaving)
	b.await(second, "leaving", leaving)
	close(release)
	b.awaitState(high, headrace.Running)
	b.awaitState(first, headrace.Checkpointed)
	b.awaitState(second, headrace.Checkpointed)
	if most.Load() != 1 {
		t.Errorf("%d dumps at a time to one device", most.Load())
	}
}

// TestKillDuringDump: a kill by a user does not wait for a dump.
func TestKillDuringDump(t *testing.T) {
	b := newBed(t, policy.Wait)
	con := &conn{world: b.world, dumping: func(headrace.TaskID) <-chan struct{} { return make(chan struct{}) }}
	if err := b.startWith(con); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	answer := make(chan error, 1)
	go func() {
		_, err := b.tasks.Checkpoint(context.Background(), q)
		answer <- err
	}()
	b.await(id, "being dumped", func(w *wire.Task) bool { return w.Doing == "checkpointing" })
	if got, err := b.tasks.Kill(b.ctx(), q); err != nil || got.State != "killed" {
		t.Fatalf("kill: %v, %v", got, err)
	}
	if err := <-answer; err == nil {
		t.Error("the checkpoint that was called off is said to have succeeded")
	}
}

// TestFewWaitForAnOperation: of requests whose callers have gone few are kept while something is done to their task,
// what is kept of each is small, and a kill comes through.
func TestFewWaitForAnOperation(t *testing.T) {
	b := newBed(t, policy.Wait)
	con := &conn{world: b.world, dumping: func(headrace.TaskID) <-chan struct{} { return make(chan struct{}) }}
	if err := b.startWith(con); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	ask := func(ctx context.Context, c headrace.Command) error {
		_, err := b.loop.calls.ask(ctx, &call{command: c, id: id, by: serve.Viewer{UID: uint32(os.Geteuid())}})
		return err
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	ask(gone, headrace.CommandCheckpoint)
	for range maxQueued {
		ask(gone, headrace.CommandSuspend)
	}
	if err := ask(b.ctx(), headrace.CommandSuspend); !errors.Is(err, serve.ErrBusy) {
		t.Errorf("one more than %d: %v", maxQueued, err)
	}
	long := &wire.VerbRequest{Id: string(id), Store: strings.Repeat("x", 1<<20)}
	if _, err := b.tasks.Suspend(b.ctx(), long); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a store of a name of a megabyte: %v", err)
	}
	if err := ask(b.ctx(), headrace.CommandKill); err != nil {
		t.Errorf("a kill: %v", err)
	}
	b.awaitState(id, headrace.Killed)
}

func TestOldTasksAreForgotten(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.cfg.KeepEnded = 3
	b.start()
	var last headrace.TaskID
	for range 8 {
		last = b.run(headrace.Normal)
		b.awaitState(last, headrace.Running)
		b.finish(last, 0)
		b.awaitState(last, headrace.Done)
	}
	stream, err := b.tasks.Watch(b.ctx(), &wire.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	there := map[string]bool{}
	for stream.Receive() {
		for _, task := range stream.Msg().Tasks {
			there[task.Id] = true
		}
		for _, id := range stream.Msg().Forgotten {
			delete(there, id)
		}
		if len(there) == 3 {
			break
		}
	}
	if len(there) != 3 || !there[string(last)] {
		t.Errorf("kept are %v (%v), want the last three", there, stream.Err())
	}
}

// TestEndedTasksOfOthersStay: a user who has very many tasks end has their own forgotten, and no others'.
func TestEndedTasksOfOthersStay(t *testing.T) {
	for _, c := range []struct {
		name         string
		keep         int
		ended, stays string // a letter for each task: whose it is, large if it was never begun
	}{
		{"few", 9, "abab", "abab"},
		{"one user", 3, "aaaaa", "..aaa"},
		{"one has very many", 10, "aaa" + strings.Repeat("b", 20), "aaa" + strings.Repeat(".", 13) + strings.Repeat("b", 7)},
		{"what was never begun goes first", 4, "abBBBBBB", "ab....BB"},
		{"of all", 3, "aaaBBB", ".aa..B"},
		{"one more for who ended last", 3, "aabb", ".abb"},
		{"more users than there is room", 2, "abc", ".bc"},
		{"none", 0, "abc", "..."},
	} {
		b := newTable()
		for _, r := range c.ended {
			task := &task{}
			if task.rec.UID = uint32(unicode.ToLower(r)); unicode.IsLower(r) {
				task.rec.Starts = 1
			}
			b.ended = append(b.ended, task)
		}
		stays, old := []byte(c.ended), b.old(c.keep)
		for i, task := range b.ended {
			if slices.Contains(old, task) {
				stays[i] = '.'
			}
		}
		if string(stays) != c.stays {
			t.Errorf("%s: %s stay of %s, want %s", c.name, stays, c.ended, c.stays)
		}
	}
}

// TestRealMemoryLimit: with an enforced budget tasks are in a cgroup that is
// gone after the last one.
func TestRealMemoryLimit(t *testing.T) {
	needRoot(t)
	m := newMachine(t, policy.Wait)
	m.flags = []string{"--enforce-memory"}
	m.launch()
	id := m.run(headrace.Normal, func(q *wire.RunRequest) { q.Argv = []string{"/bin/cat", "/proc/self/cgroup"} })
	m.awaitState(id, headrace.Done)
	text, err := allLogs(m.ctx(), m.tasks, string(id))
	if err != nil || !strings.Contains(text, "/headrace-") {
		t.Errorf("the task is in %q, %v", text, err)
	}
	own, err := linux.CgroupDirs(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	groups := func() (found []string) {
		for _, dir := range own {
			for _, name := range strings.Fields(text) {
				if i := strings.Index(name, "/headrace-"); i >= 0 {
					at := filepath.Join(dir, strings.Split(name[i:], "/")[1])
					if _, err := os.Stat(at); err == nil {
						found = append(found, at)
					}
				}
			}
		}
		return found
	}
	m.clear()
	if left := groups(); len(left) > 0 {
		t.Errorf("the empty cgroups %v are still there", left)
	}
}
