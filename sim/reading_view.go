package sim

// readingView keeps up to date what the policy may know of where the inputs of
// tasks are that wait. A change in some memory is told to those only whom it
// concerns: each piece has the list of the tasks that wait to read it.
type readingView struct {
	on    bool
	heads []int32 // of each piece, one more than an index into links; 0: nobody
	links []link
	free  []int32

	local []int64 // buffer: bytes on the disk of each node
	found []int32 // buffer: the nodes that have any
}

// link is one entry of such a list.
type link struct {
	slot int32 // of the task
	next int32
}

// spot is how much of a task's input is on the disk of a node, and in its memory.
type spot struct {
	node            int32
	local, resident int64
}

func (d *files) beginView() {
	v := &d.view
	if v.on = d.c.ByResidency; v.on {
		v.heads = make([]int32, len(d.all))
		v.local = make([]int64, len(d.nodes))
	}
}

// enter begins to tell the policy where the input of t is, which waits.
func (v *readingView) enter(d *files, t *task) {
	r := t.in
	if !v.on || r == nil || r.at == r.last || r.listed {
		return
	}
	r.listed = true
	var buf [8]int32
	for p := r.first; p < r.last; p++ {
		v.link(p, t.slot)
		for _, n := range d.replicasOf(p, buf[:0]) {
			if v.local[n] == 0 {
				v.found = append(v.found, n)
			}
			v.local[n] += d.all[p].bytes
		}
	}
	r.spots = make([]spot, 0, len(v.found))
	for _, n := range v.found {
		r.spots = append(r.spots, spot{node: n, local: v.local[n]})
		v.local[n] = 0
	}
	v.found = v.found[:0]
	for p := r.first; p < r.last; p++ {
		for _, n := range d.replicasOf(p, buf[:0]) {
			if d.nodes[n].cache.get(p) != nil {
				r.spot(n).resident += d.all[p].bytes
			}
		}
	}
	r.show(t)
}

// leave ends it.
func (v *readingView) leave(t *task) {
	r := t.in
	if r == nil || !r.listed {
		return
	}
	r.listed, r.spots = false, nil
	for p := r.first; p < r.last; p++ {
		v.unlink(p, t.slot)
	}
}

// changed tells those who wait for a piece that it is in the memory of n, or no more.
func (v *readingView) changed(d *files, n *dataNode, piece int32, bytes int64) {
	if !v.on {
		return
	}
	for at := v.heads[piece]; at > 0; at = v.links[at-1].next {
		t := d.e.slots[v.links[at-1].slot]
		t.in.spot(n.i).resident += bytes
		t.in.show(t)
	}
}

// spot finds the entry of a node, which is there.
func (r *input) spot(node int32) *spot {
	for i := range r.spots {
		if r.spots[i].node == node {
			return &r.spots[i]
		}
	}
	return nil
}

// show puts it into the view of t.
func (r *input) show(t *task) {
	most := int64(0)
	for i := range r.spots {
		most = max(most, r.spots[i].resident)
	}
	t.v.Input.Resident = most
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
