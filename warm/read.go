package warm

import (
	"slices"

	"headrace"
	"headrace/pagecache"
	"headrace/policy/prefetch"
)

// Read notes that a job has read a part of a file, under the path by which it was
// requested. What an implicit request of the job has read to the end of a block is
// let go, or not read ahead any more (ignem, section III.A.4). The others learn
// only that their blocks were of use. It does not block, and is cheap enough to be
// called for each extent that is read.
func (e *Engine) Read(job headrace.JobID, path string, part pagecache.Range) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var free []*block
	for _, r := range e.jobs[job] {
		for _, f := range r.named(path) {
			free = append(free, e.readFile(r, int(f), pagecache.Range{Off: part.Off - r.Files[f].Off, Len: part.Len})...)
		}
	}
	e.letGoSoon(free)
}

// readFile notes that a part of a file was read, from where the file's own part begins, and returns the blocks
// to be released. e.mu is held.
func (e *Engine) readFile(r *request, file int, part pagecache.Range) []*block {
	from, to, ok := r.overlap(file, part)
	if !ok {
		return nil
	}
	for pos := from; pos <= to; pos++ {
		if b := r.held[pos]; b != nil {
			b.used = true
		}
	}
	if _, drop := prefetch.DropRef(prefetch.Ref{Implicit: r.Implicit, Read: true}); drop {
		return e.dropRead(r, file, part, from, to)
	}
	return nil
}

// dropRead gives up the blocks of the positions from to to that the job has read
// all of, and returns those that are to be released. e.mu is held.
func (e *Engine) dropRead(r *request, file int, part pagecache.Range, from, to uint32) (free []*block) {
	if !slices.ContainsFunc(r.state[from:to+1], func(s state) bool { return s <= resident }) {
		return nil
	}
	lo, hi := r.noteRead(file, part)
	for pos := from; pos <= to; pos++ {
		p := r.part(file, pos)
		p.Off -= r.Files[file].Off
		if r.state[pos] > resident || p.Off < lo || p.Off+p.Len > hi {
			continue
		}
		r.move(pos, read)
		if b := r.unref(pos); b != nil {
			free = append(free, b)
		}
	}
	e.kickAll() // what is next may be another block, or fit the request's own budget
	return free
}

// overlap returns the positions that a part of a file touches.
func (r *request) overlap(file int, part pagecache.Range) (from, to uint32, ok bool) {
	size := r.wantedSize(file)
	if size == 0 {
		return r.start[file], r.start[file], part.Off == 0
	}
	if part.Off < 0 || part.Len <= 0 || part.Off >= size {
		return 0, 0, false
	}
	last := min(part.Len, size-part.Off) + part.Off - 1
	return r.start[file] + uint32(part.Off/r.block), r.start[file] + uint32(last/r.block), true
}

// noteRead adds a part to what has been read of a file, and returns the bounds of
// all that was read around it.
func (r *request) noteRead(file int, part pagecache.Range) (lo, hi int64) {
	lo = part.Off
	hi = part.Off + min(part.Len, max(0, r.wantedSize(file)-part.Off))
	known := r.parts[int32(file)]
	first, _ := slices.BinarySearchFunc(known, lo, func(k pagecache.Range, lo int64) int {
		if k.Off+k.Len < lo {
			return -1
		}
		return 1
	})
	last := first
	for last < len(known) && known[last].Off <= hi {
		lo, hi = min(lo, known[last].Off), max(hi, known[last].Off+known[last].Len)
		last++
	}
	if last == first && len(known) >= keptParts {
		return lo, hi
	}
	if lo == 0 && hi == r.wantedSize(file) {
		delete(r.parts, int32(file))
		return lo, hi
	}
	if r.parts == nil {
		r.parts = map[int32][]pagecache.Range{}
	}
	r.parts[int32(file)] = slices.Replace(known, first, last, pagecache.Range{Off: lo, Len: hi - lo})
	return lo, hi
}
