package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headrace/lab/pages"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/lab/work"
	"headrace/report"
	"headrace/wire"
)

// Options says how large the data sets are. The zero value is the whole of
// it, in about seven minutes on two processors.
type Options struct {
	trial.Options
	// Memory is what the daemon, its tasks and what they read may use together, in
	// bytes; 0: 512 MiB (128 MiB with Quick).
	Memory int64
	// Place is the disk that the data lie on: modelled (the default) or device.
	Place string
}

const experimentName = "order"

func (o *Options) complete() error {
	o.Memory = cmp.Or(o.Memory, trial.Sized[int64](o.Quick, 512<<20, 128<<20))
	if o.Memory < 96<<20 {
		return fmt.Errorf("memory of %d bytes: want at least 96M, for the daemon and the tasks have to fit as well", o.Memory)
	}
	if err := rig.DiskNamed(&o.Place); err != nil {
		return err
	}
	return o.Options.Complete(experimentName, 3, 1)
}

// The data sets of quartet, section 5.2, as parts of the memory: 256 GB, 512 GB
// and 1 TB with 384 GB.
var orderFactors = []float64{256. / 384, 512. / 384, 1024. / 384}

// Ways in which the tasks of a job get their files.
const (
	// howDealt: two tasks, to which a stream deals one file after the other.
	howDealt = "files dealt to two tasks"
	// howQueued: a task for each file, two at a time.
	howQueued = "a task for each file"
)

const (
	// runTime is a bound for a pair of jobs that does not come to an end.
	runTime = 5 * time.Minute
	// orderFile is the size of one file.
	orderFile = 16 << 20
	// orderTasks is how many tasks run at a time.
	orderTasks = 2
	// noOrderFlag of the daemon lets it not go by what is in memory.
	noOrderFlag = "--no-residency-order"
)

// Measure runs two identical jobs, one after the other, on data sets that fit into
// memory and that do not, with and without going by what is in memory (quartet,
// section 5.2). It writes tables to Stdout and the files that were asked for. When
// ctx ends it stops, cleans up, reports what has been measured so far, and returns
// the cause. It needs root and memory cgroups. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench order: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}, Memory: o.Memory, File: orderFile}
	return o.Conduct(ctx, res, "the modelled disk and the memory cgroup need it", func(p *report.Progress) error {
		h := o.Bench(p, &res.Circumstances)
		return h.With(func() error { return o.run(ctx, h, res) })
	})
}

func (o *Options) run(ctx context.Context, h *rig.Bench, res *Results) (err error) {
	points := o.points()
	r := &runner{h: h, most: slices.MaxFunc(points, func(a, b orderPoint) int { return cmp.Compare(a.factor, b.factor) }).factor}
	bytes := int64(r.most * float64(o.Memory))
	// All of the data set may be in memory for a moment before the kernel notices.
	if err := h.EnoughRoom(bytes); err != nil {
		return err
	}
	if r.disk, err = h.OpenDisk(ctx, o.Place, bytes+orderFile); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.StopDaemons(), r.disk.Close()) }()
	res.Disk = r.disk.About
	if res.Machine.Headrace, err = h.Version(ctx); err != nil {
		return err
	}
	if r.group, err = h.Disk.MemoryGroup(o.Memory); err != nil {
		return err
	}
	if err := r.makeFiles(bytes); err != nil {
		return err
	}
	return trial.Rounds[orderPoint, Run]{Repeats: o.Repeats, Seed: o.Seed, Entries: points, Say: h.Say,
		Run: func(p orderPoint) (Run, error) { return r.run(ctx, p) },
		Keep: func(p orderPoint, x Run, t trial.Turn) {
			x.Factor, x.How, x.Ordered = p.factor, p.how, p.ordered
			x.Repeat, x.Order, x.Failure = t.Repeat, t.Order, t.Failure
			res.Runs = append(res.Runs, x)
		},
	}.Do(ctx, &res.Circumstances)
}

// orderPoint is what is compared in one run.
type orderPoint struct {
	factor  float64
	how     string
	ordered bool
}

func (p orderPoint) String() string {
	s := fmt.Sprintf("%.2f times the memory, %s", p.factor, p.how)
	if p.ordered {
		return s + ", what is in memory first"
	}
	return s
}

// points returns all of them: a task for each file only where the data do not fit by
// a little.
func (o *Options) points() []orderPoint {
	var out []orderPoint
	for _, ordered := range []bool{false, true} {
		factors := orderFactors
		if o.Quick {
			factors = orderFactors[1:2]
		}
		for _, f := range factors {
			out = append(out, orderPoint{f, howDealt, ordered})
		}
		out = append(out, orderPoint{orderFactors[1], howQueued, ordered})
	}
	return out
}

// runner runs pairs of jobs.
type runner struct {
	h     *rig.Bench
	disk  *rig.Disk
	group string
	most  float64 // the factor of the largest data set

	files   []string // of the largest data set, in order
	answers map[string]string
}

// makeFiles makes the largest data set; the others are its beginning.
func (r *runner) makeFiles(bytes int64) error {
	r.answers = map[string]string{}
	for i := range (bytes + orderFile - 1) / orderFile {
		r.h.Say(0, "making the data")
		path, err := r.disk.MakeFile(fmt.Sprintf("part-%05d", i), orderFile, uint64(i)+1)
		if err != nil {
			return err
		}
		if r.answers[path], err = r.disk.AnswerOf(path, r.mapper(path)); err != nil {
			return err
		}
		r.files = append(r.files, path)
	}
	return nil
}

// mapper returns what reads a file.
func (r *runner) mapper(path string) work.Mapper {
	return work.Mapper{File: path, Block: orderFile, Readers: 1}
}

// run runs two jobs in a row on cold files.
func (r *runner) run(ctx context.Context, p orderPoint) (out Run, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	files := r.files[:min(len(r.files), int(p.factor*float64(len(r.files))/r.most+0.5))]
	out.Files, out.Bytes = len(files), int64(len(files))*orderFile
	if err := rig.ChillSoon(ctx, r.files); err != nil {
		return out, err
	}
	c := rig.DaemonConfig{Policy: "wait", Slots: orderTasks, NoSwap: true, MemoryGroup: r.group}
	if !p.ordered {
		c.Flags = []string{noOrderFlag}
	}
	d, err := r.h.Start(ctx, c)
	if err != nil {
		return out, err
	}
	return out, errors.Join(r.pair(ctx, d, p, files, &out), d.End())
}

func (r *runner) pair(ctx context.Context, d *rig.Daemon, p orderPoint, files []string, out *Run) error {
	var err error
	if out.First, out.FirstRead, err = r.job(ctx, d, p.how, "first", files); err != nil {
		return err
	}
	if out.Resident, err = pages.Resident(files); err != nil {
		return err
	}
	out.Second, out.SecondRead, err = r.job(ctx, d, p.how, "second", files)
	return err
}

// job runs one of the two and returns how long it took and what came from the
// disk meanwhile.
func (r *runner) job(ctx context.Context, d *rig.Daemon, how, name string, files []string) (took float64, read int64, err error) {
	before, err := r.disk.Count()
	if err != nil {
		return 0, 0, err
	}
	var ids []string
	var start time.Time
	if how == howDealt {
		start = time.Now()
		ids, err = r.submitDealt(ctx, d, name, files)
	} else {
		ids, start, err = r.submitQueued(ctx, d, name, files)
	}
	if err != nil {
		return 0, 0, err
	}
	var tasks []*wire.Task
	last := start
	for _, id := range ids {
		t, err := d.Tasks.End(ctx, id)
		if err != nil {
			return 0, 0, fmt.Errorf("the %s job: %w", name, err)
		}
		if t.Ended.After(last) {
			last = t.Ended
		}
		tasks = append(tasks, t.Task)
	}
	after, err := r.disk.Count()
	if err != nil {
		return 0, 0, err
	}
	return last.Sub(start).Seconds(), after.Since(before).Read, r.check(ctx, d, tasks, files)
}

func (r *runner) submitDealt(ctx context.Context, d *rig.Daemon, name string, files []string) ([]string, error) {
	q := d.Workload(name, r.mapper("{}").Args())
	q.Input = &wire.Input{Paths: files, Split: wire.Split_SPLIT_FILES, Tasks: orderTasks, NoWarm: true}
	resp, err := d.Run(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("submit the %s job: %w", name, err)
	}
	return resp.Ids, nil
}

// submitQueued submits a task for each file while others have the slots, so that
// all of the job is there when its first task is chosen, as the job of a cluster
// is. The others make way when the daemon knows what is in memory; the job begins
// before, so that finding this out counts in its time.
func (r *runner) submitQueued(ctx context.Context, d *rig.Daemon, name string, files []string) (ids []string, start time.Time, err error) {
	var before []string
	for range orderTasks {
		resp, err := d.Run(ctx, d.Workload("before", work.Mapper{Block: 1, Readers: 1, Start: time.Hour}.Args()))
		if err != nil {
			return nil, start, fmt.Errorf("submit a task to wait for: %w", err)
		}
		before = append(before, resp.Id)
	}
	for _, path := range files {
		q := d.Workload(filepath.Base(path), r.mapper(path).Args())
		q.Job = name
		q.Input = &wire.Input{Paths: []string{path}, NoWarm: true}
		resp, err := d.Run(ctx, q)
		if err != nil {
			return nil, start, fmt.Errorf("submit the %s job: %w", name, err)
		}
		ids = append(ids, resp.Id)
	}
	start = time.Now()
	if err := r.looked(ctx, d, files); err != nil {
		return nil, start, err
	}
	for _, id := range before {
		if err := d.Dispose(id); err != nil {
			return nil, start, err
		}
	}
	return ids, start, nil
}

// lookTime is how long the daemon may take to find out what is in memory.
const lookTime = 5 * time.Second

// looked waits until the daemon has found out what is in memory of the inputs of
// the waiting tasks, if it does that at all.
func (r *runner) looked(ctx context.Context, d *rig.Daemon, files []string) error {
	if slices.Contains(d.Config.Flags, noOrderFlag) {
		return nil
	}
	want, err := pages.Resident(files)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(lookTime); ; {
		list, err := d.List(ctx, &wire.ListRequest{})
		if err != nil {
			return err
		}
		var known int64
		for _, t := range list.Tasks {
			known += t.Input.GetResident()
		}
		if float64(known) >= 0.98*float64(want) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d bytes of the waiting tasks' inputs are in memory, and after %v the daemon knows of %d", want, lookTime, known)
		}
		if err := rig.WaitUntil(ctx, time.Now().Add(10*time.Millisecond)); err != nil {
			return err
		}
	}
}

// check compares what the tasks of a job have written with what it must be for
// the files, each once.
func (r *runner) check(ctx context.Context, d *rig.Daemon, tasks []*wire.Task, files []string) error {
	want := map[string]int{}
	for _, path := range files {
		want[r.answers[path]]++
	}
	for _, t := range tasks {
		out, err := d.Check(ctx, t, "")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "map ") {
				want[line]--
			}
		}
	}
	for line, n := range want {
		if n != 0 {
			return fmt.Errorf("%w: WRONG ANSWER: %q is there %d times too few", rig.ErrWrong, line, n)
		}
	}
	return nil
}
