package manager

import (
	"testing"
	"time"

	"headrace"
	"headrace/internal/testkit"
	"headrace/wire"
)

// held is a container that its user has suspended.
func held(id string) *wire.Task {
	t := task(id)
	t.State, t.Held, t.KeepsRoom = "suspended", true, true
	return t
}

// TestSuspendedByItsUser: others may have the room of a container when memory and swap have it.
func TestSuspendedByItsUser(t *testing.T) {
	s := start(t, nil)
	m := s.machine("n1", held("c1"))
	if c := s.container("c1"); !c.KeepsRoom {
		t.Fatalf("nobody has looked yet: %v", c)
	}
	defer m.keep()()
	o := m.order()
	if verb(o) != "suspend" || o.PageOut != 0 || !o.OnlySuspended {
		t.Fatalf("order %v", o)
	}
	if c := s.container("c1"); !c.KeepsRoom || c.Ordered != "suspend" {
		t.Errorf("while it is ordered: %v", c)
	}
	m.finish(o, "")
	s.until("c1", "free", func(c *wire.Container) bool { return !c.KeepsRoom && c.Ordered == "" })
	wantDecision(t, s.preempt("c1")[0], "suspend", "already")
	m.none()
}

// TestPageOut: memory of one that is suspended is written to swap only if it still is when its node comes to that.
func TestPageOut(t *testing.T) {
	s := start(t, nil)
	k := task("c1")
	k.State = "suspended"
	m := s.machine("n1", k)
	unlock := s.cluster.lock()
	s.cluster.pageOut(s.cluster.containers.all["c1"], headrace.Order{PageOut: gb})
	unlock()
	if o := m.order(); verb(o) != "suspend" || o.PageOut != gb || !o.OnlySuspended {
		t.Errorf("order %v", o)
	}
}

// TestSuspendedInMemory: a machine that is full of what users have suspended is not given to others, unless they are written to
// swap. What gives way all the same is checkpointed.
func TestSuspendedInMemory(t *testing.T) {
	s := start(t, nil)
	m := s.machine("n1", held("c1"), held("c2"))
	m.info.Memory, m.info.SwapFree, m.info.SwapTotal = 5*gb/4, 0, 0
	m.report()
	looked := func() (at time.Time) {
		s.cluster.mu.Lock()
		defer s.cluster.mu.Unlock()
		return s.cluster.containers.all["c2"].looked
	}
	defer m.keep()()
	first := time.Time{}
	testkit.Await(t, "two looks for room", func() bool {
		if first.IsZero() {
			first = looked()
		}
		return !first.IsZero() && looked().After(first)
	}, func() string { return s.log.String() })
	m.none()
	if c := s.container("c1"); !c.KeepsRoom {
		t.Fatalf("there is no room for another: %v", c)
	}
	wantDecision(t, s.preempt("c1")[0], "checkpoint", "")
	m.finish(m.order(), "")
	s.until("c1", "checkpointed", func(c *wire.Container) bool { return c.State == "checkpointed" && c.Ordered == "" })

	m.change(func(i *wire.NodeInfo) { i.SwapFree, i.SwapTotal = 16*gb, 16*gb })
	o := m.order()
	if o.Container != "c2" || verb(o) != "suspend" || o.PageOut == 0 {
		t.Fatalf("with swap: %v", o)
	}
	m.finish(o, "")
	s.until("c2", "free", func(c *wire.Container) bool { return !c.KeepsRoom && c.Ordered == "" })
}
