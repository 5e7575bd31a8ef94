package fleet

import (
	"slices"

	"headrace/policy/internal/books"
	"headrace/policy/internal/queue"
	"headrace/policy/internal/words"
)

// nearestInput returns the node on which u, which has not been begun, can read its input
// soonest among those on which it fits, as fits says: the one with the most of it in
// memory, of these the one with the most of it on its own disks, of these the first
// in the order of the view; nil when no node has any of it, or the view does not say
// where it is.
//
// Quartet runs a task on a node to which it is memory-local, else on one to which it
// is node-local, else anywhere (section 4.2). There a block is in memory or not;
// here, as in package queue, more goes before less.
func (f *Fleet) nearestInput(u *books.Task, fits func(*books.Node, *books.Task) bool) *books.Node {
	if len(u.Input.At) == 0 {
		return nil
	}
	var best *books.Node
	var has input
	for i := range u.Input.At {
		n := f.NodeOf(u.Input.At[i].Node)
		if n == nil {
			continue
		}
		here := f.inputAt(u, i)
		if here == (input{}) || best != nil && !(here.nearer(has) || here == has && n.Index < best.Index) {
			continue
		}
		if fits(n, u) {
			best, has = n, here
		}
	}
	return best
}

// input is how much of a task's input a node has, in bytes.
type input struct{ resident, local int64 }

func (a input) nearer(b input) bool {
	if a.resident != b.resident {
		return a.resident > b.resident
	}
	return a.local > b.local
}

// inputAt says what entry i of u's input says, as far as it counts.
func (f *Fleet) inputAt(u *books.Task, i int) input {
	at, all := &u.Input.At[i], max(0, u.Input.Bytes)
	in := input{max(0, min(at.Resident, all)), max(0, min(at.Local, all))}
	if f.bySubmission {
		in.resident = 0
	}
	return in
}

// Slots is what each node costs a task for what it has of its input, in the order of the nodes;
// empty where that makes no difference to the policy or is not known. Bids are without it: other
// tasks of the class have their input elsewhere.
type Slots []float64

// weigh fills in what the nodes of f cost u.
func (w *Slots) weigh(f *Fleet, u *books.Task, s Spots) {
	*w = (*w)[:0]
	if len(u.Input.At) == 0 || !s.everywhere || f.bySubmission || !f.chooser.Weighs() {
		return
	}
	for _, n := range f.Every {
		*w = append(*w, f.chooser.Slot(u, n, 0))
	}
	for i := range u.Input.At {
		if n := f.NodeOf(u.Input.At[i].Node); n != nil {
			(*w)[n.Index] = min((*w)[n.Index], f.chooser.Slot(u, n, u.Input.At[i].Resident))
		}
	}
}

// of returns what n costs.
func (w Slots) of(n *books.Node) float64 {
	if len(w) == 0 {
		return 0
	}
	return w[n.Index]
}

// Gains reports whether the task that was weighed last reads less on n than on others.
func (w Slots) Gains(n *books.Node) bool { return len(w) > 0 && w[n.Index] < slices.Max(w) }

// Attraction says in words what n has of u's input, as far as that counts in the
// choice of a node; empty when it has nothing.
func (f *Fleet) Attraction(u *books.Task, n *books.Node) string {
	var has input
	for i := range u.Input.At {
		if in := f.inputAt(u, i); u.Input.At[i].Node == n.ID && in.nearer(has) {
			has = in
		}
	}
	switch {
	case has.resident > 0:
		return ", and " + words.Percent(queue.Fraction(has.resident, u.Input.Bytes)) + " of its input in memory"
	case has.local > 0:
		return ", and " + words.Percent(queue.Fraction(has.local, u.Input.Bytes)) + " of its input on disk"
	}
	return ""
}
