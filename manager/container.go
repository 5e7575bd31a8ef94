package manager

import (
	"maps"
	"strings"
	"time"

	"headrace"
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
	// doing is what the node is doing to it, as far as that is known here: there may be
	// something in task.Doing that is not.
	doing headrace.Operation
	// order is the outstanding order, nil without one; paging one that only writes
	// memory to swap.
	order, paging *order
	// failed says why the last order has come to nothing; it is shown until the
	// container does something else.
	failed string
	// cannot says which mechanism is not to be tried again, and why.
	cannot map[headrace.Mechanism]refusal
	// stays says why it is not to be released again for a while.
	stays refusal
	// killed is until when its scheduler is expected to kill it, as was decided.
	killed time.Time
	// drained is when it was last told to go on because the cluster is drained.
	drained time.Time
	// told is the mechanism that was decided last, for the log.
	told string
	// public is what Containers tells. It is replaced, never changed.
	public *wire.Container
}

type refusal struct {
	why   string
	until time.Time
}

// show brings public up to date.
func (c *cluster) show(k *container) {
	t := k.task
	p := convert.ContainerMessage(t)
	p.Node, p.Away, p.Hosting, p.Priority = k.node.name, k.node.away, c.hosting(t.Hosting), uint32(c.priority(t))
	if k.order != nil {
		p.Ordered = k.order.wire.Verb
	}
	if k.failed != "" && k.order == nil {
		p.Reason = k.failed
	}
	if !same(k.public, p) {
		k.public = p
		c.stale = true
	}
}

// hosting returns h with the queue, which nodes of YARN do not know.
func (c *cluster) hosting(h *wire.Hosting) *wire.Hosting {
	app := c.applications[h.Application]
	if h.Queue != "" || app.GetQueue() == "" {
		return h
	}
	return &wire.Hosting{Scheduler: h.Scheduler, Application: h.Application, Queue: app.Queue}
}

// priority returns that of the application, which nodes of YARN do not know, else of t.
func (c *cluster) priority(t *wire.Task) headrace.Priority {
	if app := c.applications[t.Hosting.GetApplication()]; app != nil {
		return convert.Priority(app.Priority)
	}
	return convert.Priority(t.Priority)
}

// enter notes the applications that their scheduler tells of; none: it tells nothing.
func (c *cluster) enter(applications map[string]*wire.Application) {
	if len(applications) == 0 {
		return
	}
	defer c.lock()()
	if maps.EqualFunc(applications, c.applications, func(a, b *wire.Application) bool {
		return a.GetQueue() == b.GetQueue() && a.GetPriority() == b.GetPriority()
	}) {
		return
	}
	c.applications = applications
	for _, k := range c.containers {
		c.show(k)
	}
}

func same(a, b *wire.Container) bool {
	return a != nil && a.Id == b.Id && a.Node == b.Node && a.User == b.User && convert.Hosting(a.Hosting) == convert.Hosting(b.Hosting) &&
		a.State == b.State && a.Doing == b.Doing && a.Reason == b.Reason && a.Held == b.Held && a.Ordered == b.Ordered &&
		a.Away == b.Away && a.Priority == b.Priority && a.Preemptions == b.Preemptions && a.SinceMs == b.SinceMs && a.Archived == b.Archived
}

// remove forgets a container that has ended. Orders for it are over.
func (c *cluster) remove(k *container) {
	if time.Now().Before(k.killed) || k.order != nil && k.order.decision != nil {
		c.claimed(k)
	}
	for _, o := range []*order{k.order, k.paging} {
		if o != nil {
			c.over(o, "ended")
		}
	}
	delete(k.node.holds, k.id)
	if c.containers[k.id] == k {
		delete(c.containers, k.id)
	}
	c.stale = true
}

// claimed keeps the room that k has made for somebody who will need as much.
func (c *cluster) claimed(k *container) {
	if k.task.Memory > 0 {
		k.node.claims = append(k.node.claims, claim{convert.Bytes(k.task.Memory), time.Now().Add(c.cfg.timing.claim)})
	}
}

// come takes back what was kept for somebody who has come.
func (n *node) come(memory int64) {
	for i := range n.claims {
		some := min(memory, n.claims[i].bytes)
		n.claims[i].bytes -= some
		memory -= some
	}
}

// report enters what is true on a node.
func (c *cluster) report(r *wire.NodeReport) error {
	defer c.lock()()
	n := c.nodes[r.Node]
	if n == nil || n.stream == nil {
		return errNotJoined
	}
	now := time.Now()
	n.heard, n.info = now, r.Info
	if n.info == nil {
		n.info = &wire.NodeInfo{}
	}
	c.setAway(n, false)
	var full error
	told := make(map[string]bool, len(r.Tasks))
	for _, t := range r.Tasks {
		state, err := headrace.ParseTaskState(t.State)
		if err != nil || t.Hosting == nil {
			continue // what is not told is removed
		}
		if state.Final() {
			c.ended.add(t.Id, maxContainers)
			continue
		}
		told[t.Id] = true
		if err := c.update(n, t, state, now); err != nil {
			full = err
		}
	}
	for id, k := range n.holds {
		if !told[id] {
			c.remove(k)
		}
	}
	for _, res := range r.Results {
		c.result(n, res)
	}
	c.counts.reports.Inc()
	return full
}

// update enters one container.
func (c *cluster) update(n *node, t *wire.Task, state headrace.TaskState, now time.Time) error {
	k := c.containers[t.Id]
	if k != nil && k.node != n {
		if !k.node.away {
			if now.Sub(n.warned) > time.Minute {
				n.warned = now
				c.cfg.Log.Warn("two nodes report a container of the same name; the first counts", "container", t.Id, "first", k.node.name, "second", n.name)
			}
			return nil
		}
		c.remove(k)
		k = nil
	}
	if k == nil {
		if len(c.containers) >= maxContainers {
			return errFull
		}
		k = &container{id: t.Id, node: n, state: state, seen: now, task: t}
		c.containers[t.Id], n.holds[t.Id] = k, k
		c.ended.remove(t.Id) // it was launched again
		n.come(convert.Bytes(t.Memory))
	}
	if state != k.state || t.SinceMs != k.task.SinceMs {
		k.state, k.seen, k.failed, k.told = state, now, "", ""
	} else if t.Doing != k.task.Doing {
		k.failed = ""
	}
	k.task, k.doing = t, convert.Operation(t.Doing)
	c.show(k)
	return nil
}

// clean cuts what people wrote to what is reasonable.
func clean(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
