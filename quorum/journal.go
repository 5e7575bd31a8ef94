package quorum

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"headrace/internal/vfs"

	pb "go.etcd.io/raft/v3/raftpb"
)

// ErrDamaged: the log lacks what was durable once. Nothing is repaired: a replica that has
// forgotten may break what it promised.
var ErrDamaged = errors.New("quorum: the log is damaged")

// journal is the durable log of all groups of a node.
type journal struct {
	fs          vfs.FS
	dir         string
	segmentSize int64
	point       func(string)
	fault       fault

	groups map[uint64]*storage
	// segments are numbered one after another; the last one is written to.
	segments []uint64
	file     vfs.File
	size     int64
	number   uint64 // of the next frame
	err      error  // of a write that failed: nobody knows what is durable
}

const keptSegments = 3

func segmentName(n uint64) string { return fmt.Sprintf("%016x.log", n) }

// openJournal reads what is there.
func openJournal(j *journal) error {
	j.groups = map[uint64]*storage{}
	names, err := j.fs.List(j.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		var n uint64
		if _, err := fmt.Sscanf(name, "%016x.log", &n); err == nil && strings.HasSuffix(name, ".log") {
			j.segments = append(j.segments, n)
		}
	}
	for i, n := range j.segments {
		if n != j.segments[0]+uint64(i) {
			return fmt.Errorf("%w: segment %s is missing", ErrDamaged, segmentName(j.segments[0]+uint64(i)))
		}
		if err := j.load(n, i == 0, i == len(j.segments)-1); err != nil {
			return err
		}
	}
	if n := len(j.segments); n > 0 && j.file == nil { // it was being made
		if err := errors.Join(j.fs.Remove(path.Join(j.dir, segmentName(j.segments[n-1]))), j.fs.SyncDir(j.dir)); err != nil {
			return err
		}
		if j.segments = j.segments[:n-1]; n > 1 {
			if j.file, err = j.fs.Open(path.Join(j.dir, segmentName(j.segments[n-2])), os.O_RDWR); err != nil {
				return err
			}
			j.size, err = j.file.Size()
			if err != nil {
				return err
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(j.groups)) {
		if err := j.groups[id].check(); err != nil {
			return fmt.Errorf("%w: group %d: %w", ErrDamaged, id, err)
		}
	}
	if len(j.segments) == 0 {
		return j.roll()
	}
	return nil
}

// load reads a segment. Of the last one it cuts off a frame that was being written.
func (j *journal) load(n uint64, first, last bool) error {
	f, err := j.fs.Open(path.Join(j.dir, segmentName(n)), os.O_RDWR)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, f.Close())
	}
	off, frame := 0, 0 // frame is the length of the last one
	for off < len(b) {
		records, number, length, ok := openFrame(b[off:])
		if first && off == 0 && ok {
			j.number = number
		}
		if !ok || number != j.number {
			break
		}
		if err := j.replay(n, records); err != nil {
			return errors.Join(fmt.Errorf("%w: %s at %d: %w", ErrDamaged, segmentName(n), off, err), f.Close())
		}
		off, frame = off+length, length
		j.number++
	}
	if !last {
		if off < len(b) || off == 0 {
			err = fmt.Errorf("%w: %s at %d, with a segment behind it", ErrDamaged, segmentName(n), off)
		}
		return errors.Join(err, f.Close())
	}
	// A frame is written only when the one before is durable, so whatever stands behind a
	// bad one says that the bad one was good.
	for at := off + 8; at < len(b); at += 8 {
		if _, number, _, ok := openFrame(b[at:]); ok && number > j.number && !j.fault.keepsTail {
			return errors.Join(fmt.Errorf("%w: %s at %d, with a frame behind it", ErrDamaged, segmentName(n), off), f.Close())
		}
	}
	if off == 0 {
		return f.Close()
	}
	j.file, j.size = f, int64(off)
	if j.fault.keepsTail {
		j.size = (size + 7) &^ 7
	} else if off < len(b) {
		if err := f.Truncate(int64(off)); err != nil {
			return err
		}
	}
	if j.fault.trustsCache {
		return nil
	}
	// The last frame may be in the page cache only: whoever wrote it has ended before fsync
	// was done, or it failed. The kernel does not try again by itself, so it is written again.
	if _, err := f.WriteAt(b[off-frame:off], int64(off-frame)); err != nil {
		return err
	}
	return errors.Join(f.Sync(), j.fs.SyncDir(j.dir))
}

// replay takes over the records of one frame.
func (j *journal) replay(segment uint64, records []byte) error {
	for r := (&reader{b: records}); len(r.b) > 0; {
		kind := r.b[0]
		r.b = r.b[1:]
		id := r.number()
		s := j.groups[id]
		if kind != recGroup && s == nil {
			return fmt.Errorf("%w: of group %d, which is not here", errRecord, id)
		}
		switch kind {
		case recGroup:
			if replica := Replica(r.number()); s == nil || s.replica != replica {
				s = newStorage(replica)
				j.groups[id] = s
			}
			s.want = r.number()
		case recHard:
			s.hard = &pb.HardState{Term: new(r.number()), Vote: new(r.number()), Commit: new(r.number())}
		case recEntries:
			s.append(segment, r.entries())
		case recStart:
			s.begin(r.point())
		case recRestoring:
			if p := r.point(); p.index > 0 {
				s.restoring = &p
			} else {
				s.restoring = nil
			}
		case recReset:
			s.reset(r.point())
		case recGone:
			delete(j.groups, id)
		default:
			return fmt.Errorf("%w: kind %d", errRecord, kind)
		}
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// newBatch returns a buffer for records.
func newBatch() []byte { return make([]byte, frameHead, 4096) }

// write makes the records durable, and takes them over in memory.
func (j *journal) write(batch []byte) error {
	if j.err == nil {
		j.err = j.put(batch)
	}
	return j.err
}

func (j *journal) put(batch []byte) error {
	if len(batch) > frameLimit {
		return fmt.Errorf("a frame of %d bytes", len(batch))
	}
	if j.size >= j.segmentSize {
		if err := j.roll(); err != nil {
			return err
		}
	}
	return j.append(batch)
}

func (j *journal) append(batch []byte) error {
	records := batch[frameHead:]
	b := sealFrame(batch, j.number)
	j.point("quorum.log.before")
	if _, err := j.file.WriteAt(b, j.size); err != nil {
		return err
	}
	j.point("quorum.log.written")
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.point("quorum.log.synced")
	j.size += int64(len(b))
	j.number++
	return j.replay(j.segments[len(j.segments)-1], records)
}

// roll begins a segment. Its first frame says all but entries, so what older segments say
// counts no more. Segments without live entries go.
func (j *journal) roll() error {
	n := uint64(1)
	if len(j.segments) > 0 {
		n = j.segments[len(j.segments)-1] + 1
	}
	b := newBatch()
	ids := slices.Sorted(maps.Keys(j.groups))
	for _, id := range ids {
		s := j.groups[id]
		b = putRecord(b, recGroup, id, uint64(s.replica), s.last())
		b = putPoint(b, recStart, id, s.start)
		b = putHard(b, id, s.hard)
		if s.restoring != nil {
			b = putPoint(b, recRestoring, id, *s.restoring)
		}
	}
	f, err := j.fs.Open(path.Join(j.dir, segmentName(n)), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	b = sealFrame(b, j.number)
	j.point("quorum.roll.created")
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.point("quorum.roll.durable")
	if j.file != nil {
		if err := j.file.Close(); err != nil {
			return err
		}
	}
	j.file, j.size = f, int64(len(b))
	j.number++
	j.segments = append(j.segments, n)
	return j.reclaim(ids)
}

// reclaim deletes segments that nothing live is in. If there are many it writes what keeps
// the oldest one again.
func (j *journal) reclaim(ids []uint64) error {
	for again := false; len(j.segments) > 1; {
		oldest, b := j.segments[0], newBatch()
		var moved []*storage
		for _, id := range ids {
			if s := j.groups[id]; len(s.spans) > 0 && s.spans[0].segment == oldest {
				b = putEntries(b, id, s.entries)
				moved = append(moved, s)
			}
		}
		if len(moved) > 0 {
			if again || len(j.segments) <= keptSegments {
				return nil
			}
			again = true
			for _, s := range moved {
				s.spans = nil // append fills them
			}
			if err := j.append(b); err != nil {
				return err
			}
			j.point("quorum.reclaim.moved")
		}
		if err := errors.Join(j.fs.Remove(path.Join(j.dir, segmentName(oldest))), j.fs.SyncDir(j.dir)); err != nil {
			return err
		}
		j.segments = j.segments[1:]
	}
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
