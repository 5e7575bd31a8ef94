package ring

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

const version = 1

// Encode returns a table as bytes, always the same for the same table.
func (t *Table) Encode() []byte {
	b := []byte{version}
	number := func(n uint64) { b = binary.AppendUvarint(b, n) }
	text := func(s string) { number(uint64(len(s))); b = append(b, s...) }
	number(t.epoch)
	number(uint64(t.replicas))
	number(uint64(len(t.nodes)))
	for _, n := range t.nodes {
		text(n.Name)
		text(n.Rack)
		number(uint64(n.Weight))
		flags := uint64(n.State) << 1
		if n.Leaving {
			flags |= 1
		}
		number(flags)
	}
	number(uint64(len(t.segments)))
	for _, g := range t.segments {
		number(uint64(g.owner))
	}
	// Who holds a segment is said only where it is not as it is to be.
	last := -1
	for s, g := range t.segments {
		if g.since == 0 && t.Settled(uint16(s)) {
			continue
		}
		number(uint64(s - last))
		last = s
		number(g.since)
		number(uint64(len(g.held)))
		for _, i := range g.held {
			number(uint64(i))
		}
	}
	number(0)
	return b
}

// reader takes numbers and texts from bytes until one is wrong; then there is nothing left.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number(most uint64) uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > most {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count reads how many things follow. Each takes a byte at least, so no more memory is made
// for them than a small multiple of what was read.
func (r *reader) count(most int) int {
	n := int(r.number(uint64(most)))
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return 0
	}
	return n
}

func (r *reader) text() string {
	n := r.count(maxName)
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// Decode returns the table that was encoded. Bytes that Encode does not make are refused.
func Decode(b []byte) (*Table, error) {
	t, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: bytes of a table: %w", ErrInvalid, err)
	}
	return t, nil
}

func decode(b []byte) (*Table, error) {
	if len(b) == 0 || b[0] != version {
		return nil, fmt.Errorf("not of version %d", version)
	}
	r := &reader{b: b[1:]}
	t := &Table{epoch: r.number(1<<64 - 1), replicas: int(r.number(MaxReplicas))}
	t.nodes = make([]Node, r.count(MaxNodes))
	names := map[string]bool{}
	members := 0
	for i := range t.nodes {
		n := &t.nodes[i]
		n.Name, n.Rack, n.Weight = r.text(), r.text(), uint32(r.number(1<<32-1))
		flags := r.number(uint64(IsOut)<<1 | 1)
		n.State, n.Leaving = State(flags>>1), flags&1 != 0
		if r.bad {
			break
		}
		if err := n.check(); err != nil {
			return nil, err
		}
		if names[n.Name] {
			return nil, fmt.Errorf("two nodes %s", n.Name)
		}
		names[n.Name] = true
		if n.member() {
			members++
		}
	}
	t.segments = make([]segment, r.count(MaxSegments))
	for s := range t.segments {
		t.segments[s].owner = uint16(r.number(uint64(max(0, len(t.nodes)-1))))
	}
	if r.bad || t.epoch == 0 || t.replicas == 0 || members == 0 || len(t.segments) == 0 {
		return nil, fmt.Errorf("cut short, or a number is out of its range")
	}
	for s, g := range t.segments {
		if !t.nodes[g.owner].member() {
			return nil, fmt.Errorf("segment %d belongs to %s, which is no member", s, t.nodes[g.owner].Name)
		}
	}
	t.compute()
	for s := range t.segments {
		t.segments[s].held = t.belongs(s)
	}
	for s := -1; ; {
		step := r.number(uint64(len(t.segments) - 1 - s))
		if step == 0 {
			break
		}
		s += int(step)
		g := &t.segments[s]
		g.since = r.number(t.epoch)
		g.held = make([]uint16, r.count(len(t.nodes)))
		for k := range g.held {
			g.held[k] = uint16(r.number(uint64(len(t.nodes) - 1)))
			if slices.Contains(g.held[:k], g.held[k]) {
				return nil, fmt.Errorf("segment %d is held twice by %s", s, t.nodes[g.held[k]].Name)
			}
		}
		// Settling an epoch leaves nothing to be settled, so neither does a table.
		if r.bad || !slices.Equal(t.keep(s), g.held) || subset(t.belongs(s), g.held) != (g.since == 0) {
			return nil, fmt.Errorf("segment %d is held as no plan has it", s)
		}
	}
	if r.bad || !bytes.Equal(t.Encode(), b) {
		return nil, fmt.Errorf("not as they are written")
	}
	return t, nil
}
