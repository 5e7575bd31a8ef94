package sim

import (
	"math"
	"time"
)

// bandwidth is what a disk or a network can move, in bytes per second, shared
// evenly by those who use it at the same time (processor sharing): alone for one of
// them, shared for several together. One more, behind, gets on only while nobody
// else does.
//
// work is how many bytes each of the readers has had, and a flow knows at which
// work it ends. So whoever comes or goes changes nothing about the others, and costs
// the logarithm of their number.
type bandwidth struct {
	alone, shared float64
	at            time.Duration // when work was brought up to date
	work          float64
	flows         heap[*flow] // what ends first is first
	behind        *flow
	seq           uint64

	// who and kind are of its events, gen the generation of those that are not void.
	who     int32
	gen     uint32
	kind    kind
	touched bool // an event has to be added
	busy    time.Duration
}

// flow is bytes that are read. It belongs to a fetch, or else to a task.
type flow struct {
	f *fetch
	t *task
	// end is the work at which it ends; of the one behind, how many bytes are left.
	end   float64
	bytes int64
	seq   uint64
	place int // in the heap, or one of those below
}

const (
	nowhere = -1 - iota
	isBehind
)

func (f *flow) before(g *flow) bool { return f.end < g.end || f.end == g.end && f.seq < g.seq }

func (f *flow) placed(i int) { f.place = i }

// each returns the rate of one of n readers.
func (b *bandwidth) each(n int) float64 {
	if n <= 1 {
		return b.alone
	}
	return b.shared / float64(n)
}

// advance brings it up to date.
func (b *bandwidth) advance(now time.Duration) {
	took := now - b.at
	b.at = now
	switch {
	case took <= 0:
	case len(b.flows) > 0:
		b.work += float64(took.Seconds() * b.each(len(b.flows)))
		b.busy += took
	case b.behind != nil:
		b.behind.end = max(0, b.behind.end-float64(took.Seconds()*b.alone))
		b.busy += took
	}
}

// add begins a flow of so many bytes; it must be up to date.
func (b *bandwidth) add(f *flow, bytes int64) {
	f.bytes = bytes
	b.insert(f, float64(bytes))
}

func (b *bandwidth) insert(f *flow, left float64) {
	b.seq++
	f.seq, f.end = b.seq, b.work+left
	b.flows.push(f)
}

// addBehind begins a flow that gets on when there is no other. There must not be one
// behind already.
func (b *bandwidth) addBehind(f *flow, bytes int64) {
	f.bytes, f.end, f.place = bytes, float64(bytes), isBehind
	b.behind = f
}

// left returns how many bytes of f are to come.
func (b *bandwidth) left(f *flow) float64 {
	if f.place == isBehind {
		return f.end
	}
	return max(0, f.end-b.work)
}

// had returns how many bytes of f have been read.
func (b *bandwidth) had(f *flow) int64 {
	return max(0, f.bytes-int64(math.Ceil(b.left(f))))
}

// remove ends a flow wherever it is; it must be up to date.
func (b *bandwidth) remove(f *flow) {
	switch f.place {
	case nowhere:
	case isBehind:
		b.behind = nil
	default:
		if b.flows.remove(f.place); len(b.flows) == 0 {
			b.work = 0 // so that roundings do not add up
		}
	}
	f.place = nowhere
}

// promote puts the flow behind among the others, demote one of the others behind.
func (b *bandwidth) promote(f *flow) {
	left := b.left(f)
	b.remove(f)
	b.insert(f, left)
}

func (b *bandwidth) demote(f *flow) {
	left := b.left(f)
	b.remove(f)
	f.end, f.place = left, isBehind
	b.behind = f
}

// next returns how long it takes until a flow ends, if nothing happens before.
func (b *bandwidth) next() (time.Duration, bool) {
	switch {
	case len(b.flows) > 0:
		return ceil(b.left(b.flows[0]) / b.each(len(b.flows))), true
	case b.behind != nil:
		return ceil(b.behind.end / b.alone), true
	}
	return 0, false
}

// ceil is so many seconds, a nanosecond too long rather than too short.
func ceil(seconds float64) time.Duration {
	return time.Duration(math.Ceil(seconds * float64(time.Second)))
}

// ended removes what has ended now that the time is there which next has said: the
// first of them, and all that end with it.
func (b *bandwidth) ended(into []*flow) []*flow {
	if len(b.flows) == 0 {
		if f := b.behind; f != nil {
			b.remove(f)
			into = append(into, f)
		}
		return into
	}
	for first := true; len(b.flows) > 0 && (first || b.left(b.flows[0]) < 1); first = false {
		f := b.flows[0]
		b.remove(f)
		into = append(into, f)
	}
	return into
}
