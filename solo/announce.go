package solo

import (
	"fmt"
	"regexp"
	"time"

	"headrace"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/convert"
)

// announcements are of containers that will be started soon.
type announcements struct {
	clk clock
	all map[headrace.TaskID]announcement
}

func newAnnouncements(clk clock) *announcements {
	return &announcements{clk: clk, all: map[headrace.TaskID]announcement{}}
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

// add remembers a container until its process comes.
func (a *announcements) add(t *task) error {
	now := a.clk.boot()
	if len(a.all) >= maxAnnounced {
		for id, old := range a.all {
			if now-old.at > announcedFor {
				delete(a.all, id)
			}
		}
	}
	if len(a.all) >= maxAnnounced {
		return fmt.Errorf("%w: %d containers are announced and have not come", serve.ErrBusy, len(a.all))
	}
	a.all[t.rec.ID] = announcement{task: t, at: now}
	return nil
}

// expected returns the announced container for which a process of a user has come.
func (a *announcements) expected(id headrace.TaskID, uid uint32) (*task, error) {
	found, ok := a.all[id]
	switch {
	case !ok || a.clk.boot()-found.at > announcedFor:
		return nil, fmt.Errorf("%w: container %.140q has not been announced, or too long ago", serve.ErrNotFound, id)
	case uid != found.task.rec.UID && uid != 0:
		return nil, fmt.Errorf("%w: container %s belongs to another user", serve.ErrDenied, id)
	}
	return found.task, nil
}

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
	labels := []*wire.RunRequest{{Name: q.Name, Job: h.Application}, {Name: h.Scheduler, Job: h.Queue}, {Name: h.Submitter}}
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

// accountOf returns who a container will run as: the named account, else the caller. To
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
	return serve.Caller{UID: who.UID, GID: who.GID}, nil
}
