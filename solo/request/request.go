package request

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/internal/accounts"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/wire"
)

// Bounds are the most that one task may have.
type Bounds struct {
	// Slots are processors, Memory is in bytes, PIDs are processes and threads of a task of an ordinary user.
	Slots        float64
	Memory, PIDs int64
}

// Task is what a request asks for: what is to be recorded of it, and what is to be run.
type Task struct {
	Record journal.Record
	Spec   proc.Spec
}

const (
	// defaultUmask is that of a task whose caller does not say.
	defaultUmask = 0o022
	maxPath      = 4095
	maxGrace     = 24 * time.Hour
)

// Run turns a request of a caller into a task, or says what is wrong with it (serve.ErrInput, serve.ErrDenied). It
// may be called from any goroutine, and block, in the user database.
func Run(q *wire.RunRequest, by serve.Caller, most Bounds) (*Task, error) {
	for _, check := range []func(*wire.RunRequest) error{checkCommand, checkLabels, checkPaths} {
		if err := check(q); err != nil {
			return nil, err
		}
	}
	t := &Task{}
	if err := t.fillResources(q, most); err != nil {
		return nil, err
	}
	if err := t.fillIdentity(q, by); err != nil {
		return nil, err
	}
	if err := t.fillCaps(q, by, most); err != nil {
		return nil, err
	}
	switch q.Restart {
	case wire.Restart_RESTART_NEVER:
	case wire.Restart_RESTART_ON_LOSS:
		t.Record.RestartOnLoss = true
	default:
		return nil, serve.Refusal("restart %d is unknown; give RESTART_NEVER or RESTART_ON_LOSS", q.Restart)
	}
	t.Record.Name, t.Record.Job, t.Record.Held = q.Name, headrace.JobID(q.Job), q.Held
	if t.Record.Name == "" {
		t.Record.Name = serve.Label(filepath.Base(q.Argv[0]))
	}
	t.Spec.Argv, t.Spec.Env, t.Spec.Cwd, t.Spec.Umask = q.Argv, q.Env, q.Cwd, defaultUmask
	if q.Umask != nil {
		t.Spec.Umask = *q.Umask
	}
	t.Spec.Stdin, t.Spec.Output = q.Stdin, q.Output
	if t.Spec.Cwd == "" {
		t.Spec.Cwd = "/"
	}
	return t, nil
}

func checkCommand(q *wire.RunRequest) error {
	if err := proc.CheckCommand(q.Argv, q.Env); err != nil {
		return serve.Refusal("%v", err)
	}
	for _, e := range q.Env {
		if i := strings.IndexByte(e, '='); i <= 0 {
			return serve.Refusal("environment entry %.40q is not KEY=VALUE", e)
		}
	}
	return nil
}

func checkLabels(q *wire.RunRequest) error {
	for what, s := range map[string]string{"name": q.Name, "job": q.Job} {
		if err := serve.CheckLabel(what, s); err != nil {
			return err
		}
	}
	return nil
}

func checkPaths(q *wire.RunRequest) error {
	for what, p := range map[string]string{"working directory": q.Cwd, "output file": q.Output, "input file": q.Stdin} {
		switch {
		case p == "":
		case strings.IndexByte(p, 0) >= 0:
			return serve.Refusal("the %s contains a NUL byte", what)
		case len(p) > maxPath:
			return serve.Refusal("the %s has %d bytes; the kernel takes at most %d", what, len(p), maxPath)
		case !filepath.IsAbs(p):
			return serve.Refusal("the %s %q is relative; the daemon has another working directory, so give an absolute path", what, p)
		case linux.IsDescriptor(p):
			return serve.Refusal("the %s %q is a descriptor of whoever opens it; the task has others, so name a file", what, p)
		}
	}
	if q.GetUmask() > 0o777 {
		return serve.Refusal("umask %#o is not one; give a number from 0 to 0777", q.GetUmask())
	}
	return nil
}

func (t *Task) fillResources(q *wire.RunRequest, most Bounds) error {
	if q.Priority > uint32(headrace.MaxPriority) {
		return serve.Refusal("priority %d; give a number from 0 (least urgent) to %d", q.Priority, headrace.MaxPriority)
	}
	cpus := q.Cpus
	if cpus == 0 {
		cpus = 1
	}
	switch {
	case math.IsNaN(cpus) || math.IsInf(cpus, 0) || cpus < 0:
		return serve.Refusal("cpus %v; give a positive number", cpus)
	case cpus < 0.001:
		return serve.Refusal("cpus %v; give at least 0.001", cpus)
	case cpus > most.Slots:
		return serve.Refusal("%v cpus, but this daemon has %v slots; ask for fewer, or start it with more --slots", cpus, most.Slots)
	}
	switch {
	case q.Memory < 0:
		return serve.Refusal("memory %d; give a number of bytes, or 0 when it is not known", q.Memory)
	case q.Memory > most.Memory:
		return serve.Refusal("%d bytes of memory, but the budget of this daemon is %d; ask for less, or start it with more --memory", q.Memory, most.Memory)
	}
	t.Record.Priority, t.Record.CPUs, t.Record.Memory = headrace.Priority(q.Priority), cpus, q.Memory
	return nil
}

// fillIdentity decides who the task runs as: the caller, or, if root asks for
// it, somebody else. A daemon of an ordinary user runs everything as that user.
func (t *Task) fillIdentity(q *wire.RunRequest, by serve.Caller) error {
	uid, gid := by.UID, by.GID
	if euid := os.Geteuid(); euid != 0 {
		uid, gid = uint32(euid), uint32(os.Getegid())
	}
	var who accounts.Account
	var err error
	if q.User == "" {
		who, err = accounts.Here.UserOf(uid)
	} else {
		if by.UID != 0 || os.Geteuid() != 0 {
			return fmt.Errorf("%w: only root may run tasks as another user; leave out the user", serve.ErrDenied)
		}
		if who, err = lookUp(q.User); err != nil {
			return err
		}
		uid, gid = who.UID, who.GID
	}
	t.Record.UID, t.Spec.UID, t.Spec.GID = uid, uid, gid
	switch {
	case errors.Is(err, accounts.ErrUnknown): // an account without an entry, as in some containers
		t.Record.User = strconv.FormatUint(uint64(uid), 10)
		return nil
	case err != nil: // who it is decides on limits
		return err
	}
	t.Record.User = who.Name
	t.Spec.Groups, err = accounts.Here.GroupsOf(who)
	return err
}

func lookUp(name string) (accounts.Account, error) {
	who, err := accounts.Here.Find(name)
	if errors.Is(err, accounts.ErrUnknown) {
		err = serve.Refusal("there is no user %q on this machine", name)
	}
	return who, err
}

// Grace reads a grace in seconds.
func Grace(seconds float64) (time.Duration, error) {
	if math.IsNaN(seconds) || seconds < 0 || seconds > maxGrace.Seconds() {
		return 0, serve.Refusal("grace of %v seconds; give a number from 0 to %v", seconds, maxGrace.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
