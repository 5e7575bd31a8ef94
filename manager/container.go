package manager

import (
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

// container is one that has not ended, as its node has reported it last.
type container struct {
	id   string
	node *node
	task *wire.Task
	// state is the one in task; seen is when it was first heard of.
	state headrace.TaskState
	seen  time.Time
	// doing is what the node is doing to it, as far as that is known here: see busy. began is when that was first heard
	// of; stuck says why nobody waits for it any more.
	doing headrace.Operation
	began time.Time
	stuck string
	// order is the outstanding order, nil without one; paging one that only writes
	// memory to swap.
	order, paging *order
	// failed says why the last order has come to nothing; it is shown until the
	// container does something else.
	failed string
	// share is how much of it is done, as its application has told at sharedAt.
	share    float64
	sharedAt time.Time
	// promised is the earliest end that it has told so since this manager was started
	// (headrace.Progress.Promised); its node keeps it: see earliest.
	promised time.Duration
	// cannot says which mechanism is not to be tried again, and why.
	cannot map[headrace.Mechanism]refusal
	// stays says why it is not to be released again for a while.
	stays refusal
	// killed is until when its scheduler is expected to kill it, as was decided.
	killed time.Time
	// drained is when it was last told to go on because the cluster is drained.
	drained time.Time
	// looked is when there was last looked for room for another in its place: keepsRoom.
	looked time.Time
	// told is the mechanism that was decided last, for the log.
	told string
	// public is what Containers tells. It is replaced, never changed.
	public *wire.Container
	// stands tells that it does not only run: see stood.
	stands bool
}

type refusal struct {
	why   string
	until time.Time
}

// busy reports whether the node is doing something to it, known here or not.
func (k *container) busy() bool { return convert.Doing(k.task) != "" }

// sending reports whether nothing is ordered or done but that its checkpoint is sent away: that is called off when it is to go on.
func (k *container) sending() bool {
	ordered := k.order != nil && k.order.command == headrace.CommandArchive
	return ordered && (!k.busy() || k.doing == headrace.Archiving) || k.order == nil && k.doing == headrace.Archiving
}

// lasts says that what the node is doing to it does not end.
func (k *container) lasts(d time.Duration) string {
	return fmt.Sprintf("its node has been at it for %v (%s), and is not waited for any longer", d.Round(time.Second), convert.Doing(k.task))
}

// outstanding returns the orders for k that are not done.
func (k *container) outstanding() []*order {
	return slices.DeleteFunc([]*order{k.order, k.paging}, func(o *order) bool { return o == nil })
}

// aside reports whether a container does not run because it was suspended or
// checkpointed.
func (k *container) aside() bool {
	return k.state == headrace.Suspended || k.state == headrace.Checkpointed
}

// keepsRoom reports whether a user has suspended k and its scheduler counts its resources: it has them like one that runs.
func (k *container) keepsRoom() bool { return k.state == headrace.Suspended && k.task.KeepsRoom }

// expected returns what is being done to k, or is about to be: what was decided counts
// before the node has begun it.
func (k *container) expected(now time.Time) headrace.Operation {
	switch {
	case now.Before(k.killed):
		return headrace.Killing
	case k.stuck != "":
		return headrace.Idle
	case k.order == nil, k.order.command == headrace.CommandArchive: // that moves nothing
		return k.doing
	}
	return k.order.command.Operation()
}

// earliest returns the earliest end that k has told, to this manager or one before; 0: none.
func (k *container) earliest() time.Duration {
	kept := convert.Seconds(k.task.Promised)
	if k.promised == 0 || kept > 0 && kept < k.promised {
		return kept
	}
	return k.promised
}

// settled returns the answer about a container about which there is nothing to decide,
// else nil.
func (k *container) settled(now time.Time) *wire.PreemptDecision {
	wait := func(why string) *wire.PreemptDecision { return k.decision(policy.Verdict{Reason: why}) }
	switch {
	case k.order != nil && k.order.decision != nil:
		return k.order.decision
	case k.order != nil && k.order.command != headrace.CommandResume:
		return wait("it is just being released")
	case k.order != nil:
		return wait("it is just being brought back")
	}
	switch by := k.doing.LeavesBy(); {
	case k.stuck != "":
	case by == headrace.Kill:
		return wait("it is being killed")
	case by != headrace.Wait:
		return k.decision(policy.Verdict{Mechanism: by, Reason: "somebody else has it do so already"})
	case k.doing.BringsBack():
		return wait("it is just coming to run")
	}
	switch {
	case k.state == headrace.Suspended && !k.keepsRoom():
		return k.decision(policy.Verdict{Mechanism: headrace.Suspend, Reason: "it is suspended already"})
	case k.state == headrace.Checkpointed:
		return k.decision(policy.Verdict{Mechanism: headrace.Checkpoint, Reason: "it is checkpointed already"})
	case now.Before(k.killed):
		return k.decision(policy.Verdict{Mechanism: headrace.Kill, Reason: "it was to be killed a moment ago"})
	case k.stuck != "": // there is no answer, so the scheduler does what it is told to do without one
		return &wire.PreemptDecision{Container: k.id, Reason: k.stuck}
	}
	return nil
}

func (k *container) decision(v policy.Verdict) *wire.PreemptDecision {
	return convert.SetMechanism(&wire.PreemptDecision{
		Container: k.id, Store: v.Store, Delay: v.Delay.Seconds(), Waste: v.Waste.Seconds(), Reason: v.Reason,
	}, v.Mechanism)
}

// comeBack returns how long a container is expected to take to run again.
func (k *container) comeBack() time.Duration {
	p := k.task.Checkpoint
	if k.state != headrace.Checkpointed || p == nil {
		if in := convert.Amount(k.node.info.SwapIn); in > 0 {
			return convert.Seconds(float64(k.task.GetUsage().GetSwapped()) / in)
		}
		return 0
	}
	for _, s := range k.node.info.Stores {
		if read := convert.Amount(s.Read); s.Name == p.Store && read > 0 {
			return convert.Seconds(s.RestoreOverhead) + convert.Seconds(float64(p.TotalBytes)/read)
		}
	}
	return 0
}
