package sim

import (
	"slices"

	"headrace/policy/prefetch"
)

// lookahead is how many wanted pieces of each job are shown to the policy at most.
const lookahead = 3

// warmNext does on n what the policy orders, as long as there is something that can
// be done.
//
// Reading ahead begins when nobody reads from the disk, and stands still while
// somebody does. That is what comes of the live daemon's turns, which are short and
// go to those who wait first.
func (d *files) warmNext(n *dataNode) {
	l := &n.lane
	for {
		step := prefetch.Next(l.look(n), d.c.Warm)
		l.waiting = step.Do == prefetch.Wait
		if step.Job < 0 || l.waiting || step.Do == prefetch.Nothing {
			return
		}
		s := l.shares[step.Job]
		x := &s.w.wants[l.at[step.Job*lookahead+step.Block]]
		switch step.Do {
		case prefetch.Migrate:
			d.migrate(n, s.w, x)
			return
		case prefetch.Refer:
			d.refer(n, s.w, x)
		case prefetch.Skip:
			x.state = skipped
		}
	}
}

// look makes the view of the lane, which is valid until the next one.
func (l *lane) look(n *dataNode) prefetch.View {
	need := lookahead * len(l.active)
	l.jobs, l.shares = l.jobs[:0], l.shares[:0]
	l.blocks = slices.Grow(l.blocks[:0], need)[:need]
	l.at = slices.Grow(l.at[:0], need)[:need]
	kept := l.active[:0]
	for _, s := range l.active {
		at := lookahead * len(l.jobs)
		seen := s.show(n, l.blocks[at:at+lookahead], l.at[at:at+lookahead])
		if s.active = seen > 0; !s.active {
			continue
		}
		kept = append(kept, s)
		l.shares = append(l.shares, s)
		l.jobs = append(l.jobs, prefetch.Job{
			Name: s.w.name, Input: s.w.input, Order: s.w.order, Implicit: true, Next: l.blocks[at : at+seen],
		})
	}
	clear(l.active[len(kept):])
	l.active = kept
	return prefetch.View{
		Busy: l.fetch != nil || len(n.disk.flows) > 0,
		Room: prefetch.Room{Budget: n.budget, Pinned: l.pinned, Blocks: n.cache.pins, Waiting: l.waiting},
		Jobs: l.jobs,
	}
}

// show finds the next pieces that a share wants: those that are moving, and the
// first that is not.
func (s *share) show(n *dataNode, blocks []prefetch.Block, at []int32) (seen int) {
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
		blocks[seen], at[seen] = n.block(x.piece), i
		moving := blocks[seen].State == prefetch.Moving
		if seen++; !moving || seen == lookahead {
			break
		}
	}
	return seen
}

// block is how the policy sees a piece.
func (n *dataNode) block(piece int32) prefetch.Block {
	b := prefetch.Block{Bytes: n.all[piece].bytes}
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

// keeps reports whether warming keeps a piece in memory, reads whether it is just
// being read ahead.
func (n *dataNode) keeps(piece int32) bool {
	x := n.cache.get(piece)
	return x != nil && x.pins > 0
}

func (l *lane) reads(piece int32) bool { return l.fetch != nil && l.fetch.from == piece }

// migrate begins to read a piece for a job.
func (d *files) migrate(n *dataNode, w *wish, x *want) {
	f := d.fetch(n, x.piece, x.piece+1, 0)
	f.wish, f.want = w, x
	x.state = moving
	n.lane.fetch = f
	d.touch(&n.disk)
	n.disk.addBehind(&f.flow, d.all[x.piece].bytes)
	d.pin(n, f.flow.bytes)
}

// warmed: what was read for a job is in memory.
func (d *files) warmed(f *fetch) {
	n := f.n
	x := f.want
	d.warm.read += f.flow.bytes
	d.endWarming(n)
	n.cache.pin(n.cache.get(x.piece))
	x.state = pinned
}

func (d *files) endWarming(n *dataNode) {
	n.lane.fetch = nil
	d.look(n)
}

// refer notes that a job counts on a piece which is in memory.
func (d *files) refer(n *dataNode, w *wish, x *want) {
	y := n.cache.get(x.piece)
	if y.pins > 0 {
		n.cache.pin(y)
		x.state = pinned
		return
	}
	x.state = resident
	n.lane.follow[x.piece] = append(n.lane.follow[x.piece], follower{w, x})
}

// dropped: a piece has left the memory of n; who counted on it wants it again.
func (d *files) dropped(n *dataNode, piece int32) {
	all := n.lane.follow[piece]
	delete(n.lane.follow, piece)
	for _, f := range all {
		d.ask(f.w, f.x)
	}
}

func (d *files) unfollow(n *dataNode, x *want) {
	all := slices.DeleteFunc(n.lane.follow[x.piece], func(f follower) bool { return f.x == x })
	if len(all) == 0 {
		delete(n.lane.follow, x.piece)
		return
	}
	n.lane.follow[x.piece] = all
}
