package manager

import (
	"cmp"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

const maxContainers = 1_000_000

// containers are those that have not ended, as their nodes report them. Not safe for
// concurrent use.
type containers struct {
	log    *slog.Logger
	timing *timing
	board  *board // stale when any of them has changed
	aside  *board // when one has that does not only run
	all    map[string]*container
	// byApplication has the same, by what is told of them.
	byApplication map[string]map[*container]struct{}
	on            map[*node]*holding
	ended         lately // those of which their nodes have told that they have ended
	// applications are those that their scheduler tells of. Replaced, never changed.
	applications map[string]*wire.Application
}

// holding is what one node has.
type holding struct {
	containers map[string]*container
	claims     policy.Claims
	warned     time.Time // about a container that is elsewhere
}

// of returns the containers of n.
func (c *containers) of(n *node) iter.Seq[*container] {
	if h := c.on[n]; h != nil {
		return maps.Values(h.containers)
	}
	return func(func(*container) bool) {}
}

// list returns what callers are told of all containers, or of those of an application, with aside of those that do not
// only run; in no order.
func (c *containers) list(application string, aside bool) (list []*wire.Container) {
	add := func(k *container) {
		if k.stands || !aside {
			list = append(list, k.public)
		}
	}
	if application != "" {
		for k := range c.byApplication[application] {
			add(k)
		}
		return list
	}
	for _, k := range c.all {
		add(k)
	}
	return list
}

// byName puts containers in order.
func byName(all []*wire.Container) {
	slices.SortFunc(all, func(a, b *wire.Container) int { return cmp.Compare(a.Id, b.Id) })
}

// regroup enters k under the application that p tells of; nil: under none.
func (c *containers) regroup(k *container, p *wire.Container) {
	was, is := k.public.GetHosting().GetApplication(), p.GetHosting().GetApplication()
	if k.public != nil && p != nil && was == is {
		return
	}
	if of := c.byApplication[was]; k.public != nil {
		if delete(of, k); len(of) == 0 {
			delete(c.byApplication, was)
		}
	}
	if p == nil {
		return
	}
	if c.byApplication[is] == nil {
		c.byApplication[is] = map[*container]struct{}{}
	}
	c.byApplication[is][k] = struct{}{}
}

// show brings public up to date.
func (c *containers) show(k *container) {
	t := k.task
	p := convert.ContainerMessage(t)
	p.Node, p.Away, p.Hosting, p.Priority = k.node.name, k.node.away, c.hosting(t.Hosting), uint32(c.priority(t))
	if k.order != nil {
		convert.SetOrdered(p, k.order.command)
	}
	if k.failed != "" && k.order == nil {
		p.Reason = k.failed
	}
	if k.stuck != "" {
		p.Operation, p.Doing, p.Reason = 0, "", cmp.Or(k.failed, k.stuck) // what it is, the reason says
	}
	if aside := k.stood(p); aside != k.stands || !same(k.public, p) {
		c.aside.stale = c.aside.stale || aside || k.stands
		c.regroup(k, p)
		k.public, k.stands = p, aside
		c.board.stale = true
	}
}

// stood tells whether k, of which p is told, does not only run: whether something else was ever
// ordered, has begun, or has been so. Its scheduler waits for the outcome of that.
func (k *container) stood(p *wire.Container) bool {
	runs := convert.In(p, headrace.Pending, headrace.Running)
	idle := k.order == nil && (convert.Doing(k.task) == "" || convert.Operation(k.task) == headrace.Starting)
	moved := p.Preemptions > 0 || p.SinceMs > k.task.StartedMs && k.task.StartedMs > 0
	return !runs || !idle || moved || p.Held || p.KeepsRoom || k.failed != ""
}

// hosting returns h with the queue, which nodes of YARN do not know.
func (c *containers) hosting(h *wire.Hosting) *wire.Hosting {
	app := c.applications[h.Application]
	if h.Queue != "" || app.GetQueue() == "" {
		return h
	}
	is := convert.Hosting(h)
	is.Queue = app.Queue
	return convert.HostingMessage(is)
}

// priority returns that of the application, which nodes of YARN do not know, else of t.
func (c *containers) priority(t *wire.Task) headrace.Priority {
	if app := c.applications[t.Hosting.GetApplication()]; app != nil {
		return convert.Priority(app.Priority)
	}
	return convert.Priority(t.Priority)
}

// enter notes the applications that their scheduler tells of.
func (c *containers) enter(applications map[string]*wire.Application) {
	if maps.EqualFunc(applications, c.applications, func(a, b *wire.Application) bool {
		return a.GetQueue() == b.GetQueue() && a.GetPriority() == b.GetPriority()
	}) {
		return
	}
	c.applications = applications
	for _, k := range c.all {
		c.show(k)
	}
}

func same(a, b *wire.Container) bool {
	return a != nil && a.Id == b.Id && a.Node == b.Node && a.User == b.User && convert.Hosting(a.Hosting) == convert.Hosting(b.Hosting) &&
		a.TaskState == b.TaskState && a.Operation == b.Operation && a.Reason == b.Reason && a.Held == b.Held && a.Command == b.Command &&
		a.Away == b.Away && a.Priority == b.Priority && a.Preemptions == b.Preemptions && a.SinceMs == b.SinceMs && a.Archived == b.Archived &&
		a.KeepsRoom == b.KeepsRoom
}

// remove forgets a container that has ended. Orders for it are for the caller to end.
func (c *containers) remove(k *container) {
	if time.Now().Before(k.killed) || k.order != nil && k.order.decision != nil {
		c.claim(k)
	}
	c.regroup(k, nil)
	delete(c.on[k.node].containers, k.id)
	if c.all[k.id] == k {
		delete(c.all, k.id)
	}
	c.board.stale = true
	c.aside.stale = c.aside.stale || k.stands
}

// claim keeps the room that k has made for somebody who will need as much.
func (c *containers) claim(k *container) {
	if h := c.on[k.node]; k.task.Memory > 0 {
		h.claims = append(h.claims, policy.Claim{Bytes: convert.Bytes(k.task.Memory), Until: time.Now().Add(c.timing.claim)})
	}
}

// back notes that a node that was away, or is new, is there with all its containers.
func (c *containers) back(n *node) {
	if c.on[n] == nil {
		c.on[n] = &holding{containers: map[string]*container{}}
	}
	c.moved(n)
}

// lost notes that a node is away.
func (c *containers) lost(n *node) {
	c.on[n].claims = nil
	c.moved(n)
}

// moved shows that n is away, or is not any more.
func (c *containers) moved(n *node) {
	for k := range c.of(n) {
		c.show(k)
	}
	c.board.stale, c.aside.stale = true, true
}

// forget removes a node with its containers, for which there are no orders: it is away.
func (c *containers) forget(n *node) {
	for _, k := range slices.Collect(c.of(n)) {
		c.remove(k)
	}
	delete(c.on, n)
	c.board.stale, c.aside.stale = true, true
}

// expire forgets what was to be known for a while.
func (c *containers) expire(now time.Time) {
	for _, h := range c.on {
		h.claims = slices.DeleteFunc(h.claims, func(k policy.Claim) bool { return now.After(k.Until) })
	}
	c.ended.rotate(now, c.timing.remember)
}

// report enters all containers of n, and returns those that it has no more.
func (c *containers) report(n *node, tasks []*wire.Task, now time.Time) (gone []*container, full error) {
	told := make(map[string]bool, len(tasks))
	for _, t := range tasks {
		state, err := convert.State(t)
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
	for k := range c.of(n) {
		if !told[k.id] {
			gone = append(gone, k)
			c.remove(k)
		}
	}
	return gone, full
}

// promised returns the ends that containers of n have told and that it does not keep yet, in seconds.
func (c *containers) promised(n *node) map[string]float64 {
	var all map[string]float64
	for k := range c.of(n) {
		if policy.PromiseIsNearer(k.promised, convert.Seconds(k.task.Promised)) {
			if all == nil {
				all = map[string]float64{}
			}
			all[k.id] = k.promised.Seconds()
		}
	}
	return all
}

// update enters one container.
func (c *containers) update(n *node, t *wire.Task, state headrace.TaskState, now time.Time) error {
	h, k := c.on[n], c.all[t.Id]
	if k != nil && k.node != n {
		if !k.node.away {
			if now.Sub(h.warned) > time.Minute {
				h.warned = now
				c.log.Warn("two nodes report a container of the same name; the first counts", "container", t.Id, "first", k.node.name, "second", n.name)
			}
			return nil
		}
		c.remove(k)
		k = nil
	}
	if k == nil {
		if len(c.all) >= maxContainers {
			return errFull
		}
		k = &container{id: t.Id, node: n, state: state, seen: now, began: now, task: t}
		c.all[t.Id], h.containers[t.Id] = k, k
		c.ended.remove(t.Id) // it was launched again
		h.claims.Come(convert.Bytes(t.Memory))
	}
	if t.SubmittedMs != k.task.SubmittedMs { // it was launched again meanwhile
		k.promised = 0
	}
	if state != k.state || t.SinceMs != k.task.SinceMs {
		k.state, k.seen, k.began, k.stuck, k.failed, k.told = state, now, now, "", "", ""
	} else if convert.Doing(t) != convert.Doing(k.task) {
		k.began, k.stuck, k.failed = now, "", ""
	}
	k.task, k.doing = t, convert.Operation(t)
	if k.busy() && k.order == nil && k.stuck == "" && now.Sub(k.began) > c.timing.unasked {
		k.stuck = k.lasts(now.Sub(k.began))
		c.log.Warn("a container is not waited for any longer", "node", n.name, "container", k.id, "reason", k.stuck)
	}
	c.show(k)
	return nil
}

// progress enters how far a container is, as its application tells, and returns what has
// become of that, for the metrics. It is no state: a manager that was started again hears
// it again.
func (c *containers) progress(p *wire.ContainerProgress, now time.Time) string {
	k := c.all[p.Container]
	switch {
	case k == nil:
		return "unknown"
	case p.User != k.task.User, !(p.Share >= 0 && p.Share <= 1):
		return "refused"
	}
	k.share, k.sharedAt = p.Share, now
	return "taken"
}

// clean cuts what people wrote to what is reasonable.
func clean(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
