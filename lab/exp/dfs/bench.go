package dfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"headrace/lab/rig"
	"headrace/lab/slowdisk"
	"headrace/lab/yarn"
)

// bench has one cluster at a time, with an HDFS and what is compared with it.
type bench struct {
	o   *Options
	res *Results
	h   *rig.Bench

	shape   shape
	cluster *yarn.Cluster
	load    *yarn.FileLoad
	nodes   int      // of our file system; 0: there is none
	clients []string // its configuration
	made    map[string]bool
	orders  int // so far; numbers names
}

const (
	// runTime is a bound for a run that does not come to an end.
	runTime = 10 * time.Minute
	// block is that of files where there are several machines: as much smaller as the disks are slower.
	block = 128 << 20
)

// have has a cluster of that shape.
func (b *bench) have(ctx context.Context, s shape) error {
	if b.cluster != nil && b.shape == s {
		return nil
	}
	if err := b.stop(); err != nil {
		return err
	}
	b.h.Say(0, "starting HDFS")
	o := yarn.Options{Mode: yarn.Wait, NoYARN: true, Beside: true, Compiled: true, Jars: b.o.Jars, Dir: b.h.Disk.Dir, Nodes: s.machines, Machines: true,
		LabProgram: b.h.Programs.Lab, Binary: b.h.Programs.Headrace, HDFS: &yarn.HDFSOptions{Replication: min(copies, s.machines), BlockSize: block, Absent: !slices.Contains(b.o.Systems, systemHDFS)}}
	if s.disk != (slowdisk.Model{}) {
		o.Disk = &s.disk
		o.HDFS.BlockSize = block * s.disk.Bandwidth / slowdisk.HardDisk().Bandwidth
		b.res.Disk += fmt.Sprintf("%s%d of these: %v", map[bool]string{true: "; "}[b.res.Disk != ""], s.machines, s.disk)
	}
	b.shape, b.nodes, b.made = s, 0, map[string]bool{}
	var err error
	if b.cluster, err = yarn.Start(ctx, o); err != nil {
		return err
	}
	if !o.HDFS.Absent {
		if err := b.idle(systemHDFS); err != nil {
			return err
		}
	}
	b.load, err = b.cluster.FileLoad(ctx)
	return err
}

// idle notes what a system that was just started has in memory.
func (b *bench) idle(system string) error {
	u, err := b.use(system)
	if b.res.Idle == nil {
		b.res.Idle = map[string]int64{}
	}
	b.res.Idle[system] = max(b.res.Idle[system], u.Most)
	return err
}

func (b *bench) stop() error {
	if b.cluster == nil {
		return nil
	}
	err := b.cluster.Stop()
	b.cluster = nil
	return err
}

// ours has our file system on so many machines.
func (b *bench) ours(ctx context.Context, nodes int) (err error) {
	if b.nodes == nodes {
		return nil
	}
	b.nodes = 0
	for name := range b.made {
		if path.Dir(name) == "/"+systemOurs {
			delete(b.made, name)
		}
	}
	if err := b.cluster.DFS.Make(ctx, nodes, b.o.SoloFlags...); err != nil {
		return err
	}
	b.clients, err = b.cluster.DFS.ClientFiles(ctx)
	b.nodes = nodes
	return errors.Join(err, b.idle(systemOurs))
}

// dir is where a system's files of a name are.
func dir(system, name string) string { return "/" + system + "/" + name }

// order gives an order to the clients of a system.
func (b *bench) order(ctx context.Context, system string, o yarn.FileOrder) (yarn.FileReport, error) {
	b.orders++
	o.Name = fmt.Sprint(o.Kind, b.orders)
	o.Properties = map[string]string{"dfs.replication": fmt.Sprint(min(copies, b.shape.machines)), "dfs.blocksize": fmt.Sprint(b.blockSize())}
	if o.Resources = []string{}; system == systemOurs {
		o.Resources = b.clients
	}
	r, err := b.load.Do(ctx, o)
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", rig.ErrWrong, system, err)
	}
	return r, err
}

func (b *bench) blockSize() int64 {
	if b.shape.disk.Bandwidth == 0 {
		return block
	}
	return block * b.shape.disk.Bandwidth / slowdisk.HardDisk().Bandwidth
}

// unmodelled makes something that is measured later, which is in memory of nobody then.
func (b *bench) unmodelled(do func() error) error {
	if b.shape.disk.Bandwidth == 0 {
		return errors.Join(do(), b.cold())
	}
	return b.cluster.Unmodelled(do)
}

// cold has everything be on the disks, and nothing in memory. Who reads a file may still be letting
// it go.
func (b *bench) cold() (err error) {
	for i := range b.shape.machines {
		err = errors.Join(err, b.cluster.DropDisk(i))
	}
	return err
}

// files makes files once, side by side.
func (b *bench) files(ctx context.Context, system, name string, o yarn.FileOrder) error {
	o.Kind, o.Path = "write", dir(system, name)
	if b.made[o.Path] {
		return nil
	}
	err := b.unmodelled(func() error {
		_, err := b.order(ctx, system, o)
		return err
	})
	b.made[o.Path] = err == nil
	return err
}

// practise does all that is measured in a small way: virtual machines compile meanwhile what they
// run. Only reading takes time of disks, else our nodes would take them for some that do not seek.
func (b *bench) practise(ctx context.Context, entries []entry) error {
	if b.o.Quick {
		return nil
	}
	b.h.Say(0, "%s: practising", entries[0].part)
	for _, e := range entries {
		if err := b.begin(ctx, e); err != nil {
			return err
		}
		all, file := dir(e.system, "practice"), yarn.FileOrder{Threads: 8, Bytes: 16 << 20}
		if err := b.files(ctx, e.system, "practice", file); err != nil {
			return err
		}
		file.Kind, file.Path = "read", all
		_, err := b.order(ctx, e.system, file)
		if err == nil && e.part == partNames {
			err = b.practiseNames(ctx, e)
		}
		if err == nil {
			_, err = b.order(ctx, e.system, yarn.FileOrder{Kind: "delete", Path: all})
		}
		if err != nil {
			return err
		}
		delete(b.made, all)
	}
	return nil
}

// mostPractice is how many runs of names are practice at most.
const mostPractice = 12

// practiseNames does what is measured until it does not become faster by more than a twentieth: HDFS does
// three times as many operations a second once its virtual machine has compiled all of them.
func (b *bench) practiseNames(ctx context.Context, e entry) error {
	last := math.Inf(1)
	for range mostPractice {
		x, err := b.names(ctx, e)
		if err != nil || x.Took > 0.95*last {
			return err
		}
		last = x.Took
	}
	return nil
}

// begin has the system of an entry be there, as that wants it.
func (b *bench) begin(ctx context.Context, e entry) error {
	if e.system == systemHDFS {
		return nil
	}
	return b.ours(ctx, cmp.Or(e.Nodes, b.shape.machines))
}

// once does one run.
func (b *bench) once(ctx context.Context, e entry) (x Run, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runTime, fmt.Errorf("%w: not over after %v", rig.ErrWrong, runTime))
	defer cancel()
	if err := b.begin(ctx, e); err != nil {
		return x, err
	}
	switch {
	case e.part == partNames:
		return b.names(ctx, e)
	case e.part == partLoss:
		return b.loss(ctx, e)
	case e.part == partWrite || e.What == whatWrite:
		return b.write(ctx, e)
	}
	return b.read(ctx, e)
}

// use returns what the daemons of a system have used.
func (b *bench) use(system string) (yarn.FSUse, error) {
	if system == systemHDFS {
		return b.cluster.HDFS.Use()
	}
	return b.cluster.DFS.Use()
}

// sampleEvery is how often it is asked how much memory daemons have.
const sampleEvery = 200 * time.Millisecond

// measured does something, and fills in what the disks and the daemons have done and used meanwhile.
func (b *bench) measured(ctx context.Context, system string, x *Run, do func() error) error {
	before, err := b.use(system)
	if err != nil {
		return err
	}
	disks := slowdisk.Stats{}
	if b.shape.disk.Bandwidth > 0 {
		disks = b.cluster.DiskStats()
	}
	memory := rig.Sample(ctx, sampleEvery, func(context.Context) (yarn.FSUse, bool) {
		u, err := b.use(system)
		return u, err == nil // a node that is killed just now is no problem
	})
	err = do()
	x.Use.Idle, x.Use.IdleAll = before.Most, before.Memory
	for _, u := range memory() {
		x.Use.Memory, x.Use.MemoryAll = max(x.Use.Memory, u.Most), max(x.Use.MemoryAll, u.Memory)
	}
	if err != nil {
		return err
	}
	if b.shape.disk.Bandwidth > 0 {
		x.Disk = countOf(b.cluster.DiskStats().Since(disks))
	}
	after, err := b.use(system)
	x.Use.Names, x.Use.Data = (after.Names - before.Names).Seconds(), (after.Data - before.Data).Seconds()
	return err
}

// read has readers read files side by side that were written so, cold.
func (b *bench) read(ctx context.Context, e entry) (x Run, err error) {
	p := b.res.Plan
	o := yarn.FileOrder{Threads: p.Readers, Bytes: p.ReadBytes}
	if err := b.files(ctx, e.system, "read", o); err != nil {
		return x, err
	}
	if err := b.cold(); err != nil {
		return x, err
	}
	o.Kind, o.Path = "read", dir(e.system, "read")
	err = b.measured(ctx, e.system, &x, func() error {
		r, err := b.order(ctx, e.system, o)
		x.Bytes, x.Took = r.Bytes, r.Took
		return err
	})
	return x, err
}

// write has writers write files side by side, until all is on the disks. What they have written is
// read then, and deleted.
func (b *bench) write(ctx context.Context, e entry) (x Run, err error) {
	p := b.res.Plan
	writers := cmp.Or(e.Writers, p.Readers)
	o := yarn.FileOrder{Threads: writers, Bytes: p.WriteBytes / int64(writers)}
	if e.part == partDevice {
		o.Bytes = p.ReadBytes
	}
	b.orders++
	o.Path = dir(e.system, fmt.Sprint("write", b.orders))
	if err := b.cold(); err != nil {
		return x, err
	}
	err = b.measured(ctx, e.system, &x, func() error {
		began := time.Now()
		o.Kind = "write"
		r, err := b.order(ctx, e.system, o)
		x.Bytes, x.Took = r.Bytes, r.Took
		if err == nil {
			err = b.cold()
		}
		x.Durable = time.Since(began).Seconds()
		return err
	})
	if err != nil {
		return x, err
	}
	return x, b.unmodelled(func() error {
		o.Kind = "read"
		if _, err := b.order(ctx, e.system, o); err != nil {
			return err
		}
		_, err := b.order(ctx, e.system, yarn.FileOrder{Kind: "delete", Path: o.Path})
		return err
	})
}

// names has threads make, ask for, rename and delete names.
func (b *bench) names(ctx context.Context, e entry) (x Run, err error) {
	b.orders++
	o := yarn.FileOrder{Kind: "names", Path: dir(e.system, fmt.Sprint("names", b.orders)), Threads: b.res.Plan.Threads, Count: b.res.Plan.Names}
	err = b.measured(ctx, e.system, &x, func() error {
		r, err := b.order(ctx, e.system, o)
		for _, p := range r.Phases {
			x.Names = append(x.Names, Names(p))
			x.Took += p.Took
		}
		return err
	})
	if err != nil {
		return x, err
	}
	_, err = b.order(ctx, e.system, yarn.FileOrder{Kind: "delete", Path: o.Path})
	return x, err
}

// loss has a node be killed under readers and writers. It is back for the next run, and has
// everything.
func (b *bench) loss(ctx context.Context, e entry) (x Run, err error) {
	p := b.res.Plan
	if err := b.files(ctx, e.system, "loss", yarn.FileOrder{Threads: p.LossReaders, Bytes: p.LossBytes}); err != nil {
		return x, err
	}
	lost, err := b.toLose(ctx, e)
	if err != nil {
		return x, err
	}
	kill, revive := b.cluster.HDFS.KillDataNode, b.cluster.HDFS.StartDataNode
	if e.system == systemOurs {
		kill, revive = b.cluster.DFS.Kill, b.cluster.DFS.Restart
	}
	// The files that are there are read by readers; writers write beside them.
	o := yarn.FileOrder{Kind: "load", Path: dir(e.system, "loss"), Readers: p.LossReaders, Writers: p.LossWriters, Bytes: p.LossBytes, EveryMs: p.EveryMs, Seconds: p.Loss}
	killed := make(chan error, 1)
	began := time.Now()
	go func() {
		killed <- errors.Join(rig.WaitUntil(ctx, began.Add(time.Duration(p.Before*float64(time.Second)))), kill(lost))
	}()
	r, err := b.order(ctx, e.system, o)
	if err = errors.Join(err, <-killed); err != nil {
		return x, err
	}
	at := began.Add(time.Duration(p.Before * float64(time.Second)))
	x.Took, x.Bytes, x.Errors = r.Took, r.Bytes, r.Errors
	x.Reader, x.Writer = stallsOf(r.Held, false, at), stallsOf(r.Held, true, at)
	return x, revive(ctx, lost)
}

// toLose returns the machine whose node is to be lost.
func (b *bench) toLose(ctx context.Context, e entry) (int, error) {
	if e.system == systemHDFS {
		return 1, nil
	}
	leader, err := b.cluster.DFS.Leader(ctx)
	if e.Lost == lostOther {
		return (leader + 1) % several, err
	}
	return leader, err
}
