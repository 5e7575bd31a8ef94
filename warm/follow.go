package warm

import (
	"errors"
	"io/fs"
	"time"

	"headrace/fileset"
	"headrace/pagecache"
)

const (
	// followBatch is how many blocks that are in memory without being locked are
	// looked at each time: with the default of Config.FollowUp, 128 a second.
	followBatch = 256
	// checkBatch is how many files of which blocks are locked are looked at each
	// time, at least: of many it is a part that has all looked at in checkRound times. What
	// was deleted takes room on its disk until then.
	checkBatch = 32
	checkRound = 64
)

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
	d, err := l.e.cfg.Devices.Of(o.f)
	inMemory := err == nil && d.Memory
	in, err := l.e.resident(o, a.part)
	if !inMemory && (err != nil || !in) {
		return false
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if inMemory {
		l.leave(a)
		return true
	}
	if !a.r.ended && a.r.state[a.pos] == remaining && l.e.blocks.all[blockKey{o.dev, o.ino, a.part}] == nil {
		l.keepAnEye(a)
		return true
	}
	return false
}

// follow looks, every Config.FollowUp, at some of the blocks that were in memory
// without being locked. Those that are not any more are wanted again. It also looks
// at some of the files of which blocks are locked.
func (l *lane) follow() {
	blocks, files := l.due()
	for _, a := range files {
		l.check(a)
	}
	for _, a := range blocks {
		o, ok := l.open(a)
		if !ok {
			continue
		}
		in, err := l.e.resident(o, a.part)
		o.f.Close()
		l.followed(a, o, in || err != nil) // an error: it cannot be told
	}
}

// open opens the file of a step; if that fails, so does the file, but for a lease that will be over, and a file system
// that may answer.
func (l *lane) open(a ask) (*opened, bool) {
	o, err := l.e.openSoon(a.r, a.path)
	if err == nil {
		return o, true
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	switch silent := errors.Is(err, errSilent); {
	case !a.r.wants(a.pos):
	case !silent && !errors.Is(err, fileset.ErrLeased):
		l.e.failFile(a.r, a.file, err)
	case a.r.state[a.pos] == resident:
		a.s.following = append(a.s.following, a.pos)
	case silent: // it is wanted as before
		a.r.touch()
	case !a.s.setAside(a.file, time.Now()):
		l.e.failFile(a.r, a.file, err)
	default:
		a.r.touch()
	}
	return nil, false
}

// due takes the blocks and the files that are to be looked at now off their lists.
func (l *lane) due() (blocks, files []ask) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	now := time.Now()
	if now.Before(l.followAt) {
		return nil, nil
	}
	l.followAt = now.Add(l.e.cfg.FollowUp)
	l.followFrom++
	locked := 0
	for _, s := range l.shares {
		s.tryLeased()
		locked += len(s.checking)
	}
	most := max(checkBatch, locked/checkRound)
	for i := range l.shares {
		s := l.shares[(l.followFrom+i)%len(l.shares)]
		if l.e.silent[s.r.party()] != nil {
			continue
		}
		n := min(len(s.following), followBatch-len(blocks))
		for _, pos := range s.following[:n] {
			if s.r.state[pos] == resident {
				blocks = append(blocks, s.askFor(pos))
			}
		}
		s.following = s.following[n:]
		n = min(len(s.checking), most-len(files))
		for _, pos := range s.checking[:n] {
			file := s.r.fileOf(pos)
			if s.r.held[pos] == nil { // it was given up before others of its file
				pos, _ = s.r.heldOf(file)
			}
			if s.r.held[pos] != nil {
				files = append(files, s.askFor(pos))
			} else {
				delete(s.r.checked, int32(file))
			}
		}
		s.checking = s.checking[n:]
	}
	return blocks, files
}

// askFor returns a step about a position. The engine's lock is held.
func (s *portion) askFor(pos uint32) ask {
	file := s.r.fileOf(pos)
	return ask{s: s, r: s.r, file: file, path: s.r.Files[file].Path, pos: pos, part: s.r.part(file, pos)}
}

// check looks whether a path still leads to the file of which a block is locked,
// and lets go of what is locked if not: whoever opens it now gets something else.
func (l *lane) check(a ask) {
	e := l.e
	o, err := e.openSoon(a.r, a.path)
	if err == nil {
		o.f.Close()
	}
	e.mu.Lock()
	a.s.checking = append(a.s.checking, a.pos) // until nothing of it is held: one of its blocks may be under way
	b := a.r.held[a.pos]
	var why string
	switch {
	case b == nil: // given up since
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, fileset.ErrNotRegular):
		why = reason(err)
	case err != nil: // it cannot be told
	case o.dev != b.key.dev || o.ino != b.key.ino:
		why = "it was replaced by another file while it was kept"
	default:
		why = a.r.changedFile(a.file, o.identity)
	}
	var free []*block
	if why != "" {
		free = e.abandon(a.r, a.file, why)
	}
	e.mu.Unlock()
	e.letGo(free)
}

// abandon lets a file of a request fail, with all that is locked of it, and returns
// what is to be released. e.mu is held.
func (e *Engine) abandon(r *request, file int, why string) (free []*block) {
	for pos := r.start[file]; pos < r.start[file+1]; pos++ {
		if b := r.held[pos]; b != nil && b.pin != nil {
			r.move(pos, remaining)
			if b := r.unref(pos); b != nil {
				free = append(free, b)
			}
		}
	}
	e.failReason(r, file, why)
	return free
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
	if in || a.r.Leave {
		a.s.following = append(a.s.following, a.pos)
		return
	}
	e.counters.Lost += a.part.Len
	a.r.move(a.pos, remaining)
	a.s.ask(a.pos)
}
