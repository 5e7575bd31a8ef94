package warm

import (
	"context"
	"os"

	"headrace/internal/linux"
	"headrace/pagecache"
)

// Evicted is what Evict has done.
type Evicted struct {
	// Bytes are not in memory any more, of so many Files. Kept is what stays in
	// memory because somebody else has asked for it. Both are 0 where residency
	// cannot be found out.
	Bytes, Kept int64
	Files       int
	// Ended are requests of which nothing is left.
	Ended []Status
	// FailedFiles could not be opened; Failures has the first of them.
	FailedFiles int
	Failures    []Failure
}

// Evict lets files go: the requests by that user without a job (all users' if
// everyone) give them up, and what no other request wants is dropped from memory,
// also if it was there for other reasons. A request of which nothing is left ends.
// What jobs will read stays. Files are opened with the rights of by. When ctx ends,
// it stops after the present file and returns what it has done with the error.
func (e *Engine) Evict(ctx context.Context, by linux.Credentials, everyone bool, paths []string) (Evicted, error) {
	var did Evicted
	touched := map[*request]bool{}
	for _, path := range paths {
		if ctx.Err() != nil {
			break
		}
		e.letGo(e.giveUp(path, touched, func(r *request) bool { return r.Hold && (everyone || r.Owner.UID == by.UID) }))
		if err := e.drop(by, path, &did); err != nil {
			if did.FailedFiles++; len(did.Failures) < keptFailures {
				did.Failures = append(did.Failures, Failure{path, reason(err)})
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range touched {
		if !r.ended && r.blocks[remaining]+r.blocks[pinned]+r.blocks[resident]+r.blocks[notFit] == 0 {
			e.end(r) // it has no blocks
			did.Ended = append(did.Ended, e.status(r, notes{}))
		}
	}
	return did, ctx.Err()
}

// giveUp takes a path out of requests, and returns the blocks to be released.
func (e *Engine) giveUp(path string, touched map[*request]bool, which func(*request) bool) (free []*block) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.inOrder {
		files := r.named(path)
		if len(files) == 0 || !which(r) {
			continue
		}
		touched[r] = true
		for _, f := range files {
			free = append(free, r.giveUp(int(f))...)
		}
		e.kickAll()
	}
	return free
}

// drop drops what no request wants of a file from memory.
func (e *Engine) drop(by linux.Credentials, path string, did *Evicted) error {
	f, err := e.cfg.Open(by, path)
	if err != nil {
		return err
	}
	defer f.Close()
	id, err := identify(f)
	if err != nil {
		return err
	}
	all := pagecache.Range{Len: id.size}
	before, _ := e.cfg.Cache.Resident(f, all)
	drop, keep := e.unwanted(path, id.size)
	if err := e.evictAll(f, drop); err != nil {
		return err
	}
	after, _ := e.cfg.Cache.Resident(f, all)
	if after < before {
		did.Bytes += before - after
		did.Files++
	}
	for _, part := range keep {
		n, _ := e.cfg.Cache.Resident(f, part)
		did.Kept += n
	}
	return nil
}

// evictAll drops parts of a file from memory. What has been written to it and is
// not on the disk yet would stay: then it is put there first.
func (e *Engine) evictAll(f *os.File, parts []pagecache.Range) error {
	var stays int64
	for _, part := range parts {
		if err := e.cfg.Cache.Evict(f, part); err != nil {
			return err
		}
		n, _ := e.cfg.Cache.Resident(f, part)
		stays += n
	}
	if stays == 0 {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	for _, part := range parts {
		if err := e.cfg.Cache.Evict(f, part); err != nil {
			return err
		}
	}
	return nil
}

// unwanted divides a file into what may be dropped and what requests want.
func (e *Engine) unwanted(path string, size int64) (drop, keep []pagecache.Range) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wanted := e.wantedBlocks(path)
	for off := int64(0); off < size; off += e.cfg.Block {
		part := pagecache.Range{Off: off, Len: min(e.cfg.Block, size-off)}
		to := &drop
		if wanted[off] {
			to = &keep
		}
		if n := len(*to); n > 0 && (*to)[n-1].Off+(*to)[n-1].Len == off {
			(*to)[n-1].Len += part.Len
			continue
		}
		*to = append(*to, part)
	}
	return drop, keep
}

// wantedBlocks returns the offsets of the blocks of a path that requests still want.
// e.mu is held.
func (e *Engine) wantedBlocks(path string) map[int64]bool {
	wanted := map[int64]bool{}
	for _, r := range e.inOrder {
		for _, file := range r.named(path) {
			for pos := r.start[file]; pos < r.start[file+1]; pos++ {
				if r.state[pos] <= resident {
					wanted[r.part(int(file), pos).Off] = true
				}
			}
		}
	}
	return wanted
}
