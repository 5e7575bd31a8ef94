package warm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/trial"
	"headrace/lab/work"
	"headrace/report"
)

// Options says how much of the day is replayed, and how fast. The zero value is
// the whole of it, in about seven minutes on two processors.
type Options struct {
	trial.Options
	// Jobs is how many jobs of the day, from its beginning; 0: 150 (20 with Quick).
	Jobs int
	// Span is the time in which they are submitted; 0: 24 s (2 s with Quick).
	Span time.Duration
	// Place is the disk that the inputs lie on: modelled (the default) or device.
	Place string
}

func (o *Options) complete() error {
	o.Jobs = cmp.Or(o.Jobs, trial.Sized(o.Quick, 150, 20))
	o.Span = cmp.Or(o.Span, trial.Sized(o.Quick, 24*time.Second, 2*time.Second))
	if o.Jobs < 2 || o.Jobs > 5000 {
		return fmt.Errorf("%d jobs: want 2 to 5000", o.Jobs)
	}
	if o.Span < time.Second || o.Span > 24*time.Hour {
		return fmt.Errorf("a span of %v: want 1s to 24h", o.Span)
	}
	if err := rig.DiskNamed(&o.Place); err != nil {
		return err
	}
	return o.Options.Complete(experimentName, 3, 1)
}

const experimentName = "warm"

// Measure replays a part of a day of Facebook's cluster with inputs on one disk: cold,
// warmed by Headrace, and with all inputs in memory beforehand (ignem, section IV). It writes tables to Stdout and the files that were asked for. When
// ctx ends it stops, cleans up, reports what has been measured so far, and returns
// the cause. It needs root. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench warm: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	return o.Conduct(ctx, res, "the modelled disk and loop devices need it", func(p *report.Progress) error {
		h := o.Bench(p, &res.Circumstances)
		return h.With(func() error { return o.run(ctx, h, res) })
	})
}

func (o *Options) run(ctx context.Context, h *rig.Bench, res *Results) (err error) {
	plan, jobs, err := planWarm(o.Jobs, o.Span)
	if err != nil {
		return err
	}
	res.Plan = plan
	// The sort writes its input twice.
	bytes := plan.Input + sample.Sum(singleSizes(o.Quick)) + 3*sortBytes(o.Quick)
	if err := h.EnoughRoom(bytes); err != nil {
		return err
	}
	disk, err := h.OpenDisk(ctx, o.Place, bytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.StopDaemons(), disk.Close()) }()
	res.Disk = disk.About
	if disk.Model != nil {
		m := disk.Model.Model()
		res.Plan.Disk = warmDisk{Bandwidth: float64(m.Bandwidth), Seek: (m.Seek + m.Rotation).Seconds()}
	}
	r := &replayer{h: h, disk: disk, plan: &res.Plan, jobs: jobs}
	like := r.plan.mapper(replayJob{})
	if err := makeInputs(disk, jobs, like, func(share float64) { h.Say(0.05*share, "making the inputs") }); err != nil {
		return err
	}
	singles, err := r.makeSingles(o.Quick)
	if err != nil {
		return err
	}
	if res.Machine.Headrace, err = h.Version(ctx); err != nil {
		return err
	}
	h.Done, h.Todo = 0.05, 0.95
	return o.repeat(ctx, r, singles, res)
}

// entry is a replay in a mode, or a job alone.
type entry struct {
	mode string
	jobs int // of the replay; 0: the job is alone
	single
}

func (e entry) String() string {
	if e.jobs > 0 {
		return fmt.Sprintf("%d jobs, %s", e.jobs, e.mode)
	}
	return e.single.String()
}

// repeat runs everything once in each repeat, in another order each time: the replays,
// then the jobs alone.
func (o *Options) repeat(ctx context.Context, r *replayer, singles []single, res *Results) error {
	var entries []entry
	for _, mode := range []string{modeCold, modeWarmed, modeFIFO, modeRAM} {
		entries = append(entries, entry{mode: mode, jobs: len(r.jobs)})
	}
	modes := len(entries)
	for _, s := range singles {
		entries = append(entries, entry{single: s})
	}
	return trial.Rounds[entry, any]{Repeats: o.Repeats, Seed: o.Seed, Entries: entries, Say: r.h.Say,
		Order: func(random *rand.Rand) []int {
			order := random.Perm(modes)
			for _, i := range random.Perm(len(singles)) {
				order = append(order, modes+i)
			}
			return order
		},
		Run: func(e entry) (any, error) {
			if e.jobs > 0 {
				return r.replay(ctx, e.mode)
			}
			return r.single(ctx, e.single)
		},
		Keep: func(e entry, run any, t trial.Turn) {
			switch x := run.(type) {
			case Replay:
				x.Repeat, x.Order, x.Mode, x.Failure = t.Repeat, t.Order, e.mode, t.Failure
				if x.Failure != "" {
					x.Jobs, x.Memory = nil, nil
				}
				res.Replays = append(res.Replays, x)
			case Single:
				x.Repeat, x.Order, x.Failure = t.Repeat, t.Order-modes, t.Failure
				res.Singles = append(res.Singles, x)
			}
		},
	}.Do(ctx, &res.Circumstances)
}

// single is a job that runs alone.
type single struct {
	kind   string
	mode   string
	job    replayJob
	mapper work.Mapper
}

// Kinds of jobs that run alone.
const (
	kindWordcount = "wordcount"
	kindSort      = "sort"
)

func (s single) String() string {
	return fmt.Sprintf("%s of %s, %s", s.kind, report.Bytes(s.job.input), s.mode)
}

// Single is a job that ran alone.
type Single struct {
	Repeat   int     `json:"repeat"`
	Order    int     `json:"order"`
	Kind     string  `json:"kind"`
	Mode     string  `json:"mode"`
	Input    int64   `json:"input"`
	Duration float64 `json:"duration"`
	Failure  string  `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (s Single) In() (repeat int, failure string) { return s.Repeat, s.Failure }

// singleSizes returns the inputs of the word count: 1 to 12 GB in the paper (section
// IV.E), of which a server has an eighth; here with twice as much at the end,
// because a block that is warmed takes no detour over the network.
func singleSizes(quick bool) []int64 {
	if quick {
		return []int64{8 << 20}
	}
	return []int64{48 << 20, 192 << 20}
}

// sortBytes returns the input of the sort job: 40 GB (section IV.B), in whole records.
func sortBytes(quick bool) int64 {
	if quick {
		return 12 << 20
	}
	const bytes int64 = 40e9 / paperServers / shrink
	return bytes / work.SortedBytes * work.SortedBytes
}

// makeSingles makes the inputs of the jobs that run alone.
func (r *replayer) makeSingles(quick bool) ([]single, error) {
	var out []single
	add := func(kind string, bytes int64, modes ...string) error {
		j := replayJob{name: fmt.Sprintf("%s-%d", kind, bytes>>20), input: bytes}
		var err error
		if j.path, err = r.disk.MakeFile(j.name, bytes, uint64(bytes)); err != nil {
			return err
		}
		m := r.plan.mapper(j)
		if m.Words = kind == kindWordcount; kind == kindSort {
			m.Sort = r.disk.Dir
		}
		if j.answer, err = r.disk.AnswerOf(j.path, m); err != nil {
			return err
		}
		for _, mode := range modes {
			out = append(out, single{kind, mode, j, m})
		}
		return nil
	}
	for _, bytes := range singleSizes(quick) {
		if err := add(kindWordcount, bytes, modeCold, modeWarmed, modeDelayed, modeRAM); err != nil {
			return nil, err
		}
	}
	return out, add(kindSort, sortBytes(quick), modeCold, modeWarmed, modeRAM)
}

// single runs a job alone.
func (r *replayer) single(ctx context.Context, s single) (Single, error) {
	out := Single{Kind: s.kind, Mode: s.mode, Input: s.job.input}
	err := r.with(ctx, s.mode, []string{s.job.path}, func(ctx context.Context, d *rig.Daemon) error {
		job, err := r.one(ctx, d, s.mode, s.job, s.mapper, time.Now())
		out.Duration = job.Duration
		return err
	})
	return out, err
}

// modesOf returns those that occur, in the order in which they are listed.
func modesOf[T any](all []T, of func(T) string) []string {
	order := []string{modeCold, modeFIFO, modeWarmed, modeDelayed, modeRAM}
	return slices.DeleteFunc(order, func(m string) bool {
		return !slices.ContainsFunc(all, func(v T) bool { return of(v) == m })
	})
}
