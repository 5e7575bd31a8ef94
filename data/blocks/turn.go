package blocks

import (
	"cmp"
	"context"
	"slices"
	"time"
)

const (
	// againAfter is how long after a replica was not found it is looked for again, twice as long each time and
	// againAtMost in the end; checkAfter is how often it is looked whether one still is what it was.
	againAfter  = 5 * time.Second
	againAtMost = 2 * time.Minute
	checkAfter  = 20 * time.Second
)

// A Report looks for so many replicas at most, of either kind: that were not looked for yet, that were not found, and that
// were. Each has a bound of its own, so that none keeps the others waiting for ever.
const newAtOnce, missedAtOnce, checksAtOnce = 2000, 250, 1000

// A Report begins no further look for new replicas after lookTime, for the others after a part of that: where a disk has to seek
// for names each takes tens of milliseconds. For the look that is under way it waits until lookAtMost, for a disk may hang. The
// manager takes a node for lost of which it has heard nothing for ten seconds.
const lookTime, lookAtMost = time.Second, 5 * time.Second

// turn is when a replica is to be looked for, or at, again; its zero value: it was not yet.
type turn struct {
	at     time.Time
	missed int // how often since it was found last
	// order is larger for what was named later.
	order uint64
}

func (t *turn) when() *turn { return t }

func (t *turn) found(now time.Time) { t.at, t.missed = now.Add(checkAfter), 0 }

func (t *turn) miss(now time.Time) {
	t.at = now.Add(min(againAfter<<min(t.missed, 10), againAtMost))
	t.missed++
}

// before orders those of one kind: the newest of those that were not looked for, for a few among very many are somebody
// else's; those that were missed least; those that are due for longest.
func (t *turn) before(o *turn) int {
	return cmp.Or(cmp.Compare(t.missed, o.missed), t.at.Compare(o.at), cmp.Compare(o.order, t.order))
}

// eachDue does something with those whose turn it is, as far as there is time and ctx goes.
func eachDue[K comparable, V interface{ when() *turn }](ctx context.Context, all map[K]V, now time.Time, lookTime time.Duration, do func(K, V)) {
	var fresh, missed, checks []K
	for k, v := range all {
		switch t := v.when(); {
		case now.Before(t.at):
		case t.at.IsZero():
			fresh = append(fresh, k)
		case t.missed > 0:
			missed = append(missed, k)
		default:
			checks = append(checks, k)
		}
	}
	some := func(due []K, most int, longest time.Duration) {
		slices.SortFunc(due, func(a, b K) int { return all[a].when().before(all[b].when()) })
		began := time.Now()
		for _, k := range due[:min(len(due), most)] {
			if ctx.Err() != nil || time.Since(began) >= longest {
				return
			}
			do(k, all[k])
		}
	}
	some(fresh, newAtOnce, lookTime)
	some(missed, missedAtOnce, lookTime/4)
	some(checks, checksAtOnce, lookTime/2)
}
