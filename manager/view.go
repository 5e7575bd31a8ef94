package manager

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"headrace"
	"headrace/wire"
)

// scene is a node as the policy sees it, while one request is being answered: with what
// has been ordered, and what this request has decided so far.
type scene struct {
	node  headrace.NodeView
	tasks []headrace.TaskView
	// at is where in tasks a container is.
	at map[string]int
	// answers are what this request has decided about containers of the node.
	answers map[string]*wire.PreemptDecision
}

// scene makes a picture of n.
func (c *cluster) scene(n *node, now time.Time) *scene {
	s := &scene{node: c.nodeView(n, now), at: make(map[string]int, len(n.holds)), answers: map[string]*wire.PreemptDecision{}}
	var ours int64
	for _, k := range n.inOrder() {
		s.at[k.id] = len(s.tasks)
		v := c.taskView(k, now)
		ours += v.Resident
		s.tasks = append(s.tasks, v)
		if o := k.order; o != nil && o.wire.Verb == checkpointVerb && k.task.Doing != "checkpointing" {
			s.fill(o.wire.Store, o.bytes, o.dump)
		}
	}
	// What others on the machine hold is not there for containers.
	s.node.Memory = max(0, s.node.Memory-max(0, bytesOf(n.info.MemoryUsed)-ours))
	return s
}

// inOrder are the containers of n in order of submission.
func (n *node) inOrder() []*container {
	all := slices.Collect(maps.Values(n.holds))
	slices.SortFunc(all, func(a, b *container) int {
		return cmp.Or(cmp.Compare(a.task.SubmittedMs, b.task.SubmittedMs), cmp.Compare(a.id, b.id))
	})
	return all
}

// fill enters a dump that the node does not know of yet.
func (s *scene) fill(store string, bytes int64, dump time.Duration) {
	for i := range s.node.Stores {
		if st := &s.node.Stores[i]; st.Name == store {
			st.Queue += dump
			st.Free = max(0, st.Free-bytes)
		}
	}
}

func (c *cluster) nodeView(n *node, now time.Time) headrace.NodeView {
	i := n.info
	v := headrace.NodeView{
		ID: headrace.NodeID(n.name), Memory: bytesOf(i.Memory), SwapFree: bytesOf(i.SwapFree),
		SwapOut: amount(i.SwapOut), SwapIn: amount(i.SwapIn),
	}
	for _, k := range n.claims {
		if now.Before(k.until) {
			v.Memory -= k.bytes
		}
	}
	since := now.Sub(n.heard)
	for _, s := range i.Stores {
		v.Stores = append(v.Stores, headrace.StoreView{
			Name: s.Name, Write: amount(s.Write), Read: amount(s.Read),
			DumpOverhead: seconds(s.DumpOverhead), RestoreOverhead: seconds(s.RestoreOverhead),
			Free: bytesOf(s.Free), Queue: max(0, seconds(s.Queue)-since),
		})
	}
	return v
}

var doings = map[string]struct {
	starting bool
	leaving  bool
	by       headrace.Mechanism
}{
	"starting": {starting: true}, "resuming": {starting: true}, "restoring": {starting: true},
	"suspending":    {leaving: true, by: headrace.Suspend},
	"checkpointing": {leaving: true, by: headrace.Checkpoint},
	"killing":       {leaving: true, by: headrace.Kill},
}

func (c *cluster) taskView(k *container, now time.Time) headrace.TaskView {
	t := k.task
	v := headrace.TaskView{
		ID: headrace.TaskID(k.id), Node: headrace.NodeID(k.node.name), State: k.state,
		Priority: headrace.Priority(min(t.Priority, uint32(headrace.MaxPriority))),
		CPUs:     amount(t.Cpus), MemoryRequest: bytesOf(t.Memory),
		Preemptions: int(t.Preemptions), Held: t.Held, NoSuspend: t.NoSuspend, NoCheckpoint: t.NoCheckpoint,
	}
	c.measured(k, &v, now)
	if d, known := doings[t.Doing]; known {
		v.Starting, v.Leaving, v.LeavingBy = d.starting, d.leaving, d.by
	}
	switch {
	case k.order == nil:
	case k.order.wire.Verb == archiveVerb: // it holds nothing
	case k.order.wire.Verb == resumeVerb:
		v.Starting, v.Leaving = true, false
	default:
		v.Starting, v.Leaving, v.LeavingBy = false, true, k.order.leavingBy()
	}
	if now.Before(k.killed) {
		v.Starting, v.Leaving, v.LeavingBy = false, true, headrace.Kill
	}
	for _, o := range []*order{k.order, k.paging} {
		if o != nil {
			v.PagingOut += max(0, o.wire.PageOut-max(0, v.Swapped-o.swapped))
		}
	}
	v.PagingOut = min(v.PagingOut, v.Resident)
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
	if p := t.Checkpoint; p != nil {
		v.Checkpoint = &headrace.CheckpointView{Store: p.Store, Bytes: bytesOf(p.TotalBytes)}
	}
	return v
}

// measured fills in what the node has measured of k, carried forward to now.
func (c *cluster) measured(k *container, v *headrace.TaskView, now time.Time) {
	t, u := k.task, k.task.Usage
	if u == nil {
		u = &wire.Usage{}
	}
	v.Resident, v.Swapped = bytesOf(u.Resident), bytesOf(u.Swapped)
	v.Dirty = min(bytesOf(u.Dirty), v.Resident+v.Swapped)
	p := headrace.Progress{
		CPU: seconds(u.SinceSaveCpu), Wall: seconds(u.SinceSaveWall), TotalWall: seconds(u.Running), Lost: seconds(t.LostWall), Share: -1,
	}
	if t.Progress >= 0 && t.Progress <= 1 {
		p.Share = t.Progress
	}
	if p.Wall == 0 && p.CPU == 0 && t.Checkpoint == nil {
		p.Wall, p.CPU = p.TotalWall, seconds(u.UserCpu)+seconds(u.SystemCpu)
	}
	if k.state == headrace.Running {
		// The clock of the node may differ from ours: what we have seen ourselves is
		// the least.
		v.Running = max(now.Sub(k.seen), now.Sub(time.UnixMilli(t.SinceMs)))
		if t.SinceMs == 0 {
			v.Running = now.Sub(k.seen)
		}
		age := max(0, now.Sub(k.node.heard))
		p.Wall += age
		p.TotalWall += age
	}
	v.Progress = p
}

// bytesOf is n within reason: no negative number, and so small that those of all
// containers of a node can be added up.
func bytesOf(n int64) int64 { return min(max(0, n), 1<<47) }

// amount is x within reason, and 0 when it is no amount.
func amount(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1e15)
}

// seconds is x as a duration, at most a year.
func seconds(x float64) time.Duration {
	const most = 365 * 24 * 3600
	return time.Duration(min(amount(x), most) * float64(time.Second))
}
