package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"headrace/report"
)

// A Bench is what an experiment works with: scratches and daemons. One goroutine at
// a time may use it.
type Bench struct {
	Dir      string // where everything temporary lies
	Programs Programs
	Flags    []string // more of every daemon
	Seed     uint64   // of what is made
	// NoProgress keeps tasks from telling daemons how much of them is done.
	NoProgress bool
	// Skip notes what this machine cannot have.
	Skip func(what, why string)

	Disk   *Scratch
	Memory *Scratch // nil when there is no /dev/shm

	Daemons map[string]*Daemon
	started int // daemons so far

	Progress *report.Progress
	// Done and todo are the shares of the whole run before the present part of the
	// experiment and in it.
	Done, Todo float64
}

const SharedMemory = "/dev/shm"

// With makes the scratches, runs f, and removes everything again.
func (h *Bench) With(f func() error) (err error) {
	if err := h.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	return f()
}

func (h *Bench) open() error {
	if err := h.Programs.Find(); err != nil {
		return err
	}
	h.Daemons = map[string]*Daemon{}
	// A loop device of a crashed run is mounted in one scratch and has its file
	// in the other: the mounts go first.
	var err error
	if h.Disk, err = NewScratch(h.Dir); err != nil {
		return err
	}
	if onTmpfs(SharedMemory) {
		if h.Memory, err = NewScratch(SharedMemory); err != nil {
			return errors.Join(err, h.Disk.Remove())
		}
	}
	return nil
}

func (h *Bench) close() error {
	err := h.StopDaemons()
	err = errors.Join(err, h.Disk.Remove())
	if h.Memory != nil {
		err = errors.Join(err, h.Memory.Remove())
	}
	return err
}

// Say tells what is being done; share is the part of the present experiment.
func (h *Bench) Say(share float64, format string, args ...any) {
	h.Progress.Set(h.Done+share*h.Todo, fmt.Sprintf(format, args...))
}

// Within does as say, for what takes from one share of the present experiment to another.
func (h *Bench) Within(from, to float64) func(share float64, format string, args ...any) {
	return func(share float64, format string, args ...any) { h.Say(from+share*(to-from), format, args...) }
}

// Daemon returns the running daemon of a configuration, or starts it.
func (h *Bench) Daemon(ctx context.Context, c DaemonConfig) (*Daemon, error) {
	key := fmt.Sprintf("%+v", c)
	if d := h.Daemons[key]; d != nil {
		if !d.Broken() {
			return d, nil
		}
		if err := h.Settle(d); err != nil {
			return nil, err
		}
	}
	d, err := h.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	h.Daemons[key] = d
	return d, nil
}

// Start starts one that nobody shares. The caller ends it.
func (h *Bench) Start(ctx context.Context, c DaemonConfig) (*Daemon, error) {
	c.Programs, c.Flags = h.Programs, append(c.Flags, h.Flags...)
	h.started++
	return StartDaemon(ctx, filepath.Join(h.Disk.Dir, fmt.Sprint("state", h.started)), c)
}

// Version asks a daemon who it is. No daemon runs afterwards.
func (h *Bench) Version(ctx context.Context) (string, error) {
	d, err := h.Daemon(ctx, DaemonConfig{Policy: "wait"})
	if err != nil {
		return "", err
	}
	v, err := d.Version(ctx)
	return v, errors.Join(err, h.StopDaemons())
}

// Running reports whether a daemon is up.
func (h *Bench) Running() bool {
	for _, d := range h.Daemons {
		if !d.Broken() {
			return true
		}
	}
	return false
}

// Settle forgets a daemon that has broken down, so that the next run gets a new
// one.
func (h *Bench) Settle(d *Daemon) error {
	if !d.Broken() {
		return nil
	}
	for key, other := range h.Daemons {
		if other == d {
			delete(h.Daemons, key)
		}
	}
	return d.abandon()
}

// StopDaemons ends all daemons that are up, and their tasks.
func (h *Bench) StopDaemons() error {
	var errs []error
	for key, d := range h.Daemons {
		errs = append(errs, d.Stop())
		delete(h.Daemons, key)
	}
	return errors.Join(errs...)
}

// StoreIn makes a directory for one daemon's checkpoints.
func (h *Bench) StoreIn(dir, name, owner string) (StoreDir, error) {
	path := filepath.Join(dir, "store-"+owner)
	return StoreDir{Name: name, Dir: path}, os.MkdirAll(path, 0o700)
}
