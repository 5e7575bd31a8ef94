package ring

import "slices"

// Difference is what a node is to do so that it has what the table says.
type Difference struct {
	Fetch  []Move   // to be compared with a holder, completed, then confirmed; as in Moves
	Lost   []uint16 // the table counts on them here, and they are not here: to be told, see Lost
	Forget []uint16 // nobody counts on them here
	// Compare: they belong here, and nobody can be asked for all of them. Whoever has all that was settled of one confirms it: one disk that was
	// missing for a moment at each of its holders has had them all say that they lost it.
	Compare []uint16
}

// Reconcile compares a table with the segments that a node has, in whole or in part. It is
// what block reports are for elsewhere. A node asks when it starts and with each new epoch,
// and never by a table older than one for which it has confirmed anything: it would forget
// what others count on. What it has of a segment that it does not hold may be old, so that
// is fetched as well; what is there already need not be copied.
func (t *Table) Reconcile(name string, has []uint16) Difference {
	var d Difference
	at := t.index(name)
	here := make([]bool, len(t.segments))
	for _, s := range has {
		if int(s) < len(here) {
			here[s] = true
		}
	}
	for s, has := range here {
		g := &t.segments[s]
		holds := slices.Contains(g.held, uint16(at))
		belongs := at >= 0 && slices.Contains(t.belongs(s), uint16(at))
		switch {
		case has && !holds && !belongs:
			d.Forget = append(d.Forget, uint16(s))
		case !has && holds:
			d.Lost = append(d.Lost, uint16(s))
		}
		if !belongs || holds && has {
			continue
		}
		if from := t.source(s, uint16(at)); from >= 0 {
			d.Fetch = append(d.Fetch, Move{uint16(s), name, t.nodes[from].Name})
		} else if !holds {
			d.Compare = append(d.Compare, uint16(s))
		}
	}
	sortMoves(t, d.Fetch)
	return d
}
