package supplement

import (
	"errors"
	"fmt"

	"headrace/internal/linux"
)

var procs linux.ProcFS

// A Record is what CRIU's images lack of a tree. It travels as JSON.
type Record struct {
	Timers    []Timer   `json:"timers,omitempty"`
	Threads   []Thread  `json:"threads,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	// Sockets are all that the processes have; nil: an older Headrace made the record.
	Sockets []Socket `json:"sockets"`
	// Options are of those sockets that have any.
	Options []SocketOptions `json:"socket_options,omitempty"`
}

// Take looks at a stopped tree. It changes nothing that a process could notice.
// Of what a thread has as this process has it nothing is kept: a restored tree
// inherits it, on another machine as it is there.
func Take(tree []linux.Stat) (Record, error) {
	var r Record
	base, err := ownAttributes()
	if err != nil {
		return r, err
	}
	for _, p := range tree {
		if linux.Dead(p.State) {
			continue
		}
		if err := r.add(p.PID, base); err != nil && !linux.Gone(err) {
			return r, fmt.Errorf("look at process %d (%s): %w", p.PID, p.Comm, err)
		}
	}
	if r.Sockets, err = socketsOf(tree); err != nil {
		return r, err
	}
	r.Options, err = optionsOf(tree)
	return r, err
}

func (r *Record) add(pid int, base attributes) error {
	timers, err := timersOf(pid)
	if err != nil {
		return err
	}
	r.Timers = append(r.Timers, timers...)
	threads, err := threadsOf(pid, base)
	if err != nil {
		return err
	}
	r.Threads = append(r.Threads, threads...)
	process, err := processOf(pid, base)
	if err != nil {
		return err
	}
	if process != nil {
		r.Processes = append(r.Processes, *process)
	}
	return nil
}

// PutBack gives a restored tree, still stopped, what the record has. After an error the
// tree must be ended. What this machine cannot do for lack of such CPUs or options of
// sockets is returned as remarks.
func (r Record) PutBack(tree []linux.Stat) (remarks []string, err error) {
	errs := []error{r.giveBackSockets(tree)}
	for _, t := range r.Timers {
		if err := t.rearm(); err != nil {
			errs = append(errs, fmt.Errorf("set timer %d of process %d again: %w", t.FD, t.PID, err))
		}
	}
	for _, s := range r.Options {
		remark, err := s.putBack()
		if err != nil {
			errs = append(errs, fmt.Errorf("socket %d of process %d: %w", s.FD, s.PID, err))
		}
		if remark != "" {
			remarks = append(remarks, remark)
		}
	}
	for _, t := range r.Threads {
		remark, err := t.putBack()
		if err != nil {
			errs = append(errs, fmt.Errorf("thread %d: %w", t.TID, err))
		}
		if remark != "" {
			remarks = append(remarks, remark)
		}
	}
	for _, p := range r.Processes {
		if err := p.putBack(); err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", p.PID, err))
		}
	}
	return remarks, errors.Join(errs...)
}
