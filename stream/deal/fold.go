package deal

import (
	"maps"
	"slices"
)

// Fold takes in the entries of a journal, and keeps of each consumer the one that Replay
// needs: replaying Entries comes to the same as replaying all that was added. So a journal
// need not grow with how often consumers come and go. The zero value has none.
type Fold struct{ newest map[uint32]*Entry }

// Add takes in an entry. It keeps the units.
func (f *Fold) Add(e Entry) {
	was := f.newest[e.Consumer]
	switch {
	case f.newest == nil:
		f.newest = map[uint32]*Entry{}
	case was == nil || was.Attempt < e.Attempt:
	case was.Attempt > e.Attempt || was.over():
		return // see Replay
	case e.Kind == Attached && len(e.Units) == 0:
		e.Units = was.Units // what it was last known to have still counts; see Absent
	}
	f.newest[e.Consumer] = &e
}

// Entries returns what there is to be replayed.
func (f *Fold) Entries() (entries []*Entry) {
	for _, id := range slices.Sorted(maps.Keys(f.newest)) {
		entries = append(entries, f.newest[id])
	}
	return entries
}
