package request

import (
	"sync"

	"headrace/internal/budget"
	"headrace/internal/linux/cgroup"
	"headrace/proc"
	"headrace/proc/attach"
	"headrace/serve"
	"headrace/wire"
)

// fillCaps gives a task the resource limits and the niceness that its caller wants
// it to have, none of them better than what the calling process has itself.
func (t *Task) fillCaps(q *wire.RunRequest, by serve.Caller, most Bounds) error {
	switch {
	case q.Pids < 0:
		return serve.Refusal("%d processes; give a positive number, or 0 for the default", q.Pids)
	case q.Pids > most.PIDs && !budget.Privileged(by.UID):
		return serve.Refusal("%d processes; at most %d are allowed", q.Pids, most.PIDs)
	case q.IoWeight > 10000:
		return serve.Refusal("an I/O weight of %d; give a number from 1 to 10000", q.IoWeight)
	case q.IoWeight > cgroup.DefaultIOWeight && !budget.Privileged(by.UID):
		return serve.Refusal("an I/O weight of %d; only root may have more than %d", q.IoWeight, cgroup.DefaultIOWeight)
	case q.GetNice() < -20 || q.GetNice() > 19:
		return serve.Refusal("niceness %d; give a number from -20 to 19", q.GetNice())
	}
	wanted, err := wantedLimits(q)
	if err != nil {
		return err
	}
	have, err := attach.Look(by.PID, by.UID)
	switch {
	case err == nil:
	case by.PID == 0, budget.Privileged(by.UID): // it is in another pid namespace, or may have any limits
		have.Limits, have.Nice = ownLimits(), 0
	default: // and the daemon's limits are better than its own
		return serve.Refusal("the process that has connected is gone, and nobody knows what it might use: %v; connect anew", err)
	}
	nice := have.Nice
	if q.Nice != nil && (int(*q.Nice) > nice || by.UID == 0) {
		nice = int(*q.Nice)
	}
	t.Record.PIDs, t.Record.IOWeight = q.Pids, int(q.IoWeight)
	t.Spec.Limits, t.Spec.Nice = attach.Allowed(wanted, have.Limits), &nice
	return nil
}

// ownLimits are those that commands of this daemon would have.
var ownLimits = sync.OnceValue(attach.Limits)

func wantedLimits(q *wire.RunRequest) ([]proc.Limit, error) {
	var wanted []proc.Limit
	for _, l := range q.Limits {
		resource, ok := attach.ResourceOf(l.Resource)
		switch {
		case !ok:
			return nil, serve.Refusal("there is no limit of %.40q; prlimit(1) lists them", l.Resource)
		case l.Soft > l.Hard:
			return nil, serve.Refusal("the limit of %s is %d, above its hard limit of %d", l.Resource, l.Soft, l.Hard)
		case len(wanted) > 64:
			return nil, serve.Refusal("%d limits; name each once", len(q.Limits))
		}
		wanted = append(wanted, proc.Limit{Resource: resource, Soft: l.Soft, Hard: l.Hard})
	}
	return wanted, nil
}
