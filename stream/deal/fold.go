package deal

import (
	"cmp"
	"maps"
	"slices"
)

// Fold takes in the entries of a journal, and keeps of each consumer those that Replay
// needs: replaying Entries comes to the same as replaying all that was added. So a journal
// need not grow with how often consumers come and go. The zero value has none.
type Fold struct{ consumers map[uint32]*folded }

// folded is what matters of one consumer. Of its commits these are the one that has the
// most units, among them those of all others, and the last, whose units the next attempt
// gets.
type folded struct{ newest, most, last *Entry }

// Add takes in an entry. It keeps the units.
func (f *Fold) Add(e Entry) {
	if f.consumers == nil {
		f.consumers = map[uint32]*folded{}
	}
	c := f.consumers[e.Consumer]
	if c == nil {
		c = &folded{}
		f.consumers[e.Consumer] = c
	}
	if e.Kind == Finished && e.Code == 0 {
		if c.most == nil || len(c.most.Units) < len(e.Units) {
			c.most = &e
		}
		c.last = &e
	}
	// An attempt that has ended stays so; see Replay.
	ended := c.newest != nil && c.newest.Attempt == e.Attempt && c.newest.Kind >= Finished && e.Kind < Finished
	if c.newest == nil || c.newest.Attempt <= e.Attempt && !ended {
		if e.Kind == Attached && len(e.Units) == 0 && c.newest != nil && c.newest.Attempt == e.Attempt {
			e.Units = c.newest.Units // what it was last known to have still counts; see Absent
		}
		c.newest = &e
	}
}

// Entries returns what there is to be replayed, in order.
func (f *Fold) Entries() (entries []*Entry) {
	for _, id := range slices.Sorted(maps.Keys(f.consumers)) {
		c := f.consumers[id]
		of := slices.DeleteFunc([]*Entry{c.most, c.last, c.newest}, func(e *Entry) bool { return e == nil })
		slices.SortStableFunc(of, func(a, b *Entry) int { return cmp.Compare(a.Attempt, b.Attempt) })
		entries = append(entries, slices.Compact(of)...)
	}
	return entries
}
