package read

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"headrace/lab/rig"
	"headrace/lab/slowdisk"
	"headrace/lab/trial"
	"headrace/lab/work"
	"headrace/report"
)

// Options says what is read, and where. The zero value is the whole of it, in
// about half an hour on two processors.
type Options struct {
	trial.Options
	// Only names the parts: consumers, own, shared, spread, slow. Empty: all.
	Only []string
	// Places names the disks: modelled, device. Empty: both.
	Places []string
}

const experimentName = "read"

func (o *Options) complete() error {
	var err error
	if o.Only, err = trial.KnownNames("part", o.Only, Parts); err != nil {
		return err
	}
	if o.Places, err = trial.KnownNames("place", o.Places, rig.DiskNames); err != nil {
		return err
	}
	return o.Options.Complete(experimentName, 3, 1)
}

// Measure lets several consumers and several jobs read the same and different files:
// each its own regions, from a stream, and one program alone (veloxdfs, figures 1,
// 4, 5 and 8, for one node). It writes tables to Stdout and the files that were
// asked for. When ctx ends it stops, cleans up, reports what has been measured so
// far, and returns the cause. It needs root. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench read: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	return o.Conduct(ctx, res, "the modelled disk, loop devices and cgroups need it", func(progress *report.Progress) error {
		var parts []trial.Part
		for _, place := range o.Places {
			parts = append(parts, trial.Part{Name: place, Weight: 1, Run: func(done, todo float64) error {
				h := o.Bench(progress, &res.Circumstances)
				h.Done, h.Todo = done, todo
				return h.With(func() error { return o.at(ctx, h, place, res) })
			}})
		}
		return trial.InParts(ctx, parts)
	})
}

// at runs everything at one place. A place that this machine cannot have is left
// out with the reason.
func (o *Options) at(ctx context.Context, h *rig.Bench, name string, res *Results) (err error) {
	plan := o.planRead(name)
	bytes := plan.bytes()
	if err := h.RoomOnDisk(bytes + bytes/8 + 256<<20); err != nil { // with a file system around the files
		return err
	}
	place, err := h.OpenDisk(ctx, name, bytes)
	if err != nil {
		res.Skip("everything on the "+placeTitle(name), err.Error())
		return nil
	}
	defer func() { err = errors.Join(err, h.StopDaemons(), place.Close()) }()
	if res.Machine.Headrace, err = h.Version(ctx); err != nil {
		return err
	}
	h.Say(0, "%s: making the files", placeTitle(name))
	files, err := plan.makeFiles(place)
	if err != nil {
		return err
	}
	r := &runner{h: h, place: place}
	if place.Model != nil {
		model := place.Model.Model()
		res.Model = &model
		if res.Calibration, err = o.calibrate(ctx, place, files.shared); err != nil {
			return err
		}
	}
	h.Say(0.01, "%s: reading alone", placeTitle(name))
	if err := o.tryAlone(ctx, r, &plan.sizes, plan.slowConsumers(), files.shared); err != nil {
		return err
	}
	plan.sizes.About = place.About
	res.Sizes = append(res.Sizes, plan.sizes)
	res.Disk = strings.TrimPrefix(res.Disk+"; "+place.About, "; ")
	return o.repeat(ctx, r, plan, files, res)
}

// tryAlone measures what the cases are made by: how fast cat and one job read.
func (o *Options) tryAlone(ctx context.Context, r *runner, z *Sizes, slowConsumers int, f work.RecordFile) error {
	cat, err := r.run(ctx, plain{}, []readJob{{file: f}}, 0)
	if err != nil {
		return err
	}
	one, err := r.run(ctx, regions{lab: r.h.Programs.Lab, bytes: z.Region}, []readJob{{file: f, consumers: jobConsumers}}, 0)
	if err != nil {
		return err
	}
	z.Plain, z.Alone = throughput(cat), one.Took
	z.Slow = int64(z.Plain / float64(slowestShare*slowConsumers))
	return nil
}

// slowestShare is how many times slower a slow consumer is than its share of the
// disk.
const slowestShare = 4

func (p readPlan) slowConsumers() int {
	for _, c := range p.cases {
		if c.Part == partSlow {
			return c.Consumers
		}
	}
	return 1
}

// entry is one run of a repeat.
type entry struct {
	Case
	name   string
	method readMethod
}

func (e entry) String() string { return fmt.Sprintf("%v, %s", e.Case, e.name) }

func (o *Options) entries(r *runner, plan readPlan) []entry {
	methods := []entry{
		{name: methodRegions, method: regions{lab: r.h.Programs.Lab, bytes: plan.sizes.Region}},
		{name: methodStream, method: streamed{r.h}},
	}
	out := []entry{{Case{partConsumers, 1, 1}, methodPlain, plain{}}}
	for _, c := range plan.cases {
		for _, m := range methods {
			m.Case = c
			out = append(out, m)
		}
	}
	return out
}

// repeat runs everything once in each repeat, in another order each time.
func (o *Options) repeat(ctx context.Context, r *runner, plan readPlan, files readFiles, res *Results) error {
	return trial.Rounds[entry, Run]{Repeats: o.Repeats, Seed: o.Seed, Entries: o.entries(r, plan), Say: r.h.Within(0.05, 1), Name: placeTitle(r.place.Name) + ", ",
		Run: func(e entry) (Run, error) {
			return r.run(ctx, e.method, plan.jobs(e.Case, files), plan.limit(e.Case, e.name))
		},
		Keep: func(e entry, x Run, t trial.Turn) {
			x.Place, x.Case, x.Method = r.place.Name, e.Case, e.name
			x.Repeat, x.Order, x.Failure = t.Repeat, t.Order, t.Failure
			res.Runs = append(res.Runs, x)
		},
	}.Do(ctx, &res.Circumstances)
}

func placeTitle(place string) string {
	if place == rig.Modelled {
		return "modelled disk"
	}
	return "real device"
}

// calibrate shows what the modelled disk does for readers that are nothing but
// readers.
func (o *Options) calibrate(ctx context.Context, p *rig.Disk, f work.RecordFile) ([]Calibration, error) {
	var out []Calibration
	path := filepath.Join(p.Dir, filepath.Base(f.Path))
	random := rand.New(rand.NewPCG(o.Seed, 0)).Perm(int(f.Bytes >> 21))
	var places []int64
	for _, i := range random[:min(len(random), 32)] {
		places = append(places, 2*int64(i)) // none follows another
	}
	add := func(r slowdisk.Reading, err error) error {
		if err != nil {
			return fmt.Errorf("calibrate the modelled disk: %w", err)
		}
		s := r.Stated
		out = append(out, Calibration{Readers: r.Readers, Took: r.Took.Seconds(), Busy: s.Busy.Seconds(),
			Read: s.Read, Seeks: s.Seeks, Requests: s.Requests})
		return nil
	}
	if err := add(slowdisk.Random(ctx, p.Model, path, places)); err != nil {
		return out, err
	}
	for _, readers := range []int{1, 4, 8, 16} {
		if o.Quick && readers > 4 {
			break
		}
		if err := add(slowdisk.Sequential(ctx, p.Model, path, readers)); err != nil {
			return out, err
		}
	}
	return out, nil
}
