package node

import (
	"slices"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/wire"
)

func TestUnclaimed(t *testing.T) {
	now := time.Now()
	all := []*wire.Task{
		{Id: "runs", State: "running"}, {Id: "suspended", State: "suspended"}, {Id: "checkpointed", State: "checkpointed"},
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
		if got := unclaimed(all, now.Add(-c.silent), now, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("silent for %v with a limit of %v: %v, want %v", c.silent, c.limit, got, c.want)
		}
	}
}

// Without a manager what is put aside goes on by itself, and the log says so; with one
// it stays.
func TestGoesOnByItself(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	_, log, _ := run(t, f, h, func(c *Config) { c.Unclaimed = 3 * time.Second; c.timing.every = 20 * time.Millisecond })
	f.until("a report", func() bool { return len(f.reports) > 0 })
	h.set("c1", "suspended")
	f.until("the change", func() bool { return stateOf(f.last(), "c1") == "suspended" })
	if n := log.count("goes on by itself"); n != 0 {
		t.Errorf("%d containers went on by themselves beside a manager", n)
	}
	f.stop()
	testkit.Await(t, "that it goes on", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.tasks["c1"].State == "running"
	}, log)
	if log.count("container=c1 for=3s") == 0 {
		t.Errorf("the log does not say why it goes on:\n%s", log)
	}
}
