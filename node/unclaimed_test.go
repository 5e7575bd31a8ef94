package node

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/wire"
)

func TestUnclaimed(t *testing.T) {
	now := time.Now()
	all := []*wire.Task{
		{Id: "runs", State: "running"}, {Id: "checkpointed", State: "checkpointed"}, {Id: "suspended", State: "suspended"},
		{Id: "held", State: "suspended", Held: true}, {Id: "busy", State: "suspended", Doing: "resuming"}, {Id: "done", State: "done"},
	}
	for _, c := range []struct {
		silent, limit time.Duration
		want          []string
	}{
		{time.Minute, 10 * time.Minute, nil},
		{10*time.Minute - 1, 10 * time.Minute, nil},
		{10 * time.Minute, 10 * time.Minute, []string{"suspended", "checkpointed"}},
		{time.Hour, 0, nil},
		{time.Hour, -1, nil},
	} {
		var got []string
		for _, task := range unclaimed(all, now.Add(-c.silent), now, c.limit) {
			got = append(got, task.Id)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("silent for %v with a limit of %v: %v, want %v", c.silent, c.limit, got, c.want)
		}
	}
}

// hearNothing has the manager be silent for twice as long as containers stay put aside. That is given as longer than a busy machine
// stands still, and need not be waited for.
func (a *Agent) hearNothing() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = a.heard.Add(-2 * a.cfg.Unclaimed)
}

// Without a manager what is put aside goes on by itself, and the log says so; with one
// it stays.
func TestGoesOnByItself(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	a, log, _ := run(t, f, h, func(c *Config) { c.Unclaimed = 20 * time.Second; c.timing.every = 20 * time.Millisecond })
	f.until("a report", func() bool { return len(f.reports) > 0 })
	h.set("c1", "suspended")
	f.until("the change", func() bool { return stateOf(f.last(), "c1") == "suspended" })
	if n := log.count("goes on by itself"); n != 0 {
		t.Errorf("%d containers went on by themselves beside a manager", n)
	}
	f.stop()
	a.hearNothing()
	testkit.Await(t, "that it goes on", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.tasks["c1"].State == "running"
	}, log)
	if log.count("container=c1 for=20s") == 0 {
		t.Errorf("the log does not say why it goes on:\n%s", log)
	}
}

// awaitStates waits until containers are as they should be.
func (h *fakeHost) awaitStates(t *testing.T, log *lines, want map[string]string) {
	t.Helper()
	testkit.Await(t, fmt.Sprint(want), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(id string) bool { return h.tasks[id].State != want[id] })
	}, log)
}

// TestRestoreHangs: restores that never end keep neither what is suspended nor, for long, other restores from going on.
func TestRestoreHangs(t *testing.T) {
	f, h := newManager(t), newHost("c1", "c2", "c3", "s1", "s2")
	_, log, _ := run(t, f, h, func(c *Config) { c.Unclaimed = 300 * time.Millisecond; c.timing.every = 20 * time.Millisecond })
	f.until("a report", func() bool { return len(f.reports) > 0 })
	h.hang(nil, "c1", "c2")
	for _, id := range []string{"c1", "c2", "c3"} {
		h.set(id, "checkpointed")
	}
	for _, id := range []string{"s1", "s2"} {
		h.set(id, "suspended")
	}
	f.stop()
	h.awaitStates(t, log, map[string]string{"c1": "checkpointed", "c2": "checkpointed", "c3": "running", "s1": "running", "s2": "running"})
}

// TestManagerComesBack: whose turn has not come when a manager is heard of again stays where it is.
func TestManagerComesBack(t *testing.T) {
	f, h := newManager(t), newHost("c1", "c2", "c3", "c4")
	a, log, _ := run(t, f, h, func(c *Config) { c.Unclaimed = 20 * time.Second; c.timing.every = 20 * time.Millisecond })
	f.until("a report", func() bool { return len(f.reports) > 0 })
	let, all := make(chan struct{}), []string{"c1", "c2", "c3", "c4"}
	h.hang(let, all...)
	for _, id := range all {
		h.set(id, "checkpointed")
	}
	f.stop()
	a.hearNothing()
	testkit.Await(t, "that some go on", func() bool { return log.count("goes on by itself") > 0 }, log)
	was := a.lastHeard()
	f.start()
	testkit.Await(t, "the manager", func() bool { return a.lastHeard().After(was) }, log)
	close(let)
	testkit.Await(t, "those that were told", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.done[0] == restoresAtOnce && h.finished == restoresAtOnce
	}, log)
	f.mu.Lock()
	from := len(f.reports)
	f.mu.Unlock()
	f.until("some reports more", func() bool { return len(f.reports) > from+40 }) // it has looked meanwhile, at the end of each restore
	h.mu.Lock()
	defer h.mu.Unlock()
	still := 0
	for _, id := range all {
		if h.tasks[id].State == "checkpointed" {
			still++
		}
	}
	if want := len(all) - restoresAtOnce; still != want {
		t.Errorf("%d have stayed where they were, want %d\n%s", still, want, log)
	}
}
