package disk

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// deed is what happened at a device.
type deed struct {
	kind  string // ask, grant, end
	who   int
	bytes int64
	// alone: it is the end of a dump or restore, and none waited then.
	alone bool
}

// oracle is the rules, applied to all that ever happened. It remembers nothing
// else: what was cancelled is struck from the history. Each dump or restore is another user's.
type oracle struct {
	least   int64
	held    bool // warming is
	class   []Class
	history []deed
}

// start returns the start tag of the ask at history[i].
func (o *oracle) start(i int) int64 {
	who := o.history[i].who
	tag := o.virtual(i, o.class[who])
	for j := i - 1; j >= 0 && !(moved(o.class[who]) && o.history[j].alone); j-- {
		if d := o.history[j]; d.kind == "end" && d.who == who {
			return max(tag, o.finish(j))
		}
	}
	return tag
}

// finish returns the end in virtual time of the turn that ended at history[i].
func (o *oracle) finish(i int) int64 {
	least := o.least
	if moved(o.class[o.history[i].who]) {
		least = int64(leastHeld)
	}
	return o.start(o.last(i, "ask", o.history[i].who)) + max(o.history[i].bytes, least)
}

// moved reports whether it is a class of dumps or restores, which are dealt together.
func moved(c Class) bool { return c == Restore || c == Dump }

func together(a, b Class) bool { return a == b || moved(a) && moved(b) }

// alone reports whether who moves a checkpoint, and no dump or restore waits.
func (o *oracle) alone(who int) bool {
	for other, c := range o.class {
		if _, waits, _ := o.waits(other); waits && moved(c) {
			return false
		}
	}
	return moved(o.class[who])
}

// last returns the place before i of the last deed of a kind by a reader, or -1.
func (o *oracle) last(i int, kind string, who int) int {
	for i--; i >= 0; i-- {
		if d := o.history[i]; d.kind == kind && d.who == who {
			return i
		}
	}
	return -1
}

// virtual returns the virtual time of a class just before history[i]: the highest tag
// that was granted.
func (o *oracle) virtual(i int, c Class) (v int64) {
	for j, d := range o.history[:i] {
		if d.kind == "grant" && together(o.class[d.who], c) {
			v = max(v, o.start(o.last(j, "ask", d.who)))
		}
	}
	return v
}

// waits reports whether a reader waits, and since which deed; has whether it has
// the turn.
func (o *oracle) waits(who int) (since int, waits, has bool) {
	for i := len(o.history) - 1; i >= 0; i-- {
		if d := o.history[i]; d.who == who {
			return i, d.kind == "ask", d.kind == "grant"
		}
	}
	return 0, false, false
}

// next returns who has to get a turn now, or -1.
func (o *oracle) next() int {
	best, since := -1, 0
	for who := range o.class {
		i, waits, _ := o.waits(who)
		if !waits || o.kept(o.class[who]) {
			continue
		}
		less := best < 0
		if !less && !together(o.class[who], o.class[best]) {
			less = slices.Index(urgency, o.class[who]) < slices.Index(urgency, o.class[best])
		} else if !less {
			less = cmp.Or(
				cmp.Compare(o.start(i), o.start(since)), cmp.Compare(o.class[who], o.class[best]), cmp.Compare(i, since)) < 0
		}
		if less {
			best, since = who, i
		}
	}
	return best
}

// urgency is in which order turns are given.
var urgency = []Class{Restore, Dump, Demand, Warming}

// kept reports whether something keeps turns of a class from beginning: one that was
// granted and has not ended, of a class that this one does not go beside, or that
// warming is held.
func (o *oracle) kept(c Class) bool {
	apart := map[Class][]Class{
		Demand: {Demand, Warming}, Restore: {Restore, Dump}, Dump: {Restore, Dump},
		Warming: {Demand, Restore, Dump, Warming},
	}[c]
	for who, other := range o.class {
		if _, _, has := o.waits(who); has && slices.Contains(apart, other) {
			return true
		}
	}
	return c == Warming && o.held
}

func TestQueueAgainstOracle(t *testing.T) {
	runs := 1500
	if testing.Short() {
		runs = 50
	}
	for seed := range runs {
		if err := queueAgainstOracle(rand.New(rand.NewPCG(1, uint64(seed)))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func queueAgainstOracle(rnd *rand.Rand) error {
	q := queue{least: rnd.Int64N(4)}
	n := 2 + rnd.IntN(4)
	entries := make([]*entry, n)
	o := &oracle{least: q.least, class: make([]Class, n)}
	for i := range entries {
		o.class[i] = Class(rnd.IntN(classes))
		entries[i] = &entry{class: o.class[i], user: uint32(i)}
	}
	for step := range 14 + rnd.IntN(14) {
		who := rnd.IntN(n)
		since, waits, has := o.waits(who)
		switch {
		case has:
			bytes := rnd.Int64N(10)
			if moved(o.class[who]) {
				bytes *= int64(leastHeld) / 4
				q.moved(entries[who], time.Duration(bytes))
			} else {
				q.end(entries[who], bytes)
			}
			o.history = append(o.history, deed{kind: "end", who: who, bytes: bytes, alone: o.alone(who)})
			if rnd.IntN(2) == 0 { // it goes on at once
				q.ask(entries[who])
				o.history = append(o.history, deed{kind: "ask", who: who})
			}
		case waits && rnd.IntN(3) == 0:
			q.cancel(entries[who])
			o.history = slices.Delete(o.history, since, since+1)
		case !waits:
			q.ask(entries[who])
			o.history = append(o.history, deed{kind: "ask", who: who})
		}
		q.held = rnd.IntN(4) == 0
		o.held = q.held
		for want := 0; want >= 0; {
			want = o.next()
			got := slices.Index(entries, q.grant())
			if got != want {
				return fmt.Errorf("step %d: the turn goes to %d, want %d (classes %v, at least %d) after\n%v", step, got, want, o.class, o.least, o.history)
			}
			if want >= 0 {
				o.history = append(o.history, deed{kind: "grant", who: want})
			}
		}
	}
	return nil
}

// contestant takes turns and keeps count.
type contestant struct {
	entry
	bytes int64
	// busy is since when it has waited or read without a gap, -1 when it does not.
	busy int
}

// TestFairness lets readers come and go at random. Over any time in which two of
// a class wait or read all the time, what they read differs by two extents at
// most.
func TestFairness(t *testing.T) {
	const extent = 32
	runs := 300
	if testing.Short() {
		runs = 30
	}
	for seed := range runs {
		rnd := rand.New(rand.NewPCG(2, uint64(seed)))
		q := queue{least: rnd.Int64N(extent / 2)}
		all := make([]*contestant, 2+rnd.IntN(5))
		for i := range all {
			all[i] = &contestant{entry: entry{class: []Class{Demand, Demand, Demand, Warming}[rnd.IntN(4)]}, busy: -1}
		}
		// Some always read little, some always full extents.
		size := func(i int) int64 {
			if i%2 == 0 {
				return extent
			}
			return q.least + rnd.Int64N(extent-q.least+1)
		}
		lead := map[[2]int]*span{}
		for step := range 2000 {
			i := rnd.IntN(len(all))
			c := all[i]
			waits := slices.Contains(q.line(c.class).waiting, &c.entry)
			switch {
			case q.holder[reads] == &c.entry:
				n := size(i)
				q.end(&c.entry, n)
				c.bytes += n
				if rnd.IntN(10) > 0 {
					q.ask(&c.entry)
				} else {
					c.busy = -1
				}
			case waits && rnd.IntN(40) == 0:
				q.cancel(&c.entry)
				c.busy = -1
			case !waits:
				q.ask(&c.entry)
				c.busy = step
			}
			q.grant()
			if err := checkLeads(all, lead, 2*extent); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

// span is how far one reader was ahead of another, at most and at least, since a
// certain step.
type span struct {
	since     [2]int
	low, high int64
}

func checkLeads(all []*contestant, lead map[[2]int]*span, bound int64) error {
	for i, a := range all {
		for j, b := range all[:i] {
			key := [2]int{i, j}
			if a.class != b.class || a.busy < 0 || b.busy < 0 {
				delete(lead, key)
				continue
			}
			d := a.bytes - b.bytes
			s := lead[key]
			if s == nil || s.since != [2]int{a.busy, b.busy} {
				lead[key] = &span{[2]int{a.busy, b.busy}, d, d}
				continue
			}
			s.low, s.high = min(s.low, d), max(s.high, d)
			if s.high-s.low > bound {
				return fmt.Errorf("%d and %d, busy since steps %v, differ by %d bytes", i, j, s.since, s.high-s.low)
			}
		}
	}
	return nil
}

// Whoever reads nothing in its turns is not always first.
func TestEmptyTurnsCount(t *testing.T) {
	q := queue{least: 2}
	empty, full := &entry{}, &entry{}
	turns := map[*entry]int{}
	q.ask(empty)
	q.ask(full)
	for range 1000 {
		e := q.grant()
		turns[e]++
		if e == full {
			q.end(e, 32)
		} else {
			q.end(e, 0)
		}
		q.ask(e)
	}
	if turns[full] < 1000/18 || turns[full] > 1000/16 {
		t.Errorf("%d turns of 32 bytes among %d empty ones that count as 2", turns[full], turns[empty])
	}
}

// A reader that comes, or comes back, has no claim to what it did not use.
func TestIdleHasNoClaim(t *testing.T) {
	q := queue{}
	old, late := &entry{}, &entry{}
	turn := func(e *entry, bytes int64) {
		if got := q.grant(); got != e {
			t.Fatal("the turn goes to the other one")
		}
		q.end(e, bytes)
	}
	for range 100 {
		q.ask(old)
		turn(old, 10)
	}
	for range 2 { // as a newcomer, and after a rest
		q.ask(late)
		q.ask(old)
		for range 10 {
			turn(late, 10)
			q.ask(late)
			turn(old, 10)
			q.ask(old)
		}
		q.cancel(late)
		for range 100 {
			turn(old, 10)
			q.ask(old)
		}
		q.cancel(old)
	}
}

// TestFlows: however many readers a user has, another one with a single one reads as
// much; and a user's own share alike.
func TestFlows(t *testing.T) {
	q := queue{least: 1}
	many, one := &flow{}, &flow{}
	read := map[*entry]int64{}
	byFlow := map[*flow]int64{}
	var all []*entry
	for i := range 11 {
		e := &entry{flow: many}
		if i == 0 {
			e.flow = one
		}
		all = append(all, e)
	}
	alone := &entry{} // of nobody
	for _, e := range append(all, alone) {
		q.ask(e)
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		e := q.grant()
		n := 1 + rnd.Int64N(10)
		q.end(e, n)
		read[e] += n
		byFlow[e.flow] += n
		if rnd.IntN(10) == 0 {
			q.ask(e)
			q.cancel(e)
		}
		q.ask(e)
	}
	for name, c := range map[string][2]int64{
		"users": {byFlow[many], byFlow[one]}, "a user and a reader of nobody": {byFlow[one], read[alone]},
		"readers of one user": {read[all[1]], read[all[10]]},
	} {
		if d := c[0] - c[1]; d < -20 || d > 20 {
			t.Errorf("%s read %d and %d", name, c[0], c[1])
		}
	}
}

// TestReaderFor: what is known of a user's readers ends with the last of them.
func TestReaderFor(t *testing.T) {
	var s Scheduler
	d := Device{ID: 7}
	a, b, c := s.ReaderFor(5, d, Demand, "a"), s.ReaderFor(5, d, Demand, "b"), s.ReaderFor(6, d, Demand, "c")
	if a.entry.flow != b.entry.flow || a.entry.flow == c.entry.flow {
		t.Error("readers are with those of another user")
	}
	for _, r := range []*Reader{a, b, c} {
		turn, err := r.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		turn.End(1)
		r.Close()
	}
	if n := len(s.devices[7].flows); n != 0 {
		t.Errorf("%d are left", n)
	}
}
