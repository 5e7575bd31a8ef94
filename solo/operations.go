package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/migrate"
	"headrace/proc"
	"headrace/proc/attach"
	"headrace/solo/journal"
	"headrace/solo/request"
	"headrace/solo/statedir"
	"headrace/solo/store"
)

// operations are what is done to tasks through their supervisors.
type operations struct {
	*life
	moving    *moving
	admission *admission
}

// specOf returns what is run for the task: its command, or, if a stream deals its
// input, a consumer that runs its command. Every start from the beginning is an
// attempt of its own; what is restored from a checkpoint goes on with its
// attempt.
func (o *operations) specOf(t *task) proc.Spec {
	spec := t.spec
	spec.SharedOutput = t.rec.SharedOutput
	if !t.hosted() { // else its scheduler sees to it
		spec.Memory, spec.CPUs, spec.IOWeight = t.rec.Memory, t.rec.CPUs, t.rec.IOWeight
		spec.PIDs = cmp.Or(t.rec.PIDs, o.cfg.TaskPIDs)
	}
	if id := t.streamOf(); id != "" {
		spec.Under = []string{
			"consume", "--socket", statedir.StreamSocket(o.cfg.StateDir), "--stream", id,
			"--consumer", strconv.Itoa(t.rec.Input.Index), "--attempt", strconv.Itoa(t.rec.Starts),
			"--record", strconv.FormatInt(t.rec.Input.RecordSize, 10),
		}
	}
	return spec
}

// renew gives the specification of a task of a user, called so when it was handed in, the groups that the user has now. It
// may be called from anywhere, and block.
func (o *operations) renew(spec proc.Spec, user string) (proc.Spec, error) {
	if spec.Attached { // it has those of the process that has come
		return spec, nil
	}
	err := request.Renew(&spec, user)
	return spec, err
}

// start runs a pending task from the beginning.
func (o *operations) start(t *task, in *journal.Intent) {
	again, dirs := t.rec.Starts > 0, t.rec.ImageDirs
	t.rec.Starts++
	others := o.noteSharedOutput(t)
	spec, user, stored, files := o.specOf(t), t.rec.User, t.stored, t.files
	settled := o.images.settled(t.rec.ID)
	t.files = attach.Files{}
	var p migrate.Parcel
	var st *store.Store
	if t.hosted() {
		p, st = o.moving.expect(t)
	}
	o.begin(t, headrace.Starting, in, nil, func(ctx context.Context) func() error {
		watch := o.stopwatch()
		var live Task
		var from arrivedFrom
		var err error
		// A new attempt must not be taken for the continuation of old images.
		left := dirs
		if err = settled(ctx); err == nil {
			if err = o.stores.There(ctx, dirs...); err == nil {
				left, err = o.images.remove(dirs, spec.ID)
			}
			if err != nil {
				err = awayError{err}
			}
		}
		if err == nil {
			spec, err = o.ledger.whole(spec, stored)
		}
		if err == nil {
			spec, err = o.renew(spec, user)
		}
		if err == nil && again {
			err = o.rt.Reset(ctx, spec)
		}
		if err == nil {
			live, from, err = o.moving.startHere(ctx, spec, files.Stdio(), p, st)
		}
		sharing := o.sharing(spec.ID, others, err)
		files.Close()
		took, at := watch()
		return func() error {
			t.rec.ImageDirs = left
			o.shareOutput(t, sharing)
			if errors.Is(err, context.Canceled) {
				if st != nil { // what was fetched may be there still
					t.rec.AddImageDir(st.Dir)
				}
				t.unheard = t.hosted() && !from.held
				return err
			}
			if err != nil {
				o.log.Error("starting a task failed", "id", t.rec.ID, "err", err)
				o.schedulerOf(t).notStarted(t, err)
				return err
			}
			o.attach(t, live)
			t.rec.Forfeit = false
			t.spec.GID, t.spec.Groups = spec.GID, spec.Groups
			if why := o.moving.came(t, from); why != "" {
				in.Reason = why
			}
			if exit, over := ended(live); over && (exit.StartError != "" || from.ended) {
				o.exited(t, exit, nil)
				return nil
			}
			o.succeeded(t)
			o.enter(t, headrace.Running, journal.Event{AtMs: at, Took: took, Delay: in.Delay, Reason: in.Reason})
			return nil
		}
	})
}

// noteSharedOutput remembers that a task that starts and others that may run have one output file: none of them may
// cut it from now on, for that would take what the others have written. It returns those whose output has another name.
func (o *operations) noteSharedOutput(t *task) (others []headrace.TaskID) {
	var same []headrace.TaskID
	for _, u := range o.tasks.active {
		switch {
		case t.spec.Output == "" || u.spec.Output == "" || u == t || u.rec.Starts == 0:
		case u.spec.Output == t.spec.Output:
			same = append(same, u.rec.ID)
		default:
			others = append(others, u.rec.ID)
		}
	}
	o.shareOutput(t, same)
	return others
}

func (o *operations) shareOutput(t *task, with []headrace.TaskID) {
	for _, id := range with {
		t.rec.SharedOutput = true
		if u := o.tasks.all[id]; u != nil && !u.rec.SharedOutput {
			u.rec.SharedOutput = true
			o.touch(u)
		}
	}
}

// sharing returns which of others write to the output file of a task that has been started, by another name. It may be called
// from anywhere.
func (o *operations) sharing(id headrace.TaskID, others []headrace.TaskID, startErr error) []headrace.TaskID {
	if startErr != nil || len(others) == 0 {
		return nil
	}
	sharing, err := o.rt.SharingOutput(id, others)
	if err != nil {
		o.log.Warn("whether tasks write to one output file is not known of all; one that starts again may cut it", "id", id, "err", err)
	}
	return sharing
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

// heard takes in that the supervisor of a task does not answer while something is asked of it, and with nil that it does
// again, or is asked for nothing any more. It may be called from anywhere.
func (o *operations) heard(id headrace.TaskID, err error) {
	if err != nil {
		err = fmt.Errorf("%w; what was asked of it is done when it does", err)
	}
	o.post(func() {
		if t := o.tasks.all[id]; t != nil {
			o.silent(t, err)
		}
	})
}

// silent has nobody wait any longer for a task whose supervisor does not answer; nil: it does. Until it does nobody knows whether the
// task runs: nothing but a kill can be decided about it, or it would have a slot of others, or lose its work.
func (o *operations) silent(t *task, err error) {
	told := t.silence != nil
	t.silence = err
	switch {
	case err == nil:
		o.show(t)
		return
	case !told:
		t.rec.Note(journal.Event{AtMs: o.clk.wall().UnixMilli(), State: journal.Trouble, Reason: journal.Short(err.Error())})
		o.touch(t)
	}
	if t.op == nil || t.op.kind == headrace.Killing {
		return
	}
	if !t.op.attaching(t) {
		for _, c := range t.op.calls {
			o.answer(c, t, err)
		}
		t.op.calls = nil
	}
	t.queue = slices.DeleteFunc(t.queue, func(c *call) bool {
		if c.command == headrace.CommandKill {
			t.op.cancel()
			return false
		}
		if t.op.awaits(c) {
			return false
		}
		o.answer(c, t, err)
		return true
	})
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

func (o *operations) suspend(t *task, in *journal.Intent, c *call) {
	live := t.live
	if in.Grace == 0 {
		in.Grace = o.cfg.SuspendGrace
	}
	grace, reads := in.Grace, t.opensItself()
	o.begin(t, headrace.Suspending, in, c, func(ctx context.Context) func() error {
		watch := o.stopwatch()
		res, err := live.Suspend(ctx, grace)
		if is(ctx, live, headrace.Suspended, err) {
			err = nil
		}
		took, at := watch()
		positions := o.positions(live, reads)
		var stats proc.Stats
		notMeasured := err
		if err == nil && in.User {
			stats, notMeasured = statsOf(ctx, live)
		}
		return func() error {
			if err != nil {
				o.suspendFailed(t, err)
				return err
			}
			if in.User && notMeasured == nil {
				t.stats, t.statsAt, t.known = stats, o.clk.boot(), true
			}
			o.log.Debug("suspended", "id", t.rec.ID, "processes", res.Processes, "forced", res.Forced)
			o.succeeded(t)
			t.rec.NoSuspend, t.noSuspendUntil = "", 0
			o.left(t, in, headrace.Suspend)
			reason, refused := in.Reason, error(nil)
			if in.User && c != nil && !c.by.All {
				refused = o.admission.refusesAside(t)
			}
			if refused != nil { // it has grown since it was asked for: it waits like others
				t.rec.Held = false
				reason += "; it is not held: " + refused.Error()
			}
			o.inputs.expectRest(t, positions)
			o.enter(t, headrace.Suspended, journal.Event{AtMs: at, Took: took, Reason: reason, Delay: in.Delay})
			if in.PageOut > 0 {
				o.pageOuts = append(o.pageOuts, pageOut{task: t, bytes: in.PageOut})
			}
			return refused
		}
	})
}

// positions returns where a task is in its files, if it opens them itself. It may be called
// from anywhere.
func (o *operations) positions(live Task, reads bool) map[linux.FileID]int64 {
	if !reads {
		return nil
	}
	at, err := live.Positions()
	if err != nil {
		o.log.Warn("what a task has left to read is not known, and not read ahead", "err", err)
	}
	return at
}

func (o *operations) suspendFailed(t *task, err error) {
	switch {
	case errors.Is(err, context.Canceled):
		return
	case errors.Is(err, proc.ErrGone):
		o.foundGone(t)
		return
	}
	o.log.Warn("suspending a task failed; it runs on", "id", t.rec.ID, "err", err)
	t.rec.NoSuspend, t.noSuspendUntil = err.Error(), 0
	if !errors.Is(err, proc.ErrUnsupported) {
		t.noSuspendUntil = o.clk.boot() + time.Minute
	}
	o.troubled(t, "could not be suspended: "+err.Error(), t.noSuspendUntil)
}

// pageOut writes memory of a suspended task to swap, beside whatever else goes
// on.
func (o *operations) pageOut(t *task, bytes int64) {
	if t.op != nil || t.rec.State != headrace.Suspended || t.live == nil {
		return
	}
	live := t.live
	defer func() { t.op.bytes, t.op.swapped = bytes, t.stats.Swapped }()
	o.begin(t, headrace.PagingOut, nil, nil, func(ctx context.Context) func() error {
		watch := o.stopwatch()
		out, err := live.PageOut(ctx, bytes)
		took, at := watch()
		return func() error {
			o.pagedOut(t, out, took, err)
			if out > 0 {
				t.rec.Note(journal.Event{AtMs: at, State: journal.PagedOut, Took: took, Bytes: out})
				o.touch(t)
			}
			return err
		}
	})
}

func (o *operations) pagedOut(t *task, bytes int64, took time.Duration, err error) {
	if o.memory.learnOut(bytes, took) {
		o.metaChanged = true
	}
	if t.known {
		moved := min(bytes, t.stats.Resident)
		t.stats.Resident -= moved
		t.stats.Swapped += moved
	}
	if err == nil || errors.Is(err, proc.ErrGone) || errors.Is(err, context.Canceled) {
		return
	}
	o.log.Warn("paging out failed", "id", t.rec.ID, "bytes", bytes, "err", err)
	o.memory.fullUntil = o.clk.boot() + swapFullFor
}

func (o *operations) resume(t *task, in *journal.Intent) {
	live, swapped := t.live, t.stats.Swapped
	o.begin(t, headrace.Resuming, in, nil, func(ctx context.Context) func() error {
		watch := o.stopwatch()
		err := live.Resume(ctx)
		if is(ctx, live, headrace.Running, err) {
			err = nil
		}
		took, at := watch()
		return func() error {
			if err != nil {
				o.backOff(t)
				o.log.Error("resuming a task failed", "id", t.rec.ID, "err", err)
				t.rec.Reason = journal.Short("could not be resumed, will be tried again: " + err.Error())
				t.rec.Note(journal.Event{AtMs: o.clk.wall().UnixMilli(), State: journal.Trouble, Reason: t.rec.Reason})
				return err
			}
			o.succeeded(t)
			t.back = t.memory()
			o.enter(t, headrace.Running, journal.Event{AtMs: at, Took: took, Bytes: swapped, Reason: in.Reason, Delay: in.Delay})
			if swapped > 0 {
				o.pageIn(t, live, swapped)
			}
			return nil
		}
	})
}

// pageIn brings the memory of a resumed task back while it runs: what it
// touches comes by itself, the rest in order and without its waiting.
func (o *operations) pageIn(t *task, live Task, swapped int64) {
	t.comes++
	o.background(func(ctx context.Context) func() {
		watch := o.stopwatch()
		_, err := live.PageIn(ctx)
		took, _ := watch()
		return func() {
			t.comes--
			switch {
			case errors.Is(err, proc.ErrGone), errors.Is(err, context.Canceled):
			case err != nil:
				o.log.Warn("paging in failed; the task will do it by itself", "err", err)
			case o.memory.learnIn(swapped, took):
				o.metaChanged = true
			}
		}
	})
}

// atOnce is the grace of a kill that makes room: the least there is.
const atOnce = time.Millisecond

// kill ends the processes. What becomes of the task then depends on who asked,
// and on whether the command had ended by itself before it was asked to.
func (o *operations) kill(t *task, in *journal.Intent, c *call) {
	live, grace := t.live, in.Grace
	o.begin(t, headrace.Killing, in, c, func(ctx context.Context) func() error {
		if exit, over := ended(live); over && !in.Again {
			return func() error { in.Late, t.exit = true, &exit; return nil }
		}
		kill := live.Kill
		if in.User {
			kill = live.KillForUser
		}
		err := kill(ctx, grace)
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
			o.log.Error("killing a task failed", "id", t.rec.ID, "err", err)
			o.backOff(t)
			if k := t.rec.Kill; k == nil || !k.User {
				t.rec.Kill = in
			}
			o.troubled(t, "could not be killed: "+err.Error(), o.clk.boot()+time.Minute)
			return err
		}
	})
}

// emptied takes in that a supervisor has no processes any more although nothing is being done to
// its task: what was called off has come to its end after all.
func (o *operations) emptied(t *task, stats proc.Stats) {
	switch {
	case o.clk.boot() < t.retryAt:
		return
	case t.rec.Kill != nil:
		again := *t.rec.Kill
		again.Again = true
		o.kill(t, &again, nil)
	default:
		o.vanished(t, proc.Exit{Usage: stats.Usage}, "its supervisor has no processes of it any more")
	}
	o.redecide = true
}

// discard ends a task that exists only as a checkpoint, or whose supervisor does not
// answer, with whatever is being done to it.
func (o *operations) discard(t *task, c *call) {
	id, sent := t.rec.ID, t.rec.Sent
	o.detach(t)
	in := &journal.Intent{User: true, Reason: "a user asked for it"}
	o.begin(t, headrace.Killing, in, c, func(ctx context.Context) func() error {
		err := o.rt.End(ctx, id)
		if err == nil {
			o.revoke(ctx, id, sent)
		}
		return func() error {
			if err != nil {
				o.log.Error("killing a task failed", "id", id, "err", err)
				t.rec.Kill = in
				o.troubled(t, "could not be killed: "+err.Error(), o.clk.boot()+time.Minute)
				(&recovery{operations: o, written: o.boot}).reattach(t, err) // its end may come yet
				return err
			}
			why := "killed by a user"
			if t.unheard {
				why += "; its process may run the command without Headrace, as it was not heard that it has let go of it"
			}
			o.final(t, headrace.Killed, nil, why, false)
			return nil
		}
	})
}

// forget removes an ended task and everything that is kept of it.
func (o *operations) forget(t *task, c *call) {
	id, dirs := t.rec.ID, t.rec.ImageDirs
	o.begin(t, headrace.Forgetting, nil, c, func(ctx context.Context) func() error {
		if err := o.stores.There(ctx, dirs...); err != nil {
			return func() error { return err }
		}
		left, err := o.images.remove(dirs, id)
		if err == nil { // else what is left would be nobody's
			err = o.rt.Remove(ctx, id)
		}
		return func() error {
			t.rec.ImageDirs = left
			if err != nil {
				o.log.Error("removing a task's files or checkpoints failed", "id", id, "err", err)
				t.rec.Checkpoint = nil // part of it may have gone
				o.images.retry(t)
				o.touch(t)
				return err
			}
			o.tasks.remove(t)
			for _, c := range t.queue { // nothing may be done to it any more
				o.answer(c, nil, errForgotten(id))
			}
			t.queue = nil
			o.dropPiped(t) // of a lost one that could have been restored
			o.inputs.leave(t, o.tasks.all)
			o.deleted = append(o.deleted, id)
			return nil
		}
	})
}
