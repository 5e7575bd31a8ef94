package sim

import (
	"fmt"
	"slices"

	"headrace/policy/prefetch"
)

// lookahead is how many wanted pieces of each job are shown to the policy at most.
const lookahead = 3

// next does on l what the policy orders, as long as there is something that can
// be done.
//
// Reading ahead begins when nobody reads from the disk, and stands still while
// somebody does. That is what comes of the live daemon's turns, which are short and
// go to those who wait first.
func (m *warming) next(l *lane) {
	for {
		step := prefetch.Next(m.view(l), m.c.Warm)
		l.waiting = step.Do == prefetch.Wait
		if step.Job < 0 || l.waiting || step.Do == prefetch.Nothing {
			return
		}
		s := l.shares[step.Job]
		x := &s.w.wants[l.at[step.Job*lookahead+step.Block]]
		switch step.Do {
		case prefetch.Migrate:
			m.migrate(l, x)
			return
		case prefetch.Refer:
			l.refer(x)
		case prefetch.Skip:
			x.state = skipped
		}
	}
}

// view returns what the policy sees of a lane, until the next one is made.
func (m *warming) view(l *lane) prefetch.View {
	need := lookahead * len(l.active)
	l.jobs, l.shares = l.jobs[:0], l.shares[:0]
	l.blocks = slices.Grow(l.blocks[:0], need)[:need]
	l.at = slices.Grow(l.at[:0], need)[:need]
	kept := l.active[:0]
	for _, s := range l.active {
		at := lookahead * len(l.jobs)
		seen := m.show(l.n, s, l.blocks[at:at+lookahead], l.at[at:at+lookahead])
		if s.active = seen > 0; !s.active {
			continue
		}
		kept = append(kept, s)
		l.shares = append(l.shares, s)
		l.jobs = append(l.jobs, prefetch.Job{
			Name: s.w.name, Input: s.w.input, Seq: s.w.order, Implicit: true, Next: l.blocks[at : at+seen],
		})
	}
	clear(l.active[len(kept):])
	l.active = kept
	return prefetch.View{
		Busy: l.fetch != nil || len(l.n.disk.flows) > 0,
		Room: prefetch.Room{Budget: m.c.Buffer, Pinned: l.pinned, Blocks: l.n.cache.pins, Waiting: l.waiting},
		Jobs: l.jobs,
	}
}

// show finds the next pieces that a share wants: those that are moving, and the
// first that is not.
func (m *warming) show(n *dataNode, s *share, blocks []prefetch.Block, at []int32) (seen int) {
	done := 0
	for done < len(s.queue) && s.w.wants[s.queue[done]].state != wanted {
		done++
	}
	s.queue = s.queue[done:]
	for _, i := range s.queue {
		x := &s.w.wants[i]
		if x.state != wanted {
			continue
		}
		blocks[seen], at[seen] = m.block(n, x.piece), i
		moving := blocks[seen].State == prefetch.Moving
		if seen++; !moving || seen == lookahead {
			break
		}
	}
	return seen
}

// block returns how the policy sees a piece.
func (m *warming) block(n *dataNode, piece int32) prefetch.Block {
	b := prefetch.Block{Bytes: m.all[piece].bytes}
	switch x := n.cache.get(piece); {
	case x != nil && x.pins > 0:
		b.State = prefetch.Pinned
	case x != nil:
		b.State = prefetch.Resident
	case n.fetching[piece] != nil:
		b.State = prefetch.Moving
	}
	return b
}

// reads reports whether a piece is just being read ahead on n.
func (m *warming) reads(n *dataNode, piece int32) bool {
	f := m.lanes[n.i].fetch
	return f != nil && f.from == piece
}

// migrate begins to read a piece for a job.
func (m *warming) migrate(l *lane, x *want) {
	f := m.fetch(l.n, x.piece, x.piece+1, 0)
	f.ahead = true
	x.state = moving
	l.fetch, l.want = f, x
	m.touch(&l.n.disk)
	l.n.disk.addBehind(&f.flow, m.all[x.piece].bytes)
	m.pin(l, f.flow.bytes)
}

// warmed: what was read for a job is in memory.
func (m *warming) warmed(f *fetch) {
	l := &m.lanes[f.n.i]
	x := l.want
	m.ahead += f.flow.bytes
	m.end(l)
	f.n.cache.pin(f.n.cache.get(x.piece))
	x.state = pinned
}

func (m *warming) end(l *lane) {
	l.fetch, l.want = nil, nil
	m.look(l.n)
}

// refer notes that a job counts on a piece which is in memory.
func (l *lane) refer(x *want) {
	y := l.n.cache.get(x.piece)
	if y.pins > 0 {
		l.n.cache.pin(y)
		x.state = pinned
		return
	}
	x.state = resident
	l.follow[x.piece] = append(l.follow[x.piece], x)
}

// dropped: a piece has left the memory of n; who counted on it wants it again.
func (m *warming) dropped(n *dataNode, piece int32) {
	l := &m.lanes[n.i]
	all := l.follow[piece]
	delete(l.follow, piece)
	for _, x := range all {
		m.ask(x)
	}
}

func (l *lane) unfollow(x *want) {
	l.follow[x.piece] = slices.DeleteFunc(l.follow[x.piece], func(y *want) bool { return x == y })
	if len(l.follow[x.piece]) == 0 {
		delete(l.follow, x.piece)
	}
}

// verify checks that what is kept is what jobs want that have not ended.
func (m *warming) verify(left []int32) error {
	for i := range m.lanes {
		if err := m.lanes[i].verify(m.c.Buffer); err != nil {
			return err
		}
	}
	pins := map[*cached]int32{}
	for job, w := range m.wishes {
		if w == nil {
			continue
		}
		if left[job] == 0 {
			return fmt.Errorf("job %d has ended and still wants its input", job)
		}
		for i := range w.wants {
			x := &w.wants[i]
			if (x.readers == 0) != (x.state == dropped) || x.readers < 0 {
				return fmt.Errorf("piece %d is to be read by %d tasks of job %d and has state %d", x.piece, x.readers, job, x.state)
			}
			y := m.lane(x.piece).n.cache.get(x.piece)
			if (x.state == pinned || x.state == resident) && y == nil {
				return fmt.Errorf("piece %d of job %d is not in memory", x.piece, job)
			}
			if x.state == pinned {
				pins[y]++
			}
		}
	}
	for i := range m.nodes {
		for piece, x := range m.nodes[i].cache.entries {
			if x.pins != pins[x] {
				return fmt.Errorf("piece %d is kept for %d jobs, counted as %d", piece, pins[x], x.pins)
			}
		}
	}
	return nil
}

// verify checks that as much is kept on l as is counted, and at most the buffer.
func (l *lane) verify(buffer int64) error {
	moving := int64(0)
	if l.fetch != nil {
		moving = l.fetch.flow.bytes
	}
	if kept := l.n.cache.pinned; kept+moving != l.pinned || l.pinned > max(0, buffer) {
		return fmt.Errorf("node %d keeps %d bytes in memory, and %d more soon, counted as %d, of %d", l.n.i+1, kept, moving, l.pinned, buffer)
	}
	if f := l.n.disk.behind; f != nil && f.f != l.fetch {
		return fmt.Errorf("node %d reads ahead what nobody wants", l.n.i+1)
	}
	return nil
}
