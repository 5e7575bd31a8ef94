package solo

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/serve"
	"headrace/solo/journal"
)

const (
	storeFullFor = time.Minute
	// measureValid is how long a measured bandwidth is used by later daemons.
	measureValid = 24 * time.Hour
	// guessStore is the bandwidth, in bytes per second, of a store that could not
	// be measured.
	guessStore = 100e6
	// The fixed costs before any dump has been seen, as measured for CRIU on small
	// processes.
	guessDumpOverhead    = 150 * time.Millisecond
	guessRestoreOverhead = 150 * time.Millisecond
	// Dumps below smallDump tell about the overhead, those above bigDump about the
	// bandwidth.
	smallDump = 8 << 20
	bigDump   = 32 << 20
)

// stores are the checkpoint stores.
type stores struct {
	all []*store
	// known is how fast they are, and were that are not used now, by directory.
	known map[string]journal.Measure
	clk   clock
}

// store is a checkpoint store and what is known of it.
type store struct {
	StoreConfig
	journal.Measure
	device *device
	// free is the room left, -1 while unknown.
	free      int64
	looking   bool
	fullUntil time.Duration
}

// device is what several stores may share: one dump at a time.
type device struct {
	sem *semaphore.Weighted
	// dumps under way and waiting, in order.
	dumps []*dump
}

type dump struct {
	task   *task
	expect time.Duration
	// started is a boot time, zero while it waits.
	started time.Duration
}

// openStores creates the directories and finds out which share a device.
func openStores(cfg []StoreConfig, clk clock) (*stores, error) {
	devices := map[uint64]*device{}
	a := &stores{known: map[string]journal.Measure{}, clk: clk}
	for _, c := range cfg {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("checkpoint store %s: %w; choose a directory that can be written", c.Name, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(c.Dir, &st); err != nil {
			return nil, fmt.Errorf("checkpoint store %s: look at %s: %w", c.Name, c.Dir, err)
		}
		if st.Mode&0o077 != 0 {
			return nil, fmt.Errorf("checkpoint store %s: %s can be read by others, but checkpoints hold secrets: chmod 700 it",
				c.Name, c.Dir)
		}
		d := devices[st.Dev]
		if d == nil {
			d = &device{sem: semaphore.NewWeighted(1)}
			devices[st.Dev] = d
		}
		a.all = append(a.all, &store{StoreConfig: c, device: d, free: freeSpace(c.Dir)})
	}
	return a, nil
}

func freeSpace(dir string) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return -1
	}
	return int64(fs.Bavail) * fs.Bsize
}

// measure fills in the bandwidths: from the records when they are recent, else by
// trying.
func (a *stores) measure(ctx context.Context, recorded map[string]journal.Measure, img Images, log *slog.Logger) {
	maps.Copy(a.known, recorded)
	var wg sync.WaitGroup
	for _, s := range a.all {
		m, ok := a.known[s.Dir]
		age := a.clk.wall().Sub(time.UnixMilli(m.MeasuredMs))
		if ok && m.Write > 0 && m.Read > 0 && age >= 0 && age < measureValid {
			s.Measure = m
			continue
		}
		wg.Go(func() {
			write, read, err := img.Measure(ctx, s.Dir)
			if err != nil || write <= 0 || read <= 0 {
				log.Warn("a checkpoint store could not be measured", "store", s.Name, "dir", s.Dir, "err", err)
				write, read = guessStore, guessStore
			}
			s.Measure = journal.Measure{
				Write: write, Read: read, DumpOverhead: guessDumpOverhead, RestoreOverhead: guessRestoreOverhead,
				MeasuredMs: a.clk.wall().UnixMilli(),
			}
			log.Info("checkpoint store", "store", s.Name, "dir", s.Dir, "write", int64(write), "read", int64(read))
		})
	}
	wg.Wait()
}

// named is the store with a name; nil: there is none.
func (a *stores) named(name string) *store {
	for _, s := range a.all {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// choose is the store a user named, else the one where the dump is likely
// to be done first.
func (a *stores) choose(name string, t *task) (*store, error) {
	if name != "" {
		if st := a.named(name); st != nil {
			return st, nil
		}
		var names []string
		for _, s := range a.all {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("%w: there is no checkpoint store %q; there is %q", serve.ErrInput, name, names)
	}
	now := a.clk.boot()
	var best *store
	var bestTime time.Duration
	for _, s := range a.all {
		need := s.estimate(t.dirty()) + s.queue(now)
		roomy := s.free < 0 || !t.known || s.free > t.dirty()
		if now < s.fullUntil || !roomy {
			continue
		}
		if best == nil || need < bestTime {
			best, bestTime = s, need
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: no checkpoint store has room for task %s; free some space, or kill the task", serve.ErrBusy, t.rec.ID)
	}
	return best, nil
}

// estimate is how long a dump of so many bytes takes.
func (s *store) estimate(dirty int64) time.Duration {
	return s.DumpOverhead + transfer(dirty, s.Write)
}

func transfer(bytes int64, bandwidth float64) time.Duration {
	if bandwidth <= 0 {
		return time.Hour
	}
	return time.Duration(float64(bytes) / bandwidth * float64(time.Second))
}

func (s *store) enqueue(t *task, expect time.Duration) *dump {
	d := &dump{task: t, expect: expect}
	s.device.dumps = append(s.device.dumps, d)
	return d
}

func (s *store) dequeue(d *dump) {
	if i := slices.Index(s.device.dumps, d); i >= 0 {
		s.device.dumps = slices.Delete(s.device.dumps, i, i+1)
	}
}

// queue is how long a dump that is asked for now has to wait.
func (s *store) queue(now time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range s.device.dumps {
		left := d.expect
		if d.started != 0 {
			left = max(0, d.expect-(now-d.started))
		}
		sum += left
	}
	return sum
}

// learnDump corrects the measured values by a dump that happened. Dumps that
// wrote little of a large memory say nothing about the bandwidth.
func (s *store) learnDump(stored, total int64, took time.Duration) {
	switch {
	case total <= smallDump:
		s.DumpOverhead = learnOverhead(s.DumpOverhead, took-transfer(stored, s.Write))
	case stored >= bigDump && stored >= total/2:
		s.Write = learnBandwidth(s.Write, stored, took-s.DumpOverhead, took)
	}
}

func (s *store) learnRestore(read int64, took time.Duration) {
	switch {
	case read <= smallDump:
		s.RestoreOverhead = learnOverhead(s.RestoreOverhead, took-transfer(read, s.Read))
	case read >= bigDump:
		s.Read = learnBandwidth(s.Read, read, took-s.RestoreOverhead, took)
	}
}

func learnOverhead(known, sample time.Duration) time.Duration {
	return time.Duration(ewma(float64(known), float64(max(sample, time.Millisecond))))
}

func learnBandwidth(known float64, bytes int64, net, gross time.Duration) float64 {
	if net < gross/4 {
		net = gross / 4
	}
	if net <= 0 {
		return known
	}
	return ewma(known, float64(bytes)/net.Seconds())
}

// views are the stores that can be used now.
func (a *stores) views() []headrace.StoreView {
	now := a.clk.boot()
	out := make([]headrace.StoreView, 0, len(a.all))
	for _, s := range a.all {
		if now < s.fullUntil {
			continue
		}
		out = append(out, s.view(now))
	}
	return out
}

func (s *store) view(now time.Duration) headrace.StoreView {
	return headrace.StoreView{
		Name: s.Name, Write: s.Write, Read: s.Read, DumpOverhead: s.DumpOverhead, RestoreOverhead: s.RestoreOverhead,
		Free: max(0, s.free), Queue: s.queue(now),
	}
}

// watch looks how much room there is, in the background: a file system on the network
// may not answer.
func (a *stores) watch(d *driver) {
	for _, s := range a.all {
		if s.looking {
			continue
		}
		s.looking = true
		d.background(func(context.Context) func() {
			free := freeSpace(s.Dir)
			return func() { s.looking, s.free = false, free }
		})
		a.known[s.Dir] = s.Measure
	}
}
