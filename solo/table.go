package solo

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"

	"headrace"
)

// table holds the tasks.
type table struct {
	all    map[headrace.TaskID]*task
	active []*task // have not ended, in order of submission
	ended  []*task // in the order in which they ended
	// endedStates counts them.
	endedStates [headrace.Lost + 1]int
	// order is the number of the last submission; ids follow from it.
	order uint64
}

func newTable() *table { return &table{all: map[headrace.TaskID]*task{}} }

// numberOf returns the number that taskID has made a name of.
func numberOf(name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "t"), 10, 63)
	return n, err == nil && string(taskID(n)) == name
}

// notAgain sees to it that no new task gets an id that another has left something under. The records
// may know less, if they were moved away or are from a backup: a new task would get what
// the old one has written, and how it ended.
func (b *table) notAgain(name string) {
	if n, ok := numberOf(name); ok {
		b.order = max(b.order, n)
	}
}

// load takes in a task that was recorded; sort follows.
func (b *table) load(t *task) {
	b.all[t.rec.ID] = t
	if t.rec.State.Final() {
		b.ended = append(b.ended, t)
		b.endedStates[t.rec.State]++
		return
	}
	b.active = append(b.active, t)
}

// sort brings loaded tasks into order.
func (b *table) sort() {
	slices.SortFunc(b.active, func(a, b *task) int { return cmp.Compare(a.rec.Order, b.rec.Order) })
	slices.SortFunc(b.ended, func(a, b *task) int { return cmp.Compare(a.rec.EndedMs, b.rec.EndedMs) })
}

// add takes in a new task.
func (b *table) add(t *task) {
	b.all[t.rec.ID] = t
	b.active = append(b.active, t)
}

// end moves a task that has ended out of the queue.
func (b *table) end(t *task) {
	if i := slices.Index(b.active, t); i >= 0 {
		b.active = slices.Delete(b.active, i, i+1)
	}
	b.ended = append(b.ended, t)
	b.endedStates[t.rec.State]++
}

// unend takes an ended task out of the list of these.
func (b *table) unend(t *task) {
	if i := slices.Index(b.ended, t); i >= 0 {
		b.ended = slices.Delete(b.ended, i, i+1)
		b.endedStates[t.rec.State]--
	}
}

// reactivate is the opposite of end.
func (b *table) reactivate(t *task) {
	b.unend(t)
	at, _ := slices.BinarySearchFunc(b.active, t.rec.Order, func(x *task, order uint64) int { return cmp.Compare(x.rec.Order, order) })
	b.active = slices.Insert(b.active, at, t)
}

// remove forgets an ended task.
func (b *table) remove(t *task) {
	delete(b.all, t.rec.ID)
	b.unend(t)
}

// has reports whether the task is the one that has its id.
func (b *table) has(t *task) bool { return b.all[t.rec.ID] == t }

// old returns the ended tasks beyond those to keep, in the order in which they ended. They are of the users who have most, down
// to what each may have: nobody has those of others forgotten. Of a user those that were never begun go first, and
// then those that ended first.
func (b *table) old(keep int) []*task {
	if len(b.ended) <= keep {
		return nil
	}
	has := map[uint32]int{}
	for _, t := range b.ended {
		has[t.rec.UID]++
	}
	kept := func(each int) (n int) {
		for _, of := range has {
			n += min(of, each)
		}
		return n
	}
	each := sort.Search(keep, func(n int) bool { return kept(n+1) > keep })
	rest := keep - kept(each) // users may have one more
	stays, used := make(map[*task]bool, keep), map[uint32]int{}
	for _, begun := range []bool{true, false} {
		for _, t := range slices.Backward(b.ended) {
			n := used[t.rec.UID]
			if (t.rec.Starts > 0) != begun || n > each || n == each && rest == 0 {
				continue
			}
			if n == each {
				rest--
			}
			used[t.rec.UID]++
			stays[t] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(b.ended), func(t *task) bool { return stays[t] })
}

// lostSaved are the lost tasks of users that may be brought back from a checkpoint.
func (b *table) lostSaved() iter.Seq[*task] {
	return func(yield func(*task) bool) {
		if b.endedStates[headrace.Lost] == 0 {
			return
		}
		for _, t := range b.ended {
			if t.rec.Checkpoint != nil && !t.hosted() && !yield(t) {
				return
			}
		}
	}
}

// withImagesIn returns the tasks that may have checkpoints in a directory.
func (b *table) withImagesIn(dir string) (ids []headrace.TaskID) {
	for id, t := range b.all {
		if t.rec.HasImagesIn(dir) {
			ids = append(ids, id)
		}
	}
	return ids
}

// slotsUsed returns what running tasks and those that are being brought back hold.
func (b *table) slotsUsed() float64 {
	var used float64
	for _, t := range b.active {
		if t.holdsSlot() {
			used += t.rec.CPUs
		}
	}
	return used
}
