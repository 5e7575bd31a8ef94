package sim

import (
	"reflect"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
)

// TestKinds: nodes of several kinds that are alike are as nodes of one, and a task that
// is too large for most nodes runs on the one that takes it.
func TestKinds(t *testing.T) {
	w := random(3, 120)
	for _, p := range policy.Names() {
		c := easy(4, p)
		c.Node.CPUs, c.Node.Memory, c.Node.Swap = 2, 1500*mb, 500*mb
		want, err := Run(t.Context(), w, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Kinds = []Kind{{3, 2, 1500 * mb, 500 * mb, nil}, {1, 2, 1500 * mb, 500 * mb, nil}}
		c.Node.CPUs, c.Node.Memory, c.Node.Swap = 0, 0, 0
		got, err := Run(t.Context(), w, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		got.Config = want.Config
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, with one kind of nodes %+v", p, got, want)
		}
	}
	w.Tasks[7].CPUs, w.Tasks[7].Memory = 8, 9000*mb
	c := easy(4, policy.Cost)
	c.Kinds = []Kind{{3, 2, 1500 * mb, 0, nil}, {1, 8, 9000 * mb, 0, nil}}
	on := map[headrace.NodeID]bool{}
	c.Observe = func(_ time.Duration, v *headrace.View, _ []headrace.Order) {
		for _, task := range v.Tasks {
			if task.CPUs == 8 && task.Node != "" {
				on[task.Node] = true
			}
		}
	}
	got, err := Run(t.Context(), w, c, nil)
	if err != nil || len(on) != 1 || !on["n4"] {
		t.Errorf("the large task is on %v, %v; want n4", on, err)
	}
	if got.Energy.Utilisation <= 0 || got.Energy.Utilisation > 1 || c.CPUs() != 14 {
		t.Errorf("%v of %v CPUs are busy", got.Energy.Utilisation, c.CPUs())
	}
	c.Nodes = 5
	if c.Validate() == nil {
		t.Error("5 nodes of which 4 are of some kind are allowed")
	}
	c.Nodes, c.Kinds[1].Memory = 4, 8999*mb
	if _, err := Run(t.Context(), w, c, nil); err == nil {
		t.Error("a task runs that fits nowhere")
	}
}
