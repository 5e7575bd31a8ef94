package work

import (
	"flag"
	"fmt"
)

// The shares of a dirty task that its parts take are told from how much memory
// one second fills or reads back, and how much one second computes, roughly.
const (
	FillPerSecond  = 1.5e9
	checkPerSecond = 6e9
	roundsPerSec   = 25000.0
)

// dirty writes random values to all of its memory at the start, computes on a
// small part, and reads all of it back at the end: the worst case of
// os-assisted-preemption, section IV-C.
type dirty struct {
	bytes  Size
	rounds int64
	seed   uint64

	mem  words
	want uint64
}

func newDirty(fs *flag.FlagSet) work {
	d := &dirty{}
	fs.Var(&d.bytes, "bytes", "memory to fill")
	fs.Int64Var(&d.rounds, "rounds", 0, "passes over the small part between filling and reading back")
	fs.Uint64Var(&d.seed, "seed", 1, "of the random values")
	return d
}

func (d *dirty) run(m *meter) (uint64, error) {
	fill := float64(d.bytes) / FillPerSecond
	compute := float64(d.rounds) / roundsPerSec
	check := float64(d.bytes) / checkPerSecond
	all := fill + compute + check

	if err := d.fill(func(share float64) { m.set(share * fill / all) }); err != nil {
		return 0, err
	}
	spin := newSpinner(d.seed)
	for i := range d.rounds {
		spin.round()
		if i%16 == 0 {
			m.set((fill + float64(i)/roundsPerSec) / all)
		}
	}
	sum, err := d.check(func(share float64) { m.set((fill + compute + share*check) / all) })
	return fold(sum, spin.sum()), err
}

func (d *dirty) fill(tell func(share float64)) error {
	var err error
	if d.mem, err = allocate(int64(d.bytes)); err != nil {
		return err
	}
	for i := range d.mem.pages() {
		d.want = fold(d.want, fillPage(d.mem.page(i), pageSeed(d.seed, i, 0)))
		if i%1024 == 0 {
			tell(float64(i) / float64(d.mem.pages()))
		}
	}
	return nil
}

// check reads back what fill has written.
func (d *dirty) check(tell func(share float64)) (uint64, error) {
	var got uint64
	for i := range d.mem.pages() {
		got = fold(got, sumPage(d.mem.page(i)))
		if i%1024 == 0 {
			tell(float64(i) / float64(d.mem.pages()))
		}
	}
	if got != d.want {
		return 0, fmt.Errorf("memory came back changed: checksum %016x, filled with %016x", got, d.want)
	}
	return got, nil
}

// spinner is work on a small part: 64 KiB, so that it stays in the cache.
type spinner struct{ state []uint64 }

func newSpinner(seed uint64) *spinner {
	s := &spinner{state: make([]uint64, 8192)}
	fillPage(s.state, Random(seed))
	return s
}

// round is some 40 microseconds of arithmetic.
func (s *spinner) round() {
	carry := uint64(1)
	for i, v := range s.state {
		carry = (v ^ carry>>29) * 0xbf58476d1ce4e5b9
		s.state[i] = carry
	}
}

func (s *spinner) sum() uint64 {
	var sum uint64
	for _, v := range s.state {
		sum = fold(sum, v)
	}
	return sum
}
