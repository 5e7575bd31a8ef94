package sim

import (
	"slices"

	"headrace"
)

// residency keeps up to date what the policy may know of where the inputs are of
// tasks that wait to be started, and what others would have to read again. A change in some
// memory is told to those only whom it concerns: each piece has the list of the tasks that wait
// to read it, and of those that have read it since their last checkpoint. When
// nobody goes by what is in memory, there are no such lists.
type residency struct {
	*storage
	roster *roster
	slots  map[int32][]int32 // by piece: of the tasks that wait to read it
	had    map[int32][]int32 // by piece: of the tasks that have read it

	local []int64 // buffer: bytes on the disk of each node
}

func newResidency(d *storage, r *roster, byResidency bool) residency {
	v := residency{storage: d, roster: r, local: make([]int64, len(d.nodes))}
	if byResidency {
		v.slots, v.had = map[int32][]int32{}, map[int32][]int32{}
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
		unlist(v.slots, p, t.slot)
	}
}

// unlist takes a slot out of the list of a piece.
func unlist(of map[int32][]int32, piece, slot int32) {
	if i := slices.Index(of[piece], slot); len(of[piece]) == 1 {
		delete(of, piece)
	} else {
		of[piece] = slices.Delete(of[piece], i, i+1)
	}
}

// passed notes that t has read the pieces from from to before to, and slow bytes of what it has
// read from a disk.
func (v *residency) passed(t *task, from, to int32, slow int64) {
	r, in := t.in, &t.v.Input
	if v.had == nil {
		return
	}
	if r.knownTo == 0 {
		r.known = from
	}
	for p := from; p < to; p++ {
		v.had[p] = append(v.had[p], t.slot)
		if v.nodes[t.node.i].cache.get(p) == nil {
			in.Cold += v.all[p].bytes
		}
	}
	r.knownTo = to
	// What is read of a piece that is not read whole is not known yet.
	r.slow += slow
	rest := min(r.slow, r.had)
	in.FromDisk, r.slow = in.FromDisk+r.slow-rest, rest
}

// forget notes that t does not have to read again what it has read so far, or begins anew.
func (v *residency) forget(t *task) {
	r := t.in
	for p := r.known; p < r.knownTo; p++ {
		unlist(v.had, p, t.slot)
	}
	r.known, r.knownTo, r.slow = 0, 0, 0
	t.v.Input.FromDisk, t.v.Input.Cold = 0, 0
}

// changed tells those who wait for a piece, or have read it, that it is in the memory of n, or
// no more.
func (v *residency) changed(n *dataNode, piece int32, bytes int64) {
	for _, slot := range v.slots[piece] {
		v.roster.slots[slot].inputAt(n.i).Resident += bytes
	}
	for _, slot := range v.had[piece] {
		if t := v.roster.slots[slot]; t.node.i == n.i {
			t.v.Input.Cold -= bytes
		}
	}
}

// inputAt returns what the policy is told of a node, which has some of the input of t.
func (t *task) inputAt(node int32) *headrace.InputAt {
	return &t.v.Input.At[slices.Index(t.in.nodes, node)]
}
