package names

import (
	"testing"

	"headrace/quorum"
)

// TestWhoLeads: a node that knows by its own quorum that nobody leads, or has not heard the one that led for long, does not learn
// the contrary from others that have not heard of it; from that one itself, and of a later term, it does.
func TestWhoLeads(t *testing.T) {
	for name, over := range map[string]func(k *known, v *View){
		"quorum says so":         func(k *known, v *View) { k.leader(v.Term, 0) },
		"a later term has begun": func(k *known, v *View) { k.leader(v.Term+1, 0) },
		"it is silent":           func(k *known, v *View) { k.Silent(v) },
	} {
		t.Run(name, func(t *testing.T) {
			v := sampleView(t, 4)
			k := newKnown("node-2", v)
			k.leader(v.Term, quorum.NewReplica(v.Members["node-1"].Number, 2))
			if k.View().Leader != "node-1" {
				t.Fatalf("%q leads", k.View().Leader)
			}
			over(k, v)
			if k.View().Leader != "" {
				t.Fatalf("%q leads", k.View().Leader)
			}
			k.Learn(v)
			if k.View().Leader != "" {
				t.Errorf("%q leads, says one that has not heard of it", k.View().Leader)
			}
			k.Hear(v)
			if k.View().Leader != "node-1" {
				t.Errorf("%q leads, and node-1 says that it does", k.View().Leader)
			}
			later := *v
			later.Leader, later.Term = "node-3", v.Term+2
			if k.Learn(&later); k.View().Leader != "node-3" {
				t.Errorf("%q leads, and another one has heard of a later term", k.View().Leader)
			}
		})
	}
	v := sampleView(t, 4)
	k := newKnown("node-3", v) // it has no replica
	later := *v
	later.Leader, later.Term = "node-0", v.Term+1
	k.Silent(&later)
	if k.View().Leader != "node-1" {
		t.Errorf("%q leads: one was silent that does not", k.View().Leader)
	}
}
