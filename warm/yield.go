package warm

import (
	"math"
	"slices"
	"time"

	"headrace/policy/prefetch"
)

const (
	// fastest is how much memory others take in a second at most, as it is reckoned here: the
	// less there is to spare, the sooner it is looked again, every leastPause at most.
	fastest    = 4 << 30
	leastPause = 20 * time.Millisecond
)

// yielder lets go of what an engine has locked when others need the memory.
type yielder struct{ *Engine }

// mind looks how much memory there is to spare, and lets go of what is locked when there is
// too little: those who have taken it since the budget was chosen need it more (ignem, section
// III.A.3, "do not harm"). What was let go waits for room again.
func (e yielder) mind() {
	defer e.wg.Done()
	for {
		spare, err := e.cfg.Spare()
		if err != nil {
			e.cfg.Log.Warn("warm: it cannot be told how much memory there is", "err", err)
			spare = math.MaxInt64 / 2
		}
		pause := time.Second // while there is nothing to let go
		if e.heed(spare) {
			pause = min(max(leastPause, time.Duration(float64(max(0, spare))/fastest*float64(time.Second))), pause)
		}
		select {
		case <-time.After(pause):
		case <-e.ctx.Done():
			return
		}
	}
}

// heed takes in how much more may be locked; if that is negative, so much is let go. It reports whether anything is locked still.
func (e yielder) heed(spare int64) (locked bool) {
	e.mu.Lock()
	before := e.lacking
	e.lacking = max(0, e.cfg.Cache.Budget()-max(0, e.blocks.locked+spare))
	var free []*block
	if spare < 0 {
		free = e.yield(-spare)
	}
	if e.lacking < before {
		e.kickAll()
	}
	locked = e.blocks.locked > 0
	e.mu.Unlock()
	var bytes int64
	for _, b := range free {
		bytes += b.bytes
		e.release(b)
	}
	if bytes > 0 {
		e.cfg.Log.Warn("warm: memory is short, files are not kept in it any more", "bytes", bytes)
	}
	return locked
}

// yield takes blocks of at least need bytes from those who come last, if there are as many, and
// returns them to be released. e.mu is held.
func (e yielder) yield(need int64) (free []*block) {
	first := map[*block]*prefetch.Job{}
	var all []*block
	for _, b := range e.blocks.all {
		if b.pin == nil || b.leaving || len(b.refs) == 0 {
			continue
		}
		all = append(all, b)
		for _, at := range b.refs {
			j := &prefetch.Job{Input: at.r.Bytes, Seq: at.r.Seq}
			if first[b] == nil || e.cfg.Policy.Before(j, first[b]) {
				first[b] = j
			}
		}
	}
	slices.SortFunc(all, func(a, b *block) int {
		switch {
		case e.cfg.Policy.Before(first[b], first[a]):
			return -1
		case e.cfg.Policy.Before(first[a], first[b]):
			return 1
		}
		return 0
	})
	for _, b := range all {
		if need <= 0 {
			break
		}
		need -= b.bytes
		for _, at := range slices.Clone(b.refs) {
			at.r.unref(at.pos)
			at.r.move(at.pos, remaining)
			at.r.askAgain(at.pos)
		}
		free = append(free, b)
	}
	return free
}

// askAgain has a block be wanted once more where its file is. The engine's lock is held.
func (r *request) askAgain(pos uint32) {
	for _, s := range r.shares {
		if s.mine(pos) && s.has(r.fileOf(pos)) {
			s.ask(pos)
			return
		}
	}
}

// has reports whether a file is one of the portion's.
func (s *portion) has(file int) bool {
	if to, moved := s.r.moved[int32(file)]; moved {
		return to == s
	}
	_, found := slices.BinarySearch(s.files, int32(file))
	return found
}
