package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"headrace/report"
)

// A harness is what an experiment works with: scratches and daemons. One goroutine at
// a time may use it.
type harness struct {
	dir      string // where everything temporary lies
	programs Programs
	flags    []string // more of every daemon
	seed     uint64   // of what is made
	// skip notes what this machine cannot have.
	skip func(what, why string)

	disk   *scratch
	memory *scratch // nil when there is no /dev/shm

	daemons map[string]*daemon
	started int // daemons so far

	progress *report.Progress
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
	if err := h.programs.find(); err != nil {
		return err
	}
	h.daemons = map[string]*daemon{}
	// A loop device of a crashed run is mounted in one scratch and has its file
	// in the other: the mounts go first.
	var err error
	if h.disk, err = newScratch(h.dir); err != nil {
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

// within is say for what takes from one share of the present experiment to another.
func (h *harness) within(from, to float64) func(share float64, format string, args ...any) {
	return func(share float64, format string, args ...any) { h.say(from+share*(to-from), format, args...) }
}

// daemon returns the running daemon of a configuration, or starts it.
func (h *harness) daemon(ctx context.Context, c daemonConfig) (*daemon, error) {
	key := fmt.Sprintf("%+v", c)
	if d := h.daemons[key]; d != nil {
		if !d.broken() {
			return d, nil
		}
		if err := h.settle(d); err != nil {
			return nil, err
		}
	}
	d, err := h.start(ctx, c)
	if err != nil {
		return nil, err
	}
	h.daemons[key] = d
	return d, nil
}

// start starts one that nobody shares. The caller ends it.
func (h *harness) start(ctx context.Context, c daemonConfig) (*daemon, error) {
	c.programs, c.flags = h.programs, append(c.flags, h.flags...)
	h.started++
	return startDaemon(ctx, filepath.Join(h.disk.dir, fmt.Sprint("state", h.started)), c)
}

// version asks a daemon who it is. No daemon runs afterwards.
func (h *harness) version(ctx context.Context) (string, error) {
	d, err := h.daemon(ctx, daemonConfig{policy: "wait"})
	if err != nil {
		return "", err
	}
	v, err := d.version(ctx)
	return v, errors.Join(err, h.stopDaemons())
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
