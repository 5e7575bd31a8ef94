package sim

import (
	"strconv"

	"headrace"
)

// node is one machine. Tasks' memory is not counted here: what is in use follows
// from the tasks, as in a view.
type node struct {
	i int32
	v *headrace.NodeView
	// held is how many CPUs tasks hold, tasks how many those are.
	held  float64
	tasks int
	// leaving: somebody on it leaves, or is written to swap; of roster.lapse.
	leaving bool

	swap  int64
	pager pager
	store store
}

// newNode makes a node of c, and enters in v what does not change. counted are the names of
// what some node has.
func newNode(at *clock, c *Config, counted []string, i int32, v *headrace.NodeView, dump func(*move) bool) node {
	is := c.node(int(i))
	*v = headrace.NodeView{
		ID: headrace.NodeID("n" + strconv.Itoa(int(i)+1)), CPUs: is.CPUs, Memory: is.Memory, Net: is.Net,
		Stores: []headrace.StoreView{{
			Name: c.Medium.Name, Write: c.Medium.Write, Read: c.Medium.Read,
			DumpOverhead: c.Medium.DumpOverhead, RestoreOverhead: c.Medium.RestoreOverhead,
		}},
	}
	for _, name := range counted {
		v.Counted = append(v.Counted, is.Counted[name])
	}
	if is.Swap > 0 {
		v.SwapOut, v.SwapIn = is.SwapOut, is.SwapIn
	}
	return node{
		i: i, v: v, swap: is.Swap,
		pager: pager{clock: at, node: i, rate: is.SwapOut},
		store: store{clock: at, node: i, size: is.Store, dump: dump},
	}
}

// refresh brings what time changes up to date in the view.
func (n *node) refresh() {
	n.pager.advance()
	n.v.SwapFree = n.swap - n.pager.swapped
	s := &n.v.Stores[0]
	s.Free = n.store.free()
	s.Queues, s.Queue = n.store.waits(s.Queues[:0])
}

// empty reports whether nothing of any task is left.
func (n *node) empty() bool {
	return n.tasks == 0 && n.pager.swapped == 0 && n.store.used == 0 && n.store.idle() && len(n.pager.queue) == 0
}
