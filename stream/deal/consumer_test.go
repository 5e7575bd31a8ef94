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
		e := d.Fence(0, 1)
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
	t.Run("replay, committed", func(t *testing.T) {
		d := replayed(t,
			Entry{Kind: Attached, Consumer: 0, Attempt: 1},
			Entry{Kind: Attached, Consumer: 0, Attempt: 2}, // it has to come again: the first was finishing
			Entry{Kind: Finished, Consumer: 0, Attempt: 1, Units: []uint32{2, 3}},
		)
		attach(t, d, 0, 2)
		if !d.Replays(0) {
			t.Fatal("the second attempt does not get what the first has committed")
		}
		var got []uint32
		for range 2 {
			if err := d.Ask(0); err != nil {
				t.Fatal(err)
			}
			d.Deal()
			for _, x := range d.Effects() {
				if x.Act == Fetch {
					got = append(got, x.Unit)
					d.Arrive(x.Unit)
					d.Consumed(0)
				}
			}
		}
		if !slices.Equal(got, []uint32{2, 3}) {
			t.Errorf("it got %v", got)
		}
	})
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
