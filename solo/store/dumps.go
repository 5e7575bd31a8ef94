package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/disk"
	"headrace/policy"
	"headrace/proc"
	"headrace/report"
)

// Dump is what a checkpoint of a task would write. It holds for as long as nothing is measured.
type Dump struct {
	Task headrace.TaskID
	// For is the user whose share of a device it takes; 0: nobody's in particular.
	For uint32
	// Whole is how many bytes it writes; Changed to the store Base, which has the last checkpoint.
	Whole, Changed int64
	Base           string
	// Known: the task was measured.
	Known bool
}

// Writes estimates how many bytes it writes to a store.
func (d Dump) Writes(s *Store) int64 {
	if s.Name == d.Base {
		return d.Changed
	}
	return d.Whole
}

// Promise is room of a file system that a dump is to take, from when it was decided. What is free shows it only when it is
// written: until then the same room would be given to every other one that is decided.
type Promise struct {
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

// Promise counts a dump of so many bytes with what is promised, until it has ended and the next look at its store.
func (a *Stores) Promise(s *Store, bytes int64) *Promise {
	p := &Promise{fs: s.fs, bytes: bytes, before: -1}
	a.promised = append(a.promised, p)
	return p
}

// Begin takes in that the dump begins, with so many bytes free; -1: that is not known.
func (p *Promise) Begin(free int64) { p.before = free }

// End takes in that the dump has ended at a boot time, and how many bytes it has written.
func (p *Promise) End(at time.Duration, wrote int64) {
	p.bytes, p.ended, p.endedAt = wrote, true, at
}

// seen forgets the dumps whose bytes the look at a store that has just been taken in has shown: those that had ended before it began.
func (a *Stores) seen(s *Store) {
	now := a.daemon.Boot()
	a.promised = slices.DeleteFunc(a.promised, func(p *Promise) bool {
		return p.ended && (p.bytes == 0 || p.fs == s.fs && p.endedAt <= s.lookedAt || now-p.endedAt > promiseFor)
	})
}

// Room returns how many bytes a store has left beside what is promised, -1 while unknown.
func (a *Stores) Room(s *Store) int64 {
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

// Fits looks, when it is a dump's turn, whether there is room for so many bytes still, and returns how much there is, -1 if
// that is not known. It may be called from anywhere.
func (a *Stores) Fits(ctx context.Context, dir string, bytes int64) (free int64, err error) {
	answer, err := a.Ask(ctx, "room of "+dir, func() (any, error) { return a.Space(dir), nil })
	if err != nil {
		return 0, fmt.Errorf("%w: checkpoint store %s: %w", proc.ErrNotNow, dir, err)
	}
	if free = answer.(int64); free >= 0 && bytes > free {
		return free, fmt.Errorf("%w: the checkpoint would take about %s, and checkpoints may take %s more in %s; free some space, or name another store",
			proc.ErrNotNow, report.Bytes(bytes), report.Bytes(free), dir)
	}
	return free, nil
}

// Dumping registers the dump of so many bytes, that is done for a user.
func (s *Store) Dumping(uid uint32, id headrace.TaskID, bytes int64) *disk.Reader {
	return s.move(uid, disk.Dump, id, s.estimate(bytes))
}

// Restoring registers the restore of a checkpoint of so many bytes, of a task of a user.
func (s *Store) Restoring(uid uint32, id headrace.TaskID, bytes int64) *disk.Reader {
	return s.move(uid, disk.Restore, id, s.RestoreOverhead+transfer(bytes, s.Read))
}

func (s *Store) move(uid uint32, c disk.Class, id headrace.TaskID, expect time.Duration) *disk.Reader {
	return s.disks.Move(uid, s.on, c, fmt.Sprintf("%s of %s", c, id), expect)
}

// InTurn does a dump or restore when it is its turn. It gives up its place when the task is
// gone before that, or ctx ends. What takes far too long goes on, and others as well.
// A move of nil, because the checkpoint lies in what is no store any more, has no
// turn to wait for.
func InTurn(ctx context.Context, move *disk.Reader, gone <-chan struct{}, do func() (bytes int64, err error)) error {
	if move == nil {
		_, err := do()
		return err
	}
	defer move.Close()
	turn, err := begin(ctx, move, gone)
	if err != nil {
		return err
	}
	bytes, err := do()
	turn.End(bytes)
	return err
}

// begin waits for the turn of a dump or restore, unless the task is gone before.
func begin(ctx context.Context, move *disk.Reader, gone <-chan struct{}) (*disk.Turn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	turn, err := move.Begin(ctx)
	select {
	case <-gone:
		if err != nil {
			err = fmt.Errorf("%w: it ended before it was its turn", proc.ErrGone)
		}
	default:
	}
	return turn, err
}
