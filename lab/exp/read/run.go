package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"headrace/internal/linux"
	"headrace/lab/pages"
	"headrace/lab/rig"
	"headrace/lab/work"
)

// readTime is a bound for a run that does not come to an end.
const readTime = 15 * time.Minute

// Run is one case with one method. Times are seconds from the first submission,
// sizes bytes.
type Run struct {
	Place string `json:"place"`
	Case
	Method string `json:"method"`
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int `json:"repeat"`
	Order  int `json:"order"`

	// Took is the time until the last consumer had ended.
	Took float64 `json:"took"`
	// Bytes were given to consumers, Size is the sum of the files' sizes, each
	// counted once. Disk is what was read from the disk.
	Bytes int64         `json:"bytes"`
	Size  int64         `json:"size"`
	Disk  rig.DiskCount `json:"disk"`
	// CPU is the processor time of all processes, Own the consumers' part and Daemon
	// that of the daemon. Instrument is that of the modelled disk, beside them.
	CPU        float64 `json:"cpu"`
	Own        float64 `json:"own"`
	Daemon     float64 `json:"daemon,omitempty"`
	Instrument float64 `json:"instrument,omitempty"`
	// Ends are the consumers' finishing times in their order.
	Ends []float64 `json:"ends,omitempty"`
	// Cached is the most that was in memory of the files at any time; it is asked
	// for only where memory is limited.
	Cached int64 `json:"cached,omitempty"`

	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (r Run) In() (repeat int, failure string) { return r.Repeat, r.Failure }

// runner carries out runs at one place.
type runner struct {
	h     *rig.Bench
	place *rig.Disk
}

// run drops the files from memory and lets the method read them.
func (r *runner) run(ctx context.Context, m readMethod, jobs []readJob, limit int64) (out Run, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	paths := filesOf(jobs)
	if err := rig.ChillSoon(ctx, paths); err != nil {
		return out, err
	}
	g, err := r.h.Disk.NewGroup(limit)
	if err != nil {
		return out, err
	}
	s, err := m.begin(ctx, g, jobs)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	before, err := r.counters(g, s)
	if err != nil {
		return out, err
	}
	cached := func() int64 { return 0 }
	if limit > 0 {
		cached = sampleResident(ctx, paths)
	}
	told, took, err := readAll(ctx, s, jobs)
	out.Cached = cached()
	if err != nil {
		return out, err
	}
	after, err := r.counters(g, s)
	if err != nil {
		return out, err
	}
	out.Took = took
	out.Disk = after.disk.Since(before.disk)
	out.CPU, out.Daemon, out.Instrument = after.cpu-before.cpu, after.daemon-before.daemon, after.instrument-before.instrument
	return out, r.account(&out, s, jobs, told)
}

// readCounters are what a run is measured by.
type readCounters struct {
	disk                    rig.DiskCount
	cpu, daemon, instrument float64
}

func (r *runner) counters(g *rig.Group, s readSession) (c readCounters, err error) {
	if c.cpu, err = g.Used(); err != nil {
		return c, err
	}
	if c.instrument, err = r.place.InstrumentCPU(); err != nil {
		return c, err
	}
	c.daemon = s.daemon()
	c.disk, err = r.place.Count()
	return c, err
}

// account checks what the consumers have told and adds it up: every record of
// every job once.
func (r *runner) account(out *Run, s readSession, jobs []readJob, told readTold) error {
	for i, j := range jobs {
		out.Bytes += j.file.Bytes
		var all work.Tally
		for _, c := range told.jobs[i] {
			all = all.Plus(c.Tally)
			out.Own += c.CPU
			out.Ends = append(out.Ends, c.Ended-told.start)
		}
		if s.count() && all != j.file.All {
			return fmt.Errorf("%w: the consumers of job %d were given OTHER RECORDS than the file has: %+v, want %+v", rig.ErrWrong, i, all, j.file.All)
		}
	}
	if !s.count() {
		out.Own = out.CPU // what it does not tell itself
	}
	slices.Sort(out.Ends)
	seen := map[string]bool{}
	for _, j := range jobs {
		if !seen[j.file.Path] {
			seen[j.file.Path] = true
			out.Size += j.file.Bytes
		}
	}
	return nil
}

// readTold is what the consumers of each job have told.
type readTold struct {
	start float64 // of the run
	jobs  [][]work.Consumed
}

// readAll submits the jobs at their times and waits for their ends. took is up to
// the last one.
func readAll(ctx context.Context, s readSession, jobs []readJob) (told readTold, took float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told.jobs = make([][]work.Consumed, len(jobs))
	ends, errs := make([]time.Duration, len(jobs)), make([]error, len(jobs))
	now, start := time.Now(), linux.Clock()
	var all sync.WaitGroup
	for i, j := range jobs {
		all.Go(func() {
			if errs[i] = rig.WaitUntil(ctx, now.Add(j.after)); errs[i] == nil {
				told.jobs[i], ends[i], errs[i] = s.job(ctx, j)
			}
			if errs[i] != nil {
				cancel() // the others would be measured in vain
			}
		})
	}
	all.Wait()
	told.start = start.Seconds()
	return told, (slices.Max(ends) - start).Seconds(), firstCause(errs)
}

// firstCause joins the errors, without those that only say that another job had
// failed.
func firstCause(errs []error) error {
	real := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil || errors.Is(err, context.Canceled) })
	if len(real) == 0 {
		real = errs
	}
	return errors.Join(real...)
}

func filesOf(jobs []readJob) []string {
	var paths []string
	for _, j := range jobs {
		if !slices.Contains(paths, j.file.Path) {
			paths = append(paths, j.file.Path)
		}
	}
	return paths
}

// lookEvery is how often it is looked how much of the files is in memory.
const lookEvery = 50 * time.Millisecond

// sampleResident looks at how much of the files is in memory until the returned
// function is called, which returns the most.
func sampleResident(ctx context.Context, paths []string) func() int64 {
	samples := rig.Sample(ctx, lookEvery, func(context.Context) (int64, bool) {
		n, err := pages.Resident(paths)
		return n, err == nil
	})
	return func() int64 { return slices.Max(append(samples(), 0)) }
}
