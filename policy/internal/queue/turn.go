package queue

import (
	"cmp"
	"slices"

	"headrace"
	"headrace/policy/internal/books"
)

// Places are the nodes on which tasks that take turns may go.
type Places interface {
	// NodeOf returns the node of that name, or nil.
	NodeOf(headrace.NodeID) *books.Node
	// AnyRoom reports whether u may fit somewhere at once; false: nowhere.
	AnyRoom(u *books.Task) bool
}

// Next returns the task that goes where u stands in the queue: u itself, unless it takes
// turns.
func (u *Waiter) Next(in Places) *Waiter {
	if u.group == nil {
		return u
	}
	return u.group.turn(in)
}

// turn returns the task of g that goes where one of them stands in the queue, by what is
// free at that moment (quartet, section 4.2):
//
//  1. one with some of its input in memory on a node on which it fits,
//  2. else one whose input is in memory on no node,
//  3. else any.
//
// Disks do not count here, only in the choice of a node: to look for a task that has
// its input on a disk of the node with room was tried, and its disk was then read by
// more tasks at once than others (headrace-lab bench sim --only swim: jobs took longer).
//
// Where there are several, the one with the largest share of its input there, of
// these the first submitted. What InputView.Resident says of a task without
// InputView.At is taken to be true of whichever node.
//
// A node on which a task does not fit will not hold it later in the same decision:
// what is free now (Node.Now) only becomes less, and Node.Later is never below it.
// So each chance is looked at once, however many turns there are.
func (g *group) turn(in Places) *Waiter {
	s := &g.turns
	first := skip(g.tasks, &s.first, func(t *Waiter) bool { return !t.done() })
	t := g.bestChance(in)
	if t == nil {
		t = skip(g.tasks, &s.cold, func(t *Waiter) bool { return !t.done() && !t.warm })
	}
	if t == nil {
		t = first
	}
	t.turned, t.Passes = true, t != first
	return t
}

// bestChance returns the task of g with the best chance, nil if none has any. Nothing is
// better than to have all in memory, and so the first of those is taken before the
// chances of the tasks behind it are listed.
func (g *group) bestChance(in Places) *Waiter {
	s := &g.turns
	for !s.listed {
		if s.next == len(g.tasks) {
			s.listed = true
			s.sort()
			break
		}
		t := g.tasks[s.next]
		s.next++
		if !t.done() && s.listChances(t, in) {
			return t
		}
	}
	return s.firstOf()
}

// turns is how far the turns of a group have come. What has been passed over will not
// be wanted again.
type turns struct {
	// memory is the chances that are left to find some of an input in memory, the best
	// first, once those of all tasks are listed. next is the first task whose chances
	// are not.
	memory []chance
	next   int
	listed bool
	// first is the first task that may need a turn, cold the first of those whose input
	// is in memory nowhere.
	first, cold int

	kept []chance // the memory of the list
}

// chance is a node on which a task fits and has a share of its input; without a node,
// it has it wherever it runs.
type chance struct {
	t     *Waiter
	n     *books.Node
	share float64
}

// done reports whether t needs no turn any more.
func (t *Waiter) done() bool { return t.turned || t.Served }

// skip moves at to the first task from there on that is wanted, and returns it; nil
// if there is none.
func skip(tasks []*Waiter, at *int, wanted func(*Waiter) bool) *Waiter {
	for ; *at < len(tasks); *at++ {
		if t := tasks[*at]; wanted(t) {
			return t
		}
	}
	return nil
}

// firstOf returns the task with the first of the chances that is still there, or nil.
func (s *turns) firstOf() *Waiter {
	for ; len(s.memory) > 0; s.memory = s.memory[1:] {
		c := &s.memory[0]
		if !c.t.turned && (c.n == nil || c.n.Fits(c.t.Task)) {
			return c.t
		}
	}
	return nil
}

// listChances lists the chances of t, and reports whether it has one with all of its
// input in memory.
func (s *turns) listChances(t *Waiter, in Places) (all bool) {
	if len(t.Input.At) > 0 {
		return s.listNodes(t, in)
	}
	if t.Input.Resident > 0 {
		t.warm, t.Local = true, Fraction(t.Input.Resident, t.Input.Bytes)
		s.memory = append(s.memory, chance{t, nil, t.Local})
	}
	return t.Local >= 1
}

// listNodes does that for a task with InputView.At.
func (s *turns) listNodes(t *Waiter, in Places) (all bool) {
	room := in.AnyRoom(t.Task)
	for i := range t.Input.At {
		at := &t.Input.At[i]
		if at.Resident <= 0 {
			continue
		}
		n := in.NodeOf(at.Node)
		if n == nil {
			continue
		}
		t.warm = true
		if room && n.Fits(t.Task) {
			s.memory = append(s.memory, chance{t, n, Fraction(at.Resident, t.Input.Bytes)})
			all = all || at.Resident >= t.Input.Bytes
		}
	}
	return all
}

// sort puts the best chances first.
func (s *turns) sort() {
	s.kept = s.memory
	slices.SortFunc(s.memory, betterChance)
}

// emptied returns the same memory for another group.
func (s *turns) emptied() turns {
	if !s.listed {
		s.kept = s.memory
	}
	return turns{memory: s.kept[:0]}
}

// betterChance compares two of a list: by the shares, then by submission.
func betterChance(a, b chance) int {
	return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.t.Index, b.t.Index))
}
