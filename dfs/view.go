package dfs

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"headrace/dfs/names"
	"headrace/quorum"
	"headrace/ring"
)

type (
	// Member is a node as others reach it.
	Member = names.Member
	// View is what a node knows of the ring: never changed, replaced as a whole.
	View = names.View
)

// NotLeader is the error of Propose, Query, ChangeRing and Admit on a node that does not lead. Nothing was done.
type NotLeader struct {
	// Leader is the name of the node to ask, empty when it is not known.
	Leader string
}

func (e *NotLeader) Error() string {
	if e.Leader == "" {
		return "nobody is known to lead the names"
	}
	return fmt.Sprintf("node %s leads the names", e.Leader)
}

// segments and replicas are those of a new file system's ring.
const (
	segments = 4096
	replicas = 3
)

// known is the view of a node.
type known struct {
	self    string
	mu      sync.Mutex
	view    *View
	changed chan struct{}
}

func (k *known) get() (*View, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.view, k.changed
}

// update replaces the view by what f makes of it.
func (k *known) update(f func(*View) (*View, error)) (*View, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, err := f(k.view)
	if err != nil || v == k.view {
		return k.view, err
	}
	close(k.changed)
	k.view, k.changed = v, make(chan struct{})
	return v, nil
}

// View returns what is known now. It is not to be changed.
func (k *known) View() *View { v, _ := k.get(); return v }

// Changed returns a channel that is closed when View has changed.
func (k *known) Changed() <-chan struct{} { _, c := k.get(); return c }

// Leads reports whether this node leads the names, as far as it knows.
func (k *known) Leads() bool { return k.View().Leader == k.self }

// Learn takes over what is new in another node's view.
func (k *known) Learn(v *View) {
	k.update(func(old *View) (*View, error) { return old.Merge(v), nil })
}

func (k *known) leads() error {
	if v := k.View(); v.Leader != k.self {
		return &NotLeader{v.Leader}
	}
	return nil
}

// ChangeRing has an event happen to the ring, and returns the view after it.
func (k *known) ChangeRing(_ context.Context, e ring.Event) (*View, error) {
	return k.update(func(v *View) (*View, error) {
		if v.Leader != k.self {
			return nil, &NotLeader{v.Leader}
		}
		t, _, err := v.Table.Apply(e)
		if err != nil || t == v.Table {
			return v, err
		}
		next := *v
		next.Table, next.Index = t, v.Index+1
		return &next, nil
	})
}

// Admit takes a node into the ring, or notes where it is now, and returns its number.
func (k *known) Admit(ctx context.Context, m Member) (*View, uint32, error) {
	v, err := k.update(func(v *View) (*View, error) {
		if v.Leader != k.self {
			return nil, &NotLeader{v.Leader}
		}
		next := *v
		next.Members = maps.Clone(v.Members)
		m.Number = v.Members[m.Name].Number
		if m.Number == 0 {
			m.Number = uint32(len(v.Members) + 1)
		}
		if next.Members[m.Name] == m {
			return v, nil
		}
		next.Members[m.Name], next.Index = m, v.Index+1
		if _, there := v.Table.Node(m.Name); !there {
			t, _, err := v.Table.Apply(ring.Join{Node: ring.Node{Name: m.Name, Rack: m.Rack, Weight: 1}})
			if err != nil {
				return nil, err
			}
			next.Table = t
		}
		return &next, nil
	})
	return v, v.Members[m.Name].Number, err
}

// begin makes the view of a node that is alone.
func (k *known) begin(self Member) error {
	t, err := ring.New(segments, replicas, ring.Node{Name: self.Name, Rack: self.Rack, Weight: 1})
	k.self, k.changed = self.Name, make(chan struct{})
	k.view = &View{Table: t, Members: map[string]Member{self.Name: self}, Seats: map[string]quorum.Replica{self.Name: quorum.NewReplica(1, 1)},
		Index: 1, Leader: self.Name, Term: 1}
	return err
}

// Deliver takes a message for the names from another node, and does not wait.
func (k *known) Deliver(quorum.Message) {}
