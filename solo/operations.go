package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"headrace"
	"headrace/internal/crash"
	"headrace/migrate"
	"headrace/proc"
	"headrace/proc/attach"
)

// begin records an operation and, once the record is durable, runs work outside
// the loop. What work returns runs in the loop; its error answers the calls.
// work must not touch the task. in is nil for operations that leave no trace.
func (l *loop) begin(t *task, kind headrace.Operation, in *intent, c *call, work func(ctx context.Context) func() error) {
	ctx, cancel := context.WithCancel(l.driver.ctx)
	op := &operation{cancel: cancel, kind: kind, began: l.clk.boot()}
	if c != nil {
		op.calls = append(op.calls, c)
	}
	t.op = op
	if in != nil {
		in.Kind, in.Began, in.AtMs = kind, op.began, l.clk.wall().UnixMilli()
		t.rec.Op = in
		t.rec.note(event{AtMs: in.AtMs, State: kind.String(), Reason: in.Reason, Delay: in.Delay})
		l.touch(t)
	}
	l.later(func() {
		l.wg.Go(func() {
			defer cancel()
			crash.Here("solo.op.before")
			finish := work(ctx)
			crash.Here("solo.op.after")
			l.post(func() { l.opEnded(t, op, finish) })
		})
	})
}

// opEnded takes in the result of an operation. finish may begin another one.
func (l *loop) opEnded(t *task, op *operation, finish func() error) {
	in := t.rec.Op
	t.op = nil
	err := finish()
	if in != nil {
		if t.rec.Op == in && (t.op == nil || t.op.kind != in.Kind) {
			t.rec.Op = nil
		}
		l.touch(t)
	}
	for _, c := range op.calls {
		l.answer(c, t, err)
	}
	if t.exit != nil && t.op == nil {
		exit := *t.exit
		t.exit = nil
		l.exited(t, exit, in)
	}
	l.nextCall(t)
	l.redecide = true
}

// stopwatch measures an operation: call it at its beginning, and the result at
// its end.
func (l *loop) stopwatch() func() (took time.Duration, atMs int64) {
	began := l.clk.boot()
	return func() (time.Duration, int64) { return l.clk.boot() - began, l.clk.wall().UnixMilli() }
}

// specOf is what is run for the task: its command, or, if a stream deals its
// input, a consumer that runs its command. Every start from the beginning is an
// attempt of its own; what is restored from a checkpoint goes on with its
// attempt.
func (l *loop) specOf(t *task) proc.Spec {
	spec := t.spec
	if !t.hosted() { // else its scheduler sees to it
		spec.Memory, spec.CPUs, spec.IOWeight = t.rec.Memory, t.rec.CPUs, t.rec.IOWeight
		spec.PIDs = cmp.Or(t.rec.PIDs, l.cfg.TaskPIDs)
	}
	if id := t.streamOf(); id != "" {
		spec.Under = []string{
			"consume", "--socket", l.cfg.streamSocket(), "--stream", id,
			"--consumer", strconv.Itoa(t.rec.Input.Index), "--attempt", strconv.Itoa(t.rec.Starts),
		}
	}
	return spec
}

// start runs a pending task from the beginning.
func (l *loop) start(t *task, in *intent) {
	again, dirs := t.rec.Starts > 0, t.rec.ImageDirs
	t.rec.Starts++
	spec, stored, files := l.specOf(t), t.stored, t.files
	t.files = attach.Files{}
	var p migrate.Parcel
	var st *store
	if t.hosted() {
		p, st = l.expect(t)
	}
	l.begin(t, headrace.Starting, in, nil, func(ctx context.Context) func() error {
		watch := l.stopwatch()
		var live Task
		var from arrivedFrom
		var err error
		// A new attempt must not be taken for the continuation of old images.
		left := l.images.remove(dirs, spec.ID)
		if len(left) > 0 {
			err = fmt.Errorf("old checkpoints in %q cannot be removed", left)
		}
		if err == nil {
			spec, err = l.ledger.whole(spec, stored)
		}
		if err == nil && again {
			err = l.rt.Reset(ctx, spec)
		}
		if err == nil {
			live, from, err = l.startHere(ctx, spec, files.Stdio(), p, st)
		}
		files.Close()
		took, at := watch()
		return func() error {
			t.rec.ImageDirs = left
			if errors.Is(err, context.Canceled) {
				return err
			}
			if err != nil {
				l.log.Error("starting a task failed", "id", t.rec.ID, "err", err)
				l.schedulerOf(t).notStarted(t, err)
				return err
			}
			l.succeeded(t)
			l.attach(t, live)
			t.rec.Forfeit = false
			if why := l.came(t, from); why != "" {
				in.Reason = why
			}
			if exit, over := ended(live); over && exit.StartError != "" {
				l.exited(t, exit, nil)
				return nil
			}
			l.enter(t, headrace.Running, event{AtMs: at, Took: took, Delay: in.Delay, Reason: in.Reason})
			return nil
		}
	})
}

// is tells whether an operation was refused because the task is in the wanted
// state already.
func is(ctx context.Context, live Task, want headrace.TaskState, err error) bool {
	if !errors.Is(err, proc.ErrState) {
		return false
	}
	stats, err := live.Stats(ctx)
	return err == nil && stats.State == want
}

// ended reads the exit of a task without waiting for it.
func ended(live Task) (proc.Exit, bool) {
	select {
	case <-live.Exited():
		return live.Exit(), true
	default:
		return proc.Exit{}, false
	}
}

func (l *loop) suspend(t *task, in *intent, c *call) {
	live := t.live
	if in.Grace == 0 {
		in.Grace = l.cfg.SuspendGrace
	}
	grace := in.Grace
	l.begin(t, headrace.Suspending, in, c, func(ctx context.Context) func() error {
		watch := l.stopwatch()
		res, err := live.Suspend(ctx, grace)
		if is(ctx, live, headrace.Suspended, err) {
			err = nil
		}
		took, at := watch()
		return func() error {
			if err != nil {
				l.suspendFailed(t, err)
				return err
			}
			l.log.Debug("suspended", "id", t.rec.ID, "processes", res.Processes, "forced", res.Forced)
			l.succeeded(t)
			t.rec.NoSuspend, t.noSuspendUntil = "", 0
			l.left(t, in, headrace.Suspend)
			l.enter(t, headrace.Suspended, event{AtMs: at, Took: took, Reason: in.Reason, Delay: in.Delay})
			if in.PageOut > 0 {
				l.pageOuts = append(l.pageOuts, pageOut{task: t, bytes: in.PageOut})
			}
			return nil
		}
	})
}

// left counts a task that had to leave, or holds one that a user made leave.
func (l *loop) left(t *task, in *intent, m headrace.Mechanism) {
	if in.User {
		t.rec.Held = true
		return
	}
	l.counts.preemption(m)
	if t.rec.State == headrace.Running {
		t.rec.Preemptions++
	}
}

func (l *loop) suspendFailed(t *task, err error) {
	if errors.Is(err, proc.ErrGone) || errors.Is(err, context.Canceled) {
		return
	}
	l.log.Warn("suspending a task failed; it runs on", "id", t.rec.ID, "err", err)
	t.rec.NoSuspend, t.noSuspendUntil = err.Error(), 0
	if !errors.Is(err, proc.ErrUnsupported) {
		t.noSuspendUntil = l.clk.boot() + time.Minute
	}
}

// pageOut writes memory of a suspended task to swap, beside whatever else goes
// on.
func (l *loop) pageOut(t *task, bytes int64) {
	if t.op != nil || t.rec.State != headrace.Suspended || t.live == nil {
		return
	}
	live := t.live
	defer func() { t.op.bytes, t.op.swapped = bytes, t.stats.Swapped }()
	l.begin(t, headrace.PagingOut, nil, nil, func(ctx context.Context) func() error {
		watch := l.stopwatch()
		out, err := live.PageOut(ctx, bytes)
		took, at := watch()
		return func() error {
			l.pagedOut(t, out, took, err)
			if out > 0 {
				t.rec.note(event{AtMs: at, State: "paged out", Took: took, Bytes: out})
				l.touch(t)
			}
			return err
		}
	})
}

func (l *loop) pagedOut(t *task, bytes int64, took time.Duration, err error) {
	if l.memory.learnOut(bytes, took) {
		l.metaChanged = true
	}
	if t.known {
		moved := min(bytes, t.stats.Resident)
		t.stats.Resident -= moved
		t.stats.Swapped += moved
	}
	if err == nil || errors.Is(err, proc.ErrGone) || errors.Is(err, context.Canceled) {
		return
	}
	l.log.Warn("paging out failed", "id", t.rec.ID, "bytes", bytes, "err", err)
	l.memory.fullUntil = l.clk.boot() + swapFullFor
}

func (l *loop) resume(t *task, in *intent) {
	live, swapped := t.live, t.stats.Swapped
	l.begin(t, headrace.Resuming, in, nil, func(ctx context.Context) func() error {
		watch := l.stopwatch()
		err := live.Resume(ctx)
		if is(ctx, live, headrace.Running, err) {
			err = nil
		}
		took, at := watch()
		return func() error {
			if err != nil {
				l.backOff(t)
				l.log.Error("resuming a task failed", "id", t.rec.ID, "err", err)
				t.rec.Reason = "could not be resumed, will be tried again: " + err.Error()
				return err
			}
			l.succeeded(t)
			l.enter(t, headrace.Running, event{AtMs: at, Took: took, Bytes: swapped, Reason: in.Reason, Delay: in.Delay})
			if swapped > 0 {
				l.pageIn(live, swapped)
			}
			return nil
		}
	})
}

// pageIn brings the memory of a resumed task back while it runs: what it
// touches comes by itself, the rest in order and without its waiting.
func (l *loop) pageIn(live Task, swapped int64) {
	l.background(func(ctx context.Context) func() {
		watch := l.stopwatch()
		_, err := live.PageIn(ctx)
		took, _ := watch()
		return func() {
			switch {
			case errors.Is(err, proc.ErrGone), errors.Is(err, context.Canceled):
			case err != nil:
				l.log.Warn("paging in failed; the task will do it by itself", "err", err)
			case l.memory.learnIn(swapped, took):
				l.metaChanged = true
			}
		}
	})
}

// atOnce is the grace of a kill that makes room: the least there is.
const atOnce = time.Millisecond

// kill ends the processes. What becomes of the task then depends on who asked,
// and on whether the command had ended by itself before it was asked to.
func (l *loop) kill(t *task, in *intent, c *call) {
	live, grace := t.live, in.Grace
	l.begin(t, headrace.Killing, in, c, func(ctx context.Context) func() error {
		if exit, over := ended(live); over && !in.Again {
			return func() error { in.Late, t.exit = true, &exit; return nil }
		}
		err := live.Kill(ctx, grace)
		if err == nil || errors.Is(err, proc.ErrGone) {
			select {
			case <-live.Exited():
				exit := live.Exit()
				return func() error { t.exit = &exit; return nil }
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		return func() error {
			l.log.Error("killing a task failed", "id", t.rec.ID, "err", err)
			l.backOff(t)
			l.troubled(t, "could not be killed: "+err.Error(), l.clk.boot()+time.Minute)
			return err
		}
	})
}

// forget removes an ended task and everything that is kept of it.
func (l *loop) forget(t *task, c *call) {
	id, dirs := t.rec.ID, t.rec.ImageDirs
	l.begin(t, headrace.Forgetting, nil, c, func(ctx context.Context) func() error {
		left := l.images.remove(dirs, id)
		err := l.rt.Remove(ctx, id)
		return func() error {
			t.rec.ImageDirs = left
			if err != nil {
				l.log.Error("removing a task's files failed", "id", id, "err", err)
				l.touch(t)
				return err
			}
			l.tasks.remove(t)
			l.inputs.leave(t, l.tasks.all)
			l.deleted = append(l.deleted, id)
			return nil
		}
	})
}
