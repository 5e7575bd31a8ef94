package block

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/internal/vfs"
)

func (c *Config) newVolume(dir string) *volume {
	return &volume{dir: filepath.Clean(dir), fs: c.FS, patience: c.Patience, log: c.Log, onOut: c.Out, out: make(chan struct{}), told: make(chan struct{}), allotment: allotment{allotting: make(chan struct{}, 1)},
		files: map[uint64]*combined{}, layout: layout{c.piece}}
}

const (
	versionFormat = "headrace blocks 1\ndisk %s\npiece %d\n"
	poolLine      = "pool " // behind it, which earlier versions pass over
)

// load finds out what is on a disk.
func (s *Store) load(v *volume) error {
	if err := v.makeDir(v.dir); err != nil {
		return err
	}
	lock, err := v.fs.Lock(filepath.Join(v.dir, "LOCK"))
	if err != nil {
		return err
	}
	v.lock = lock
	if f, ok := lock.(*os.File); ok {
		if v.device, err = s.Devices.Of(f); err != nil {
			return err
		}
	} else {
		v.device = disk.Device{Memory: true}
	}
	if err := v.identify(&s.Config); err != nil {
		return err
	}
	v.identified = true
	if s.Since != nil {
		since := make(chan uint64, 1)
		if err := v.do(reading, func() error { since <- s.Since(v.dir); return nil }); err != nil {
			return err
		}
		v.since = <-since
	}
	if s.Failures != nil {
		v.failures = s.Failures(v.dir)
	}
	if err := v.makeDir(filepath.Join(v.dir, "files")); err != nil {
		return err
	}
	// Who made the directories in it may have ended before they were durable.
	if err := v.do(syncing, func() error { return v.fs.SyncDir(filepath.Join(v.dir, "files")) }); err != nil {
		return err
	}
	known, err := v.readIndex()
	if err != nil {
		return err
	}
	files, unlisted, err := v.list()
	if err != nil {
		return err
	}
	for _, g := range unlisted {
		v.log.Error("a directory of a disk cannot be listed, and what is in it is not known", "disk", v.dir, "part", g.String(), "cause", g.Cause)
	}
	v.unlisted = unlisted
	for _, id := range files {
		if err := s.loadFile(v, id, known[id]); err != nil {
			return err
		}
	}
	return nil
}

// ErrNotMounted: a directory has had a store, and has nothing.
var ErrNotMounted = errors.New("what was in it before is not there: its disk is not mounted, or lost")

// ErrForeign: a disk has blocks of another file system, or does not say of which. Numbers of blocks are those of all file systems.
var ErrForeign = errors.New("its blocks are not known to be of this file system")

// identify reads what the disk says that it is, or makes it a new one, unless it was known.
func (v *volume) identify(c *Config) error {
	is := func(dir string) bool { return filepath.Clean(dir) == v.dir }
	b, err := v.readFile("VERSION")
	if errors.Is(err, os.ErrNotExist) {
		if v.back || slices.ContainsFunc(c.Known, is) {
			return fmt.Errorf("%s: %w", v.dir, ErrNotMounted)
		}
		rand.Read(v.id[:])
		return v.putVersion(c.Pool)
	}
	if err != nil {
		return err
	}
	var id string
	_, err = fmt.Sscanf(string(b), versionFormat, &id, &v.piece)
	raw, herr := hex.DecodeString(id)
	if err != nil || herr != nil || len(raw) != len(v.id) || v.piece <= 0 || v.piece%page != 0 {
		return fmt.Errorf("%s: not a store of this version: %q", v.dir, b)
	}
	copy(v.id[:], raw)
	_, pool, said := strings.Cut(strings.TrimSuffix(string(b), "\n"), poolLine)
	switch {
	case c.Pool == "" || pool == c.Pool:
		return nil
	case said:
		return fmt.Errorf("%s: %w: they are of %s, and this is %s", v.dir, ErrForeign, pool, c.Pool)
	case !slices.ContainsFunc(c.Unnamed, is):
		return fmt.Errorf("%s: %w: an earlier version, which did not note that, has made it elsewhere", v.dir, ErrForeign)
	}
	return v.putVersion(c.Pool)
}

// putVersion notes what the disk is.
func (v *volume) putVersion(pool string) error {
	b := fmt.Appendf(nil, versionFormat, hex.EncodeToString(v.id[:]), v.piece)
	if pool != "" {
		b = append(b, poolLine+pool+"\n"...)
	}
	return v.replaceFile("VERSION", b)
}

// readIndex reads the index. One that is not right is removed, so that it cannot be
// right another time, when it is old.
func (v *volume) readIndex() (map[uint64][]header, error) {
	b, err := v.readFile(indexName)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if v.err() != nil {
		return nil, v.err()
	}
	var known map[uint64][]header
	if err == nil {
		known, v.scrubbed, err = parseIndex(b, v.id)
	}
	name := filepath.Join(v.dir, indexName)
	if err != nil {
		v.log.Warn("the index of a disk is made again", "disk", v.dir, "cause", err)
		if err := v.do(changing, func() error { return v.fs.Remove(name) }); err != nil {
			return nil, err
		}
		return nil, v.do(syncing, func() error { return v.fs.SyncDir(v.dir) })
	}
	v.index.has = map[uint64]struct{}{}
	for id := range known {
		v.index.has[id] = struct{}{}
	}
	v.index.size = int64(len(b))
	err = v.do(reading, func() (err error) {
		v.index.file, err = v.fs.Open(name, os.O_RDWR)
		return err
	})
	if err != nil {
		return nil, err
	}
	// What it says it forgot must stay forgotten: the process may have died before that was
	// durable.
	return known, v.do(syncing, v.index.file.Sync)
}

// mostUnlisted is of how many directories a disk is used that cannot list them.
const mostUnlisted = 4

// list returns the files that have blocks here, as far as their directories can be listed: one that cannot is no fault of the others, and what is in it counts for nothing.
func (v *volume) list() (files []uint64, unlisted []Gap, err error) {
	in := filepath.Join(v.dir, "files")
	dirs, err := v.names(in)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range dirs {
		names, err := v.names(filepath.Join(in, d))
		if of, perr := strconv.ParseUint(d, 16, 8); perr == nil && errors.Is(err, unix.EIO) && v.err() == nil {
			if unlisted = append(unlisted, Gap{of, -1, math.MaxInt64, err}); len(unlisted) <= min(mostUnlisted, len(dirs)-1) {
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		for _, n := range names {
			if id, ok := parsePath(n); ok {
				files = append(files, id)
			}
		}
	}
	return files, unlisted, nil
}

// names lists a directory.
func (v *volume) names(dir string) ([]string, error) {
	got := make(chan []string, 1)
	err := v.do(reading, func() error {
		names, err := v.fs.List(dir)
		got <- names
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-got, nil
}

// loadFile takes a combined file in, from the index if that has it, else from the headers
// in it. A file that cannot be read is left alone: its blocks are missing.
func (s *Store) loadFile(v *volume, id uint64, headers []header) error {
	c := &combined{v: v, id: id, named: headers != nil}
	indexed := headers != nil
	if !indexed {
		var err error
		if headers, c.gaps, c.end, err = c.scan(0); err != nil && v.err() == nil {
			c.gaps = []Gap{{id, 0, math.MaxInt64, err}}
		} else if err != nil {
			return err
		}
		for _, g := range c.gaps {
			v.log.Error("a part of a file of blocks is not known, for a header there cannot be read", "file", v.path(id), "part", g.String(), "cause", g.Cause)
		}
		if len(headers)+len(c.gaps) == 0 {
			c.unlink() // made, and nothing more, before the power failed
			return v.err()
		}
	}
	slices.SortFunc(headers, func(a, b header) int { return cmp.Compare(a.offset, b.offset) })
	s.mu.Lock()
	v.files[id] = c
	if len(c.gaps) > 0 {
		v.torn = append(v.torn, c)
	}
	for _, h := range headers {
		// Behind the mark there may be bytes of an earlier life, and in the chunk that it ends in a checksum from before the power failed.
		// All have their states before any is adopted: the file goes with the last one that is dropped.
		r := &replica{file: c, head: h, visible: h.mark, spilled: up(h.capacity, Chunk), confirmed: h.settled, state: stateOf[h.kind]}
		r.suspect = !indexed && h.kind == final && h.settled.length < h.mark.length && !v.kept(h)
		c.regions = append(c.regions, r)
		c.end = max(c.end, h.offset+v.size(h.capacity))
	}
	s.mu.Unlock()
	for _, r := range slices.Clone(c.regions) {
		if err := s.adopt(r); err != nil {
			return err
		}
	}
	return s.tidy(c) // the last deletion may not have come that far
}

// kept reports whether nothing of the disk was lost since a writer began: what was flushed is here.
func (v *volume) kept(h header) bool { return v.since != 0 && h.since == v.since && !v.back }

// stateOf is what a replica is at the start whose header says its kind.
var stateOf = map[kind]State{final: Final, writing: Waiting, copying: Temporary}

// adopt takes in a replica that was found at the start.
func (s *Store) adopt(r *replica) error {
	r.io.Lock()
	defer r.io.Unlock()
	var ill error // why what was durable of it cannot be read
	switch r.head.kind {
	case gone:
		return nil
	case writing:
		good, all, err := s.salvage(r)
		r.whole = all && r.file.v.kept(r.head)
		if v := r.file.v; err != nil && v.err() == nil {
			v.log.Error("a block that was being written cannot be read", "block", r.head.block, "disk", v.dir, "cause", err)
			// What is before that may be all there is anywhere. Nothing is changed behind it: it may be read another time.
			r.whole, r.visible = false, good
			if good.length <= r.head.settled.length {
				r.damaged, r.visible, ill = true, r.head.settled, err
			}
		} else if err != nil {
			return err
		}
	case copying:
		return s.drop(r)
	}
	if r.file.v.back && r.suspect {
		// The next start has to know, too, that the disk was away.
		err := s.withFile(r, func(h *handle) error {
			return errors.Join(s.put(r, h, func(next *header) { next.since = 0 }), h.sync())
		})
		if err != nil {
			return err
		}
	}
	for {
		old, err := enterFound(s, r)
		if err == nil && old != nil {
			err = choose(s, r, old)
		}
		if err == errOther {
			continue
		}
		if err == nil && ill != nil {
			s.mu.Lock()
			info, known := r.info(), s.blocks[r.head.block] == r
			s.mu.Unlock()
			if known {
				tell(s, info, ill)
			}
		}
		return err
	}
}

// enterFound makes a replica known that was found on a disk, or returns the other one of its block, which is on a disk in use.
func enterFound(s *Store, r *replica) (old *replica, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.head.block
	switch old := s.blocks[id]; {
	case s.closed:
		return nil, ErrClosed
	case old != nil && old.file.v.err() == nil && old.state == Temporary: // a copy that was being made in its place goes on, beside it
		s.copies[id] = old
	case old != nil && old.file.v.err() == nil: // one on a disk that has failed meanwhile counts for nothing
		return old, nil
	}
	s.place(r)
	r.count(true)
	return nil, nil
}

// errOther: something else is known under the block by now, or the disk of that has failed.
var errOther = errors.New("another replica is there")

// choose keeps one of two replicas of a block, r, which has just been found, and old, which is known. The io of r is held. One whose file the disk cannot open, while
// it can others, or which is damaged, counts for nothing where the other one is as good; else that one is left as it is, for the next start, and not known.
func choose(s *Store, r, old *replica) error {
	old.io.Lock()
	defer old.io.Unlock()
	s.mu.Lock()
	kept, dropped := old, r
	if s.better(r, old) {
		kept, dropped = r, old
	}
	s.mu.Unlock()
	// What is kept may be in memory only, as far as it says that it is closed: the power may fail before the other's end is durable, or after.
	both := alike(kept, dropped)
	good := func() error {
		return s.withFile(kept, func(h *handle) error {
			if err := h.sync(); err != nil || !both {
				return err
			}
			return kept.intact(h)
		})
	}
	err := good()
	if err != nil && kept.file.v.err() == nil && both {
		kept, dropped = dropped, kept
		err = good()
	}
	switch {
	case old.file.v.err() != nil && r.file.v.err() == nil:
		return errOther
	case kept.file.v.err() != nil:
		return err
	}
	s.mu.Lock()
	if s.blocks[r.head.block] != old {
		s.mu.Unlock()
		return errOther
	}
	if err != nil {
		s.leave(dropped)
		dropped.file.left = true
	}
	if kept == r {
		s.place(r)
		r.count(true)
	}
	s.mu.Unlock()
	if err != nil {
		s.report(kept, err)
		return nil
	}
	return cmp.Or(dropFor(s, kept, dropped), r.file.v.err())
}

// mostCompared is up to where a replica is read before one that is alike goes: that takes as long as to have the other one go.
const mostCompared = 4 << 20

// intact compares what readers see of a replica with its checksums, if that is no more than mostCompared.
func (r *replica) intact(h *handle) error {
	l, end := r.file.v.layout, r.visible.length
	if end > mostCompared {
		return nil
	}
	rd := &Reader{r: r, id: r.head.block, handle: h, offset: r.head.offset, length: r.visible}
	for at := int64(0); at < end; at = l.pieceEnd(at) {
		n := min(end, l.pieceEnd(at)) - at
		p, err := rd.readPiece(make([]byte, l.sums()+n), at, n)
		if err == nil {
			err = rd.verify(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// alike reports whether two replicas have the same of a block, as far as they say.
func alike(a, b *replica) bool {
	return a.head.stamp == b.head.stamp && a.visible.length == b.visible.length
}

// better says whether a replica is kept in the place of one of the same block that was found before: two are there when the process ended while one
// was to replace the other, or when a disk is back that had failed. Of two alike that is the one which is known to be whole, on the disk that has failed less often.
// Of the same generation that with more bytes is the newer one: a closed block may be appended to under the generation that it has.
// What has come in the place of one that is back while the store is open stays, if it is no older. Store.mu and io of b are held.
func better(a, b *replica) bool {
	if a.file.v.back {
		longer := cmp.Compare(a.visible.length, b.visible.length)
		return b.writer == nil && (a.head.stamp > b.head.stamp ||
			a.head.stamp == b.head.stamp && (longer > 0 && b.state == Final || longer >= 0 && b.damaged))
	}
	bit := map[bool]int{true: 1}
	later := bit[a.file == b.file] // it lies behind the other
	return cmp.Or(cmp.Compare(a.head.stamp, b.head.stamp), cmp.Compare(a.visible.length, b.visible.length),
		cmp.Compare(bit[b.damaged], bit[a.damaged]), cmp.Compare(bit[b.suspect], bit[a.suspect]), cmp.Compare(a.state, b.state),
		cmp.Compare(b.file.v.failures, a.file.v.failures), later) > 0
}

// mostUnreadable is how many pages of a file without headers that can be read are tried: a disk may take seconds for each.
const mostUnreadable = 16

// scan finds the headers in a file from where a region begins, and where the next region may begin. Where a header
// is damaged it goes on with the next good one, and where one cannot be read as well: that leaves a gap. An error says that there is no more to be known.
func (c *combined) scan(from int64) (headers []header, gaps []Gap, end int64, err error) {
	h, err := c.use(0)
	if err != nil {
		return nil, nil, 0, err
	}
	defer h.release()
	size, err := c.size(h)
	if err != nil {
		return nil, nil, 0, err
	}
	end = up(size, page)
	unreadable, cause := 0, error(nil)
	for pos := from; pos < size && unreadable <= mostUnreadable; {
		found, next, err := c.nextHeader(h, pos, size)
		pos = next
		if c.v.err() != nil {
			return nil, nil, 0, c.v.err()
		}
		if err != nil {
			unreadable++
			cause = cmp.Or(cause, err)
		}
		if found == nil {
			continue
		}
		if cause != nil {
			gaps, cause = append(gaps, Gap{c.id, from, found.offset, cause}), nil
		}
		headers = append(headers, *found)
		from = next
	}
	if cause != nil {
		gaps = append(gaps, Gap{c.id, from, math.MaxInt64, cause})
	}
	return headers, gaps, end, nil
}

// findEnd finds out where another region of a file may begin whose last header could not be read. If it can be read now its region stays, and is known at
// the next start. Else what it may say is given up: it is written over, so that no later start takes what comes behind it for a part of its region. combined.mu is held.
func (s *table) findEnd(c *combined) error {
	s.mu.Lock()
	gap, open := c.openGap()
	s.mu.Unlock()
	if !open {
		return nil
	}
	headers, gaps, end, err := c.scan(gap.From)
	if err != nil {
		return err
	}
	for _, h := range headers {
		end = max(end, h.offset+c.v.size(h.capacity))
	}
	left := Gap{c.id, gap.From, end, gap.Cause}
	if n := len(gaps); n > 0 && gaps[n-1].To == math.MaxInt64 {
		left.To = gaps[n-1].From
		end = max(end, left.To+page)
		if err := c.giveUp(left.To, end); err != nil {
			return err
		}
		c.v.log.Error("a part of a file of blocks is given up, for another block is to begin behind it", "file", c.v.path(c.id), "part", Gap{c.id, left.To, end, nil}.String(), "cause", gaps[n-1].Cause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.end, c.gaps = max(c.end, end), c.gaps[:len(c.gaps)-1]
	if left.To > left.From {
		c.gaps = append(c.gaps, left)
	}
	return nil
}

// giveUp makes a part of a file the region of a deleted block, durably.
func (c *combined) giveUp(from, to int64) error {
	h, err := c.use(0)
	if err != nil {
		return err
	}
	defer h.release()
	most := to - from - headerSize
	gone := header{seq: 2, disk: c.v.id, file: c.id, offset: from, kind: gone, capacity: min(maxCapacity, max(0, most-up(most, c.v.piece)/c.v.piece*c.v.sums()))}
	b := make([]byte, page)
	copy(b, gone.append(nil))
	return errors.Join(h.write(b, from), h.sync())
}

func (c *combined) size(h *handle) (int64, error) {
	got := make(chan int64, 1)
	err := c.v.do(reading, func() error {
		n, err := h.Size()
		got <- n
		return err
	})
	if err != nil {
		return 0, err
	}
	return <-got, nil
}

// nextHeader looks for a header from pos on, at first in the page there, then in ever
// more at once. It returns where to go on, also behind a page that cannot be read.
func (c *combined) nextHeader(h *handle, pos, size int64) (*header, int64, error) {
	for n := int64(page); pos < size; n = min(2*n, 1<<20) {
		b, err := h.read(pos, n)
		if err != nil && n > page && c.v.err() == nil {
			n = page / 2 // one page next: it may be another that cannot be read
			continue
		}
		if err != nil {
			return nil, pos + page, err
		}
		for at := int64(0); at+page <= int64(len(b)); at += page {
			found, err := newest(b[at : at+page])
			if err == nil && found.disk == c.v.id && found.file == c.id && found.offset == pos+at {
				return &found, pos + at + c.v.size(found.capacity), nil
			}
		}
		pos += n
	}
	return nil, size, nil
}

// read returns n bytes of the file; behind its end there are zeros.
func (h *handle) read(off, n int64) ([]byte, error) {
	b := make([]byte, n)
	err := h.c.v.do(reading, func() error { return readFull(h, b, off) })
	if err != nil {
		return nil, err
	}
	return b, nil
}

// readFull fills b, with zeros behind the end of the file.
func readFull(f vfs.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if err == io.EOF {
		clear(b[n:])
		err = nil
	}
	return err
}

// sorted returns the files of a volume by their number; Store.mu is held.
func (v *volume) sorted() []uint64 { return slices.Sorted(maps.Keys(v.files)) }
