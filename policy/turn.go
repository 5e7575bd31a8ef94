package policy

import (
	"cmp"
	"slices"
)

// turn is the task of g that goes where one of them stands in the queue, by what is
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
// what is free now (node.now) only becomes less, and node.later is never below it.
// So each chance is looked at once, however many turns there are.
func (d *decision) turn(g *group) *task {
	s := &g.turns
	first := skip(g.tasks, &s.first, func(t *task) bool { return !t.done() })
	t := d.bestChance(g)
	if t == nil {
		t = skip(g.tasks, &s.cold, func(t *task) bool { return !t.done() && !t.warm })
	}
	if t == nil {
		t = first
	}
	t.turned, t.passes = true, t != first
	return t
}

// bestChance is the task of g with the best chance, nil if none has any. Nothing is
// better than to have all in memory, and so the first of those is taken before the
// chances of the tasks behind it are listed.
func (d *decision) bestChance(g *group) *task {
	s := &g.turns
	for !s.listed {
		if s.next == len(g.tasks) {
			s.listed = true
			s.sort()
			break
		}
		t := g.tasks[s.next]
		s.next++
		if !t.done() && d.listChances(s, t) {
			return t
		}
	}
	return d.firstOf(&s.memory)
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
	t     *task
	n     *node
	share float64
}

// done reports whether t needs no turn any more.
func (t *task) done() bool { return t.turned || t.redeemed }

// skip moves at to the first task from there on that is wanted, and returns it; nil
// if there is none.
func skip(tasks []*task, at *int, wanted func(*task) bool) *task {
	for ; *at < len(tasks); *at++ {
		if t := tasks[*at]; wanted(t) {
			return t
		}
	}
	return nil
}

// firstOf is the task with the first of the chances that is still there, or nil.
func (d *decision) firstOf(chances *[]chance) *task {
	for ; len(*chances) > 0; *chances = (*chances)[1:] {
		c := &(*chances)[0]
		if !c.t.turned && (c.n == nil || d.fits(c.t, c.n)) {
			return c.t
		}
	}
	return nil
}

// listChances lists the chances of t, and reports whether it has one with all of its
// input in memory.
func (d *decision) listChances(s *turns, t *task) (all bool) {
	if len(t.Input.At) > 0 {
		return d.listNodes(s, t)
	}
	if t.Input.Resident > 0 {
		t.warm, t.local = true, share(t.Input.Resident, t.Input.Bytes)
		s.memory = append(s.memory, chance{t, nil, t.local})
	}
	return t.local >= 1
}

// listNodes does that for a task with InputView.At.
func (d *decision) listNodes(s *turns, t *task) (all bool) {
	room := d.free.anywhere(t.CPUs, d.leastDemand(t))
	for i := range t.Input.At {
		at := &t.Input.At[i]
		if at.Resident <= 0 {
			continue
		}
		n := d.nodeOf(at.Node)
		if n == nil {
			continue
		}
		t.warm = true
		if room && d.fits(t, n) {
			s.memory = append(s.memory, chance{t, n, share(at.Resident, t.Input.Bytes)})
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

// emptied is the same memory for another group.
func (s *turns) emptied() turns {
	if !s.listed {
		s.kept = s.memory
	}
	return turns{memory: s.kept[:0]}
}

// betterChance compares two of a list: by the shares, then by submission.
func betterChance(a, b chance) int {
	return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.t.i, b.t.i))
}
