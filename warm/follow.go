package warm

import (
	"time"

	"headrace/pagecache"
)

// followBatch is how many blocks that are in memory without being locked are
// looked at each time: with the default of Config.FollowUp, 128 a second.
const followBatch = 256

// resident asks whether a part of a file is in memory, as Cache.Pin would see it.
func (e *Engine) resident(o *opened, part pagecache.Range) (bool, error) {
	n, err := e.cfg.Cache.Resident(o.f, part)
	return n > 0 && n >= part.Len/2, err
}

// found reports whether a block that waits for room is in memory already and
// needs none.
func (l *lane) found(a ask) bool {
	o, ok := l.open(a)
	if !ok {
		return true
	}
	defer o.f.Close()
	in, err := l.e.resident(o, a.part)
	if err != nil || !in {
		return false
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if !a.r.ended && a.r.state[a.pos] == left && l.e.blocks[blockKey{o.dev, o.ino, a.part}] == nil {
		l.keepAnEye(a)
		return true
	}
	return false
}

// follow looks, every Config.FollowUp, at some of the blocks that were in memory
// without being locked. Those that are not any more are wanted again.
func (l *lane) follow() {
	for _, a := range l.due() {
		o, ok := l.open(a)
		if !ok {
			continue
		}
		in, err := l.e.resident(o, a.part)
		o.f.Close()
		l.followed(a, o, in || err != nil) // an error: it cannot be told
	}
}

// open opens the file of a step; if that fails, so does the file.
func (l *lane) open(a ask) (*opened, bool) {
	o, err := l.e.open(a.r, a.file)
	if err == nil {
		return o, true
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if a.r.wants(a.pos) {
		l.e.failFile(a.r, a.file, err)
	}
	return nil, false
}

// due takes the blocks that are to be looked at now off their lists.
func (l *lane) due() (asks []ask) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	now := time.Now()
	if now.Before(l.followAt) {
		return nil
	}
	l.followAt = now.Add(l.e.cfg.FollowUp)
	l.followFrom++
	for i := range l.shares {
		s := l.shares[(l.followFrom+i)%len(l.shares)]
		n := min(len(s.following), followBatch-len(asks))
		for _, pos := range s.following[:n] {
			if s.r.state[pos] == resident {
				file := s.r.fileOf(pos)
				asks = append(asks, ask{s: s, r: s.r, file: file, pos: pos, part: s.r.part(file, pos)})
			}
		}
		s.following = s.following[n:]
	}
	return asks
}

// followed puts a block back on its list, or among those that are wanted.
func (l *lane) followed(a ask, o *opened, in bool) {
	e := l.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.r.ended || a.r.state[a.pos] != resident {
		return
	}
	if why := a.r.changedFile(a.file, o.identity); why != "" {
		e.failReason(a.r, a.file, why)
		return
	}
	if in {
		a.s.following = append(a.s.following, a.pos)
		return
	}
	e.counters.Lost += a.part.Len
	a.r.move(a.pos, left)
	a.s.ask(a.pos)
}
