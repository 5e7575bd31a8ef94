package hdfs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"headrace/lab/pages"
	"headrace/lab/rig"
	"headrace/lab/yarn"
)

// bench has one cluster, in which everything runs.
type bench struct {
	o   *Options
	res *Results
	h   *rig.Bench

	cluster   *yarn.Cluster
	submitter *yarn.Submitter
	spark     *yarn.Queries     // nil until there are queries
	archived  map[string]string // properties of jobs; see train

	made     map[string]bool           // inputs
	replicas map[string][]yarn.Replica // of inputs, which nobody moves
	runs     int                       // so far; numbers names

	answers rig.Answers
}

const (
	// runTime is a bound for a run that does not come to an end.
	runTime  = 10 * time.Minute
	idleTime = 2 * time.Minute
	// memoryHere is what a NodeManager gives out, in MB.
	memoryHere = 3072
	// budgetHere is what each machine may keep.
	budgetHere = 1 << 30
)

func (b *bench) start(ctx context.Context) (err error) {
	disk := diskHere
	b.res.Disk = fmt.Sprintf("%d of these: %v", servers, disk)
	b.cluster, err = yarn.Start(ctx, yarn.Options{Mode: yarn.Wait, Beside: true, Jars: b.o.Jars, Dir: b.h.Disk.Dir, Nodes: servers, Machines: true,
		Memory: memoryHere, Disk: &disk, LabProgram: b.h.Programs.Lab, Binary: b.h.Programs.Headrace,
		NodeFlags: append([]string{"--warm-budget", fmt.Sprint(budgetHere)}, b.o.SoloFlags...),
		HDFS:      &yarn.HDFSOptions{BlockSize: block, Replication: 1}})
	if err != nil {
		return err
	}
	b.made, b.replicas = map[string]bool{}, map[string][]yarn.Replica{}
	b.submitter, err = b.cluster.Submitter(ctx, b.o.Jars.Module("mapreduce"))
	return err
}

// train runs a job whose virtual machines leave to others what they have loaded: there are
// few processors here, and each container starts one.
func (b *bench) train(ctx context.Context) error {
	archives, err := b.cluster.ClassArchives()
	if err != nil {
		return err
	}
	j := planned("train", kindRatios, uberBlocks+1)
	j.inputs = files("/train", uberBlocks+1)
	j.properties["headrace.ratio.shuffle"], j.properties["headrace.ratio.output"] = "1", "1"
	if err := b.makeInputs(ctx, []plannedJob{j}); err != nil {
		return err
	}
	o := j.order(0)
	maps.Copy(o.Properties, archives.Make())
	o.Properties["headrace.warm"] = "false"
	b.archived = archives.Use()
	e, err := b.submitter.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("%w%s", err, b.cluster.Said(e.Application))
	}
	return b.cluster.AwaitIdleFor(ctx, idleTime)
}

func (b *bench) stop() error {
	if b.cluster == nil {
		return nil
	}
	return b.cluster.Finish(idleTime)
}

// makeInputs makes what is not there yet, two at a time for each machine. That takes the
// disks no time.
func (b *bench) makeInputs(ctx context.Context, jobs []plannedJob) error {
	return b.cluster.Unmodelled(func() error { return b.makeMissing(ctx, jobs) })
}

func (b *bench) makeMissing(ctx context.Context, jobs []plannedJob) error {
	kinds := map[string]string{kindRatios: "make-bytes", kindWordcount: "make-text", kindSort: "make-sequence"}
	turns := make(chan struct{}, 2*servers)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, j := range jobs {
		for _, path := range j.inputs {
			if b.made[path] || j.kind == kindQuery {
				continue
			}
			b.made[path] = true
			o := yarn.SubmitterOrder{Name: "make " + path, Kind: kinds[j.kind], Inputs: []string{path}, Bytes: block, Seed: uint64(len(b.made)),
				Properties: map[string]string{"dfs.replication": fmt.Sprint(b.o.Replication)}}
			all.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				if err := b.submitter.Make(ctx, o); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// blockFiles returns the files of all replicas of the jobs' inputs, for each machine.
func (b *bench) blockFiles(ctx context.Context, jobs []plannedJob) ([][]string, error) {
	var every []yarn.Replica
	for _, j := range jobs {
		for _, path := range j.inputs {
			if b.replicas[path] == nil {
				all, err := b.cluster.HDFS.Replicas(ctx, path, b.o.Replication)
				if err != nil {
					return nil, err
				}
				if len(all) == 0 {
					return nil, fmt.Errorf("%s has no blocks", path)
				}
				b.replicas[path] = all
			}
			every = append(every, b.replicas[path]...)
		}
	}
	return b.cluster.HDFS.Files(every), nil
}

// hold locks the files in memory until release is called.
func (b *bench) hold(ctx context.Context, files [][]string) (release func() error, err error) {
	var all []func() error
	release = func() error {
		var errs []error
		for _, f := range all {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	for i := range servers {
		err := b.cluster.On(i, func() error {
			r, err := pages.Hold(ctx, files[i])
			if err == nil {
				all = append(all, r)
			}
			return err
		})
		if err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}

// once does one run: the inputs are cold, or in memory as the mode wants.
func (b *bench) once(ctx context.Context, e entry) (x Run, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runTime, fmt.Errorf("%w: not over after %v", rig.ErrWrong, runTime))
	defer cancel()
	b.runs++
	files, err := b.blockFiles(ctx, e.jobs)
	if err != nil {
		return Run{}, err
	}
	if err := b.cluster.Chill(ctx, files); err != nil {
		return Run{}, err
	}
	switch e.mode {
	case modeRAM:
		release, e := b.hold(ctx, files)
		if e != nil {
			return Run{}, e
		}
		defer func() { err = errors.Join(err, release()) }()
	case modeWarmed, modeDelayed:
		if err := b.cluster.StartDaemons(ctx, "", nil); err != nil {
			return Run{}, err
		}
		defer func() { err = errors.Join(err, b.cluster.StopDaemons()) }()
	}
	before := b.cluster.DiskStats()
	start := time.Now()
	memory := func() []Memory { return nil }
	if e.mode == modeWarmed {
		memory = b.sampleMemory(ctx, start)
	}
	x.Jobs, err = b.all(ctx, e, start)
	x.Memory = memory()
	x.Disk = countOf(b.cluster.DiskStats().Since(before))
	return x, err
}

// all submits the jobs at their times and waits for their ends.
func (b *bench) all(ctx context.Context, e entry, start time.Time) ([]Job, error) {
	out, errs := make([]Job, len(e.jobs)), make([]error, len(e.jobs))
	var all sync.WaitGroup
	for i, j := range e.jobs {
		all.Go(func() {
			if errs[i] = rig.WaitUntil(ctx, start.Add(j.submit)); errs[i] == nil {
				out[i], errs[i] = b.one(ctx, e.mode, j, start)
			}
		})
	}
	all.Wait()
	return out, errors.Join(errs...)
}

// one runs a job and compares its answer with what it was before.
func (b *bench) one(ctx context.Context, mode string, j plannedJob, start time.Time) (Job, error) {
	if j.kind == kindQuery {
		return b.query(ctx, mode, j)
	}
	o := j.order(b.runs)
	maps.Copy(o.Properties, b.archived)
	o.Properties["headrace.warm"] = fmt.Sprint(mode == modeWarmed || mode == modeDelayed)
	o.Properties["headrace.node.socket"] = b.cluster.Socket(0)
	o.Properties["headrace.warm.implicit"] = "true"
	if mode == modeDelayed {
		o.Properties["headrace.warm.lead"] = fmt.Sprintf("%dms", delay.Milliseconds())
	}
	submitted := time.Since(start)
	e, err := b.submitter.Run(ctx, o)
	if err != nil {
		return Job{}, fmt.Errorf("%w%s", err, b.cluster.Said(e.Application))
	}
	out := Job{Name: j.name, Class: j.class, Input: j.input, On: b.placed(j), Submitted: submitted.Seconds(), Duration: e.Took, Uber: e.Uber}
	if out.Reads, err = b.reads(e.Application, j); err != nil {
		return out, err
	}
	return out, b.answers.Check(j.name, e.Answer)
}

// placed returns how much of a job's input each machine has.
func (b *bench) placed(j plannedJob) []int64 {
	on := make([]int64, servers)
	for _, path := range j.inputs {
		for i, r := range b.replicas[path] {
			if i == 0 || r.Block.ID != b.replicas[path][i-1].Block.ID {
				on[r.Machine] += r.Block.Bytes
			}
		}
	}
	return on
}

// reads returns how long each block took to be read, in the order in which that ended.
func (b *bench) reads(application string, j plannedJob) (out []float64, err error) {
	if j.kind != kindRatios {
		return nil, nil
	}
	logs, err := b.cluster.ContainerLogs(application)
	if err != nil {
		return nil, err
	}
	for name, log := range logs {
		if filepath.Base(name) != "stdout" {
			continue
		}
		for line := range strings.Lines(log) {
			var took float64
			if _, err := fmt.Sscanf(line, "block %f\n", &took); err == nil {
				out = append(out, took)
			}
		}
	}
	if len(out) != len(j.inputs) {
		return out, fmt.Errorf("%w: %s has read %d blocks, not %d", rig.ErrWrong, application, len(out), len(j.inputs))
	}
	return out, nil
}

// sampleEvery is how often it is asked how much is kept in memory.
const sampleEvery = 200 * time.Millisecond

// sampleMemory asks until the returned function is called, which returns what was
// answered.
func (b *bench) sampleMemory(ctx context.Context, start time.Time) func() []Memory {
	return rig.Sample(ctx, sampleEvery, func(ctx context.Context) (Memory, bool) {
		m := Memory{At: time.Since(start).Seconds()}
		for i := range servers {
			pinned, err := b.cluster.Pinned(ctx, i)
			if err != nil {
				return m, false // the jobs will tell if a daemon is gone
			}
			m.Bytes = append(m.Bytes, pinned)
		}
		return m, true
	})
}
