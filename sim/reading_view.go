package sim

import (
	"slices"

	"headrace"
)

// readingView keeps up to date what the policy may know of where the inputs are of
// tasks that wait to be started. A change in some memory is told to those only whom
// it concerns: each piece has the list of the tasks that wait to read it. When
// nobody goes by what is in memory, there are no such lists.
type readingView struct {
	heads []int32 // of each piece, one more than an index into links; 0: nobody
	links []link
	free  []int32

	local []int64 // buffer: bytes on the disk of each node
}

// link is one entry of such a list.
type link struct {
	slot int32 // of the task
	next int32
}

func (d *files) beginView() {
	d.view.local = make([]int64, len(d.nodes))
	if d.c.ByResidency {
		d.view.heads = make([]int32, len(d.all))
	}
}

// enter begins to tell the policy where the input of t is, if it waits to be started.
func (v *readingView) enter(d *files, t *task) {
	r := t.in
	if r == nil || t.v.State != headrace.Pending || t.v.Checkpoint != nil {
		return
	}
	var buf [8]int32
	r.nodes = r.nodes[:0]
	for p := r.first; p < r.last; p++ {
		for _, n := range d.replicasOf(p, buf[:0]) {
			if v.local[n] == 0 {
				r.nodes = append(r.nodes, n)
			}
			v.local[n] += d.all[p].bytes
		}
	}
	at := make([]headrace.InputAt, 0, len(r.nodes))
	for _, n := range r.nodes {
		at = append(at, headrace.InputAt{Node: d.e.nodes[n].v.ID, Local: v.local[n]})
		v.local[n] = 0
	}
	t.v.Input.At = at
	if v.heads == nil {
		return
	}
	for p := r.first; p < r.last; p++ {
		v.link(p, t.slot)
		for _, n := range d.replicasOf(p, buf[:0]) {
			if d.nodes[n].cache.get(p) != nil {
				t.inputAt(n).Resident += d.all[p].bytes
			}
		}
	}
}

// leave ends it.
func (v *readingView) leave(t *task) {
	if t.v.Input.At == nil {
		return
	}
	t.v.Input.At = nil
	if v.heads == nil {
		return
	}
	for p := t.in.first; p < t.in.last; p++ {
		v.unlink(p, t.slot)
	}
}

// changed tells those who wait for a piece that it is in the memory of n, or no more.
func (v *readingView) changed(d *files, n *dataNode, piece int32, bytes int64) {
	if v.heads == nil {
		return
	}
	for at := v.heads[piece]; at > 0; at = v.links[at-1].next {
		d.e.slots[v.links[at-1].slot].inputAt(n.i).Resident += bytes
	}
}

// inputAt is what the policy is told of a node, which has some of the input of t.
func (t *task) inputAt(node int32) *headrace.InputAt {
	return &t.v.Input.At[slices.Index(t.in.nodes, node)]
}

func (v *readingView) link(piece, slot int32) {
	x := link{slot, v.heads[piece]}
	if n := len(v.free); n > 0 {
		i := v.free[n-1]
		v.free = v.free[:n-1]
		v.links[i-1] = x
		v.heads[piece] = i
		return
	}
	v.links = append(v.links, x)
	v.heads[piece] = int32(len(v.links))
}

func (v *readingView) unlink(piece, slot int32) {
	for at := &v.heads[piece]; *at > 0; {
		x := &v.links[*at-1]
		if x.slot == slot {
			v.free = append(v.free, *at)
			*at = x.next
			return
		}
		at = &x.next
	}
}
