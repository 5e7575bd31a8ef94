package solo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"headrace"
	"headrace/migrate"
	"headrace/proc"
	"headrace/proc/attach"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/convert"
)

// hosted tells whether the task's scheduler is another one; see containers.
func (t *task) hosted() bool { return t.rec.Hosting != nil }

// containers decides for tasks that belong to another scheduler. The policy neither
// starts such a task nor makes it leave: it came with its process, and its scheduler
// gives the orders. It has no second life: without its supervisor, or without the
// process that it was started for, it has ended.
type containers struct {
	*loop
	// announced will be started soon.
	announced map[headrace.TaskID]announcement
}

func newContainers(l *loop) *containers {
	return &containers{loop: l, announced: map[headrace.TaskID]announcement{}}
}

// announcement is a container that will be started soon.
type announcement struct {
	task *task // all but the command
	// at is a boot time.
	at time.Duration
}

const (
	// announcedFor is how long an announcement is good for.
	announcedFor = 10 * time.Minute
	// maxAnnounced bounds those that nobody has come for.
	maxAnnounced = 10000
	maxHostedID  = 128
)

var (
	hostedID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	ownID    = regexp.MustCompile(`^t[0-9]+$`)
)

// newHosted turns an announcement into a task without a command, or says what is
// wrong with it. It may block, in the user database.
func newHosted(q *wire.PrepareRequest, by serve.Caller) (*task, error) {
	h := q.Hosting
	switch {
	case len(q.Id) > maxHostedID || !hostedID.MatchString(q.Id) || ownID.MatchString(q.Id):
		return nil, serve.Refusal("%.140q cannot be a container's name: give letters, digits, - and _", q.Id)
	case h == nil || h.Scheduler == "":
		return nil, serve.Refusal("container %s: name its scheduler", q.Id)
	}
	labels := []*wire.RunRequest{{Name: q.Name, Job: h.Application}, {Name: h.Scheduler, Job: h.Queue}}
	for _, l := range labels {
		if err := checkLabels(l); err != nil {
			return nil, err
		}
	}
	t := &task{}
	// What its scheduler gives is not measured against the slots here.
	unbounded := &Config{Slots: 1e6, Memory: 1 << 60}
	if err := fillResources(t, &wire.RunRequest{Priority: q.Priority, Cpus: q.Cpus, Memory: q.Memory}, unbounded); err != nil {
		return nil, err
	}
	owner, err := accountOf(q.User, by)
	if err != nil {
		return nil, err
	}
	if err := fillIdentity(t, &wire.RunRequest{}, owner); err != nil {
		return nil, err
	}
	t.rec.ID, t.rec.Name = headrace.TaskID(q.Id), q.Name
	t.rec.Job = headrace.JobID(h.Application)
	hosting := convert.Hosting(h)
	t.rec.Hosting = &hosting
	if t.rec.Name == "" {
		t.rec.Name = q.Id
	}
	return t, nil
}

// accountOf is who a container will run as: the named account, else the caller. To
// be announced gives nobody rights: the process that comes must be that account's,
// and brings the command.
func accountOf(name string, by serve.Caller) (serve.Caller, error) {
	if name == "" {
		return by, nil
	}
	who, err := lookUp(name)
	if err != nil {
		return by, err
	}
	uid, err := serve.ParseID(who.Uid)
	if err != nil {
		return by, err
	}
	gid, err := serve.ParseID(who.Gid)
	return serve.Caller{UID: uid, GID: gid}, err
}

// announce remembers a container until its process comes.
func (l *containers) announce(t *task) error {
	now := l.clk.boot()
	if len(l.announced) >= maxAnnounced {
		for id, a := range l.announced {
			if now-a.at > announcedFor {
				delete(l.announced, id)
			}
		}
	}
	if len(l.announced) >= maxAnnounced {
		return fmt.Errorf("%w: %d containers are announced and have not come", serve.ErrBusy, len(l.announced))
	}
	l.announced[t.rec.ID] = announcement{task: t, at: now}
	return nil
}

// arrival is the process of an announced container, and what it wants to run.
type arrival struct {
	attach.Request
	from  attach.Peer
	files attach.Files
	// cgroups are those that it is in and the daemon is not.
	cgroups []string
}

// takeIn takes in a container whose process has come, and starts its
// command. The call is answered when that runs.
func (l *containers) takeIn(a arrival, c *call) {
	t, err := l.arrived(a)
	if err != nil {
		a.files.Close()
		l.answer(c, nil, err)
		return
	}
	delete(l.announced, t.rec.ID)
	t.files = a.files
	l.admit(t)
	l.start(t, &intent{Reason: "started by " + t.rec.Hosting.Scheduler})
	t.op.calls = append(t.op.calls, c)
}

// arrived is the announced task with its command, or why it cannot be run here.
func (l *containers) arrived(a arrival) (*task, error) {
	id, from := headrace.TaskID(a.ID), a.from
	expected, ok := l.announced[id]
	switch {
	case !ok || l.clk.boot()-expected.at > announcedFor:
		return nil, fmt.Errorf("%w: container %.140q has not been announced, or too long ago", serve.ErrNotFound, a.ID)
	case from.UID != expected.task.rec.UID && from.UID != 0:
		return nil, fmt.Errorf("%w: container %s belongs to another user", serve.ErrDenied, id)
	}
	if err := l.refuses(1); err != nil {
		return nil, err
	}
	t := expected.task
	if old := l.tasks.all[id]; old != nil {
		if !old.rec.State.Final() || old.op != nil {
			return nil, fmt.Errorf("%w: container %s runs already", serve.ErrState, id)
		}
		l.succeed(t, old)
	}
	t.spec = a.Spec(from)
	t.spec.Cgroups = a.cgroups
	t.rec.UID = from.UID
	return t, nil
}

// succeed makes t take the place of an ended task with the same id: a container
// that is launched again.
func (l *containers) succeed(t, old *task) {
	t.rec.Starts, t.rec.ImageDirs, t.rec.SeenExit = old.rec.Starts, old.rec.ImageDirs, old.rec.SeenExit
	l.tasks.unend(old)
}

func (l *containers) order(t *task, c *call) {
	in := &intent{Reason: c.reason, Delay: c.delay, PageOut: c.pageOut}
	state := t.rec.State
	switch {
	case t.live == nil || state == headrace.Pending:
		l.answer(c, t, fmt.Errorf("%w: task %s has no processes yet", serve.ErrState, t.rec.ID))
	case c.command == headrace.CommandSuspend && state == headrace.Running:
		l.suspend(t, in, c)
	case c.command == headrace.CommandSuspend && state == headrace.Suspended && c.pageOut > 0:
		l.pageOut(t, c.pageOut)
		t.op.calls = append(t.op.calls, c)
	case c.command == headrace.CommandCheckpoint && state != headrace.Checkpointed:
		st, err := l.stores.choose(c.store, t)
		if err != nil {
			l.answer(c, t, err)
			return
		}
		l.checkpoint(t, in, st, c)
	case c.command == headrace.CommandArchive:
		l.archive(t, in, c)
	case c.command == headrace.CommandResume && state != headrace.Running:
		l.bringBack(t, in, c)
	default: // it is so already
		l.answer(c, t, nil)
	}
}

func (l *containers) bringBack(t *task, in *intent, c *call) {
	if c.force {
		t.rec.Held = false
	}
	switch {
	case t.rec.Held:
		l.answer(c, t, fmt.Errorf("%w: task %s is held by a user; to release it: headrace resume %s", serve.ErrState, t.rec.ID, t.rec.ID))
		return
	case t.rec.Sent != nil:
		l.takeBack(t, in, c, func() { l.bringBack(t, in, c) })
		return
	case t.rec.State == headrace.Suspended:
		l.resume(t, in)
	default:
		l.restore(t, in)
	}
	t.op.calls = append(t.op.calls, c)
}

// release does so at once where no manager is, or when the user insists, else when
// its scheduler has room for it.
func (l *containers) release(t *task, c *call) {
	if l.cfg.Cluster == nil || c.force {
		l.bringBack(t, &intent{Reason: "a user asked for it"}, c)
		return
	}
	t.rec.Reason = "waits until " + t.rec.Hosting.Scheduler + " has room for it"
	l.touch(t)
	l.answer(c, t, nil)
}

// endUnsupervised ends hosted tasks that have no supervisor after a start of the
// daemon: nothing of them can come back.
func (l *containers) endUnsupervised(same bool) {
	why := "its supervisor was gone when the daemon came back"
	if !same {
		why = "the machine was restarted"
	}
	for _, t := range append([]*task(nil), l.tasks.active...) {
		if t.hosted() && t.live == nil && t.op == nil {
			l.final(t, headrace.Lost, nil, why, false)
		}
	}
}

// receive hands a container to the loop and waits until it runs.
func (l *containers) receive(ctx context.Context, a arrival) error {
	c := &call{}
	_, err := l.await(ctx, c, func() { l.takeIn(a, c) })
	return err
}

// startAgain finishes the start: whoever waits for it has been told that it would be
// started.
func (l *containers) startAgain(t *task, in *intent) {
	p, st := l.expect(t)
	p.Again = true
	live, dirs := t.live, t.rec.ImageDirs
	l.begin(t, headrace.Starting, in, nil, func(ctx context.Context) func() error {
		from, err := l.startIfHeld(ctx, live, p, st)
		switch {
		case errors.Is(err, proc.ErrState) && from.why != "":
			from.why, in.Reason = "", "goes on where it was on another machine"
		case errors.Is(err, proc.ErrState): // it had got the first request
		case err != nil:
			l.log.Warn("what an earlier daemon was starting could not be started", "id", p.Task, "err", err)
		case from.why != "":
			l.images.remove(dirs, p.Task) // they are of no use now
		}
		stats, err := l.askAgain(ctx, live, in)
		return func() error {
			if why := l.came(t, from); why != "" {
				in.Reason = why
			}
			return l.settledAs(t, in, stats, nil, err)
		}
	})
}

// startIfHeld does startHeld, if the supervisor has not begun anything.
func (l *containers) startIfHeld(ctx context.Context, live Task, p migrate.Parcel, st *store) (from arrivedFrom, err error) {
	stats, err := live.Stats(ctx)
	if err != nil || stats.State != headrace.Checkpointed {
		return from, err
	}
	return l.startHeld(ctx, live, p, st)
}

func (l *containers) notStarted(t *task, err error) {
	l.final(t, headrace.Failed, nil, "could not be started here: "+err.Error(), false)
}

// notRestored leaves it to the scheduler whether it tries again.
func (l *containers) notRestored(t *task, err error) {
	t.rec.Reason = "could not be restored: " + err.Error()
	if t.live == nil {
		l.final(t, headrace.Lost, nil, t.rec.Reason+"; its supervisor is gone", false)
	}
}

func (l *containers) lose(t *task, why string) { l.final(t, headrace.Lost, nil, why, false) }

func (l *containers) idleEnded(t *task, exit proc.Exit) {
	l.final(t, headrace.Killed, &exit, endedBy(t), false)
}

// notBegun ends the task: whoever it was made for has given it up.
func (l *containers) notBegun(t *task) {
	l.kill(t, &intent{User: true, Reason: "it had not started when the daemon ended"}, nil)
}
