package convert

import (
	"time"

	"headrace"
	"headrace/wire"
)

// TaskView returns what a node tells of a hosted task in a state, as it was when the
// node measured it, without what follows from what is being done to it.
func TaskView(t *wire.Task, s headrace.TaskState) headrace.TaskView {
	u := t.Usage
	if u == nil {
		u = &wire.Usage{}
	}
	v := headrace.TaskView{
		ID: headrace.TaskID(t.Id), State: s, Priority: Priority(t.Priority),
		CPUs: Amount(t.Cpus), MemoryRequest: Bytes(t.Memory),
		Resident: Bytes(u.Resident), Swapped: Bytes(u.Swapped), Dirty: Bytes(u.Dirty),
		Preemptions: int(t.Preemptions), Held: t.Held, NoSuspend: t.NoSuspend, NoCheckpoint: t.NoCheckpoint,
		Progress: progress(t, u),
	}
	if p := t.Checkpoint; p != nil {
		v.Checkpoint = &headrace.CheckpointView{Store: p.Store, Bytes: Bytes(p.TotalBytes)}
	}
	return v
}

func progress(t *wire.Task, u *wire.Usage) headrace.Progress {
	p := headrace.Progress{
		CPU: Seconds(u.SinceSaveCpu), Wall: Seconds(u.SinceSaveWall), TotalWall: Seconds(u.Running), Lost: Seconds(t.LostWall), Share: -1,
		Promised: Seconds(t.Promised),
	}
	if t.Progress >= 0 && t.Progress <= 1 {
		p.Share = t.Progress
	}
	if p.Wall == 0 && p.CPU == 0 && t.Checkpoint == nil {
		p.Wall, p.CPU = p.TotalWall, Seconds(u.UserCpu)+Seconds(u.SystemCpu)
	}
	return p
}

// History returns what happened to a task, from its submission on: the states that it
// came to and the operations that began. What else is told there is for people.
func History(t *wire.Task) headrace.History {
	h := headrace.History{{At: time.UnixMilli(t.SubmittedMs), State: headrace.Pending}}
	for _, e := range t.History {
		event := headrace.Event{At: time.UnixMilli(e.AtMs), Reason: e.Reason, Bytes: e.Bytes}
		var err error
		if event.Began = operation(e.Operation, e.State); event.Began == headrace.Idle {
			event.State, err = State(e)
		}
		if err == nil {
			h = append(h, event)
		}
	}
	return h
}

// ContainerMessage returns what is told of a hosted task outside its machine.
func ContainerMessage(t *wire.Task) *wire.Container {
	m := &wire.Container{
		Id: t.Id, User: t.User, Hosting: t.Hosting, TaskState: t.TaskState, State: t.State, Operation: t.Operation, Doing: t.Doing,
		Reason: t.Reason, Held: t.Held, Preemptions: t.Preemptions, SinceMs: t.SinceMs, Archived: t.Archived,
		KeepsRoom: t.KeepsRoom,
	}
	if s, err := State(t); err == nil && t.TaskState == 0 { // the node is older
		m.TaskState, m.Operation = wire.TaskState(s)+1, wire.Operation(Operation(t))
	}
	return m
}
