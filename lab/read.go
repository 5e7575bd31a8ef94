package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"headrace/lab/slowdisk"
	"headrace/report"
)

// ReadOptions says what is read, and where. The zero value is the whole of it, in
// about half an hour on two processors.
type ReadOptions struct {
	RunOptions
	// Only names the parts: consumers, own, shared, spread, slow. Empty: all.
	Only []string
	// Places names the disks: modelled, device. Empty: both.
	Places []string
}

const experimentRead = "read"

func (o *ReadOptions) complete() error {
	var err error
	if o.Only, err = knownNames("part", o.Only, ReadParts); err != nil {
		return err
	}
	if o.Places, err = knownNames("place", o.Places, readPlaces); err != nil {
		return err
	}
	return o.RunOptions.complete(experimentRead, 3, 1)
}

// Read lets several consumers and several jobs read the same and different files:
// each its own regions, from a stream, and one program alone (veloxdfs, figures 1,
// 4, 5 and 8, for one node). It writes tables to Stdout and the files that were
// asked for. When ctx ends it stops, cleans up, reports what has been measured so
// far, and returns the cause. It needs root. One call at a time.
func Read(ctx context.Context, o ReadOptions) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench read: %w", err)
	}
	res := &ReaderResults{Circumstances: Circumstances{Experiment: experimentRead}}
	return o.conduct(ctx, res, "the modelled disk, loop devices and cgroups need it", func(progress *report.Progress) error {
		var parts []part
		for _, place := range o.Places {
			parts = append(parts, part{place, 1, func(done, todo float64) error {
				h := o.bench(progress, &res.Circumstances)
				h.done, h.todo = done, todo
				return h.with(func() error { return o.at(ctx, h, place, res) })
			}})
		}
		return inParts(ctx, parts)
	})
}

// at runs everything at one place. A place that this machine cannot have is left
// out with the reason.
func (o *ReadOptions) at(ctx context.Context, h *harness, name string, res *ReaderResults) (err error) {
	plan := o.planRead(name)
	bytes := plan.bytes()
	if err := h.roomOnDisk(bytes + bytes/8 + 256<<20); err != nil { // with a file system around the files
		return err
	}
	place, err := h.openPlace(ctx, name, bytes)
	if err != nil {
		res.skip("everything on the "+placeTitle(name), err.Error())
		return nil
	}
	defer func() { err = errors.Join(err, h.stopDaemons(), place.close()) }()
	if res.Machine.Headrace, err = h.version(ctx); err != nil {
		return err
	}
	h.say(0, "%s: making the files", placeTitle(name))
	files, err := plan.makeFiles(place.readingDisk)
	if err != nil {
		return err
	}
	r := &readRunner{h: h, place: place}
	if place.model != nil {
		model := place.model.Model()
		res.Model = &model
		if res.Calibration, err = o.calibrate(ctx, place, files.shared); err != nil {
			return err
		}
	}
	h.say(0.01, "%s: reading alone", placeTitle(name))
	if err := o.tryAlone(ctx, r, &plan.sizes, plan.slowConsumers(), files.shared); err != nil {
		return err
	}
	plan.sizes.About = place.about
	res.Sizes = append(res.Sizes, plan.sizes)
	res.Disk = strings.TrimPrefix(res.Disk+"; "+place.about, "; ")
	return o.repeat(ctx, r, plan, files, res)
}

// tryAlone measures what the cases are made by: how fast cat and one job read.
func (o *ReadOptions) tryAlone(ctx context.Context, r *readRunner, z *ReadSizes, slowConsumers int, f recordFile) error {
	cat, err := r.run(ctx, plain{}, []readJob{{file: f}}, 0)
	if err != nil {
		return err
	}
	one, err := r.run(ctx, regions{lab: r.h.programs.Lab, bytes: z.Region}, []readJob{{file: f, consumers: jobConsumers}}, 0)
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

// readEntry is one run of a repeat.
type readEntry struct {
	ReadCase
	name   string
	method readMethod
}

func (e readEntry) String() string { return fmt.Sprintf("%v, %s", e.ReadCase, e.name) }

func (o *ReadOptions) entries(r *readRunner, plan readPlan) []readEntry {
	methods := []readEntry{
		{name: methodRegions, method: regions{lab: r.h.programs.Lab, bytes: plan.sizes.Region}},
		{name: methodStream, method: streamed{r.h}},
	}
	out := []readEntry{{ReadCase{partConsumers, 1, 1}, methodPlain, plain{}}}
	for _, c := range plan.cases {
		for _, m := range methods {
			m.ReadCase = c
			out = append(out, m)
		}
	}
	return out
}

// repeat runs everything once in each repeat, in another order each time.
func (o *ReadOptions) repeat(ctx context.Context, r *readRunner, plan readPlan, files readFiles, res *ReaderResults) error {
	return rounds[readEntry, ReadRun]{repeats: o.Repeats, seed: o.Seed, entries: o.entries(r, plan), say: r.h.within(0.05, 1), name: placeTitle(r.place.name) + ", ",
		run: func(e readEntry) (ReadRun, error) {
			return r.run(ctx, e.method, plan.jobs(e.ReadCase, files), plan.limit(e.ReadCase, e.name))
		},
		keep: func(e readEntry, x ReadRun, t turn) {
			x.Place, x.ReadCase, x.Method = r.place.name, e.ReadCase, e.name
			x.Repeat, x.Order, x.Failure = t.repeat, t.order, t.failure
			res.Runs = append(res.Runs, x)
		},
	}.do(ctx, &res.Circumstances)
}

func placeTitle(place string) string {
	if place == placeModelled {
		return "modelled disk"
	}
	return "real device"
}

// calibrate shows what the modelled disk does for readers that are nothing but
// readers.
func (o *ReadOptions) calibrate(ctx context.Context, p *readPlace, f recordFile) ([]ReadCalibration, error) {
	var out []ReadCalibration
	path := filepath.Join(p.dir, filepath.Base(f.path))
	random := rand.New(rand.NewPCG(o.Seed, 0)).Perm(int(f.bytes >> 21))
	var places []int64
	for _, i := range random[:min(len(random), 32)] {
		places = append(places, 2*int64(i)) // none follows another
	}
	add := func(r slowdisk.Reading, err error) error {
		if err != nil {
			return fmt.Errorf("calibrate the modelled disk: %w", err)
		}
		s := r.Stated
		out = append(out, ReadCalibration{Readers: r.Readers, Took: r.Took.Seconds(), Busy: s.Busy.Seconds(),
			Read: s.Read, Seeks: s.Seeks, Requests: s.Requests})
		return nil
	}
	if err := add(slowdisk.Random(ctx, p.model, path, places)); err != nil {
		return out, err
	}
	for _, readers := range []int{1, 4, 8, 16} {
		if o.Quick && readers > 4 {
			break
		}
		if err := add(slowdisk.Sequential(ctx, p.model, path, readers)); err != nil {
			return out, err
		}
	}
	return out, nil
}
