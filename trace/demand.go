package trace

import (
	"time"

	"headrace/trace/workload"
)

// demand is how many CPUs would be busy over time if every task ran as soon as it is
// submitted: the mean in each of a bounded number of slots, which grow longer when
// the time does.
type demand struct {
	slot time.Duration
	// part is CPU-seconds in a slot, from tasks that are there for a part of it;
	// step is by how many CPUs more are busy in all of this slot than in the one
	// before.
	part, step []float64
}

const (
	demandSlot  = time.Minute
	demandSlots = 1 << 16
)

// add counts a task of some CPUs, from its submission on. Times are 0 or more; what
// is beyond the range of times is left out.
func (d *demand) add(from, run time.Duration, cpus float64) {
	if d.slot == 0 {
		d.slot = demandSlot
	}
	to := from + run
	if to < from {
		to = 1<<63 - 1
	}
	for int64(to/d.slot) >= demandSlots {
		d.coarsen()
	}
	a, b := int(from/d.slot), int(to/d.slot)
	d.part, d.step = workload.Grown(d.part, b+1), workload.Grown(d.step, b+1)
	if a == b {
		d.part[a] += run.Seconds() * cpus
		return
	}
	d.part[a] += (time.Duration(a+1)*d.slot - from).Seconds() * cpus
	d.part[b] += (to - time.Duration(b)*d.slot).Seconds() * cpus
	d.step[a+1] += cpus
	d.step[b] -= cpus
}

// coarsen makes the slots twice as long.
func (d *demand) coarsen() {
	sums := d.sums()
	d.slot *= 2
	clear(d.step)
	d.step = d.step[:(len(sums)+1)/2]
	d.part = d.part[:len(d.step)]
	clear(d.part)
	for i, v := range sums {
		d.part[i/2] += v
	}
}

// sums returns the CPU-seconds in each slot.
func (d *demand) sums() []float64 {
	sums := make([]float64, len(d.part))
	busy := 0.0
	for i := range sums {
		busy += d.step[i]
		sums[i] = d.part[i] + busy*d.slot.Seconds()
	}
	return sums
}

// peak returns the largest mean of a slot.
func (d *demand) peak() float64 {
	most := 0.0
	for _, v := range d.sums() {
		most = max(most, v/d.slot.Seconds())
	}
	return most
}
