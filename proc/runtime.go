package proc

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/proc/control"
)

// Runtime starts tasks and finds them again. Its fields must not change once it
// is in use; its methods are safe for concurrent use, for one task by one
// caller at a time.
type Runtime struct {
	// Shim is the path of the headrace-shim program. Each version of it is copied
	// beside Dir and run from there, so that checkpoints of tasks outlive an
	// upgrade: CRIU wants the very file back that init was running.
	Shim string
	// CRIU is the path of CRIU, 4.2 or later; empty: there is none, and tasks
	// cannot be checkpointed.
	CRIU string
	// Dir holds a directory for each task.
	Dir string
	// StallLimit is how long CRIU may make no progress until it is ended; 0: a minute.
	StallLimit time.Duration
	// Patience is how long a supervisor may take to stop or to continue its task, beyond the
	// grace, or to say that it is there; 0: 30 s. Silent, if not nil, is told of one that takes longer while something is
	// asked of it, with ErrNoAnswer; and with nil when it answers again or nothing is asked of it any more. What was asked
	// is not given up, but by its context: the supervisor does it when it goes on.
	Patience time.Duration
	Silent   func(headrace.TaskID, error)
	// Cgroups is where each task gets a cgroup of its own; nil: nowhere. Problem, if
	// not nil, is told what could not be had of one before the task starts or is
	// restored; nil: all that was wanted.
	Cgroups *cgroup.Base
	Problem func(headrace.TaskID, error)
	// MemoryFirst: tasks are in their memory cgroup before they run, and not some
	// milliseconds later, which takes as long.
	MemoryFirst bool

	installing sync.Mutex
	shim       string // where it is, once it is there
}

// startTimeout bounds how long a shim may take until it answers.
const startTimeout = 30 * time.Second

// TaskDir returns the directory of a task.
func (r *Runtime) TaskDir(id headrace.TaskID) string { return filepath.Join(r.Dir, string(id)) }

// Tasks lists the tasks that have a directory, in alphabetical order.
func (r *Runtime) Tasks() ([]headrace.TaskID, error) {
	entries, err := os.ReadDir(r.Dir)
	var ids []headrace.TaskID
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			ids = append(ids, headrace.TaskID(e.Name()))
		}
	}
	return ids, err
}

// SpecOf reads the Spec that a task was last started or restored with.
func (r *Runtime) SpecOf(id headrace.TaskID) (Spec, error) { return ReadSpec(r.TaskDir(id)) }

// Isolated reports whether tasks get namespaces of their own, without which
// they cannot be checkpointed.
func (r *Runtime) Isolated() bool { return os.Geteuid() == 0 }

// Stdio are pipes that a task gets as standard streams in place of what its
// Spec says; nil ones are as the Spec says. The task's shim keeps them open while
// the task is checkpointed, so whoever is at the other end does not notice.
//
// Lifeline is the task's end of the lifeline of a Spec with Attached (package
// proc/attach). The start then waits for the other end's word, some seconds, and
// fails with ErrAbandoned if that does not come, or with ErrNoAnswer if the supervisor stands still meanwhile.
type Stdio struct{ In, Out, Err, Lifeline *os.File }

// Start starts a task from the beginning. When the command cannot be executed
// the task has ended already and its Exit says why.
func (r *Runtime) Start(ctx context.Context, spec Spec) (*Task, error) {
	return r.StartWith(ctx, spec, Stdio{})
}

// StartWith does as Start, with pipes for standard streams. They can be closed when it
// has returned. If ctx ends first the supervisor goes on with what it was told, and ends by
// itself if that is nothing: Attach finds it, and End ends it.
func (r *Runtime) StartWith(ctx context.Context, spec Spec, stdio Stdio) (*Task, error) {
	if spec.Attached != (stdio.Lifeline != nil) {
		return nil, opError("start", spec.ID, errors.New("an attached task, and only that, has a lifeline"))
	}
	if err := r.prepare(spec); err != nil {
		return nil, opError("start", spec.ID, err)
	}
	t, err := r.launch(ctx, spec.ID, stdio)
	if err == nil {
		if spec.Attached {
			err = t.startAttached(ctx)
		} else {
			err = t.start(ctx)
		}
	}
	if e, ok, _ := r.ExitOf(spec.ID); ok && e.Abandoned && e.StartError != "" {
		err = ErrAbandoned // whatever came of asking
	}
	if err != nil {
		t.giveUp(ctx)
		return nil, opError("start", spec.ID, err)
	}
	return t, nil
}

// giveUp ends a task that did not come up. If ctx has ended it is only left to itself: whoever
// ends while a start takes long, as a daemon that is replaced, is not to end the task by that.
func (t *Task) giveUp(ctx context.Context) {
	if t == nil {
		return
	}
	if ctx.Err() != nil {
		t.Close()
		return
	}
	t.KillWithin(ctx, time.Millisecond, startTimeout)
}

// startAttached does as start, and waits for the word of the other end of the lifeline no longer than Hold. All is asked for at once: the
// supervisor starts the command when that comes, whether or not the daemon is there still.
func (t *Task) startAttached(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := t.heard(ctx, "heard"); errors.Is(err, ErrNoAnswer) {
			cancel(err)
		}
	}()
	return t.start(ctx)
}

// heard asks for what is answered when the other end of the lifeline has said its word, or has gone. When the supervisor has not answered
// within the patience, the other end has given up, and nothing can come of it any more; but if the supervisor, or this process, has stood
// still for so long in the milliseconds between the word and the answer, it has not, and is told that its command was killed.
func (t *Task) heard(ctx context.Context, op string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.patience, ErrNoAnswer)
	defer cancel()
	return t.call(ctx, op, nil, nil)
}

// Hold makes the supervisor of a task with Attached and returns when the other end
// of the lifeline has said that the command may start. It is started with
// Task.Start, or restored from somebody else's checkpoint with Task.RestoreMoved, or from
// its own, if its first supervisor has gone, with Restore.
// The pipes can be closed when Hold has returned. If ctx ends first it is as with StartWith.
func (r *Runtime) Hold(ctx context.Context, spec Spec, stdio Stdio) (*Task, error) {
	if !spec.Attached || stdio.Lifeline == nil {
		return nil, opError("hold", spec.ID, errors.New("only an attached task can be held"))
	}
	if err := r.succeedSupervisor(ctx, spec.ID); err != nil {
		return nil, opError("hold", spec.ID, err)
	}
	if err := r.prepare(spec); err != nil {
		return nil, opError("hold", spec.ID, err)
	}
	t, err := r.launch(ctx, spec.ID, stdio)
	if err == nil {
		err = t.heard(ctx, "hold")
	}
	if err != nil {
		t.giveUp(ctx)
		return nil, opError("hold", spec.ID, err)
	}
	return t, nil
}

// succeedSupervisor makes sure that a task has no supervisor, and ends what one that was killed has
// left: its cgroup may be frozen still, and with it what joins it.
func (r *Runtime) succeedSupervisor(ctx context.Context, id headrace.TaskID) error {
	t, err := r.connect(ctx, id)
	switch {
	case err == nil:
		t.Close()
		return fmt.Errorf("%w: it has a supervisor", ErrState)
	case !errors.Is(err, ErrGone):
		return err
	}
	return endGroup(r.TaskDir(id))
}

// Restore brings a task back from a checkpoint, under its waiting shim if there
// is one. A task that has ended again by the time of the answer was restored: its
// Exited is closed. One that an earlier request has restored and that has ended since
// (Exit.EndsRestore) gives ErrGone.
func (r *Runtime) Restore(ctx context.Context, spec Spec, o RestoreOptions) (*Task, RestoreResult, error) {
	var res RestoreResult
	t, err := r.waiting(ctx, spec.ID)
	switch {
	case err == nil:
		if err = r.renewGroup(spec.ID); err != nil {
			t.Close()
		}
	case !errors.Is(err, ErrGone):
	case r.hasEnded(spec.ID, o.SeenExit): // a new supervisor would do its work again
	case spec.Attached:
		err = fmt.Errorf("%w, with its supervisor", ErrAbandoned)
	default:
		// Its cgroup may be frozen still, as whoever was killed had left it, and with it what joins it.
		if err = endGroup(r.TaskDir(spec.ID)); err != nil {
			err = fmt.Errorf("%w: %w", ErrNotNow, err)
		}
		if err == nil {
			err = r.prepare(spec)
		}
		if err == nil {
			t, err = r.launch(ctx, spec.ID, Stdio{})
		}
	}
	if err != nil {
		return nil, res, opError("restore", spec.ID, err)
	}
	if res, err = t.restore(ctx, o); err != nil {
		t.endTracersNow() // what they keep of the task that was dumped may hold its pids
		t.Close()
		return nil, res, opError("restore", spec.ID, err)
	}
	return t, res, nil
}

// hasEnded reports whether the task was restored and has ended without the caller's
// knowing.
func (r *Runtime) hasEnded(id headrace.TaskID, seen time.Time) bool {
	e, ok, err := r.ExitOf(id)
	return ok && err == nil && e.EndsRestore(seen)
}

// Attach connects to the shim of a task that an earlier daemon has started. The
// error is ErrGone when there is none; then ExitOf may know more.
func (r *Runtime) Attach(ctx context.Context, id headrace.TaskID) (*Task, error) {
	t, err := r.connect(ctx, id)
	if err != nil {
		return nil, opError("attach to", id, err)
	}
	if err := t.present(ctx); err != nil { // it may be about to end
		t.Close()
		return nil, opError("attach to", id, err)
	}
	return t, nil
}

// waiting is Attach to the supervisor that is to restore a task, however long that takes to answer.
func (r *Runtime) waiting(ctx context.Context, id headrace.TaskID) (*Task, error) {
	t, err := r.connect(ctx, id)
	if err != nil {
		return nil, err
	}
	end := t.watch("restore", 0)
	err = t.call(ctx, "ping", nil, nil)
	end()
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// connect is Attach without a word to the shim.
func (r *Runtime) connect(ctx context.Context, id headrace.TaskID) (*Task, error) {
	c, err := control.Dial(ctx, r.TaskDir(id))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: no supervisor answers", ErrGone)
	}
	if err != nil {
		return nil, err
	}
	return r.newTask(id, c), nil
}

// ExitOf reads the record of a task's end; false when there is none.
func (r *Runtime) ExitOf(id headrace.TaskID) (Exit, bool, error) { return readExit(r.TaskDir(id)) }

func readExit(dir string) (Exit, bool, error) {
	var e Exit
	b, err := os.ReadFile(filepath.Join(dir, "exit.json"))
	if errors.Is(err, os.ErrNotExist) {
		return e, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	return e, err == nil, err
}

// Reset prepares a task for a start from the beginning: processes that are left
// of it are ended, its logs are emptied, and an output file of the user's is
// cut back to what it held before the first start, unless others write to it.
func (r *Runtime) Reset(ctx context.Context, spec Spec) error {
	if err := r.End(ctx, spec.ID); err != nil {
		return opError("reset", spec.ID, err)
	}
	dir := r.TaskDir(spec.ID)
	for _, name := range append([]string{"exit.json", "command-exit", begunFile}, usersFiles...) {
		if err := removeFile(filepath.Join(dir, name)); err != nil {
			return opError("reset", spec.ID, err)
		}
	}
	if err := cutOutput(dir, spec); err != nil {
		return opError("reset", spec.ID, err)
	}
	return nil
}

// SharingOutput returns those of others whose output went, when they were started, to the very file of a task's, by whatever
// name, and why it is not known of some. Of a task that does not write to a file of its user's there are none.
func (r *Runtime) SharingOutput(id headrace.TaskID, others []headrace.TaskID) (sharing []headrace.TaskID, err error) {
	m, err := loadMark(r.TaskDir(id))
	if err != nil || m == nil {
		return nil, err
	}
	for _, other := range others {
		o, failed := loadMark(r.TaskDir(other))
		err = errors.Join(err, failed)
		if failed == nil && o != nil && o.sameFile(*m) {
			sharing = append(sharing, other)
		}
	}
	return sharing, err
}

// Remove ends what is left of a task and deletes its directory. An output file
// of the user's stays.
func (r *Runtime) Remove(ctx context.Context, id headrace.TaskID) error {
	if err := r.end(ctx, id); err != nil {
		return opError("remove", id, err)
	}
	if r.Cgroups != nil {
		if err := r.Cgroups.Find(string(id)).Remove(); err != nil { // of a start that did not come to a supervisor
			return opError("remove", id, err)
		}
	}
	if err := removeStandIn(r.TaskDir(id)); err != nil {
		return opError("remove", id, err)
	}
	if err := removeTaskDir(r.TaskDir(id)); err != nil {
		return opError("remove", id, err)
	}
	return nil
}

// End makes sure that a task has no processes, whatever is being done to it, and no
// supervisor, and that nothing waits for it to be restored. A supervisor that cannot be reached is ErrNotNow.
func (r *Runtime) End(ctx context.Context, id headrace.TaskID) error {
	t, err := r.connect(ctx, id)
	if err == nil {
		t.Close()
	} else if errors.Is(err, ErrGone) {
		if err := r.Unreached(id); err != nil {
			return err
		}
	}
	return r.end(ctx, id)
}

// end is End where no supervisor is left that cannot be reached.
func (r *Runtime) end(ctx context.Context, id headrace.TaskID) error {
	if err := r.endProcesses(ctx, id); err != nil {
		return err
	}
	return Unlock(r.TaskDir(id))
}

// Conclude lets go of what is kept for a task that will not be brought back, but for what tells of it: the connections that
// it had if it ended in a dump or after one (see Unlock), and a long command and environment. What has a supervisor is
// not to be dumped meanwhile.
func (r *Runtime) Conclude(id headrace.TaskID) error {
	if err := errors.Join(Unlock(r.TaskDir(id)), shortenSpec(r.TaskDir(id))); err != nil {
		return opError("conclude", id, err)
	}
	return nil
}

func (r *Runtime) endProcesses(ctx context.Context, id headrace.TaskID) error {
	t, err := r.connect(ctx, id)
	if errors.Is(err, ErrGone) {
		err := endOrphans(r.TaskDir(id), func(look func()) bool {
			look()
			return ctx.Err() == nil
		})
		if err == nil {
			err = ctx.Err()
		}
		return err
	}
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.Kill(ctx, time.Millisecond); err != nil {
		return err
	}
	select {
	case <-t.Exited():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare makes the task's directory and writes its spec.
func (r *Runtime) prepare(spec Spec) error {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return errors.New("no command")
	}
	if name := string(spec.ID); name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q cannot be the name of a directory", name)
	}
	dir := r.TaskDir(spec.ID)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	// A umask must not keep the task from its progress file.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	if len(spec.Under) > 0 {
		shim, err := r.installShim()
		if err != nil {
			return err
		}
		spec.Argv = slices.Concat([]string{shim}, spec.Under, []string{"--"}, spec.Argv)
	}
	r.group(&spec)
	return writeSpec(dir, spec)
}

// group gives the task of a spec its cgroup, as far as there can be one.
func (r *Runtime) group(spec *Spec) {
	spec.Cgroups = slices.DeleteFunc(slices.Clone(spec.Cgroups), func(dir string) bool { return dir == spec.Own.Memory })
	limits := cgroup.Limits{Memory: spec.Memory, CPUs: spec.CPUs, PIDs: spec.PIDs, IOWeight: spec.IOWeight}
	own, err := r.Cgroups.Make(string(spec.ID), limits, spec.Cgroups)
	if r.Problem != nil {
		r.Problem(spec.ID, err)
	}
	spec.Own = own
	if r.MemoryFirst && own.Memory != "" && own.Memory != own.Unified() {
		spec.Cgroups = append(spec.Cgroups, own.Memory)
	}
}

// renewGroup makes the cgroup of a task anew whose supervisor waits, if somebody has
// removed it meanwhile. The supervisor reads the spec when it restores the task; what
// is missing then it leaves out.
func (r *Runtime) renewGroup(id headrace.TaskID) error {
	if r.Cgroups == nil {
		return nil
	}
	dir := r.TaskDir(id)
	spec, err := ReadSpec(dir)
	if err != nil || spec.Own == spec.Own.Present() {
		return err
	}
	r.group(&spec)
	return writeSpec(dir, spec)
}

// specFile is what a task's directory keeps its spec in.
const specFile = "spec.json"

// ReadSpec reads what the task with that directory runs.
func ReadSpec(dir string) (Spec, error) {
	var s Spec
	b, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

func writeSpec(dir string, s Spec) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return linux.WriteFileDurably(filepath.Join(dir, specFile), b, 0o600)
}

// longSpec is up to which size the spec of a task that has ended is kept whole, in bytes, shownArgv how much of its command
// is kept then.
const longSpec, shownArgv = 16 << 10, 1 << 10

// shortenSpec takes the command and the environment out of a long spec: no limit of its user counts that of an ended task.
func shortenSpec(dir string) error {
	st, err := os.Stat(filepath.Join(dir, specFile))
	if errors.Is(err, os.ErrNotExist) || err == nil && st.Size() <= longSpec {
		return nil
	}
	var s Spec
	if err == nil {
		s, err = ReadSpec(dir)
	}
	if err != nil || len(s.Argv) == 0 || len(s.Argv) == 1 && s.Env == nil {
		return err
	}
	s.Argv, s.Env = []string{s.Argv[0][:min(len(s.Argv[0]), shownArgv)]}, nil
	return writeSpec(dir, s)
}

// launch starts a shim for a prepared task and connects to it.
func (r *Runtime) launch(ctx context.Context, id headrace.TaskID, stdio Stdio) (*Task, error) {
	shim, err := r.installShim()
	if err != nil {
		return nil, err
	}
	dir := r.TaskDir(id)
	args := []string{"supervise", "-dir", dir}
	if r.CRIU != "" {
		args = append(args, "-criu", r.CRIU)
	}
	if r.StallLimit > 0 {
		args = append(args, "-stall-limit", r.StallLimit.String())
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	if r.Isolated() {
		args = append(args, "-isolated")
		sys.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	logFile, err := os.OpenFile(filepath.Join(dir, shimLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	leash, shims, err := newLeash()
	if err != nil {
		return nil, err
	}
	files := []*os.File{shims}
	for i, f := range []*os.File{stdio.In, stdio.Out, stdio.Err, stdio.Lifeline} {
		if f != nil {
			args = append(args, "-"+[]string{"stdin", "stdout", "stderr", "lifeline"}[i], strconv.Itoa(3+len(files)))
			files = append(files, f)
		}
	}
	cmd := exec.Command(shim, args...)
	cmd.Dir, cmd.SysProcAttr = "/", sys
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = logFile, logFile, files
	err = cmd.Start()
	shims.Close()
	if err != nil {
		leash.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	var c *control.Client
	if err = awaitReady(ctx, leash); err == nil {
		crash.Here("proc.launched")
		c, err = control.Dial(ctx, dir)
	}
	if err != nil {
		leash.Close()
		cmd.Process.Kill()
		<-died
		return nil, fmt.Errorf("the supervisor did not come up: %w%s", err, lastLine(logFile.Name()))
	}
	t := r.newTask(id, c)
	t.leash = leash
	return t, nil
}

// newLeash returns what ties a shim to whoever starts it until it knows what to do: the
// end that is kept, by which the shim says that it is ready, and the shim's.
func newLeash() (kept, shims *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fds[0], true) // for deadlines
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "leash"), os.NewFile(uintptr(fds[1]), "leash of the shim"), nil
}

// awaitReady waits for the shim's word on the leash.
func awaitReady(ctx context.Context, r *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	_, err := bufio.NewReader(r).ReadString('\n')
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func lastLine(path string) string {
	b, err := os.ReadFile(path)
	text := strings.TrimSpace(string(b))
	if err != nil || text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}

// installShim copies the shim program to a place of its own, named by content.
func (r *Runtime) installShim() (string, error) {
	r.installing.Lock()
	defer r.installing.Unlock()
	if r.shim == "" {
		shim, err := copyByContent(r.Shim, filepath.Join(filepath.Dir(r.Dir), "bin"))
		if err != nil {
			return "", err // the next task tries again: a disk may have been full
		}
		r.shim = shim
	}
	return r.shim, nil
}

func copyByContent(from, dir string) (string, error) {
	src, err := os.Open(from)
	if err != nil {
		return "", fmt.Errorf("headrace-shim, which supervises tasks, was not found (it is built beside headrace): %w", err)
	}
	defer src.Close()
	h := sha256.New()
	if _, err := io.Copy(h, src); err != nil {
		return "", err
	}
	to := filepath.Join(dir, "headrace-shim-"+hex.EncodeToString(h.Sum(nil))[:16])
	if st, err := os.Stat(to); err == nil && st.Mode().IsRegular() {
		return to, nil
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	if err := install(src, to); err != nil {
		return "", fmt.Errorf("install headrace-shim: %w", err)
	}
	return to, linux.SyncDir(dir)
}

// install copies a program from its beginning, all or nothing.
func install(src *os.File, to string) error {
	// A child that is forked meanwhile would hold the copy open for writing until it is
	// another program, and the kernel does not execute such a file (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	tmp, err := os.CreateTemp(filepath.Dir(to), ".shim-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = src.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(tmp, src)
	}
	if err == nil {
		err = tmp.Chmod(0o755)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), to)
	}
	return err
}

// opError says of an error, if it is one, what could not be done to which task.
func opError(op string, id headrace.TaskID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s task %s: %w", op, id, err)
}
