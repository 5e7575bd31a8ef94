package manager

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"headrace/wire"
)

func (s *site) release(id string, wait float64) *wire.ReleaseResponse {
	s.t.Helper()
	r, err := s.api.Release(context.Background(), &wire.ReleaseRequest{Container: id, Wait: wait})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *site) stays(id string, wait float64, why string) {
	s.t.Helper()
	if r := s.release(id, wait); r.Ordered || !strings.Contains(r.Reason, why) {
		s.t.Fatalf("released: %v, want that it stays because %q", r, why)
	}
}

// TestRelease goes the whole way: a suspended container is checkpointed, then its
// checkpoint is archived, and its scheduler learns of it.
func TestRelease(t *testing.T) {
	s := start(t, func(c *Config) { c.Network = 1e9 })
	m := s.machine("n1", task("c1"))
	defer m.keep()()
	s.stays("c1", 1000, "no archive")
	m.change(func(i *wire.NodeInfo) { i.Archive = "/shared" })
	m.report()
	s.stays("c1", 1000, "not known") // it runs
	s.preempt("c1")
	m.finish(m.order(), "")
	s.until("c1", "suspended", func(c *wire.Container) bool { return c.State == "suspended" && c.Ordered == "" })

	s.stays("c1", 1, "sooner here")
	r := s.release("c1", 60)
	if !r.Ordered || r.Here != 60 || r.Elsewhere < 11 || r.Elsewhere > 13 {
		t.Fatalf("%v", r) // dump and restore of half a GB at 100 MB/s, twice over the network
	}
	if o := m.order(); verb(o) != "checkpoint" {
		t.Fatalf("%v", o)
	} else {
		m.finish(o, "")
	}
	s.until("c1", "checkpointed", func(c *wire.Container) bool { return c.State == "checkpointed" && c.Ordered == "" })
	if r := s.release("c1", 60); !r.Ordered {
		t.Fatalf("%v", r)
	}
	o := m.order()
	if verb(o) != "archive" {
		t.Fatalf("%v", o)
	}
	if r := s.release("c1", 60); !r.Ordered || len(s.outstandingOf("n1")) != 1 {
		t.Fatalf("asked again: %v", r)
	}
	m.finish(o, "")
	c := s.until("c1", "archived", func(c *wire.Container) bool { return c.Archived })
	if c.State != "checkpointed" || c.Ordered != "" {
		t.Errorf("%v", c)
	}
	if r := s.release("c1", 0); !r.Ordered || !strings.Contains(r.Reason, "archived") {
		t.Errorf("%v", r)
	}
	m.none()
}

// TestReleaseDuringAnUpdate: nobody knows yet which version the machine has that it would come to.
func TestReleaseDuringAnUpdate(t *testing.T) {
	s := start(t, nil)
	k := task("c1")
	k.State, k.Checkpoint = "checkpointed", &wire.CheckpointInfo{Store: "disk", TotalBytes: 1 << 20}
	m, updated := s.machine("n1", k), s.machine("n2")
	m.info.Archive, m.info.Version, updated.info.Version = "/shared", "v1", "v2"
	m.report()
	updated.report()
	t.Cleanup(m.keep())
	t.Cleanup(updated.keep())
	s.stays("c1", 1000, "n2 has another version")
	m.change(func(i *wire.NodeInfo) { i.Version = "v2" })
	m.report()
	if r := s.release("c1", 1000); !r.Ordered {
		t.Errorf("when all are of one version: %v", r)
	}
}

// leaving has the checkpoint of c1 ordered to the archive, and its node be at something.
func leaving(t *testing.T, doing string) (*site, *machine, *wire.NodeOrder) {
	s := start(t, nil)
	k := task("c1")
	k.State, k.Checkpoint = "checkpointed", &wire.CheckpointInfo{Store: "disk", TotalBytes: 1 << 20}
	m := s.machine("n1", k)
	m.change(func(i *wire.NodeInfo) { i.Archive = "/shared" })
	m.report()
	t.Cleanup(m.keep())
	s.release("c1", 1000)
	sent := m.order()
	m.set("c1", func(t *wire.Task) { t.Doing = doing })
	m.report()
	return s, m, sent
}

// TestResumeWhileItIsSentAway: what has its room back goes on at once, however long the upload would take.
func TestResumeWhileItIsSentAway(t *testing.T) {
	for name, goOn := range map[string]func(*site){
		"its scheduler": func(s *site) {
			if _, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"}); err != nil {
				s.t.Fatal(err)
			}
		},
		"draining": func(s *site) {
			if _, err := s.api.Drain(context.Background(), &wire.DrainRequest{}); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, m, sent := leaving(t, "archiving")
			goOn(s)
			o := m.order()
			if verb(o) != "resume" {
				t.Fatalf("order %v", o)
			}
			m.report(&wire.OrderResult{Number: sent.Number, Error: "it was called off"})
			if c := s.container("c1"); c.Ordered != "resume" || c.Reason != "" {
				t.Errorf("after the end of the upload: %v", c)
			}
			m.finish(o, "")
			s.until("c1", "running", func(c *wire.Container) bool { return c.State == "running" && c.Ordered == "" })
			m.none()
		})
	}
}

// TestResumeWhileItIsTakenBack: what is being done to it otherwise is waited for.
func TestResumeWhileItIsTakenBack(t *testing.T) {
	s, _, _ := leaving(t, "taking back") // of an upload that was broken off
	if _, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("it can be resumed: %v", err)
	}
}

func TestReleaseFails(t *testing.T) {
	s := start(t, nil)
	done := task("c1")
	done.State, done.Checkpoint = "checkpointed", &wire.CheckpointInfo{Store: "disk", TotalBytes: 1 << 20}
	held := task("c2")
	held.State, held.Checkpoint, held.Held = "checkpointed", done.Checkpoint, true
	m := s.machine("n1", done, held)
	defer m.keep()()
	m.change(func(i *wire.NodeInfo) { i.Archive = "/shared" })
	m.report()
	s.stays("c2", 1000, "holds")
	if r := s.release("c1", 1000); !r.Ordered {
		t.Fatalf("%v", r)
	}
	m.finish(m.order(), "the archive is full")
	s.until("c1", "told why", func(c *wire.Container) bool { return strings.Contains(c.Reason, "the archive is full") && !c.Archived })
	s.stays("c1", 1000, "the archive is full") // not again at once
	if _, err := s.api.Release(context.Background(), &wire.ReleaseRequest{Container: "c9"}); err == nil {
		t.Error("an unknown container was released")
	}
}
