package request

import (
	"regexp"

	"headrace"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/convert"
)

const maxHostedID = 128

var (
	hostedID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	ownID    = regexp.MustCompile(`^t[0-9]+$`)
)

// Hosted turns an announcement of a caller into a task without a command, or says what is
// wrong with it (serve.ErrInput). It may be called from any goroutine, and block, in the user database.
func Hosted(q *wire.PrepareRequest, by serve.Caller) (*Task, error) {
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
	t := &Task{}
	// What its scheduler gives is not measured against the slots here.
	unbounded := Bounds{Slots: 1e6, Memory: 1 << 60}
	if err := t.fillResources(&wire.RunRequest{Priority: q.Priority, Cpus: q.Cpus, Memory: q.Memory}, unbounded); err != nil {
		return nil, err
	}
	owner, err := accountOf(q.User, by)
	if err != nil {
		return nil, err
	}
	if err := t.fillIdentity(&wire.RunRequest{}, owner); err != nil {
		return nil, err
	}
	t.Record.ID, t.Record.Name = headrace.TaskID(q.Id), q.Name
	t.Record.Job = headrace.JobID(h.Application)
	hosting := convert.Hosting(h)
	t.Record.Hosting = &hosting
	if t.Record.Name == "" {
		t.Record.Name = q.Id
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
