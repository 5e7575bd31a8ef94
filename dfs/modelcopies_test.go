package dfs

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"headrace/block"
	"headrace/meta"
	"headrace/wire"
)

// copying is a copy that a node makes beside what it has, in the midst of everything else.
type copying struct {
	w       *block.Writer
	of      meta.Block
	content []byte
}

// complete reports whether a node says that it has the block as it is recorded.
func (m *model) complete(n *modelNode) bool {
	c := n.k.copyOf(modelBlock)
	return finished(c, &m.record) && !c.Damaged
}

// whole reads all of a node's copy of the closed block, and reports whether it is there. That it is closed may have been lost with the power.
func (m *model) whole(n *modelNode) bool {
	if !n.alive {
		return false
	}
	good := !n.k.copyOf(modelBlock).Damaged && m.same(n, m.record.Size) == nil
	excused := m.excused(n)
	m.reap()
	switch {
	case !n.alive:
		return false
	case good:
		if n.hurt = false; n.kept < int(m.record.Size) { // the power has left all
			n.has(int(m.record.Size), int(m.record.Size))
		}
	case !n.hurt && !excused && n.kept >= int(m.record.Size):
		m.fatalf("%s does not have the block any more: %+v", n.name, n.k.copyOf(modelBlock))
	}
	return good
}

// source returns another node that is recorded and has all of the closed block, with its bytes, or nil.
func (m *model) source(but *modelNode) (*modelNode, []byte) {
	for _, name := range m.at {
		n := m.of(name)
		if n == but || !n.alive {
			continue
		}
		if m.fault.copiesRaw && n.copying == nil && m.complete(n) {
			if raw := n.raw(m.content); raw != nil {
				return n, raw
			}
		}
		if m.whole(n) {
			return n, m.content
		}
	}
	return nil, nil
}

// raw is what lies on a node's disk where the content of the block was written, compared with nothing.
func (n *modelNode) raw(content []byte) []byte {
	f, err := n.home.mem.Open(n.home.path(), 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, _ := f.Size()
	all := make([]byte, size)
	f.ReadAt(all, 0)
	const some = 16
	at := bytes.LastIndex(all, content[:min(some, len(content))])
	if at < 0 {
		at = bytes.LastIndex(all, content[max(0, len(content)-some):]) - max(0, len(content)-some)
	}
	if at < 0 || at+len(content) > len(all) {
		return nil
	}
	return all[at : at+len(content)]
}

func (m *model) wanted() *wire.WantedBlock {
	return &wire.WantedBlock{Block: modelBlock, Stamp: m.record.Stamp, Length: m.record.Size, File: 1, Capacity: modelCapacity}
}

// beginCopy has a node fetch the closed block, beside what it has, or what was ordered before it was opened again. That waits.
func (m *model) beginCopy(n *modelNode) {
	if !n.alive || n.copying != nil || len(m.content) == 0 {
		return
	}
	of := m.record
	var from *modelNode
	var content []byte
	switch {
	case m.ordered.Stamp == m.record.Stamp && m.ordered.Size <= int64(m.acked) && (!m.closed || m.oneIn(2)): // which others still give
		of, content = m.ordered, m.content[:m.ordered.Size]
		if i := slices.IndexFunc(m.nodes, func(o *modelNode) bool { return o != n && o.alive && m.recorded(o) && !m.excused(o) }); i >= 0 {
			from = m.nodes[i]
			data, err := from.read(of.Stamp, of.Size)
			if m.reap(); err != nil || int64(len(data)) < of.Size {
				from = nil
			}
		}
	case m.closed:
		from, content = m.source(n)
	}
	if from == nil || !n.alive {
		return
	}
	w, err := n.k.CopyFor(context.Background(), of, m.wanted(), true)
	if err == nil {
		n.copying = &copying{w, of, slices.Clone(content)}
		err = w.Write(content[:m.r.IntN(len(content)+1)], 0)
	}
	m.note("a copy of %d bytes of %d at %s, from %s: %v", of.Size, of.Stamp, n.name, from.name, err)
	m.reap()
}

// drop has a node delete what it has of a closed block that nobody needs there.
func (m *model) drop(n *modelNode) {
	if !m.closed || !n.alive || m.recorded(n) {
		return
	}
	_, err := service{n.k}.Drop(context.Background(), &wire.DropRequest{Blocks: []uint64{modelBlock}})
	m.note("%s drops the block: %v", n.name, err)
	if err == nil {
		m.counts["dropped"]++
	}
	n.kept, n.synced, n.w = 0, 0, nil
	m.reap()
}

// endCopy has it take its place, if the block is as it was, or given up.
func (m *model) endCopy(n *modelNode) {
	c := n.copying
	if c == nil || !n.alive {
		return
	}
	n.copying = nil
	if m.oneIn(6) {
		err := c.w.Close()
		m.note("the copy of %d at %s is given up: %v", c.of.Stamp, n.name, err)
		m.reap()
		return
	}
	if m.fault.copiesOld && c.of.Stamp < m.record.Stamp && m.closed { // takes what is old for what is recorded
		c.w.Close()
		w, err := n.k.CopyFor(context.Background(), m.record, m.wanted(), true)
		if err != nil {
			return
		}
		c = &copying{w, meta.Block{ID: modelBlock, Stamp: m.record.Stamp, Size: int64(len(c.content))}, c.content}
	}
	from := c.w.Length()
	err := c.w.Write(c.content[from:], from)
	if err == nil {
		err = c.w.Finalize(c.of.Size)
	}
	c.w.Close()
	m.note("the copy of %d at %s ends: %v", c.of.Stamp, n.name, err)
	current := m.closed && c.of == m.record
	switch {
	case err != nil:
	case current:
		m.gained(n)
	case c.of.Stamp < m.record.Stamp && m.recorded(n) && !m.shut(n): // else the newer one is still on its disk, and comes back with that
		m.fatalf("a copy of %d at %s has taken the place of %d", c.of.Stamp, n.name, m.record.Stamp)
	case m.recorded(n) && !n.hurt && !m.excused(n) && int64(n.kept) > c.of.Size:
		m.fatalf("a copy of %d bytes at %s has taken the place of %d", c.of.Size, n.name, n.kept)
	}
	m.reap()
	if err == nil && current && n.alive && !m.whole(n) && n.alive && !n.hurt && !m.shut(n) {
		m.fatalf("a copy was made at %s, and is not there", n.name)
	}
}

// gained notes that a node has a durable copy of the closed block.
func (m *model) gained(n *modelNode) {
	n.hurt, n.w = false, nil
	n.has(int(m.record.Size), int(m.record.Size))
	if !m.recorded(n) {
		m.at = append(slices.Clone(m.at), n.name)
	}
	m.counts["copied"]++
}

// readOne has a reader read what a node has of the block, which is what was written, or nothing.
func (m *model) readOne(n *modelNode) {
	if !n.alive || !m.recorded(n) {
		return
	}
	if m.closed {
		m.whole(n)
		return
	}
	i, err := n.k.n.Blocks.Stat(modelBlock)
	if err == nil && i.Stamp >= m.record.Stamp {
		m.same(n, i.Length)
	}
	m.reap()
}

// heal reads all copies of the closed block that are recorded, and has those that are not as they should be replaced by others. It reports
// whether all are good.
func (m *model) heal() bool {
	if !m.closed || len(m.content) == 0 || m.fault.healsNot {
		return m.closed
	}
	all := true
	for _, n := range m.nodes {
		if !m.recorded(n) { // it is to have one as well, sooner or later
			if !n.alive || m.oneIn(2) {
				continue
			}
			if n.w != nil { // whose connection has ended
				n.w.Close()
				n.w = nil
			}
		} else if m.whole(n) && m.complete(n) {
			continue
		}
		if all = all && !m.recorded(n); !n.alive {
			continue
		}
		from, content := m.source(n)
		if from == nil || !n.alive {
			continue
		}
		if n.copying != nil {
			n.copying.w.Close()
			n.copying = nil
		}
		w, err := n.k.CopyFor(context.Background(), m.record, m.wanted(), true)
		if err == nil {
			err = errors.Join(w.Write(content, 0), w.Finalize(m.record.Size), w.Close())
		}
		m.note("%s is healed from %s: %v", n.name, from.name, err)
		switch {
		case err == nil && m.recorded(n):
			m.gained(n)
			m.counts["healed"]++
		case err == nil:
			m.gained(n)
		case !n.dying && !n.struck && !errors.Is(err, block.ErrFull): // of a file with a header that cannot be read nobody knows where another block may begin
			m.fatalf("%s is not healed: %v", n.name, err)
		}
		m.reap()
	}
	return all
}

// joining has a node that is not in the pipeline get what one of its nodes has of the block, to come into it.
func (m *model) joining() []string {
	for _, n := range m.nodes {
		if m.recorded(n) || !n.alive || m.oneIn(2) {
			continue
		}
		if n.w != nil { // its connection has ended
			n.w.Close()
			n.w = nil
		}
		for _, name := range m.at {
			from := m.of(name)
			if !from.alive {
				continue
			}
			i, err := from.k.n.Blocks.Stat(modelBlock)
			if err != nil || i.Stamp < m.record.Stamp {
				continue
			}
			data, err := from.read(m.record.Stamp, i.Length)
			var w *block.Writer
			if err == nil {
				w, err = n.k.CopyFor(context.Background(), meta.Block{ID: modelBlock, Stamp: m.record.Stamp}, m.wanted(), false)
			}
			if err == nil {
				err = errors.Join(w.Write(data, 0), w.Keep(), w.Close())
			}
			m.note("%s joins with %d bytes from %s: %v", n.name, len(data), name, err)
			if err == nil {
				n.hurt = false
				n.has(len(data), min(m.synced, len(data)))
				m.counts["joined"]++
			}
			if m.reap(); err == nil && n.alive {
				return []string{n.name}
			}
			break
		}
	}
	return nil
}
