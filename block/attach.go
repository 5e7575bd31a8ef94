package block

import (
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// attaching is what Attach knows of a disk. Only who calls that uses it, but for refuses, which Store.mu guards.
type attaching struct {
	asked   chan answer // what VERSION says, while it is being read
	closing bool        // the files are being closed by which nobody else could unmount the disk
	closed  atomic.Bool // they are
	away    bool        // the disk was not there since it was taken out, or when the store was opened
	empty   bool        // that an empty one is in its place was told
	refuses error       // see Volume.Unwritable
}

// answer is what a VERSION has in it.
type answer struct {
	content string
	err     error
	empty   bool  // another disk than what is above it is there, with nothing in it
	refuses error // it cannot be written, and is not full
}

// askTime is how long Attach waits for a disk.
const askTime = time.Second

// Attach looks whether disks are there. One that is not mounted any more is taken out, for what is written where it was would be lost; one that was taken out, was not there
// since, and is there again, is opened as at the start, and taken into use with what it has: the directories of those are returned. A disk
// that has failed and has stayed there stays out: nobody knows what of it is only in memory. It is called from time to time, by one goroutine, which
// may not call it beside Close. To open a disk takes as long as it does at the start.
func Attach(s *Store) (back []string) {
	for i, v := range s.disks() {
		said, known := v.ask()
		is := said.err == nil && v.is(said.content)
		switch {
		case !known: // it does not answer: that is for others to find
		case v.err() == nil:
			if !is && (said.err == nil || errors.Is(said.err, os.ErrNotExist)) {
				v.takeOut(ErrNotMounted)
				v.away = true
			}
			s.mu.Lock()
			v.refuses = said.refuses
			s.mu.Unlock()
		case errors.Is(said.err, os.ErrNotExist):
			v.away = true
			v.letGo()
			if said.empty && !v.empty {
				s.Log.Error("an empty disk is in the place of one with blocks, and is not used: if that is lost, start once with --new-disk and this directory", "disk", v.dir)
			}
			v.empty = said.empty
		case !v.letGo() || !v.away || !is:
		default:
			v.away = false // once for each time that it comes
			if err := attach(s, i, v); err == nil {
				back = append(back, v.dir)
			}
		}
	}
	return back
}

// ask reads what a directory says that it is, however the disk stands.
func (v *volume) ask() (a answer, known bool) {
	if v.asked == nil {
		v.asked = make(chan answer, 1)
		go func(to chan<- answer) {
			b, err := readFile(v.fs, filepath.Join(v.dir, "VERSION"), os.O_RDONLY)
			refuses := linux.Writable(filepath.Join(v.dir, "files"))
			if !errors.Is(refuses, os.ErrPermission) && !errors.Is(refuses, unix.EROFS) {
				refuses = nil
			}
			to <- answer{string(b), err, errors.Is(err, os.ErrNotExist) && emptyDisk(v.dir), refuses}
		}(v.asked)
	}
	late := time.NewTimer(askTime)
	defer late.Stop()
	select {
	case a = <-v.asked:
		v.asked = nil
		return a, true
	case <-late.C:
		return a, false
	}
}

// emptyDisk reports whether a directory is on another disk than what is above it, and has nothing in it but what a new file system has.
func emptyDisk(dir string) bool {
	var at, above unix.Stat_t
	names, err := os.ReadDir(dir)
	if err != nil || unix.Stat(dir, &at) != nil || unix.Stat(filepath.Dir(dir), &above) != nil || at.Dev == above.Dev {
		return false
	}
	return len(slices.DeleteFunc(names, func(e os.DirEntry) bool { return e.Name() == "lost+found" })) == 0
}

// is reports whether that is of this disk, or, of one that was never read, of any.
func (v *volume) is(version string) bool {
	return v.id == [16]byte{} || strings.Contains(version, hex.EncodeToString(v.id[:]))
}

// letGo closes what is open of a disk that is out of use, and reports whether that has ended. Readers and writers close what they have.
func (v *volume) letGo() bool {
	if !v.closing {
		v.closing = true
		go func() {
			v.index.mu.Lock()
			f := v.index.file
			v.index.mu.Unlock()
			if f != nil {
				f.Close()
			}
			if v.lock != nil {
				v.lock.Close()
			}
			v.closed.Store(true)
		}()
	}
	return v.closed.Load()
}

// attach opens a disk that is back, and puts it in the place of what is known of it from before. If it fails meanwhile that stays known, as what was found is: on a disk
// that is out of use.
func attach(s *Store, i int, was *volume) error {
	v := s.newVolume(was.dir)
	v.back = true
	err := s.load(v)
	if err == nil {
		err = v.err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes = slices.Clone(s.volumes)
	s.volumes[i] = v
	if err != nil {
		v.unseen = err
		if !v.identified {
			v.id = was.id
		}
		v.takeOut(err)
		v.letGo()
		return err
	}
	before := func(r *replica) bool { return r.file.v != v && r.file.v.dir == v.dir }
	for _, m := range []map[int64]*replica{s.blocks, s.copies} {
		maps.DeleteFunc(m, func(_ int64, r *replica) bool { return before(r) })
	}
	maps.DeleteFunc(s.behind, func(id int64, rs []*replica) bool {
		s.behind[id] = slices.DeleteFunc(rs, before)
		return len(s.behind[id]) == 0
	})
	return nil
}
