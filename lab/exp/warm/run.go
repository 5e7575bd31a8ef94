package warm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headrace/lab/pages"
	"headrace/lab/rig"
	"headrace/lab/work"
	"headrace/wire"
)

// The ways to replay that are compared.
const (
	modeCold    = "cold"    // nothing is warmed
	modeWarmed  = "warmed"  // inputs are warmed while jobs wait
	modeFIFO    = "fifo"    // the same, the job submitted first goes first
	modeDelayed = "delayed" // as warmed, held back for twice as long
	modeIdeal   = "ideal"   // computed: as the disk would allow, see warmDisk
	modeRAM     = "in RAM"  // all inputs are locked in memory beforehand
)

// Replay is the workload once, in one mode. Times are seconds, sizes bytes.
type Replay struct {
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int    `json:"repeat"`
	Order  int    `json:"order"`
	Mode   string `json:"mode"`

	Jobs []ReplayedJob `json:"jobs,omitempty"`
	// Memory is what was kept for jobs, as the daemon told it.
	Memory []MemorySample `json:"memory,omitempty"`
	// Disk is what came from the disk.
	Disk      rig.DiskCount `json:"disk"`
	DaemonCPU float64       `json:"daemon_cpu"`

	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (x Replay) In() (repeat int, failure string) { return x.Repeat, x.Failure }

// ReplayedJob is one job of a replay. Times count from the first submission.
type ReplayedJob struct {
	Name      string  `json:"name"`
	Class     string  `json:"class"`
	Input     int64   `json:"input"`
	Submitted float64 `json:"submitted"`
	Duration  float64 `json:"duration"`
	// Reads are how long each block took to be read, Wholes with the computing.
	Reads  []float64 `json:"reads,omitempty"`
	Wholes []float64 `json:"wholes,omitempty"`
}

// MemorySample is what was kept in memory at a moment.
type MemorySample struct {
	At    float64 `json:"at"`
	Bytes int64   `json:"bytes"`
}

// warmTime is a bound for a replay that does not come to an end.
const warmTime = 5 * time.Minute

// replayer runs jobs whose inputs lie on a disk.
type replayer struct {
	h    *rig.Bench
	disk *rig.Disk
	plan *Plan
	jobs []replayJob
}

// daemonFor returns a daemon of its own for each replay: nothing is left of the one
// before.
func (r *replayer) daemonFor(ctx context.Context, mode string) (*rig.Daemon, error) {
	c := rig.DaemonConfig{Policy: "wait", Slots: r.plan.Slots, NoSwap: true}
	if mode == modeFIFO {
		c.Flags = []string{"--warm-fifo"}
	}
	return r.h.Start(ctx, c)
}

// with runs f against a daemon, with the files cold or held in memory as the mode
// wants.
func (r *replayer) with(ctx context.Context, mode string, paths []string, f func(context.Context, *rig.Daemon) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	if err := rig.ChillSoon(ctx, paths); err != nil {
		return err
	}
	if mode == modeRAM {
		release, err := pages.Hold(ctx, paths)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	d, err := r.daemonFor(ctx, mode)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, d), d.End())
}

// replay submits all jobs at their times and waits for their ends.
func (r *replayer) replay(ctx context.Context, mode string) (out Replay, err error) {
	err = r.with(ctx, mode, inputs(r.jobs), func(ctx context.Context, d *rig.Daemon) error {
		cpu := d.CPU()
		before, err := r.disk.Count()
		if err != nil {
			return err
		}
		start := time.Now()
		memory := sampleMemory(ctx, d, start)
		jobs, err := r.all(ctx, d, mode, start)
		out.Memory = memory()
		if err != nil {
			return err
		}
		out.Jobs, out.DaemonCPU = jobs, d.CPU()-cpu
		after, err := r.disk.Count()
		out.Disk = after.Since(before)
		return err
	})
	return out, err
}

// all runs the jobs, each in a goroutine of its own.
func (r *replayer) all(ctx context.Context, d *rig.Daemon, mode string, start time.Time) ([]ReplayedJob, error) {
	out, errs := make([]ReplayedJob, len(r.jobs)), make([]error, len(r.jobs))
	var jobs sync.WaitGroup
	for i, j := range r.jobs {
		jobs.Go(func() {
			if errs[i] = rig.WaitUntil(ctx, start.Add(j.submit)); errs[i] == nil {
				out[i], errs[i] = r.one(ctx, d, mode, j, r.plan.mapper(j), start)
			}
		})
	}
	jobs.Wait()
	return out, errors.Join(errs...)
}

// one submits a job, waits for its end, and reads what it has written.
func (r *replayer) one(ctx context.Context, d *rig.Daemon, mode string, j replayJob, m work.Mapper, start time.Time) (ReplayedJob, error) {
	q := d.Workload(j.name, m.Args())
	if j.path != "" {
		q.Input = &wire.Input{Paths: []string{j.path}, NoWarm: mode == modeCold || mode == modeRAM}
	}
	submitted := time.Now()
	wait := leadHere
	if mode == modeDelayed {
		wait *= 2
	}
	id, err := d.SubmitHeld(ctx, q, wait)
	if err != nil {
		return ReplayedJob{}, err
	}
	t, err := d.Tasks.End(ctx, id)
	if err != nil {
		return ReplayedJob{}, fmt.Errorf("job %s: %w", j.name, err)
	}
	out := ReplayedJob{Name: j.name, Class: j.class, Input: j.input,
		Submitted: submitted.Sub(start).Seconds(), Duration: t.Ended.Sub(submitted).Seconds()}
	text, err := d.Check(ctx, t.Task, j.answer)
	if err != nil {
		return out, err
	}
	blocks, err := work.BlocksOf(text)
	for _, b := range blocks {
		out.Reads, out.Wholes = append(out.Reads, b.Read), append(out.Wholes, b.Whole)
	}
	return out, err
}

// sampleEvery is how often it is asked how much is kept in memory.
const sampleEvery = 50 * time.Millisecond

// sampleMemory asks until the returned function is called, which returns what was
// answered.
func sampleMemory(ctx context.Context, d *rig.Daemon, start time.Time) func() []MemorySample {
	return rig.Sample(ctx, sampleEvery, func(ctx context.Context) (MemorySample, bool) {
		info, err := d.Node.Info(ctx, &wire.InfoRequest{})
		if err != nil {
			return MemorySample{}, false // the jobs will tell if the daemon is gone
		}
		return MemorySample{At: time.Since(start).Seconds(), Bytes: info.Pinned}, true
	})
}
