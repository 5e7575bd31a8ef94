package share

import (
	"context"
	"errors"
	"fmt"
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
	drivers   [2]*yarn.LineCounts // of the first and of the second job
	replicas  []yarn.Replica      // of all data, in the order of files; those of practice last
	runs      int                 // so far; numbers names
	answers   rig.Answers
}

const (
	// runTime is a bound for a run that does not come to an end.
	runTime  = 10 * time.Minute
	idleTime = 2 * time.Minute
)

// Memory that YARN gives out, in MB. Each machine has room for an executor of the application
// that comes first and one of the next, and for no two of the first: so each has one of each.
// Where a job of MapReduce is the other one it has room for two containers beside an executor.
const (
	executorFirst = 1152
	executorNext  = 1024
	executorHeap  = 480
)

func (b *bench) start(ctx context.Context) (err error) {
	plan := b.res.Plan
	disk := diskHere
	b.res.Disk = fmt.Sprintf("%d of these: %v", servers, disk)
	b.cluster, err = yarn.Start(ctx, yarn.Options{Mode: yarn.Wait, Beside: true, CountTraffic: true, Jars: b.o.Jars, Dir: b.h.Disk.Dir,
		Nodes: servers, Machines: true, Memory: executorFirst + executorNext, Disk: &disk, LabProgram: b.h.Programs.Lab, Binary: b.h.Programs.Headrace,
		NodeFlags: append([]string{"--warm-budget", fmt.Sprint(plan.Cache / 2)}, b.o.SoloFlags...),
		HDFS: &yarn.HDFSOptions{BlockSize: block, Replication: plan.Replication, Cache: plan.Locked, Properties: map[string]string{
			"dfs.datanode.transfer.socket.send.buffer.size": fmt.Sprint(sendBuffer)}}})
	if err != nil {
		return err
	}
	if b.submitter, err = b.cluster.Submitter(ctx, b.o.Jars.Module("mapreduce")); err != nil {
		return err
	}
	for i, name := range []string{"first", "second"} {
		if b.drivers[i], err = b.cluster.LineCounts(ctx, name, b.o.Jars.Module("spark")); err != nil {
			return err
		}
	}
	b.h.Say(0, "making the data")
	if err := b.cluster.Unmodelled(func() error { return b.makeData(ctx) }); err != nil {
		return err
	}
	// From now on the DataNodes, and the node daemons that come, are where they are bounded.
	return b.cluster.LimitCache(plan.Cache)
}

func (b *bench) stop() error {
	if b.cluster == nil {
		return nil
	}
	return b.cluster.Finish(idleTime)
}

// makeData makes what the parts that are run read.
func (b *bench) makeData(ctx context.Context) error {
	most := 0.0
	for _, part := range b.o.Only {
		for _, e := range entries(part, b.o.Modes, b.o.Quick) {
			most = max(most, e.factor)
		}
	}
	for i, path := range append(b.res.Plan.data(most), practice) {
		bytes := b.res.Plan.Part
		if path == practice {
			bytes = b.res.Plan.practice()
		}
		o := yarn.SubmitterOrder{Name: "make " + path, Kind: "make-text", Inputs: []string{path}, Bytes: bytes, Seed: uint64(i) + 1,
			Properties: map[string]string{"dfs.replication": fmt.Sprint(b.res.Plan.Replication)}}
		if err := b.submitter.Make(ctx, o); err != nil {
			return err
		}
		all, err := b.cluster.HDFS.Replicas(ctx, path, b.res.Plan.Replication)
		if err != nil {
			return err
		}
		b.replicas = append(b.replicas, all...)
	}
	return nil
}

// resident returns how much of the data of so many blocks is in memory somewhere: what is
// there of each block on the machine that has most of it, because who reads a block reads one
// replica.
func (b *bench) resident(blocks int) (sum int64, err error) {
	most := map[int64]int64{}
	for _, r := range b.replicas[:blocks*b.res.Plan.Replication] {
		err = errors.Join(err, b.cluster.On(r.Machine, func() error {
			n, err := pages.Resident([]string{r.Data})
			most[r.Block.ID.Number] = max(most[r.Block.ID.Number], n)
			return err
		}))
	}
	for _, n := range most {
		sum += n
	}
	return sum, err
}

// once runs a pair of jobs on cold data. They have executors when they begin, which have read
// something else: neither knows more of the data than one that has just been submitted, and
// neither waits for virtual machines to load what they run.
func (b *bench) once(ctx context.Context, e entry) (x Run, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runTime, fmt.Errorf("%w: not over after %v", rig.ErrWrong, runTime))
	defer cancel()
	b.runs++
	if ours(e.mode) {
		if err := b.cluster.StartDaemons(ctx, "", nil); err != nil {
			return x, err
		}
		defer func() { err = errors.Join(err, b.cluster.StopDaemons()) }()
	}
	var first, second *job
	err = b.cluster.Unmodelled(func() (err error) {
		first, second, err = b.jobs(ctx, e)
		return err
	})
	if err != nil {
		return x, err
	}
	if err := errors.Join(b.cluster.Chill(ctx, b.cluster.HDFS.Files(b.replicas)), b.cluster.LimitCache(b.res.Plan.Cache)); err != nil {
		return x, errors.Join(err, first.close(ctx), second.close(ctx))
	}
	if e.mode == modeCached {
		err = b.submitter.Cache(ctx, fmt.Sprint("cache-", b.runs), b.res.Plan.data(e.factor))
	}
	if err == nil {
		x, err = b.pair(ctx, e, first, second)
	}
	// Also of a run that was interrupted: the drivers serve the next one.
	closing := context.WithoutCancel(ctx)
	err = errors.Join(err, second.close(closing), first.close(closing), b.cluster.AwaitIdleFor(closing, idleTime))
	if e.mode == modeCached {
		err = errors.Join(err, b.submitter.Uncache(closing, fmt.Sprint("uncache-", b.runs)))
	}
	return x, err
}

// pair runs the two jobs.
func (b *bench) pair(ctx context.Context, e entry, first, second *job) (x Run, err error) {
	u := b.use(e.mode)
	before, err := u()
	if err != nil {
		return x, err
	}
	files := b.res.Plan.data(e.factor)
	x.Bytes = int64(len(files)) * b.res.Plan.Part
	disks, start := b.cluster.DiskStats(), time.Now()
	read := func() int64 { return b.cluster.DiskStats().Since(disks).Read }
	if e.part == partApart {
		err = b.apart(ctx, start, b.res.Plan.gap(e.gap), files, first, second, &x)
	} else {
		if x.First, err = first.run(ctx, start, files); err == nil {
			x.FirstRead = read()
			x.Resident, err = b.resident(int(x.Bytes / block))
		}
		if err == nil {
			x.Second, err = second.run(ctx, start, files)
		}
	}
	x.Read, x.Took = read(), time.Since(start).Seconds()
	if s, e := b.cluster.HDFS.State(ctx); e != nil || s.NumLiveDataNodes < servers { // all that came after would be wrong, too
		return x, errors.Join(err, e, fmt.Errorf("%d of %d DataNodes are left", s.NumLiveDataNodes, servers))
	}
	after, e2 := u()
	x.Use = after.since(before)
	if e.mode == modeCached && err == nil {
		if x.Cached, err = b.cluster.HDFS.Cached(ctx); err == nil && x.Cached == 0 {
			err = fmt.Errorf("%w: HDFS's cache holds nothing", rig.ErrWrong)
		}
	}
	return x, errors.Join(err, e2)
}

// apart begins the second job so much after the first, whether that has ended or not.
func (b *bench) apart(ctx context.Context, start time.Time, gap time.Duration, files []string, first, second *job, x *Run) error {
	var both sync.WaitGroup
	var errs [2]error
	both.Go(func() { x.First, errs[0] = first.run(ctx, start, files) })
	both.Go(func() {
		if errs[1] = rig.WaitUntil(ctx, start.Add(gap)); errs[1] == nil {
			x.Second, errs[1] = second.run(ctx, start, files)
		}
	})
	both.Wait()
	return errors.Join(errs[:]...)
}

// use returns what tells what the daemons have used so far: nothing where there are none.
func (b *bench) use(mode string) func() (Use, error) {
	return func() (Use, error) {
		if !ours(mode) {
			return Use{}, nil
		}
		u, err := b.cluster.Use()
		out := Use{Manager: u.Manager.Seconds(), Traffic: u.Traffic}
		for _, n := range u.Nodes {
			out.Node = max(out.Node, n.Seconds())
		}
		return out, err
	}
}

// answerOf names an answer by what it is the answer to.
func answerOf(framework string, files []string) string {
	return framework + " on " + strings.Join(files, ",")
}
