package shim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/inspect"
	"headrace/proc/mend"
)

// checkpoint writes the task to storage and ends its processes, in this order:
// stop, dump with the processes left stopped, fsync, commit marker, kill. Until
// the marker is durable every failure leaves the task as it was.
func (t *task) checkpoint(o proc.CheckpointOptions) (proc.CheckpointResult, error) {
	t.op.Lock()
	defer t.done()
	begin := linux.Clock()
	was := t.life.now()
	t.criu = cmp.Or(o.CRIU, t.criu)
	if err := t.mayCheckpoint(was); err != nil {
		return proc.CheckpointResult{}, err
	}
	d := dump{t: t, o: o, was: was, search: new(inspect.Search)}
	defer d.search.Close()
	if tree, err := t.processes.tree(); err == nil && was == running {
		if l := inspect.Traced(tree); l != nil {
			return proc.CheckpointResult{}, fmt.Errorf("%w: %v", proc.ErrNotCheckpointable, l)
		}
		d.search.Prepare(tree)
	}
	res, err := d.attempt()
	for pause := 20 * time.Millisecond; errors.Is(err, proc.ErrCheckpointLater) && was == running && pause <= 320*time.Millisecond; pause *= 2 {
		time.Sleep(pause) // it runs, and what is in the way may pass
		if t.life.now() != running || t.op.isKilled() {
			break
		}
		res, err = d.attempt()
	}
	if err == nil {
		res.Took = linux.Clock() - begin
	}
	return res, err
}

func (t *task) mayCheckpoint(p phase) error {
	switch {
	case p == ended:
		return proc.ErrGone
	case p == empty:
		return fmt.Errorf("%w: it has no processes", proc.ErrState)
	case !t.processes.isolated:
		return fmt.Errorf("checkpoint: %w: CRIU and the task's namespaces need root (the daemon runs as an ordinary user)", proc.ErrUnsupported)
	case t.criu == "":
		return fmt.Errorf("checkpoint: %w: CRIU 4.2 or later was not found; headrace doctor says how to get it", proc.ErrUnsupported)
	}
	return nil
}

// dump is one checkpoint of the task.
type dump struct {
	t   *task
	o   proc.CheckpointOptions
	was phase // before it

	search *inspect.Search
}

// attempt makes one attempt. If it fails the task is as it was.
func (d dump) attempt() (proc.CheckpointResult, error) {
	begin := linux.Clock()
	if d.was == running {
		if _, err := d.t.stops.stop(0, false); err != nil {
			return proc.CheckpointResult{}, err
		}
	}
	stopTook := linux.Clock() - begin
	res, err := d.write()
	if err != nil {
		return res, errors.Join(err, d.undoStop())
	}
	crash.Here("shim.before-kill")
	if err := d.kill(); err != nil {
		return res, err
	}
	res.Stop = stopTook
	return res, nil
}

// undoStop continues a task that ran before a dump that failed, and locks again one
// that was suspended.
func (d dump) undoStop() error {
	switch {
	case d.t.life.now() != stopped: // it has ended
		return nil
	case d.was == running:
		return d.t.stops.contAtLast()
	}
	d.t.stops.lock()
	return nil
}

// write makes the stopped task ready, and has the helper write the checkpoint.
func (d dump) write() (proc.CheckpointResult, error) {
	var none proc.CheckpointResult
	tree, err := d.t.processes.tree()
	if err != nil {
		return none, err
	}
	if err := undumpable(d.search, tree, d.t.processes.init(), d.t.life.spec().UID); err != nil {
		return none, err
	}
	if err := d.t.stops.unlock(); err != nil { // CRIU would wait for ever for a frozen process
		return none, err
	}
	if err := d.t.stops.settle(); err != nil {
		return none, err
	}
	sv, err := d.t.describe()
	if err != nil {
		return none, fmt.Errorf("look at the stopped task: %w", err)
	}
	connections, err := connectionsOf(tree)
	if err != nil {
		return none, err
	}
	job, err := d.job(tree, sv, len(connections) > 0)
	if err != nil {
		return none, err
	}
	if len(connections) > 0 {
		if err := proc.NoteLocking(d.t.home.dir, connections); err != nil {
			return none, err
		}
	}
	var names remaps
	if spec := d.t.life.spec(); spec.UID == 0 { // see linkRemap
		if names, err = lookForRemaps(tree, d.o, string(spec.ID)); err != nil {
			return none, err
		}
		defer names.close()
	}
	d.t.lifeline.tellSaved(true)
	res, err := d.ask(job)
	if err != nil && d.t.life.now() == stopped {
		d.t.lifeline.tellSaved(false)
	}
	if err != nil && len(connections) > 0 {
		err = errors.Join(err, d.letGo())
	}
	if err != nil {
		err = errors.Join(err, names.remove(tree))
	}
	if err == nil {
		d.t.life.saved(sv.Usage)
	}
	return res, err
}

// ask has the helper do a job.
func (d dump) ask(job []byte) (proc.CheckpointResult, error) {
	var none proc.CheckpointResult
	out, err := d.runHelper(job)
	if err != nil {
		d.t.life.dumpBroke() // CRIU goes with the helper, if it does not get done in time
		return none, fmt.Errorf("dump: %w", err)
	}
	var answer dumpAnswer
	if err := json.Unmarshal(out, &answer); err != nil {
		return none, fmt.Errorf("the dump helper answered %q: %w", out, err)
	}
	if answer.Killed {
		d.t.life.dumpBroke()
	}
	if answer.Error != "" {
		return none, proc.Remote(answer.Kind, answer.Error)
	}
	return answer.Result, nil
}

// job returns what the helper is asked for.
func (d dump) job(tree []linux.Stat, sv saved, lock bool) ([]byte, error) {
	deleted, err := deletedBytes(tree)
	if err != nil {
		return nil, err
	}
	if most := d.o.MaxDeleted; most > 0 && deleted > most {
		return nil, fmt.Errorf("%w: the files that it has open and that were deleted hold %d bytes, which the checkpoint would have to hold, and %d may be written; make room, or close them",
			proc.ErrNotNow, deleted, most)
	}
	facts, err := mend.Look(tree)
	if err == nil {
		facts.Copies, err = d.search.Copies(tree)
	}
	if err != nil {
		return nil, err
	}
	sv.Asked = d.o.Asked
	meta, err := json.Marshal(sv)
	if err != nil {
		return nil, err
	}
	memory, err := d.t.home.memory()
	if err != nil {
		return nil, err
	}
	spec := d.t.life.spec()
	return json.Marshal(dumpJob{
		Dir: d.t.home.dir, Memory: memory, CRIU: d.t.criu, InitPID: sv.InitPID, Lock: lock, Task: string(spec.ID), Options: d.o, Meta: meta,
		Logs: logPaths(spec), Attached: spec.Attached, Deleted: deleted, User: spec.Credentials(), Facts: facts,
	})
}

// undumpable refuses what CRIU would leave out of a checkpoint without a word.
func undumpable(s *inspect.Search, tree []linux.Stat, init int, user uint32) error {
	loss, err := s.Find(tree, init, user)
	if loss == nil && err == nil {
		if number, rerr := os.ReadFile(keyringFile); rerr == nil { // there is none where keyrings are not allowed
			loss = inspect.Keys(init, string(number))
		}
	}
	switch {
	case err != nil:
		return err
	case loss == nil:
		return nil
	case loss.Passing:
		return fmt.Errorf("%w: %v", proc.ErrCheckpointLater, loss)
	}
	return fmt.Errorf("%w: %v", proc.ErrNotCheckpointable, loss)
}

// kill ends the processes of a committed dump and waits until the last of
// them is reaped: a zombie would hold a pid that a restore needs. Only what a tracer keeps
// as a zombie is left; the daemon, which sees the tracer, ends that when a restore fails.
// The image counts, so that nothing makes it give up: a look at /proc may fail where memory is short.
func (d dump) kill() error {
	if err := d.t.life.beginEnd(); err != nil {
		return err
	}
	deadline := linux.Clock() + heldPatience
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		d.t.processes.signal(unix.SIGKILL)
		tree, err := d.t.processes.tree()
		if err == nil && (len(tree) == 0 || linux.Clock() >= deadline && allEnded(tree)) {
			break
		}
		time.Sleep(pause)
	}
	d.t.processes.reaper.settle() // a death told later would count as that of the root which a restore makes, with the same pid
	d.t.lifeline.again()
	d.t.stops.own = nil
	d.t.life.emptied()
	return nil
}

// criuPatience is how long CRIU gets to put the task in order after the helper
// that started it has died. Killed while it runs its own code in a process, it
// would take that process with it. In a kill it gets less than opPatience: that it lets go
// of the task's connections is all that matters then.
const (
	criuPatience       = 10 * time.Second
	criuPatienceInKill = opPatience / 2
)

// runHelper runs the helper and returns its answer. When the operation is called off,
// everything that works on the task is ended, and when the helper dies what it has
// left.
func (d dump) runHelper(job []byte) ([]byte, error) {
	in, err := memoryFile("job", job)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := memoryFile("answer", nil)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &d.t.processes
	defer p.helpers.Store(0)
	defer p.endWorkers(criuPatience, criuPatienceInKill, d.t.op.isKilled)
	failed, calledOff := d.t.work([]string{"dump"}, []uintptr{in.Fd(), out.Fd(), 2}, p.workers, func(helper int) {
		// Without its page server, which is in the helper, CRIU fails by itself and puts
		// the task in order, unless it hangs elsewhere.
		linux.Signal(helper, unix.SIGKILL)
		p.contWorkers()
	})
	if failed != nil && calledOff != nil {
		return nil, calledOff
	}
	answer, err := io.ReadAll(io.NewSectionReader(out, 0, 1<<62))
	if failed != nil {
		return nil, fmt.Errorf("the helper failed: %w: %s", failed, strings.TrimSpace(string(answer)))
	}
	return answer, err
}

// work runs this program in another part that works on the task, in a process group of
// its own, and waits for it. It says how that failed, and why it was called off, if it
// was: because of a kill, or because those in list make no progress. giveUp is to end it
// then. Until the caller sets helpers to 0 the group is not taken for the task's.
func (t *task) work(args []string, files []uintptr, list func() ([]linux.Stat, error), giveUp func(pid int)) (failed, calledOff error) {
	self, err := os.Executable()
	if err != nil {
		return err, nil
	}
	ctx, cancel, done := t.op.interruptible()
	defer done()
	pid, died, err := t.processes.reaper.start(self, append([]string{"headrace-shim"}, args...), &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return err, nil
	}
	t.processes.helpers.Store(int64(pid))
	gaveUp := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { giveUp(pid); close(gaveUp) })
	noStall := endStalled(t.stallLimit, list, cancel)
	d := <-died
	noStall()
	if !stop() {
		<-gaveUp // its signals must not reach what comes next
	}
	t.life.helped(d.rusage)
	return exitError(d.status), context.Cause(ctx)
}

func exitError(ws syscall.WaitStatus) error {
	switch {
	case ws.Signaled():
		return fmt.Errorf("ended by signal %d", ws.Signal())
	case ws.ExitStatus() != 0:
		return fmt.Errorf("exit code %d", ws.ExitStatus())
	}
	return nil
}
