package warm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"headrace"
	"headrace/fileset"
	"headrace/policy/prefetch"
)

// Status is how a request stands. All sizes are bytes; of the files' bytes, each
// is in one of Left to Evicted.
type Status struct {
	ID  RequestID
	Job headrace.JobID
	UID uint32

	// Files and Bytes are all that was asked for.
	Files int
	Bytes int64

	// Remaining is still to be looked at or read.
	Remaining int64
	// Pinned is locked, whoever's request it was read for.
	Pinned int64
	// Resident was in memory without being locked by us when it was last looked at.
	// At least half of each such block was.
	Resident int64
	// Read has been read by the job, which needs it no more.
	Read int64
	// NotFit can never be locked for this request. NotFitReason is that of the last
	// such block.
	NotFit       int64
	NotFitReason string
	// Failed is of files that have failed, Evicted what a user let go.
	Failed, Evicted int64

	// Migrated is what was read from the disk for this request, also if it was let
	// go since. It counts pages that were in memory in between.
	Migrated int64
	// FailedFiles is how many files have failed; Failures has the first of them.
	FailedFiles int
	Failures    []Failure
	// Current is the file that is being read for it; empty: none.
	Current string

	// Done: nothing is left to be done. What is resident may still be lost and read
	// again.
	Done bool
	// Full: all that fits is in memory. What is left waits until something is
	// released, or read by the job if its own budget is used up.
	Full bool
	// Waits says what is done next, or what it waits for; empty when it is done.
	Waits string
	// Ended: the request is no more.
	Ended bool

	// Version grows with each change, other than of Waits.
	Version uint64
}

// notes are what the policy says of the shares of lanes, so that it is asked once
// when several requests are told of.
type notes map[*lane]map[*portion]string

// status returns the Status of a request; without known it is brief: it does not say what it waits for, which takes time
// where many wait. e.mu is held.
func (e *Engine) status(r *request, known notes) Status {
	s := Status{
		ID: r.ID, Job: r.Job, UID: r.Owner.UID,
		Files: len(r.Files), Bytes: r.size,
		Remaining: r.bytes[remaining], Pinned: r.bytes[pinned], Resident: r.bytes[resident], Read: r.bytes[read],
		NotFit: r.bytes[notFit], NotFitReason: r.notFitReason, Failed: r.bytes[failed], Evicted: r.bytes[evicted],
		Migrated: r.migrated, FailedFiles: r.failedFiles, Failures: slices.Clone(r.failures),
		Done: r.finished(), Ended: r.ended, Version: r.version,
	}
	for _, sh := range r.shares {
		if l := sh.lane; l.reading.r == r {
			s.Current = l.reading.path
		}
	}
	if known != nil && !s.Done && !s.Ended {
		s.Full, s.Waits = e.waits(r, known)
		s.Full = s.Full && s.Current == ""
	}
	return s
}

// waits says what a request that is not done waits for, and whether that is room
// on all of its devices. e.mu is held.
func (e *Engine) waits(r *request, known notes) (full bool, why string) {
	if silent := e.silent[r.party()]; silent != nil {
		return false, fmt.Sprintf("%s is not opened: %v", silent.path, errSilent)
	}
	if r.assigning {
		why = "its files are being found"
	}
	wanting, stuck := 0, 0
	for _, s := range r.shares {
		if !s.active {
			continue
		}
		wanting++
		if s.lane.full || s.limited() {
			stuck++
		}
		if why == "" {
			why = s.lane.explain(s, known)
		}
	}
	if leased := func(s *portion) bool { return len(s.leased) > 0 }; why == "" && slices.ContainsFunc(r.shares, leased) {
		why = fileset.ErrLeased.Error()
	}
	return !r.assigning && wanting > 0 && stuck == wanting, why
}

// limited reports whether what is next has to wait until the job has read some of
// what it has, for its own budget is used up. Of a request that gives nothing back
// it is given up instead. The engine's lock is held.
func (s *portion) limited() bool {
	if !s.r.Implicit {
		return false
	}
	next := s.upcoming(nil, 1)
	return len(next) > 0 && !s.r.fits(wholePages(s.r.part(s.r.fileOf(next[0]), next[0])))
}

// explain says what is done next for a portion, or what it waits for. e.mu is held.
func (l *lane) explain(s *portion, known notes) string {
	if a := l.reading; a.r != nil {
		return fmt.Sprintf("%s is being read for %s", a.path, a.r.name)
	}
	if l.refused != "" {
		return l.refused
	}
	if known[l] == nil {
		known[l] = map[*portion]string{}
		for i, note := range prefetch.Explain(l.prefetchView(), l.e.cfg.Policy) {
			known[l][l.view.shares[i]] = note
		}
	}
	return known[l][s]
}

// Status returns how a request stands now. It fails with ErrUnknown.
func (e *Engine) Status(id RequestID) (Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.requests[id]
	if r == nil {
		return Status{}, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	return e.status(r, notes{}), nil
}

// List returns how all requests stand, in the order in which they were added.
func (e *Engine) List() []Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, known := make([]Status, len(e.inOrder)), notes{}
	for i, r := range e.inOrder {
		all[i] = e.status(r, known)
	}
	return all
}

// Watch waits until the Version of a request is larger than seen, and returns how
// it stands then; with seen 0 it does not wait. Of a request that ends while it is
// watched, the last Status has Ended set. It changes with each MiB that is read:
// who shows it to people should pause between two calls. It fails with ErrUnknown,
// and when ctx ends.
func (e *Engine) Watch(ctx context.Context, id RequestID, seen uint64) (Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.requests[id]
	if r == nil {
		return Status{}, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	for r.version <= seen {
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		e.mu.Unlock()
		select {
		case <-changed:
			e.mu.Lock()
		case <-ctx.Done():
			e.mu.Lock()
			return Status{}, ctx.Err()
		}
	}
	return e.status(r, notes{}), nil
}

// Pin is what is locked of one file, and for whom.
type Pin struct {
	// Path is one that leads to it.
	Path     string
	Dev, Ino uint64
	Bytes    int64
	By       []Holder
}

// Holder is a request for which something is locked.
type Holder struct {
	Request RequestID
	Job     headrace.JobID
	UID     uint32
}

// Pins lists all files of which something is locked, sorted by path.
func (e *Engine) Pins() []Pin {
	e.mu.Lock()
	defer e.mu.Unlock()
	type inode struct{ dev, ino uint64 }
	files := map[inode]*Pin{}
	seen := map[*Pin]map[*request]bool{}
	for key, b := range e.blocks.all {
		if b.pin == nil {
			continue
		}
		p := files[inode{key.dev, key.ino}]
		if p == nil {
			p = &Pin{Dev: key.dev, Ino: key.ino}
			files[inode{key.dev, key.ino}], seen[p] = p, map[*request]bool{}
		}
		p.Bytes += b.bytes
		for _, a := range b.aliases {
			if p.Path == "" || a.path < p.Path {
				p.Path = a.path
			}
		}
		for _, at := range b.refs {
			if !seen[p][at.r] {
				seen[p][at.r] = true
				p.By = append(p.By, Holder{at.r.ID, at.r.Job, at.r.Owner.UID})
			}
		}
	}
	all := make([]Pin, 0, len(files))
	for _, p := range files {
		slices.SortFunc(p.By, func(a, b Holder) int { return cmp.Compare(a.Request, b.Request) })
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Ino, b.Ino), cmp.Compare(a.Dev, b.Dev))
	})
	return all
}

// Followers lists the requests for which something of a file with that path is in memory
// that is not locked, of users that may be seen.
func (e *Engine) Followers(path string, sees func(uid uint32) bool) (by []Holder) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		if r.blocks[resident] > 0 && sees(r.Owner.UID) && r.follows(path) {
			by = append(by, Holder{r.ID, r.Job, r.Owner.UID})
		}
	}
	slices.SortFunc(by, func(a, b Holder) int { return cmp.Compare(a.Request, b.Request) })
	return by
}

// follows reports whether something of a file with that path is in memory without being locked.
func (r *request) follows(path string) bool {
	return slices.ContainsFunc(r.named(path), func(file int32) bool {
		return slices.Contains(r.state[r.start[file]:r.start[file+1]], resident)
	})
}

// Counters are totals since the engine was made, and what is the case now. All
// sizes are bytes.
type Counters struct {
	// Budget, Pinned, MaxBlocks, PinnedBlocks and Requests are of now; what is being
	// read counts as pinned. The budget is less while others have the memory.
	Budget, Pinned          int64
	MaxBlocks, PinnedBlocks int
	Requests                int

	// Migrated was read from disks, in so many Blocks that were locked then.
	Migrated, Blocks int64
	// Skipped was found in memory and not read. Lost of it was dropped by the kernel
	// and asked for again.
	Skipped, Lost int64
	// Released was locked and is not any more; Wasted of it was let go before any
	// reading of it was noted.
	Released, Wasted int64
	// FailedFiles could not be warmed.
	FailedFiles int64
	// CleanedUp are requests whose jobs had gone without a word.
	CleanedUp int64
}

// Counters returns what metrics show.
func (e *Engine) Counters() Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.counters
	room := e.room()
	c.Budget, c.Pinned = room.Budget-e.lacking, e.blocks.locked
	c.MaxBlocks, c.PinnedBlocks = room.MaxBlocks, room.Blocks
	c.Requests = len(e.requests)
	return c
}
