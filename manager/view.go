package manager

import (
	"cmp"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

// scene is a node as the policy sees it, while one request is being answered: with what
// has been ordered, and what this request has decided so far.
type scene struct {
	*policy.Scene
	// answers are what this request has decided about containers of the node.
	answers map[string]*wire.PreemptDecision
}

// scene makes a picture of n.
func (c *containers) scene(n *node, now time.Time) *scene {
	all := c.inOrder(n)
	tasks := make([]headrace.TaskView, 0, len(all))
	var ours int64
	for _, k := range all {
		v := c.taskView(k, now)
		ours += v.Resident
		tasks = append(tasks, v)
	}
	s := &scene{policy.NewScene(c.nodeView(n, now), tasks), map[string]*wire.PreemptDecision{}}
	for _, k := range all {
		if o := k.order; o != nil && o.command == headrace.CommandCheckpoint && k.doing != headrace.Checkpointing {
			s.Dump(o.wire.Store, o.bytes, o.dump)
		}
	}
	// What others on the machine hold is not there for containers.
	s.Node.Memory = max(0, s.Node.Memory-max(0, convert.Bytes(n.info.MemoryUsed)-ours))
	return s
}

// inOrder returns the containers of n in order of submission.
func (c *containers) inOrder(n *node) []*container {
	all := slices.Collect(c.of(n))
	slices.SortFunc(all, func(a, b *container) int {
		return cmp.Or(cmp.Compare(a.task.SubmittedMs, b.task.SubmittedMs), cmp.Compare(a.id, b.id))
	})
	return all
}

func (c *containers) nodeView(n *node, now time.Time) headrace.NodeView {
	v := convert.NodeView(headrace.NodeID(n.name), n.info, now.Sub(n.heard))
	v.Memory -= c.on[n].claims.Held(now)
	return v
}

func (c *containers) taskView(k *container, now time.Time) headrace.TaskView {
	t := k.task
	v := convert.TaskView(t, k.state)
	v.Node = headrace.NodeID(k.node.name)
	v.Priority = c.priority(t)
	// What a container tells itself is newer, and counts more.
	if v.Progress.Share < 0 && now.Sub(k.sharedAt) < c.timing.fresh {
		v.Progress.Share = k.share
	}
	v.Progress.Promised = k.earliest()
	if k.keepsRoom() {
		v.State, v.NoSuspend = headrace.Running, ""
	}
	if v.State == headrace.Running {
		// The clock of the node may differ from ours: what we have seen ourselves is
		// the least.
		v.Running = now.Sub(k.seen)
		if t.SinceMs != 0 {
			v.Running = max(v.Running, now.Sub(time.UnixMilli(t.SinceMs)))
		}
	}
	var outs []policy.PageOut
	for _, o := range k.outstanding() {
		outs = append(outs, policy.PageOut{Bytes: o.wire.PageOut, Swapped: o.swapped})
	}
	for m, r := range k.cannot {
		why := "it failed a moment ago: " + r.why
		switch {
		case now.After(r.until):
		case m == headrace.Suspend && v.NoSuspend == "":
			v.NoSuspend = why
		case m == headrace.Checkpoint && v.NoCheckpoint == "":
			v.NoCheckpoint = why
		}
	}
	v = policy.Current(v, now.Sub(k.node.heard), k.expected(now), outs...)
	k.promised = v.Progress.Promised
	return v
}
