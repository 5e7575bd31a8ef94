package solo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/proc"
	"headrace/report"
)

// promise is room of a file system that a dump is to take, from when it was decided. What is free shows it only when it is
// written: until then the same room would be given to every other one that is decided.
type promise struct {
	fs uint64
	// bytes is what is to be written, as far as is known, and when it has ended what was.
	bytes int64
	// before is how much was free when it began; -1: it has not, as far as is known.
	before int64
	// ended it has at the boot time endedAt.
	ended   bool
	endedAt time.Duration
}

// promiseFor is for how long at most a dump that has ended is counted, where no look shows what it has written.
const promiseFor = time.Minute

// promise counts a dump of so many bytes with what is promised, until end and the next look at its store.
func (a *stores) promise(s *store, bytes int64) *promise {
	p := &promise{fs: s.fs, bytes: bytes, before: -1}
	a.promised = append(a.promised, p)
	return p
}

// end takes in that a dump has ended, and how many bytes it has written.
func (a *stores) end(p *promise, wrote int64) {
	p.bytes, p.ended, p.endedAt = wrote, true, a.clk.boot()
}

// seen forgets the dumps whose bytes the look at a store that has just been taken in has shown: those that had ended before it began.
func (a *stores) seen(s *store) {
	now := a.clk.boot()
	a.promised = slices.DeleteFunc(a.promised, func(p *promise) bool {
		return p.ended && (p.bytes == 0 || p.fs == s.fs && p.endedAt <= s.lookedAt || now-p.endedAt > promiseFor)
	})
}

// room returns how many bytes a store has left beside what is promised, -1 while unknown.
func (a *stores) room(s *store) int64 {
	if s.free < 0 {
		return -1
	}
	var dumps []policy.Dump
	for _, p := range a.promised {
		if p.fs != s.fs {
			continue
		}
		d := policy.Dump{Bytes: p.bytes}
		if p.before >= 0 { // what has gone since is this one's, as they take turns
			d.Written = p.before - s.free
		}
		dumps = append(dumps, d)
	}
	return policy.StoreFree(s.free, dumps...)
}

// fits looks, when it is a dump's turn, whether there is room for so many bytes still, and returns how much there is, -1 if
// that is not known. It may be called from anywhere.
func (a *stores) fits(ctx context.Context, dir string, bytes int64) (free int64, err error) {
	answer, err := a.Ask(ctx, "room of "+dir, func() (any, error) { return a.space(dir), nil })
	if err != nil {
		return 0, fmt.Errorf("%w: checkpoint store %s: %w", proc.ErrNotNow, dir, err)
	}
	if free = answer.(int64); free >= 0 && bytes > free {
		return free, fmt.Errorf("%w: the checkpoint would take about %s, and checkpoints may take %s more in %s; free some space, or name another store",
			proc.ErrNotNow, report.Bytes(bytes), report.Bytes(free), dir)
	}
	return free, nil
}

// writes estimates what a dump of a task to a store has to write: one that cannot build on the last checkpoint writes all.
func (t *task) writes(s *store) int64 {
	switch im := t.rec.Checkpoint; {
	case !t.known:
		return t.back
	case im != nil && im.Store != s.Name:
		return t.memory()
	}
	return t.dirty()
}

// returning is the memory that a task was given room for when it was brought back. Until it is measured again, and all
// of it that was in swap has come, it does not show, and would be given to others as well.
type returning struct {
	// back is how much that is, in bytes; comes counts what reads it from swap.
	back  int64
	comes int
}

// measured takes in that a task was measured that has been brought back.
func (r *returning) measured() {
	if r.comes == 0 {
		r.back = 0
	}
}

// show shows the memory of a running task as it is once all has come.
func (r *returning) show(v *headrace.TaskView) {
	if more := r.back - v.Resident; more > 0 && v.State == headrace.Running {
		v.Resident, v.Swapped = r.back, max(0, v.Swapped-more)
	}
}

// checkpointBytes returns what a task's checkpoint holds, or will when the dump under way has ended, if that is more.
func (t *task) checkpointBytes() (bytes int64) {
	if im := t.rec.Checkpoint; im != nil {
		bytes = im.ToRead
	}
	if t.rec.Op.Doing() == headrace.Checkpointing {
		bytes = max(bytes, t.memory())
	}
	return bytes
}
