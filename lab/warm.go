package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"headrace/report"
)

// WarmOptions says how much of the day is replayed, and how fast. The zero value is
// the whole of it, in about seven minutes on two processors.
type WarmOptions struct {
	RunOptions
	// Jobs is how many jobs of the day, from its beginning; 0: 150 (20 with Quick).
	Jobs int
	// Span is the time in which they are submitted; 0: 24 s (2 s with Quick).
	Span time.Duration
	// Place is the disk that the inputs lie on: modelled (the default) or device.
	Place string
}

func (o *WarmOptions) complete() error {
	if o.Jobs == 0 {
		o.Jobs = 150
		if o.Quick {
			o.Jobs = 20
		}
	}
	if o.Span == 0 {
		o.Span = 24 * time.Second
		if o.Quick {
			o.Span = 2 * time.Second
		}
	}
	if o.Jobs < 2 || o.Jobs > 5000 {
		return fmt.Errorf("%d jobs: want 2 to 5000", o.Jobs)
	}
	if o.Span < time.Second || o.Span > 24*time.Hour {
		return fmt.Errorf("a span of %v: want 1s to 24h", o.Span)
	}
	if err := completePlaceName(&o.Place); err != nil {
		return err
	}
	return o.RunOptions.complete(experimentWarm)
}

const experimentWarm = "warm"

// Warm replays a part of a day of Facebook's cluster with inputs on one disk: cold, warmed by Headrace, and with all inputs in memory beforehand (ignem,
// section IV). It writes tables to Stdout and the files that were asked for. When
// ctx ends it stops, cleans up, reports what has been measured so far, and returns
// the cause. It needs root. One call at a time.
func Warm(ctx context.Context, o WarmOptions) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench warm: %w", err)
	}
	res := &WarmResults{Circumstances: Circumstances{Experiment: experimentWarm}}
	return o.conduct(res, func() error { return o.measure(ctx, res) })
}

// measure fills in the results, as far as it gets.
func (o *WarmOptions) measure(ctx context.Context, res *WarmResults) error {
	if err := needsRoot("the modelled disk and loop devices need it"); err != nil {
		return err
	}
	var err error
	if res.Circumstances, err = o.circumstances(experimentWarm); err != nil {
		return err
	}
	progress := o.progress()
	defer progress.Done()
	h := o.harness(progress)
	err = h.with(func() error { return o.run(ctx, h, res) })
	res.end(err)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), notCancelled(err))
	}
	return err
}

func (o *WarmOptions) run(ctx context.Context, h *harness, res *WarmResults) (err error) {
	plan, jobs, err := planWarm(o.Jobs, o.Span)
	if err != nil {
		return err
	}
	res.Plan = plan
	bytes := plan.Input + sum(singleSizes(o.Quick)) + sortBytes(o.Quick)
	if err := h.enoughRoom(bytes); err != nil {
		return err
	}
	disk, err := h.openPlace(ctx, o.Place, bytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stopDaemons(), disk.close()) }()
	res.Disk = disk.about
	if disk.model != nil {
		m := disk.model.Model()
		res.Plan.Disk = warmDisk{Bandwidth: float64(m.Bandwidth), Seek: (m.Seek + m.Rotation).Seconds()}
	}
	r := &replayer{h: h, disk: disk, plan: &res.Plan, jobs: jobs}
	like := r.plan.mapper(replayJob{})
	if err := disk.makeInputs(jobs, like, func(share float64) { h.say(0.05*share, "making the inputs") }); err != nil {
		return err
	}
	singles, err := r.makeSingles(o.Quick)
	if err != nil {
		return err
	}
	if err := h.learnVersions(ctx, daemonConfig{policy: "wait"}); err != nil {
		return err
	}
	if err := h.stopDaemons(); err != nil {
		return err
	}
	res.Machine.Headrace = h.res.Machine.Headrace
	h.done, h.todo = 0.05, 0.95
	return o.repeat(ctx, r, singles, res)
}

// repeat runs everything once in each repeat, in another order each time.
func (o *WarmOptions) repeat(ctx context.Context, r *replayer, singles []single, res *WarmResults) error {
	modes := []string{modeCold, modeWarmed, modeFIFO, modeRAM}
	failures := 0
	for repeat := range o.Repeats {
		random := rand.New(rand.NewPCG(o.Seed, uint64(repeat)))
		at := func(part float64) float64 { return (float64(repeat) + part) / float64(o.Repeats) }
		for place, i := range random.Perm(len(modes)) {
			r.h.say(at(0.7*float64(place)/float64(len(modes))), "repeat %d of %d: %d jobs, %s", repeat+1, o.Repeats, len(r.jobs), modes[i])
			replay, err := r.replay(ctx, modes[i])
			replay.Repeat, replay.Order, replay.Mode = repeat, place, modes[i]
			if replay.Failure, err = outcomeOf(ctx, err, &failures); err != nil {
				return err
			}
			if replay.Failure != "" {
				replay.Jobs, replay.Memory = nil, nil
				res.failed("repeat %d, %s: %s", repeat+1, replay.Mode, replay.Failure)
			}
			res.Replays = append(res.Replays, replay)
		}
		for place, i := range random.Perm(len(singles)) {
			s := singles[i]
			r.h.say(at(0.7+0.3*float64(place)/float64(len(singles))), "repeat %d of %d: %v", repeat+1, o.Repeats, s)
			one := Single{Repeat: repeat, Order: place, Mode: s.mode, Kind: s.kind, Input: s.job.input}
			err := r.single(ctx, s, &one)
			if one.Failure, err = outcomeOf(ctx, err, &failures); err != nil {
				return err
			}
			if one.Failure != "" {
				res.failed("repeat %d, %v: %s", repeat+1, s, one.Failure)
			}
			res.Singles = append(res.Singles, one)
		}
	}
	return nil
}

// outcomeOf is the reason for which a run has no numbers; too many failures in a
// row, and an interruption, end the experiment.
func outcomeOf(ctx context.Context, err error, inRow *int) (failure string, fatal error) {
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		*inRow = 0
		return "", nil
	}
	if *inRow++; *inRow == mostFailures {
		return "", fmt.Errorf("%d runs in a row have failed, the last one: %w", *inRow, err)
	}
	return err.Error(), nil
}

// single is a job that runs alone.
type single struct {
	kind  string
	mode  string
	job   replayJob
	words bool
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

// singleSizes are the inputs of the word count: 1 to 12 GB in the paper (section
// IV.E), of which a server has an eighth; here with twice as much at the end,
// because a block that is warmed takes no detour over the network.
func singleSizes(quick bool) []int64 {
	if quick {
		return []int64{8 << 20}
	}
	return []int64{48 << 20, 192 << 20}
}

// sortBytes is the input of the sort job: 40 GB (section IV.B).
func sortBytes(quick bool) int64 {
	if quick {
		return 12 << 20
	}
	return 40e9 / paperServers / shrink
}

// sortRest is how long the sort job takes beyond waiting and reading: 75 s in
// all with its input in memory (table III).
const sortRest = (75*time.Second - paperLead) / shrink

// makeSingles makes the inputs of the jobs that run alone.
func (r *replayer) makeSingles(quick bool) ([]single, error) {
	var out []single
	add := func(kind string, bytes int64, rest time.Duration, words bool, modes ...string) error {
		j := replayJob{name: fmt.Sprintf("%s-%d", kind, bytes>>20), rest: rest, input: bytes}
		var err error
		if j.path, err = r.disk.makeFile(j.name, bytes, uint64(bytes)); err != nil {
			return err
		}
		m := r.plan.mapper(j)
		m.words = words
		if j.answer, err = r.disk.answerOf(j.path, m); err != nil {
			return err
		}
		for _, mode := range modes {
			out = append(out, single{kind, mode, j, words})
		}
		return nil
	}
	for _, bytes := range singleSizes(quick) {
		if err := add(kindWordcount, bytes, 0, true, modeCold, modeWarmed, modeDelayed, modeRAM); err != nil {
			return nil, err
		}
	}
	rest := sortRest
	if quick {
		rest /= 10
	}
	return out, add(kindSort, sortBytes(quick), rest, false, modeCold, modeWarmed, modeRAM)
}

// single runs a job alone.
func (r *replayer) single(ctx context.Context, s single, out *Single) error {
	return r.with(ctx, s.mode, []string{s.job.path}, func(ctx context.Context, d *daemon) error {
		m := r.plan.mapper(s.job)
		m.words = s.words
		job, err := r.one(ctx, d, s.mode, s.job, m, time.Now())
		out.Duration = job.Duration
		return err
	})
}

func sum[T int64 | float64](values []T) T {
	var s T
	for _, v := range values {
		s += v
	}
	return s
}

// modesOf are those that occur, in the order in which they are listed.
func modesOf[T any](all []T, of func(T) string) []string {
	order := []string{modeCold, modeFIFO, modeWarmed, modeDelayed, modeRAM}
	return slices.DeleteFunc(order, func(m string) bool {
		return !slices.ContainsFunc(all, func(v T) bool { return of(v) == m })
	})
}
