package policy

import (
	"fmt"
	"slices"
	"time"

	"headrace"
)

// Decide is the whole decision for a cluster: which waiting tasks start or come
// back and where, which running tasks make room for more urgent ones and how, and
// what memory goes to swap. The orders may be carried out at the same time; no
// task gets more than one. The same arguments give the same orders, in the same
// sequence.
//
// The view must show what was ordered before and is not finished: Starting,
// Leaving with LeavingBy, PagingOut, and Room for the task an order was for.
// Nothing is then ordered twice. c must be valid (Config.Validate); an unknown
// policy panics. v is not changed and not kept.
func Decide(v headrace.View, c Config) []headrace.Order {
	d := decide(&v, c, false)
	return d.orders
}

// decision is the state of one call: the accounts of all nodes, and buffers.
type decision struct {
	c       Config
	weights [headrace.MaxPriority + 1]float64
	nodes   []node
	tasks   []task
	byID    map[headrace.NodeID]*node
	orders  []headrace.Order

	explain bool
	notes   []Note

	failed   failures
	attempts int
	allSets  int  // as the constant; tests lower it
	keeping  bool // a task that can go anywhere has room kept for it
	every    []*node

	acts, prefs, best []act
	one               [1]act
	outs              []out
	fresh, taken      []*task
	pool              []*option
	ends              []option
	maybe             []*node
}

func newDecision(v *headrace.View, c Config) *decision {
	c = c.resolved()
	if !slices.Contains(Names(), c.Policy) {
		panic(fmt.Sprintf("policy: %v", unknown("policy", string(c.Policy), Names())))
	}
	d := &decision{c: c, weights: weights(c), allSets: allSets}
	d.index(v)
	return d
}

func decide(v *headrace.View, c Config, explain bool) *decision {
	d := newDecision(v, c)
	d.explain = explain
	queue := d.queue()
	for i := range d.nodes {
		d.relieve(&d.nodes[i])
	}
	for _, u := range queue {
		u.redeemed = u.Room != "" && d.redeem(u)
	}
	for _, u := range queue {
		if !u.redeemed {
			d.place(u)
		}
	}
	return d
}

// relieve orders out memory of suspended tasks on a node whose tasks hold more
// than its budget, as happens when a task needs more than it said or has said
// nothing. Where swap has no room, Suspend and Cost turn suspended tasks into
// checkpoints.
func (d *decision) relieve(n *node) {
	excess := -n.later.mem
	if excess <= 0 || n.pageable <= 0 {
		return
	}
	p := &plan{n: n, page: min(excess, max(0, n.swap), n.pageable)}
	if p.page < excess && (d.c.Policy == Suspend || d.c.Policy == Cost) {
		p.acts = d.checkpointExcess(n, excess)
		b := balance{mem: excess, pageable: n.pageable}.sum(p.acts)
		p.page = min(max(0, b.mem), max(0, n.swap), max(0, b.pageable))
	}
	nobody := &task{TaskView: &headrace.TaskView{}}
	p.cost = d.costOf(nobody, n, p.acts, p.page)
	d.apply(nobody, p, fmt.Sprintf("%s holds %s more than its memory budget", n.ID, size(excess)))
}

// checkpointExcess chooses suspended tasks to become checkpoints so that the rest
// of the excess can be paged out.
func (d *decision) checkpointExcess(n *node, excess int64) []act {
	d.rank(n)
	b := balance{mem: excess, pageable: n.pageable}
	var acts []act
	for _, t := range n.suspended {
		if b.short(n.swap) == 0 {
			break
		}
		if !d.movable(nil, t) {
			continue
		}
		if s := bestStore(t, acts); s >= 0 {
			a := act{t, headrace.Checkpoint, s}
			if next := b.with(a); next.better(b, n.swap) {
				acts, b = append(acts, a), next
			}
		}
	}
	return acts
}

// comeBack is how long it takes to bring u back on n, and the reason in words.
func (d *decision) comeBack(u *task, n *node) (time.Duration, string) {
	if n == u.n {
		return duration(restore(u.TaskView, n)), "there is room again"
	}
	took, _ := remoteOverhead(u, n)
	return duration(took), fmt.Sprintf("moving its checkpoint to %s takes less time than waiting for %s", n.ID, u.n.ID)
}

// kind is what failed.
type kind int

const (
	kindNow kind = iota
	kindLater
	kindPlan
	kinds
)

// failures remembers tasks for which nothing was found on any node, so that those
// behind them in the queue that need as much are not tried in vain.
type failures [kinds][]failure

type failure struct {
	cpus     float64
	mem      int64
	priority headrace.Priority
}

// most is how many failures of a kind are remembered.
const most = 64

// covers reports whether u fails where another has failed before.
func (f *failures) covers(u *task, k kind) bool {
	for _, x := range f[k] {
		if u.CPUs >= x.cpus && u.MemoryRequest >= x.mem && (k != kindPlan || u.Priority <= x.priority) {
			return true
		}
	}
	return false
}

// note remembers the failure of u, whose demand must be what it has requested.
func (f *failures) note(u *task, k kind) {
	if begun(u.TaskView) || len(f[k]) >= most {
		return
	}
	f[k] = append(f[k], failure{u.CPUs, u.MemoryRequest, u.Priority})
}

// clear forgets what no longer holds once victims have made room.
func (f *failures) clear() {
	f[kindLater] = f[kindLater][:0]
	f[kindPlan] = f[kindPlan][:0]
}
