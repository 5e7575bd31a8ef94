package names

import (
	"encoding/binary"
	"fmt"
	"maps"

	"headrace/quorum"
	"headrace/ring"
)

// roster is the part of a view that is agreed on, with what is needed to go on.
type roster struct {
	View
	// nextNumber and nextSeat are of the next member, and of the next replica of any member.
	nextNumber, nextSeat uint32
}

// firstView is the roster of a node that is alone, whose seat has that number, and which understands a version.
func firstView(self Member, version, seat uint32, segments, replicas int) (*roster, error) {
	self.Number, self.Version = 1, version
	t, err := ring.New(segments, replicas, ring.Node{Name: self.Name, Rack: self.Rack, Weight: 1})
	if err != nil {
		return nil, err
	}
	r := &roster{View{Version: version, Table: t, Seats: map[string]quorum.Replica{self.Name: quorum.NewReplica(1, seat)}}, 2, seat + 1}
	r.Members = map[string]Member{self.Name: r.As(self)}
	return r, nil
}

func (r *roster) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(r.nextNumber))
	b = binary.AppendUvarint(b, uint64(r.nextSeat))
	return append(b, r.Encode()...)
}

func decodeRoster(b []byte) (*roster, error) {
	in := &reader{b: b}
	r := &roster{nextNumber: uint32(in.number(1<<32 - 1)), nextSeat: uint32(in.number(1<<32 - 1))}
	v, err := DecodeView(in.b)
	if err != nil {
		return nil, err
	}
	r.View = *v
	return r, nil
}

// changed returns a copy that may be changed, of a later entry.
func (r *roster) changed(index uint64) *roster {
	n := *r
	n.Members, n.Seats, n.Index = maps.Clone(r.Members), maps.Clone(r.Seats), index
	return &n
}

// event returns the roster after an event of the ring: r itself when nothing has changed.
func (r *roster) event(e ring.Event, index uint64) (*roster, error) {
	if gone, is := e.(ring.Remove); is && r.Seats[gone.Node] != 0 {
		// It may be the only one that votes: others have to take over first.
		return r, fmt.Errorf("%w: %s has a seat still", ring.ErrState, gone.Node)
	}
	t, _, err := r.Table.Apply(e)
	if err != nil || t == r.Table {
		return r, err
	}
	n := r.changed(index)
	n.Table = t
	for name := range r.Members {
		if _, there := t.Node(name); !there {
			delete(n.Members, name)
		}
	}
	return n, nil
}

// admit enters a member, or where it is now. One with a number was a member when that was asked for, and is not entered anew when it was removed since.
func (r *roster) admit(m Member, index uint64) (*roster, error) {
	if err := r.Old(m.Version); err != nil {
		return r, err
	}
	old, known := r.Members[m.Name]
	if m.Number != 0 && m.Number != old.Number && r.Version >= version2 {
		return r, fmt.Errorf("%w: node %s was removed", ring.ErrUnknown, m.Name)
	}
	m.Number = old.Number
	if known && old == m {
		return r, nil
	}
	n := r.changed(index)
	if !known {
		m.Number = r.nextNumber
		n.nextNumber++
	}
	n.Members[m.Name] = m
	if _, there := r.Table.Node(m.Name); there {
		return n, nil
	}
	t, _, err := r.Table.Apply(ring.Join{Node: ring.Node{Name: m.Name, Rack: m.Rack, Weight: 1}})
	if err != nil {
		return r, err
	}
	n.Table = t
	return n, nil
}

// sit gives a seat to a member that has none.
func (r *roster) sit(name string, index uint64) (*roster, error) {
	m, known := r.Members[name]
	if _, has := r.Seats[name]; !known || has {
		return r, fmt.Errorf("%s is no member, or has a seat", name)
	}
	n := r.changed(index)
	n.Seats[name] = quorum.NewReplica(m.Number, r.nextSeat)
	n.nextSeat++
	return n, nil
}

// stand takes a seat away.
func (r *roster) stand(name string, index uint64) (*roster, error) {
	if _, has := r.Seats[name]; !has {
		return r, fmt.Errorf("%s has no seat", name)
	}
	n := r.changed(index)
	delete(n.Seats, name)
	return n, nil
}
