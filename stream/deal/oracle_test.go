package deal

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"headrace/fileset"
	"headrace/stream/protocol"
)

// world is a dealer, its consumers, and an oracle that knows only who was given what,
// and looks through all of it for every answer.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	p       *Plan
	d       *Dealer
	warm    []int64 // of whole files, by unit
	hollow  []bool  // units without records
	journal []Entry

	seats   []*seat
	ready   []uint32
	empty   map[uint32]bool
	waiting []int
	// calm: nothing fails any more.
	calm bool
}

// seat is a consumer. What it has of its last unit is part, -1 for all.
type seat struct {
	attempt uint32
	// ended: nothing is left for it. done and failing: it has said that its attempt ended, with code 0 or
	// another. over: that was given up.
	linked, over, done, failing, ended bool
	// lost: a dealer that starts again knows that it was there, not what it had.
	lost bool
	// given is what the dealer has on its list, got what has come.
	given, got []uint32
	part       int64
	coming     bool // the last of given is on its way
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 77)), p: &Plan{Rule: Rule{Split: Raw}}, empty: map[uint32]bool{}}
	for i := range 1 + w.rng.IntN(12) {
		size := []int64{0, 1000, 300 << 10, 2 << 20}[w.rng.IntN(4)]
		codec := protocol.Codec(w.rng.IntN(4) / 3)
		if err := w.p.Add(fmt.Sprint(i), fileset.Identity{Dev: uint64(i % 2), Ino: uint64(i), Size: size}, codec); err != nil {
			t.Fatal(err)
		}
	}
	for range w.p.Units {
		w.warm = append(w.warm, w.rng.Int64N(3)*500)
		w.hollow = append(w.hollow, w.rng.IntN(5) == 0)
	}
	for range 1 + w.rng.IntN(4) {
		w.seats = append(w.seats, &seat{attempt: 1, part: -1})
	}
	w.d = w.dealer()
	return w
}

func (w *world) dealer() *Dealer {
	return New(w.p, len(w.seats), func(id uint32, _ int) int64 { return w.warm[id] })
}

// state returns where a unit is, from the lists.
func (w *world) state(id uint32) unitState {
	is := todo
	if w.empty[id] {
		is = empty
	}
	if slices.Contains(w.ready, id) {
		is = ready
	}
	for _, s := range w.seats {
		switch {
		case !slices.Contains(s.given, id):
		case s.done:
			is = done
		default:
			is = leased
		}
	}
	return is
}

func (w *world) whole(id uint32) bool { return w.p.whole(&w.p.Files[w.p.FileOf(id)]) }

// best returns the unit that is next for whoever is, by looking at all of them.
func (w *world) best() (id uint32, act Act, ok bool) {
	share := -1.0
	for u := range w.p.Units {
		if !w.whole(u) || w.state(u) != todo {
			continue
		}
		size := w.p.Files[w.p.FileOf(u)].Size
		now := 1.0
		if size > 0 {
			now = float64(w.warm[u]) / float64(size)
		}
		if now > share || now == share && now > 0 {
			id, share, act, ok = u, now, Read, true
		}
	}
	if !ok && len(w.ready) > 0 {
		return w.ready[0], Hand, true
	}
	return id, act, ok
}

// expect returns what the dealer has to do now for those who wait.
func (w *world) expect() (list []Effect) {
	if slices.ContainsFunc(w.seats, func(s *seat) bool { return s.lost }) {
		return nil
	}
	for len(w.waiting) > 0 {
		i := w.waiting[0]
		s := w.seats[i]
		x := Effect{Act: End, Consumer: uint32(i)}
		if id, act, ok := w.best(); ok {
			x.Unit, x.Act = id, act
			w.ready = slices.DeleteFunc(w.ready, func(u uint32) bool { return u == id })
		} else if w.left() {
			break
		}
		w.waiting = w.waiting[1:]
		if list = append(list, x); x.Act == End {
			s.ended = true
			continue
		}
		s.given = append(s.given, x.Unit)
		if s.coming = x.Act == Fetch; !s.coming {
			w.hand(s, x.Unit)
		}
	}
	return list
}

// left tells whether a unit may still come for those who wait.
func (w *world) left() bool {
	for u := range w.p.Units {
		if is := w.state(u); is == todo || is == ready {
			return true
		}
	}
	return slices.ContainsFunc(w.seats, func(s *seat) bool { return s.failing })
}

// hand is what a consumer does with a unit that comes.
func (w *world) hand(s *seat, id uint32) {
	if s.coming = false; s.part < 0 || s.got[len(s.got)-1] != id {
		s.got = append(s.got, id)
	}
	s.part = 0
}

// check deals, and compares everything.
func (w *world) check(what string, more ...Effect) {
	w.t.Helper()
	w.d.Deal()
	want := append(more, w.expect()...)
	got := slices.DeleteFunc(w.d.Effects(), func(x Effect) bool { return x.Act == Return || x.Act == Discard })
	if len(want)+len(got) > 0 && !reflect.DeepEqual(got, want) {
		w.t.Fatalf("%s: did %v, want %v", what, got, want)
	}
	for u := range w.p.Units {
		if w.d.Units.state[u] != w.state(u) {
			w.t.Fatalf("%s: unit %d is in state %d, want %d", what, u, w.d.Units.state[u], w.state(u))
		}
	}
	for i, s := range w.seats {
		if n, _ := w.d.Given(i); !s.lost && n != len(s.given) && !s.over {
			w.t.Fatalf("%s: consumer %d has %d units, want %v", what, i, n, s.given)
		}
	}
}

func (w *world) connect(i int) {
	s := w.seats[i]
	switch {
	case s.over || s.done && w.rng.IntN(3) == 0: // it starts from the beginning
		s.attempt++
		s.given, s.got, s.part = nil, nil, -1
	case !w.calm && w.rng.IntN(4) == 0: // it goes on from a checkpoint
		s.got, s.part = s.got[:w.rng.IntN(len(s.got)+1)], -1
		if len(s.got) > 0 {
			s.part = w.rng.Int64N(2) - 1
		}
	}
	s.over, s.done, s.failing, s.ended = false, false, false, false
	h := &protocol.Hello{Consumer: uint32(i), Attempt: s.attempt, Units: slices.Clone(s.got), Whole: s.part < 0, Position: uint64(max(0, s.part))}
	e, err := w.d.Coming(h)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(e)
	bytes, err := w.p.Measure(h.Units)
	if err == nil {
		err = w.d.Attach(h, bytes)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.unseat(i)
	s.linked, s.lost, s.given = true, false, slices.Clone(s.got)
	w.ready = slices.DeleteFunc(w.ready, func(u uint32) bool { return slices.Contains(s.got, u) })
	var more []Effect
	if n := len(s.got); n > 0 && s.part >= 0 {
		x := Effect{Fetch, uint32(i), s.got[n-1], s.part}
		if s.coming = true; w.whole(x.Unit) {
			x.Act, s.coming = Read, false
		}
		more = append(more, x)
	}
	w.check("connect", more...)
}

// write makes an entry durable.
func (w *world) write(e *Entry) {
	w.journal = append(w.journal, *e)
	w.d.Written(e, true)
}

func (w *world) unseat(i int) {
	w.seats[i].linked, w.seats[i].coming = false, false
	w.waiting = slices.DeleteFunc(w.waiting, func(c int) bool { return c == i })
}

func (w *world) disconnect(i int) {
	s := w.seats[i]
	if w.d.Detach(uint32(i)); w.rng.IntN(4) > 0 {
		w.write(w.d.Left(uint32(i), s.attempt))
	}
	w.unseat(i)
	w.check("disconnect")
}

func (w *world) use(i int) {
	s := w.seats[i]
	switch {
	case s.coming || slices.Contains(w.waiting, i):
	case s.part >= 0 && w.rng.IntN(3) == 0:
		s.part++
	case s.part >= 0:
		s.part = -1
		w.d.Consumed(uint32(i))
	case s.ended:
		code := int32(0)
		if !w.calm {
			code = int32(w.rng.IntN(4) / 3)
		}
		w.finish(i, code)
	default:
		if err := w.d.Ask(uint32(i)); err != nil {
			w.t.Fatal(err)
		}
		w.waiting = append(w.waiting, i)
	}
	w.check("use")
}

func (w *world) finish(i int, code int32) {
	s := w.seats[i]
	e, err := w.d.Finishing(uint32(i), code)
	if err != nil || (e == nil) != (code != 0) {
		w.t.Fatal(e, err)
	}
	if code != 0 {
		s.failing = true
		w.disconnect(i)
		return
	}
	w.write(e)
	w.unseat(i)
	s.done = true
}

func (w *world) giveUp(i int) {
	s := w.seats[i]
	if s.over {
		return
	}
	if s.done && w.d.Fence(uint32(i), s.attempt, true) != nil {
		w.t.Fatal("an attempt is given up that is done")
	}
	e := w.d.Fence(uint32(i), s.attempt, false)
	if _, err := w.d.Coming(&protocol.Hello{Consumer: uint32(i), Attempt: s.attempt}); err == nil {
		w.t.Fatal("an attempt came back that is being given up")
	}
	w.write(e)
	w.unseat(i)
	s.given, s.over, s.done, s.failing, s.lost = nil, true, false, false, false
	w.check("give up")
}

// arrive brings some unit that is wanted.
func (w *world) arrive() {
	for range 10 {
		id := uint32(w.rng.IntN(int(max(1, w.p.Units))))
		if w.p.Units == 0 || w.whole(id) || !w.d.Wanted(id) {
			continue
		}
		var more []Effect
		for i, s := range w.seats {
			if n := len(s.given); s.coming && s.given[n-1] == id {
				more = append(more, Effect{Hand, uint32(i), id, max(0, s.part)})
				w.hand(s, id)
			}
		}
		if w.hollow[id] {
			w.d.FoundEmpty(id)
			w.empty[id] = true
		} else {
			if len(more) == 0 && w.d.Present() > 0 {
				w.ready = append(w.ready, id)
			}
			w.d.Arrive(id)
		}
		w.check("arrive", more...)
		return
	}
}

// restart forgets all but the journal.
func (w *world) restart() {
	w.d = w.dealer()
	w.ready, w.waiting, w.empty = nil, nil, map[uint32]bool{}
	for i, s := range w.seats {
		w.unseat(i)
		if s.over {
			continue
		}
		s.given, s.lost, s.failing, s.ended = nil, false, false, false
	}
	for i := range w.journal {
		e := &w.journal[i]
		if err := w.d.Replay(e); err != nil {
			w.t.Fatal(err)
		}
		if s := w.seats[e.Consumer]; e.Attempt == s.attempt && !s.over {
			s.lost, s.given = e.Kind == Attached, e.Units
			if s.lost {
				s.given = nil // it says so itself
			}
		}
	}
	w.d.Await()
	w.checkFold()
	w.check("restart")
}

// checkFold sees that a folded journal says the same.
func (w *world) checkFold() {
	var f Fold
	for _, e := range w.journal {
		f.Add(e)
	}
	d := w.dealer()
	for _, e := range f.Entries() {
		if err := d.Replay(e); err != nil {
			w.t.Fatal(err)
		}
	}
	d.Await()
	if n := len(f.Entries()); n > len(w.seats) || !slices.Equal(d.Units.state, w.d.Units.state) || d.unknown != w.d.unknown {
		w.t.Fatalf("%d entries came to units %v and %d consumers that are waited for, want %v and %d",
			n, d.Units.state, d.unknown, w.d.Units.state, w.d.unknown)
	}
	for i, is := range d.consumers {
		want := w.d.consumers[i]
		if is.attempt != want.attempt || is.phase != want.phase || is.bytes != want.bytes ||
			!slices.Equal(is.units, want.units) || !slices.Equal(is.left, want.left) {
			w.t.Fatalf("consumer %d became %+v, want %+v", i, is, want)
		}
	}
}

// step does something at random.
func (w *world) step() {
	i := w.rng.IntN(len(w.seats))
	s := w.seats[i]
	switch n := w.rng.IntN(60); {
	case n < 3 && w.calm:
	case n == 0:
		w.restart()
	case n == 1:
		w.giveUp(i)
	case n == 2:
		w.ready = nil
		w.d.Release()
		w.check("release")
	case n < 25:
		w.arrive()
	case s.done && (n < 50 || w.calm): // it has done its work
	case !s.linked:
		w.connect(i)
	case n < 28:
		w.disconnect(i)
	default:
		w.use(i)
	}
}

// TestOracle deals at random, with consumers that come, go, fail and run again, and a
// dealer that starts again, and sees that each unit is where the oracle has it, and
// goes to whom it says. In the end every unit is with one that is done.
func TestOracle(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for range w.rng.IntN(800) {
			w.step()
		}
		w.calm = true
		for n := 0; slices.ContainsFunc(w.seats, func(s *seat) bool { return !s.done }); n++ {
			if n > 100000 {
				t.Fatalf("seed %d: no end: %v", seed, w.d.Units.count)
			}
			w.step()
		}
		for u := range w.p.Units {
			n := 0
			for _, s := range w.seats {
				for _, id := range s.given {
					if id == u {
						n++
					}
				}
			}
			if n > 1 || n == 0 && !w.empty[u] {
				t.Fatalf("seed %d: unit %d was read %d times", seed, u, n)
			}
		}
	}
}
