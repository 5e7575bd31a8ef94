package deal

import (
	"slices"
	"testing"

	"headrace/fileset"
	"headrace/stream/protocol"
)

// dealerOf deals n units of one file to some consumers.
func dealerOf(t *testing.T, n, consumers int) *Dealer {
	t.Helper()
	p := &Plan{Rule: Rule{Split: Raw}}
	if err := p.Add("f", fileset.Identity{Size: 1 << 30}, protocol.Plain); err != nil {
		t.Fatal(err)
	}
	if int(p.Units) < n {
		t.Fatalf("%d units", p.Units)
	}
	return New(p, consumers, nil)
}

func replayed(t *testing.T, entries ...Entry) *Dealer {
	t.Helper()
	d := dealerOf(t, 4, 2)
	for i := range entries {
		if err := d.Replay(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	d.Await()
	return d
}

func attach(t *testing.T, d *Dealer, consumer, attempt uint32, units ...uint32) {
	t.Helper()
	if err := d.Attach(&protocol.Hello{Consumer: consumer, Attempt: attempt, Units: units, Whole: true}, d.plan.TotalBytes(units)); err != nil {
		t.Fatal(err)
	}
}

// TestStaleList: what a consumer had when it left once is not what it has when it came back
// and gave a unit away, and the dealer started again.
func TestStaleList(t *testing.T) {
	d := replayed(t,
		Entry{Kind: Attached, Consumer: 0, Attempt: 1},
		Entry{Kind: Attached, Consumer: 1, Attempt: 1},
		Entry{Kind: Left, Consumer: 0, Attempt: 1, Units: []uint32{0, 1}},
		Entry{Kind: Attached, Consumer: 0, Attempt: 1}, // with unit 0 only: 1 has never come
	)
	attach(t, d, 1, 1, 1)
	attach(t, d, 0, 1, 0)
	for id := range uint32(2) {
		if is := d.Units.state[id]; is != leased {
			t.Errorf("unit %d is in state %d", id, is)
		}
	}
}

// TestEndOfAnEarlierAttempt: the end of an attempt that was written down after the next one
// had come ends the earlier one only.
func TestEndOfAnEarlierAttempt(t *testing.T) {
	t.Run("given up", func(t *testing.T) {
		d := dealerOf(t, 4, 2)
		attach(t, d, 0, 1, 0)
		e := d.Fence(0, 1, false)
		if _, err := d.Coming(&protocol.Hello{Consumer: 0, Attempt: 2}); err != ErrLater {
			t.Fatalf("the next attempt may come before the end is durable: %v", err)
		}
		d.Written(e, true)
		attach(t, d, 0, 2, 1)
		if d.Units.state[0] != todo || d.Units.state[1] != leased {
			t.Errorf("units are in states %d and %d", d.Units.state[0], d.Units.state[1])
		}
	})
	t.Run("replay, given up", func(t *testing.T) {
		d := replayed(t,
			Entry{Kind: Attached, Consumer: 0, Attempt: 1},
			Entry{Kind: Attached, Consumer: 0, Attempt: 2},
			Entry{Kind: Failed, Consumer: 0, Attempt: 1},
		)
		attach(t, d, 0, 2, 3)
	})
	t.Run("replay, done", func(t *testing.T) {
		d := replayed(t,
			Entry{Kind: Finished, Consumer: 0, Attempt: 1, Units: []uint32{2, 3}},
			Entry{Kind: Attached, Consumer: 0, Attempt: 2},
		)
		attach(t, d, 0, 2)
		if d.Units.Undealt() != int(d.plan.Units) {
			t.Error("a second attempt cannot be given what the first had")
		}
	})
	t.Run("the next one is coming", func(t *testing.T) {
		d := dealerOf(t, 4, 2)
		attach(t, d, 0, 1, 0)
		if _, err := d.Coming(&protocol.Hello{Consumer: 0, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		if e, err := d.Finishing(0, 0); err != ErrLater {
			t.Errorf("an end comes to stand in the journal behind what has come after it: %v, %v", e, err)
		}
	})
}

// TestEndThatDoesNotCount: an attempt that has said that it ended may come back from a checkpoint
// that is older, for its task has not ended. It goes on there, and what it had after that is dealt again, once.
func TestEndThatDoesNotCount(t *testing.T) {
	for _, code := range []int32{0, 143} {
		for _, whole := range []bool{true, false} {
			d := dealerOf(t, 4, 2)
			attach(t, d, 0, 1, 0, 1, 2)
			e, err := d.Finishing(0, code)
			if err != nil {
				t.Fatal(err)
			}
			if code == 0 {
				d.Written(e, true)
			} else {
				d.Detach(0)
			}
			d.Effects()
			h := &protocol.Hello{Consumer: 0, Attempt: 1, Units: []uint32{0, 1}, Whole: whole}
			if e, err = d.Coming(h); err != nil {
				t.Fatal(err)
			}
			d.Written(e, true)
			if err := d.Attach(h, d.plan.TotalBytes(h.Units)); err != nil {
				t.Fatal(err)
			}
			var brought []uint32
			for _, x := range d.Effects() {
				if x.Act == Fetch {
					brought = append(brought, x.Unit)
				}
			}
			if want := []uint32{1}; whole && brought != nil || !whole && !slices.Equal(brought, want) {
				t.Errorf("code %d, whole %v: units %v are brought", code, whole, brought)
			}
			if is := d.Units.state; is[0] != leased || is[1] != leased || is[2] != todo || d.returning() {
				t.Errorf("code %d: units are in states %v", code, is[:3])
			}
		}
	}
}

// TestFailing: as long as it is open whether an attempt that has failed comes back, nobody is told that nothing is left.
func TestFailing(t *testing.T) {
	for name, settle := range map[string]func(d *Dealer){
		"given up":     func(d *Dealer) { d.Written(d.Fence(0, 1, false), true) },
		"kept for it":  func(d *Dealer) { d.Absent(0, 1) },
		"it is back":   func(d *Dealer) { attach(t, d, 0, 1, 0) },
		"the next one": func(d *Dealer) { attach(t, d, 0, 2) },
	} {
		d := dealerOf(t, 2, 2)
		var rest []uint32
		for id := range d.plan.Units - 1 {
			rest = append(rest, id+1)
		}
		attach(t, d, 0, 1, 0)
		attach(t, d, 1, 1, rest...)
		if e, err := d.Finishing(0, 1); e != nil || err != nil {
			t.Fatal(e, err)
		}
		d.Detach(0)
		if err := d.Ask(1); err != nil {
			t.Fatal(err)
		}
		d.Deal()
		if x := d.Effects(); len(x) > 0 {
			t.Errorf("%s: did %v before it is known", name, x)
		}
		settle(d)
		d.Deal()
		told := slices.ContainsFunc(d.Effects(), func(x Effect) bool { return x.Act == End && x.Consumer == 1 })
		if back := d.Units.Undealt() > 0; told == back {
			t.Errorf("%s: units are back: %v, and the other is told that nothing is left: %v", name, back, told)
		}
	}
}

// TestAbsent: nobody waits for a consumer without processes, whose units are kept for it as
// they were when it came from its checkpoint.
func TestAbsent(t *testing.T) {
	for _, c := range []struct {
		name    string
		journal []Entry
		present map[uint32][]uint32 // who comes, with what
		absent  []uint32
		dealt   bool
		leased  []uint32
		awaited []int
	}{
		{"the only one", []Entry{{Kind: Attached, Consumer: 1, Attempt: 1, Units: []uint32{2, 0}}}, nil, []uint32{1}, true, []uint32{0, 2}, nil},
		{"of an older daemon", []Entry{{Kind: Left, Consumer: 1, Attempt: 1, Units: []uint32{2}}, {Kind: Attached, Consumer: 1, Attempt: 1}}, nil, []uint32{1}, true, []uint32{2}, nil},
		{"not known what it had", []Entry{{Kind: Attached, Consumer: 1, Attempt: 1}}, nil, []uint32{1}, false, nil, []int{1}},
		{"an earlier attempt's", []Entry{{Kind: Attached, Consumer: 1, Attempt: 1, Units: []uint32{2}}, {Kind: Attached, Consumer: 1, Attempt: 2}}, nil, []uint32{1}, false, nil, []int{1}},
		{"it gave one away", []Entry{
			{Kind: Attached, Consumer: 1, Attempt: 1, Units: []uint32{0, 1}}, {Kind: Attached, Consumer: 0, Attempt: 1},
		}, map[uint32][]uint32{0: {1}}, []uint32{1}, true, []uint32{0, 1}, nil},
		{"another one may come", []Entry{
			{Kind: Attached, Consumer: 1, Attempt: 1, Units: []uint32{0, 1}}, {Kind: Attached, Consumer: 0, Attempt: 1},
		}, nil, []uint32{1}, false, nil, []int{0}},
		{"two claim one", []Entry{
			{Kind: Attached, Consumer: 1, Attempt: 1, Units: []uint32{0, 1}}, {Kind: Attached, Consumer: 0, Attempt: 1, Units: []uint32{1}},
		}, nil, []uint32{0, 1}, false, nil, []int{0, 1}},
		{"one was committed", []Entry{
			{Kind: Attached, Consumer: 1, Attempt: 1, Units: []uint32{0, 1}}, {Kind: Finished, Consumer: 0, Attempt: 1, Units: []uint32{1}},
		}, nil, []uint32{1}, true, []uint32{0}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := replayed(t, c.journal...)
			for _, i := range c.absent {
				d.Absent(i, d.Attempt(i))
			}
			for i, units := range c.present {
				attach(t, d, i, 1, units...)
			}
			if dealt := d.Deal(); dealt != c.dealt {
				t.Fatalf("dealt: %v", dealt)
			}
			if got := d.Awaited(); !slices.Equal(got, c.awaited) {
				t.Errorf("%v are waited for, want %v", got, c.awaited)
			}
			var is []uint32
			for id, s := range d.Units.state {
				if s == leased {
					is = append(is, uint32(id))
				}
			}
			if !slices.Equal(is, c.leased) {
				t.Errorf("leased are %v, want %v", is, c.leased)
			}
			if c.dealt { // it comes back as it was, or from an older checkpoint
				attach(t, d, 1, d.Attempt(1), d.consumers[1].units...)
				if d.unknown != 0 {
					t.Errorf("%d are waited for", d.unknown)
				}
			}
		})
	}
}

// TestManyUnitsReturn: a consumer that had very many units and has none of them any more is no
// more work for who reads them than one that had two.
func TestManyUnitsReturn(t *testing.T) {
	p := &Plan{Rule: Rule{Split: Raw}}
	if err := p.Add("f", fileset.Identity{Size: 1 << 40}, protocol.Plain); err != nil {
		t.Fatal(err)
	}
	d := New(p, 1, nil)
	all := make([]uint32, p.Units)
	for i := range all {
		all[i] = uint32(i)
	}
	for name, end := range map[string]func(attempt uint32){
		"they are not on its list": func(attempt uint32) { attach(t, d, 0, attempt) },
		"it is given up":           func(attempt uint32) { d.Written(d.Fence(0, attempt, false), true) },
		"another attempt comes":    func(attempt uint32) { attach(t, d, 0, attempt+1) },
	} {
		attempt := d.Attempt(0) + 1
		attach(t, d, 0, attempt, all...)
		d.Effects()
		end(attempt)
		if does := d.Effects(); len(does) != 1 || does[0].Act != Return {
			t.Errorf("%s: there are %d things to be done", name, len(does))
		}
		if n := d.Units.Remaining(0); n != p.Units || d.Units.Undealt() != int(n) {
			t.Errorf("%s: %d units of %d have come back, %d are counted", name, n, p.Units, d.Units.Undealt())
		}
	}
}
