package policy

import (
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/policy/internal/words"
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

// decision is the state of one call: the accounts of all nodes, and buffers. What
// is kept from one call to the next is memory, and the index of nodes.
type decision struct {
	c       Config
	weights [headrace.MaxPriority + 1]float64
	view    *headrace.View
	nodes   []node
	every   []*node // all of them
	byID    map[headrace.NodeID]*node
	recent  []*node // see nodeOf
	tasks   []task  // of the view; only those enrolled mean anything
	next    []int32 // see node.first
	waiting []*task
	line    line
	orders  []headrace.Order

	// free is what is free on each node both now and later, coming what is later.
	// versions counts the changes to each node (touch).
	free, coming fitTree
	versions     []uint32
	leastMemory  int64 // of all nodes

	explain bool
	notes   []Note

	groups   groups
	classes  classes
	failed   failures
	attempts int
	allSets  int  // as the constant; tests lower it
	keeping  bool // a task that can go anywhere has room kept for it

	plan              plan
	scratch           []bid
	acts, prefs, best []act
	one               [1]act
	outs              []out
	fresh             []*task
	pool              pool
	ends              []option
	far, near         []*node
}

// prepare makes a decision without a view.
func prepare(c Config) *decision {
	c = c.resolved()
	if !slices.Contains(Names(), c.Policy) {
		panic(fmt.Sprintf("policy: %v", unknown("policy", string(c.Policy), Names())))
	}
	return &decision{c: c, weights: weights(c), allSets: allSets}
}

func newDecision(v *headrace.View, c Config) *decision {
	d := prepare(c)
	d.load(v)
	return d
}

func decide(v *headrace.View, c Config, explain bool) *decision {
	d := prepare(c)
	d.explain = explain
	d.decide(v)
	return d
}

func (d *decision) decide(v *headrace.View) {
	d.load(v)
	queue := d.queue()
	for i := range d.nodes {
		d.relieve(&d.nodes[i])
	}
	for _, u := range queue {
		u.redeemed = u.Room != "" && d.redeem(u)
	}
	for _, u := range queue {
		if u.redeemed {
			continue
		}
		if u.group != nil {
			u = d.turn(u.group)
		}
		if !d.hopeless(u) {
			d.place(u)
		}
	}
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
	d.apply(nobody, p, fmt.Sprintf("%s holds %s more than its memory budget", n.ID, words.Size(excess)))
	for i := range n.stores {
		n.stores[i].offered = n.stores[i].free
	}
}

// checkpointExcess chooses suspended tasks to become checkpoints so that the rest
// of the excess can be paged out.
func (d *decision) checkpointExcess(n *node, excess int64) []act {
	d.lineUp(n)
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
	return duration(took), "moving its checkpoint to " + string(n.ID) + " takes less time than waiting for " + string(u.n.ID)
}
