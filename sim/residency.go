package sim

import (
	"slices"

	"headrace"
)

// residency keeps up to date what the policy may know of where the inputs are of
// tasks that wait to be started. A change in some memory is told to those only whom
// it concerns: each piece has the list of the tasks that wait to read it. When
// nobody goes by what is in memory, there are no such lists.
type residency struct {
	*storage
	roster *roster
	slots  map[int32][]int32 // by piece: of the tasks that wait to read it

	local []int64 // buffer: bytes on the disk of each node
}

func newResidency(d *storage, r *roster, byResidency bool) residency {
	v := residency{storage: d, roster: r, local: make([]int64, len(d.nodes))}
	if byResidency {
		v.slots = map[int32][]int32{}
	}
	return v
}

// enter begins to tell the policy where the input of t is, if it waits to be started.
func (v *residency) enter(t *task) {
	r := t.in
	if r == nil || t.v.State != headrace.Pending || t.v.Checkpoint != nil {
		return
	}
	var buf [8]int32
	r.nodes = r.nodes[:0]
	for p := r.first; p < r.last; p++ {
		for _, n := range v.replicasOf(p, buf[:0]) {
			if v.local[n] == 0 {
				r.nodes = append(r.nodes, n)
			}
			v.local[n] += v.all[p].bytes
		}
	}
	at := make([]headrace.InputAt, 0, len(r.nodes))
	for _, n := range r.nodes {
		at = append(at, headrace.InputAt{Node: v.roster.view.Nodes[n].ID, Local: v.local[n]})
		v.local[n] = 0
	}
	t.v.Input.At = at
	if v.slots == nil {
		return
	}
	for p := r.first; p < r.last; p++ {
		v.slots[p] = append(v.slots[p], t.slot)
		for _, n := range v.replicasOf(p, buf[:0]) {
			if v.nodes[n].cache.get(p) != nil {
				t.inputAt(n).Resident += v.all[p].bytes
			}
		}
	}
}

// leave ends it.
func (v *residency) leave(t *task) {
	if t.v.Input.At == nil {
		return
	}
	t.v.Input.At = nil
	if v.slots == nil {
		return
	}
	for p := t.in.first; p < t.in.last; p++ {
		if i := slices.Index(v.slots[p], t.slot); len(v.slots[p]) == 1 {
			delete(v.slots, p)
		} else {
			v.slots[p] = slices.Delete(v.slots[p], i, i+1)
		}
	}
}

// changed tells those who wait for a piece that it is in the memory of n, or no more.
func (v *residency) changed(n *dataNode, piece int32, bytes int64) {
	for _, slot := range v.slots[piece] {
		v.roster.slots[slot].inputAt(n.i).Resident += bytes
	}
}

// inputAt returns what the policy is told of a node, which has some of the input of t.
func (t *task) inputAt(node int32) *headrace.InputAt {
	return &t.v.Input.At[slices.Index(t.in.nodes, node)]
}
