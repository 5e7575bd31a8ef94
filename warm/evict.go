package warm

import (
	"cmp"
	"context"
	"os"
	"slices"

	"headrace/internal/linux"
	"headrace/pagecache"
)

// Evicted is what Evict has done.
type Evicted struct {
	// Bytes are not in memory any more, of so many Files. Kept is what stays in
	// memory because somebody else has asked for it. Both are 0 where residency
	// cannot be found out, or is not the caller's to know.
	Bytes, Kept int64
	Files       int
	// Ended are requests of which nothing is left, Lost those that have given up some of their files.
	Ended []Status
	Lost  []RequestID
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
	x := evicter{e, by}
	var did Evicted
	touched := map[*request]bool{}
	for _, path := range paths {
		if ctx.Err() != nil {
			break
		}
		e.letGo(x.giveUp(path, touched, func(r *request) bool { return r.Hold && (everyone || r.Owner.UID == by.UID) }))
		if err := x.drop(path, &did); err != nil {
			if did.FailedFiles++; len(did.Failures) < keptFailures {
				did.Failures = append(did.Failures, Failure{path, reason(err)})
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range touched {
		switch {
		case r.ended:
		case r.blocks[remaining]+r.blocks[pinned]+r.blocks[resident]+r.blocks[notFit] == 0:
			e.end(r) // it has no blocks
			did.Ended = append(did.Ended, e.status(r, notes{}))
		default:
			did.Lost = append(did.Lost, r.ID)
		}
	}
	return did, ctx.Err()
}

// evicter lets files go for somebody.
type evicter struct {
	*Engine
	by linux.Credentials
}

// giveUp takes a path out of requests, and returns the blocks to be released.
func (e evicter) giveUp(path string, touched map[*request]bool, which func(*request) bool) (free []*block) {
	e.eachNaming(path, func(r *request, files []int32) {
		if !which(r) {
			return
		}
		touched[r] = true
		for _, f := range files {
			free = append(free, r.giveUp(int(f))...)
		}
		e.kickAll()
	})
	return free
}

// eachNaming calls do for each request that has files with a path, with e.mu held. Between two of them others have
// it: a file may have millions of blocks.
func (e evicter) eachNaming(path string, do func(r *request, files []int32)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range slices.Clone(e.inOrder) {
		if files := r.named(path); !r.ended && len(files) > 0 {
			do(r, files)
			e.mu.Unlock()
			e.mu.Lock()
		}
	}
}

// drop drops what no request wants of a file from memory.
func (e evicter) drop(path string, did *Evicted) error {
	f, err := e.cfg.Open(e.by, path)
	if err != nil {
		return err
	}
	defer f.Close()
	id, err := identify(f)
	if err != nil {
		return err
	}
	all := []pagecache.Range{{Len: id.size}}
	before := e.toldResident(f, all)
	drop, keep := e.unwanted(path, id.size)
	if err := e.evictAll(f, drop); err != nil {
		return err
	}
	if after := e.toldResident(f, all); after < before {
		did.Bytes += before - after
		did.Files++
	}
	did.Kept += e.toldResident(f, keep)
	return nil
}

// toldResident returns what of parts of a file is in memory as far as the kernel tells who asks: who may only read a
// file is told nothing.
func (e evicter) toldResident(f *os.File, parts []pagecache.Range) (sum int64) {
	e.cfg.as(e.by, func() error {
		for _, part := range parts {
			n, _ := e.cfg.Cache.Resident(f, part)
			sum += n
		}
		return nil
	})
	return sum
}

// evictAll drops parts of a file from memory. What has been written to it and is
// not on the disk yet would stay: then it is put there first.
func (e evicter) evictAll(f *os.File, parts []pagecache.Range) error {
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

// unwanted divides a file into what may be dropped and what requests want. The size is whatever its owner
// likes, without costing them anything: nothing here may take time proportional to it.
func (e evicter) unwanted(path string, size int64) (drop, keep []pagecache.Range) {
	var done int64
	for _, part := range e.wantedParts(path) {
		from, to := max(done, part.Off), min(part.Off+part.Len, size)
		if from >= to {
			continue
		}
		if from > done {
			drop = append(drop, pagecache.Range{Off: done, Len: from - done})
		}
		keep = append(keep, pagecache.Range{Off: from, Len: to - from})
		done = to
	}
	if done < size {
		drop = append(drop, pagecache.Range{Off: done, Len: size - done})
	}
	return drop, keep
}

// wantedParts returns the parts of a path that requests still want, in whole blocks, sorted by where they
// begin.
func (e evicter) wantedParts(path string) (parts []pagecache.Range) {
	e.eachNaming(path, func(r *request, files []int32) {
		for _, file := range files {
			first := len(parts)
			for pos := r.start[file]; pos < r.start[file+1]; pos++ {
				if r.state[pos] > resident {
					continue
				}
				off := r.part(int(file), pos).Off
				if n := len(parts); n > first && parts[n-1].Off+parts[n-1].Len == off {
					parts[n-1].Len += r.block
					continue
				}
				parts = append(parts, pagecache.Range{Off: off, Len: r.block})
			}
		}
	})
	slices.SortFunc(parts, func(a, b pagecache.Range) int { return cmp.Compare(a.Off, b.Off) })
	return parts
}
