package names

import (
	"testing"

	"headrace/quorum"
)

// TestWhoLeads: a node that knows by its own quorum that nobody leads, or has not heard the one that led for long, does not learn
// the contrary from others that have not heard of it; from that one itself, and of a later term, it does.
func TestWhoLeads(t *testing.T) {
	for name, c := range map[string]struct {
		self string
		over func(k *known, v *View)
	}{
		"quorum says so":                 {"node-2", func(k *known, v *View) { k.leader(v.Term, 0) }},
		"a later term has begun":         {"node-2", func(k *known, v *View) { k.leader(v.Term+1, 0) }},
		"it is silent, without a vote":   {"node-3", func(k *known, v *View) { k.Silent(v) }},
		"it is silent, with a vote lost": {"node-3", func(k *known, v *View) { k.leader(v.Term, leaderOf(v)); k.Silent(v) }},
		"it is silent, after quorum": {"node-2", func(k *known, v *View) {
			k.leader(v.Term, 0)
			k.Hear(v)
			k.Silent(v)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := sampleView(t, 4)
			k := newKnown(c.self, v)
			leads := func(want, why string) {
				t.Helper()
				if got := k.View().Leader; got != want {
					t.Errorf("%q leads, want %q: %s", got, want, why)
				}
			}
			leads("node-1", "as it is at first")
			c.over(k, v)
			leads("", "it is over")
			k.Learn(v)
			leads("", "another one says so that has not heard of it")
			k.Hear(v)
			leads("node-1", "it says so itself")
			later := *v
			later.Leader, later.Term = "node-0", v.Term+2
			k.Learn(&later)
			leads("node-0", "another one has heard of a later term")
		})
	}
	v := sampleView(t, 4)
	later := *v
	later.Leader, later.Term = "node-0", v.Term+1
	for _, k := range []*known{newKnown("node-3", v), newKnown("node-2", v)} {
		k.leader(v.Term, leaderOf(v))
		if k.Silent(&later); k.View().Leader != "node-1" {
			t.Errorf("%q leads: one was silent that does not", k.View().Leader)
		}
		if k.Silent(v); k.self == "node-2" && k.View().Leader != "node-1" {
			t.Errorf("%q leads, and quorum hears that node-1 does", k.View().Leader)
		}
	}
	// A seat is lost with what quorum said last.
	k := newKnown("node-3", v)
	k.leader(v.Term, 0)
	if k.Learn(v); k.View().Leader != "node-1" {
		t.Errorf("%q leads", k.View().Leader)
	}
}

// leaderOf is the replica of the node that leads.
func leaderOf(v *View) quorum.Replica { return quorum.NewReplica(v.Members[v.Leader].Number, 2) }
