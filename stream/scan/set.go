package scan

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/stream/source"
)

const (
	// followInterval is how often residency is looked at, and followTime how long that waits for files to be opened.
	followInterval, followTime = time.Second, 5 * time.Second
)

const (
	// mountTime is how long after a boot a file may not be there yet.
	mountTime = 5 * time.Minute
	// mountPause is how often it is looked whether it is, or there is enough again of what was short.
	mountPause = 200 * time.Millisecond
	// maxOpen is how many files may be open for a user, maxOpenOthers for all but root and the daemon's own together:
	// each may take a thread for as long as a file server does not answer, and a process has 10,000.
	maxOpen, maxOpenOthers = 2 << 10, 4 << 10
)

// Config says what a set works with.
type Config struct {
	// Lock guards all that is said to be called with the lock held.
	Lock   *sync.Mutex
	Source source.Source
	// NoResidentFirst reads blocks in their order only.
	NoResidentFirst bool
	// Memory bounds the shared memory of all scans, in bytes: others wait; 0: nothing
	// does. Share is what the scans of each user may have in any case.
	Memory, Share int64
	// Forget is told that memory or a file is gone: nobody gets pieces in it any
	// more. Called with the lock held.
	Forget func(id uint32)
	Log    *slog.Logger
}

// Set has all that is being read.
type Set struct {
	memory
	cfg  Config
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	// mounted is from when on all file systems are taken to be mounted.
	mounted time.Time

	scans map[key]*scan
	feeds map[*Feed]bool
	// open counts files that are open, or are being opened or closed.
	open *budget.Budget
	// following counts what is followed, looking has the users whose files are being opened for that.
	following *budget.Budget
	looking   map[uint32]bool
}

// key names what a scan reads: streams share one when all of it is equal.
type key struct {
	fileset.Identity
	block int
	boot  string // in which the device had its number; empty: this one
}

// NewSet returns a Set that has nothing to read yet.
func NewSet(cfg Config) *Set {
	s := &Set{cfg: cfg, scans: map[key]*scan{}, feeds: map[*Feed]bool{}, looking: map[uint32]bool{}, mounted: time.Now().Add(mountTime)}
	s.open = budget.New("files that streams read", maxOpen, maxOpenOthers)
	s.following = budget.New("bytes of files that are followed", maxFollowed, maxFollowedOthers)
	s.memory = newMemory(&cfg, s.serves)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.work.Go(s.followResidency)
	s.work.Go(s.relieve)
	return s
}

// Stop ends all reading, after all feeds were released. It is called with the lock
// held; Wait follows without it.
func (s *Set) Stop() {
	s.closed = true
	s.stop()
	for _, sc := range s.scans {
		sc.cond.Broadcast()
	}
	s.room.Broadcast()
}

// Wait waits until all reading has ended, but not for ever: what stands in the kernel then reads on into memory that is
// left to it. It frees all other memory.
func (s *Set) Wait() {
	if !linux.Within(linux.EndTime, s.work.Wait) {
		s.cfg.Log.Warn("a file that streams read does not answer; it is not waited for")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Trim()
}

// Scans returns how many files are being read in blocks. Call it with the lock held.
func (s *Set) Scans() int { return len(s.scans) }

// serves tells whether a user has streams that deal.
func (s *Set) serves(uid uint32) bool {
	if s.closed {
		return false
	}
	for f := range s.feeds {
		if f.Owner.UID == uid && f.deal.Present() > 0 {
			return true
		}
	}
	return false
}

// followResidency keeps what is known of whole files that are to be dealt up to
// date.
func (s *Set) followResidency() {
	if s.cfg.NoResidentFirst {
		return
	}
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.followMore() {
			if err := s.cfg.Source.Refresh(s.ctx); err != nil && s.ctx.Err() == nil {
				s.cfg.Log.Warn("find out what is in memory", "err", err)
			}
		}
	}
}

// relieve looks for streams that starve, and for those that wait and are gone.
func (s *Set) relieve() {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		s.room.Broadcast() // some who wait may have gone
		for f := range s.feeds {
			if !s.closed && f.starves() {
				f.relieve()
			}
		}
		s.mu.Unlock()
	}
}

// followMore begins to follow the next files of streams that deal whole ones. It tells whether any is followed. A file
// server may not answer, which nothing can interrupt: then the goroutine of that user stays until it does, and further
// files of the user wait for it.
func (s *Set) followMore() bool {
	next := s.toFollow()
	done := make(chan struct{}, len(next))
	for uid, feeds := range next {
		go func() { // no part of work: an end does not wait for it
			for f, ids := range feeds {
				for _, id := range ids {
					if s.ctx.Err() == nil {
						f.followUnit(id)
					}
				}
			}
			s.mu.Lock()
			delete(s.looking, uid)
			s.mu.Unlock()
			done <- struct{}{}
		}()
	}
	timeout := time.After(followTime)
	for range next {
		select {
		case <-done:
			continue
		case <-timeout:
		case <-s.ctx.Done():
		}
		break
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.feeds {
		if len(f.followed) > 0 {
			return true
		}
	}
	return false
}

// toFollow returns, of each user whose files are not being opened, the feeds that have whole files to deal and consumers
// for them, with the next of them that are not followed yet.
func (s *Set) toFollow() map[uint32]map[*Feed][]uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[uint32]map[*Feed][]uint32{}
	for f := range s.feeds {
		uid := f.Owner.UID
		if f.gone() || f.deal.Units.Wholes() <= 1 || s.looking[uid] {
			continue
		}
		if ids := f.toFollow(); len(ids) > 0 {
			if next[uid] == nil {
				next[uid] = map[*Feed][]uint32{}
			}
			next[uid][f] = ids
		}
	}
	for uid := range next {
		s.looking[uid] = true
	}
	return next
}
