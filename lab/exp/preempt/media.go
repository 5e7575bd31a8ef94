package preempt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/report"
	"headrace/sim"
)

// simMedia are the stores of `bench preempt` that the simulator knows by other
// names: the bandwidths are those of checkpoint-preemption, table 3, where 5 GB
// are dumped in 169, 43.7 and 2.92 s.
var simMedia = []struct{ name, store, about string }{
	{"hdd", rig.StoreName(30e6), "storage throttled to 30 MB/s"},
	{"ssd", rig.StoreName(100e6), "storage throttled to 100 MB/s"},
	{"nvm", rig.StoreMemory, "memory (tmpfs)"},
	{"disk", rig.StoreDisk, "the disk of this machine"},
}

// smallDump is how large a checkpoint may be so that its time is mostly overhead,
// largeDump how large it has to be so that it is mostly not.
const (
	smallDump = 16e6
	largeDump = 128e6
)

// Measurements returns what the results say about media and mechanisms, for the
// simulator. Experiments a and c are needed; d makes them better.
func (r *Results) Measurements() (sim.Measurements, error) {
	m := sim.Measurements{From: fmt.Sprintf("headrace-lab bench preempt (%s), %s, on %d × %s with Linux %s, CRIU %s",
		r.Machine.Headrace, r.Started.UTC().Format(time.DateOnly), r.Machine.Processors, r.Machine.Processor, r.Machine.Kernel, r.Machine.CRIU)}
	moves := r.moves()
	dump, restore := overheadOf(moves, true), overheadOf(moves, false)
	if math.IsNaN(dump) || math.IsNaN(restore) {
		return m, errors.New("the results have no checkpoints of small tasks, which tell the overhead: run experiment a as well")
	}
	for _, x := range simMedia {
		write, read := achieved(moves, x.store, true, dump), achieved(moves, x.store, false, restore)
		if write.N == 0 || read.N == 0 {
			continue
		}
		medium := sim.MeasuredMedium{Moving: math.Round(movingOf(moves, x.store)*1000) / 1000}
		medium.Medium = sim.Medium{Name: x.name, Write: write.Median, Read: read.Median, DumpOverhead: roundTime(dump), RestoreOverhead: roundTime(restore)}
		how := fmt.Sprintf("medians of %d dumps and %d restores of at least %s, less the overhead, which is that of checkpoints of less than %s (experiments a, c, d)",
			write.N, read.N, report.Bytes(largeDump), report.Bytes(smallDump))
		medium.Source = x.about + "; " + how
		m.Media = append(m.Media, medium)
	}
	if len(m.Media) == 0 {
		return m, errors.New("the results have no large checkpoints, which tell the bandwidths: run experiment c as well")
	}
	m.Swap = r.measuredSwap()
	var err error
	m.Costs, err = r.measuredCosts()
	return m, err
}

// move is one dump or restore. moving is how many processors a restore and the dump
// before it have kept busy.
type move struct {
	store  string
	dump   bool
	bytes  int64
	took   float64
	moving float64
}

// moves returns all that can be told apart: of runs with one dump and one restore.
func (r *Results) moves() []move {
	var out []move
	for _, x := range r.Runs {
		if x.Failure != "" {
			continue
		}
		dumping, restoring := segmentsOf(x, report.Checkpointing), segmentsOf(x, report.Restoring)
		store := x.Point.Store
		if store == "" {
			store = rig.StoreDisk
		}
		if len(dumping) != 1 || len(restoring) != 1 {
			continue
		}
		there := move{store: store, dump: true, bytes: x.Dumped, took: rig.Length(dumping[0])}
		back := move{store: store, bytes: x.Restored, took: rig.Length(restoring[0])}
		back.moving = x.OverheadCPU / (there.took + back.took)
		// Under a limit of memory a dump waits for what it reads to be paged in.
		if x.Experiment != expDirty {
			out = append(out, there)
		}
		out = append(out, back)
	}
	for _, d := range r.Dumps {
		if d.Failure == "" {
			out = append(out, move{store: d.Store, dump: true, bytes: d.FirstBytes, took: d.First})
		}
	}
	return out
}

// segmentsOf returns those of a kind, of the low-priority task.
func segmentsOf(r Run, k report.Kind) []report.Segment {
	var out []report.Segment
	for _, lane := range r.Lanes {
		if lane.Strong {
			continue
		}
		for _, s := range lane.Segments {
			if s.Kind == k {
				out = append(out, s)
			}
		}
	}
	return out
}

// counted is a median and of how many values.
type counted struct {
	sample.Spread
	N int
}

func countedOf(values []float64) counted { return counted{sample.SpreadOf(values), len(values)} }

// overheadOf returns the time of a dump or a restore that has next to nothing to move.
func overheadOf(moves []move, dump bool) float64 {
	var values []float64
	for _, m := range moves {
		if m.dump == dump && m.bytes > 0 && m.bytes < smallDump {
			values = append(values, m.took)
		}
	}
	return sample.SpreadOf(values).Median
}

// achieved returns the bandwidth of large dumps or restores at a store.
func achieved(moves []move, store string, dump bool, overhead float64) counted {
	var values []float64
	for _, m := range moves {
		if m.store == store && m.dump == dump && m.bytes >= largeDump && m.took > overhead {
			values = append(values, float64(m.bytes)/(m.took-overhead))
		}
	}
	return countedOf(values)
}

// movingOf returns how many processors large dumps and restores have kept busy.
func movingOf(moves []move, store string) float64 {
	var values []float64
	for _, m := range moves {
		if m.store == store && !m.dump && m.bytes >= largeDump {
			values = append(values, m.moving)
		}
	}
	return sample.SpreadOf(values).Median
}

// measuredSwap returns what the daemons have measured, or else what paging has cost the
// runs of experiment b.
func (r *Results) measuredSwap() sim.MeasuredSwap {
	for _, s := range r.Setups {
		if s.SwapOut > 0 && s.SwapIn > 0 {
			return sim.MeasuredSwap{Out: s.SwapOut, In: s.SwapIn, Source: "a swap file on the disk of this machine, as a daemon measured its paging during experiment b"}
		}
	}
	var values []float64
	for _, x := range r.good(expDirty).By("suspend") {
		for _, w := range r.good(expDirty).at(x.Point).By("wait") {
			if longer := x.Makespan - w.Makespan; w.Repeat == x.Repeat && longer > 0 && x.PagedOut+x.PagedIn > largeDump {
				values = append(values, float64(x.PagedOut+x.PagedIn)/longer)
			}
		}
	}
	if len(values) == 0 {
		return sim.MeasuredSwap{}
	}
	v := sample.SpreadOf(values).Median
	return sim.MeasuredSwap{Out: v, In: v, Source: fmt.Sprintf("a swap file on the disk of this machine; one figure for both directions: bytes paged out and in over the time by which suspend took longer than wait, median of %d runs of experiment b", len(values))}
}

// measuredCosts are read off the timelines, which have milliseconds.
func (r *Results) measuredCosts() (sim.MeasuredCosts, error) {
	var start, stop, kill, resume []float64
	for _, x := range r.Runs {
		if x.Failure != "" || len(x.Lanes) != 2 {
			continue
		}
		urgent, low := x.Lanes[0].Segments, x.Lanes[1].Segments
		if len(urgent) == 0 || len(low) == 0 {
			continue
		}
		if low[0].Kind == report.Waiting {
			start = append(start, rig.Length(low[0]))
		}
		for _, s := range low {
			switch {
			case s.Kind == report.Lost && x.Mechanism == "kill":
				kill = append(kill, s.End-x.Arrived)
			case s.Kind == report.Suspended && x.Mechanism == "suspend":
				stop = append(stop, s.Start-x.Arrived)
				resume = append(resume, s.End-urgent[len(urgent)-1].End)
			}
		}
	}
	if len(kill) == 0 || len(stop) == 0 || len(start) == 0 {
		return sim.MeasuredCosts{}, errors.New("the results have no runs of the policies kill and suspend, which tell their costs: run experiment a as well")
	}
	return sim.MeasuredCosts{Start: medianTime(start), Stop: medianTime(stop), Kill: medianTime(kill), Resume: medianTime(resume),
		Source: fmt.Sprintf("medians from the timelines of %d starts, %d stops and resumes, and %d kills, of small and large tasks alike; "+
			"stop and kill from the arrival of the urgent task, resume from its end, start from the submission", len(start), len(stop), len(kill))}, nil
}

func medianTime(values []float64) time.Duration {
	return roundTime(max(0, sample.SpreadOf(values).Median))
}

func roundTime(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Microsecond)
}

func (r *Results) mediaFile() ([]byte, error) {
	m, err := r.Measurements()
	if err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	return b.Bytes(), nil
}
