package names

import (
	"sync"

	"headrace/quorum"
)

// known is what a node knows of the others. Its methods may be called from any goroutine.
type known struct {
	self string

	mu      sync.Mutex
	view    *View
	changed chan struct{}
	// leads is the replica that quorum says leads in a term, 0 if nobody does; its member may not be known yet.
	leads quorum.Replica
	term  uint64
	// silent is the term of a leader that was not heard for long.
	silent uint64
	// still: quorum stands still, so others may have elected somebody long ago.
	still bool
}

func newKnown(self string, v *View) *known {
	return &known{self: self, view: v, changed: make(chan struct{})}
}

// View returns what is known now. It is not to be changed.
func (k *known) View() *View {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.view
}

// Changed returns a channel that is closed when View has changed.
func (k *known) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Leads reports whether this node leads the names, as far as it knows.
func (k *known) Leads() bool { return k.View().Leader == k.self }

// Learn takes over what is new in another node's view. That somebody leads in a term in which nobody does, as far as this node's
// quorum or Silent has told, is not taken over: the other one has not heard of that, and may never.
func (k *known) Learn(v *View) { k.learn(v, false) }

// Hear is Learn of the view of the node that leads, from that node itself: so it does.
func (k *known) Hear(v *View) { k.learn(v, true) }

func (k *known) learn(v *View, itself bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.view.Merge(v)
	nobody := k.votes(next) && k.leads == 0 && !k.still && next.Term <= k.term || k.silent > 0 && next.Term <= k.silent
	if next.Leader != k.view.Leader && (next.Leader == k.self || nobody && !itself) { // whether this node leads nobody else knows better
		n := *next
		n.Leader = ""
		next = &n
	}
	k.replace(next)
}

// Silent says that the node that leads by a view has not been heard for long. Where nobody here knows better it counts as leading no
// more in that term, until it is heard again.
func (k *known) Silent(v *View) {
	k.mu.Lock()
	defer k.mu.Unlock()
	byQuorum := k.votes(k.view) && k.leads != 0 && k.term == v.Term
	if v.Leader == "" || v.Leader == k.self || v.Leader != k.view.Leader || v.Term != k.view.Term || byQuorum {
		return
	}
	n := *k.view
	n.Leader, k.silent = "", v.Term
	k.replace(&n)
}

// votes tells whether quorum has a say here: of one that has no seat any more nothing is heard.
func (k *known) votes(v *View) bool { return k.term > 0 && v.Seats[k.self] != 0 }

// leader takes over what quorum says.
func (k *known) leader(term uint64, leader quorum.Replica) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if term < k.view.Term {
		return
	}
	n := *k.view
	n.Leader, k.leads, k.term = "", leader, term
	if leader != 0 && term == k.silent {
		k.silent = 0
	}
	if leader != 0 { // who asks for votes in a term may never get them, and then nobody leads in it
		n.Term = term
	}
	k.replace(&n)
}

// stand says whether quorum stands still: if so, this node does not lead as far as it knows, whatever quorum said last.
func (k *known) stand(still bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.still == still {
		return
	}
	k.still = still
	n := *k.view
	if still && n.Leader == k.self {
		n.Leader = ""
	}
	k.replace(&n)
}

func (k *known) replace(v *View) {
	if m, ok := v.Number(k.leads.Node()); ok && !(k.still && m.Name == k.self) && v.Leader == "" && k.leads != 0 && v.Term == k.term && v.Term != k.silent {
		n := *v
		n.Leader = m.Name
		v = &n
	}
	if v == k.view || v.Table == k.view.Table && v.Index == k.view.Index && v.Leader == k.view.Leader && v.Term == k.view.Term {
		return
	}
	k.view = v
	close(k.changed)
	k.changed = make(chan struct{})
}
