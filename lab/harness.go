package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headrace/report"
)

// harness runs one experiment: it owns the scratches and the daemons.
type harness struct {
	o   *PreemptOptions
	res *Results

	disk   *scratch
	memory *scratch // nil when there is no /dev/shm

	daemons map[string]*daemon
	started int // daemons so far

	progress *report.Progress
	// noCheckpoint is why checkpoints do not work on this machine; empty: they do.
	noCheckpoint string
	// done and todo are the shares of the whole run before the present part of the
	// experiment and in it.
	done, todo float64
}

const shm = "/dev/shm"

// with makes the scratches, runs f, and removes everything again.
func (h *harness) with(f func() error) (err error) {
	if err := h.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	return f()
}

func (h *harness) open() error {
	if err := h.o.find(); err != nil {
		return err
	}
	h.daemons = map[string]*daemon{}
	// A loop device of a crashed run is mounted in one scratch and has its file
	// in the other: the mounts go first.
	var err error
	if h.disk, err = newScratch(h.o.Dir); err != nil {
		return err
	}
	if onTmpfs(shm) {
		if h.memory, err = newScratch(shm); err != nil {
			return errors.Join(err, h.disk.remove())
		}
	}
	return nil
}

func (h *harness) close() error {
	err := h.stopDaemons()
	err = errors.Join(err, h.disk.remove())
	if h.memory != nil {
		err = errors.Join(err, h.memory.remove())
	}
	return err
}

// say tells what is being done; share is the part of the present experiment.
func (h *harness) say(share float64, format string, args ...any) {
	h.progress.Set(h.done+share*h.todo, fmt.Sprintf(format, args...))
}

// daemon returns the running daemon of a configuration, or starts it.
func (h *harness) daemon(ctx context.Context, c daemonConfig) (*daemon, error) {
	c.programs, c.flags = h.o.Programs, h.o.SoloFlags
	key := fmt.Sprintf("%+v", c)
	if d := h.daemons[key]; d != nil {
		if !d.broken() {
			return d, nil
		}
		if err := h.settle(d); err != nil {
			return nil, err
		}
	}
	h.started++
	d, err := startDaemon(ctx, stateDir(h.disk, h.started), c)
	if err != nil {
		return nil, err
	}
	h.daemons[key] = d
	return d, nil
}

// running reports whether a daemon is up.
func (h *harness) running() bool {
	for _, d := range h.daemons {
		if !d.broken() {
			return true
		}
	}
	return false
}

// policies are those of the given ones that the machine can carry out.
func (h *harness) policies(names ...string) []string {
	return slices.DeleteFunc(names, func(p string) bool {
		return h.noCheckpoint != "" && (p == "checkpoint" || p == "adaptive")
	})
}

// settle forgets a daemon that has broken down, so that the next run gets a new
// one.
func (h *harness) settle(d *daemon) error {
	if !d.broken() {
		return nil
	}
	for key, other := range h.daemons {
		if other == d {
			delete(h.daemons, key)
		}
	}
	return d.abandon()
}

func (h *harness) stopDaemons() error {
	var errs []error
	for key, d := range h.daemons {
		errs = append(errs, d.stop())
		delete(h.daemons, key)
	}
	return errors.Join(errs...)
}

// storeIn makes a directory for one daemon's checkpoints.
func (h *harness) storeIn(dir, name, owner string) (storeDir, error) {
	path := filepath.Join(dir, "store-"+owner)
	return storeDir{name: name, dir: path}, os.MkdirAll(path, 0o700)
}

// entry is one trial of a plan.
type entry struct {
	policy string
	point  Point
	config daemonConfig
	trial  trial
}

func (e entry) String() string {
	var at []string
	if e.point.Store != "" {
		at = append(at, e.point.Store)
	}
	if e.point.UrgentBytes > 0 {
		at = append(at, report.Bytes(e.point.UrgentBytes))
	}
	if e.point.Share > 0 {
		at = append(at, fmt.Sprintf("%.0f %%", e.point.Share*100))
	}
	if len(at) == 0 {
		return e.policy
	}
	return e.policy + " at " + strings.Join(at, ", ")
}

// mostFailures in a row end an experiment: something is wrong with the machine or
// with the daemon, and hours of it would tell no more.
const mostFailures = 4

// repeat carries out all entries once per repeat, each time in another order.
func (h *harness) repeat(ctx context.Context, experiment string, entries []entry) error {
	failures := 0
	for repeat := range h.o.Repeats {
		order := rand.New(rand.NewPCG(h.o.Seed, uint64(repeat))).Perm(len(entries))
		for place, i := range order {
			e := entries[i]
			share := (float64(repeat) + float64(place)/float64(len(entries))) / float64(h.o.Repeats)
			h.say(share, "(%s) repeat %d of %d: %v", experiment, repeat+1, h.o.Repeats, e)
			r, err := h.once(ctx, e)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if failures++; err == nil {
				failures = 0
			}
			r.Experiment, r.Repeat, r.Order, r.Policy, r.Point = experiment, repeat, place, e.policy, e.point
			if err != nil {
				r.Failure = err.Error()
			}
			h.res.Runs = append(h.res.Runs, r)
			if failures == mostFailures {
				return fmt.Errorf("%d runs in a row have failed, the last one (%v): %w", failures, e, err)
			}
		}
	}
	return nil
}

func (h *harness) once(ctx context.Context, e entry) (Run, error) {
	d, err := h.daemon(ctx, e.config)
	if err != nil {
		return Run{}, err
	}
	o, err := e.trial.run(ctx, d, h.disk)
	return o.Run, errors.Join(err, h.settle(d))
}
