package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"headrace/lab/slowdisk"
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
	for _, list := range []struct {
		what   string
		chosen *[]string
		all    []string
	}{{"part", &o.Only, ReadParts}, {"place", &o.Places, readPlaces}} {
		for _, name := range *list.chosen {
			if !slices.Contains(list.all, name) {
				return fmt.Errorf("%s %q: want %s", list.what, name, strings.Join(list.all, ", "))
			}
		}
		if len(*list.chosen) == 0 {
			*list.chosen = list.all
		}
	}
	return o.RunOptions.complete(experimentRead)
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
	return o.conduct(res, func() error { return o.measure(ctx, res) })
}

// measure fills in the results, as far as it gets.
func (o *ReadOptions) measure(ctx context.Context, res *ReaderResults) error {
	if err := needsRoot("the modelled disk, loop devices and cgroups need it"); err != nil {
		return err
	}
	var err error
	if res.Circumstances, err = o.circumstances(experimentRead); err != nil {
		return err
	}
	progress := o.progress()
	defer progress.Done()
	var errs []error
	for i, place := range o.Places {
		h := o.harness(progress)
		h.done, h.todo = float64(i)/float64(len(o.Places)), 1/float64(len(o.Places))
		err := h.with(func() error { return o.at(ctx, h, place, res) })
		if ctx.Err() != nil {
			res.end(ctx.Err())
			return errors.Join(append(errs, context.Cause(ctx), notCancelled(err))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
		}
	}
	err = errors.Join(errs...)
	res.end(err)
	return err
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
	if err := h.learnVersions(ctx, daemonConfig{policy: "wait"}); err != nil {
		return err
	}
	if err := h.stopDaemons(); err != nil {
		return err
	}
	res.Machine.Headrace = h.res.Machine.Headrace
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
	one, err := r.run(ctx, regions{lab: r.h.o.Lab, bytes: z.Region}, []readJob{{file: f, consumers: jobConsumers}}, 0)
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

func (o *ReadOptions) entries(r *readRunner, plan readPlan) []readEntry {
	methods := []readEntry{
		{name: methodRegions, method: regions{lab: r.h.o.Lab, bytes: plan.sizes.Region}},
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
	failures := 0
	entries := o.entries(r, plan)
	for repeat := range o.Repeats {
		for place, i := range rand.New(rand.NewPCG(o.Seed, uint64(repeat))).Perm(len(entries)) {
			e := entries[i]
			share := (float64(repeat) + float64(place)/float64(len(entries))) / float64(o.Repeats)
			r.h.say(0.05+0.95*share, "%s, repeat %d of %d: %v, %s", placeTitle(r.place.name), repeat+1, o.Repeats, e.ReadCase, e.name)
			run, err := r.run(ctx, e.method, plan.jobs(e.ReadCase, files), plan.limit(e.ReadCase, e.name))
			run.Place, run.ReadCase, run.Method, run.Repeat, run.Order = r.place.name, e.ReadCase, e.name, repeat, place
			if run.Failure, err = outcomeOf(ctx, err, &failures); err != nil {
				return err
			}
			if run.Failure != "" {
				res.failed("%s, repeat %d, %v, %s: %s", placeTitle(run.Place), repeat+1, e.ReadCase, e.name, run.Failure)
			}
			res.Runs = append(res.Runs, run)
		}
	}
	return nil
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
