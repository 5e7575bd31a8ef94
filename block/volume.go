package block

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/internal/vfs"
)

// volume is one disk of a store.
type volume struct {
	dir string
	fs  vfs.FS
	layout
	identity
	lock     io.Closer
	device   disk.Device
	patience time.Duration
	log      *slog.Logger
	index    index
	// onOut hears of the end, once. told is closed when it has.
	onOut func(dir string, err error)
	told  chan struct{}

	// ended counts the operations that have ended. late is since when none has, in nanoseconds of Unix time, where one has waited for long; else 0.
	ended atomic.Uint64
	late  atomic.Int64

	// trusted is for how many extents nobody needs a turn.
	trusted atomic.Int64

	hidden
	endOnce sync.Once
	out     chan struct{} // closed when the disk is taken out
	cause   error         // why, set before
	// since is Config.Since when the disk was opened. back: it was away before, while this process had it, and what was not durable then may be lost.
	since uint64
	back  bool
	attaching

	allotment
	// making is held for writing while a directory of files is made: nobody has a file in one that is not durable.
	making sync.RWMutex

	// Guarded by Store.mu.
	files    map[uint64]*combined
	promised int64 // bytes that writers may still need
	replicas int64 // see Volume
	used     int64
	damaged  int64
	writers  int
	scrubbed uint64 // the last file that was looked through
}

// allotment is of who takes room of a disk.
type allotment struct {
	// allotting is full while somebody is in allot. It is no mutex: who waits for a disk that hangs is to stand still in a test of that, too.
	allotting chan struct{}
	// allocating is how many bytes are being allocated, and may count as free still.
	allocating atomic.Int64
}

// hidden is of what on a disk nobody knows.
type hidden struct {
	// unseen is why nobody knows which replicas are here, set when the disk is opened. unlisted are directories of which nobody knows what is in them, torn the
	// files of which some may not be known.
	unseen   error
	unlisted []Gap
	torn     []*combined
}

// identity is which disk it is.
type identity struct {
	id [16]byte
	// identified: the disk has said that it has this id. failures is how often it had been taken out of use when it was opened.
	identified bool
	failures   uint64
}

// access is what an operation on a disk means if it fails.
type access uint8

const (
	reading access = iota
	changing
	syncing
	asking // what the kernel knows without the disk
)

// do runs an operation on the disk and waits for it, as long as the disk does anything at all (wait). A
// disk that hangs, that fails to write, or that cannot say that bytes are durable is
// taken out: after a failed fsync the kernel takes pages for clean that never reached the
// device, so that a second one succeeds (Rebello et al., Can Applications Recover from
// fsync Failures?, USENIX ATC 2020). What f uses must not be used again by the caller
// when the error is ErrOut: f may still be running.
func (v *volume) do(what access, f func() error) error {
	if err := v.err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := f()
		if what != asking {
			v.ended.Add(1)
			v.late.Store(0)
		}
		done <- err
	}()
	tick := time.NewTicker(v.patience / patienceTicks)
	defer tick.Stop()
	w := wait{ended: v.ended.Load()}
	for {
		select {
		case err := <-done:
			if err != nil && fatal(what, err) {
				return v.takeOut(err)
			}
			if err != nil && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
				return fmt.Errorf("%w: %w", ErrFull, err)
			}
			if err == nil && what != reading {
				err = v.err() // somebody else's bytes may be lost with ours
			}
			return err
		case <-v.out:
			return v.err()
		case <-tick.C:
			late, over := w.tick(v.ended.Load())
			if over {
				return v.takeOut(fmt.Errorf("no answer within %v", time.Duration(w.all)*v.patience/patienceTicks))
			}
			if late {
				v.late.CompareAndSwap(0, time.Now().Add(-time.Duration(w.quiet)*v.patience/patienceTicks).UnixNano())
			}
		}
	}
}

const (
	// patienceTicks is in how many parts patience is counted, lateTicks how many of them are late.
	patienceTicks, lateTicks = 20, 5
	// mostPatience bounds the wait for one operation while others end, as a multiple of patience.
	mostPatience = 5
)

// wait is how long an operation has been waited for, in ticks. They are counted and time is not measured, so that a process that stood still does not
// take its disks for broken: of the ticks that it has missed one comes.
type wait struct {
	ended      uint64 // operations of the disk, at the last tick
	quiet, all int
}

// tick counts one more. A disk on which nothing ends is late, then over; one that is overloaded may take minutes for an fsync, while others end.
func (w *wait) tick(ended uint64) (late, over bool) {
	w.all++
	if w.quiet++; ended != w.ended {
		w.quiet, w.ended = 0, ended
	}
	return w.quiet >= lateTicks, w.quiet >= patienceTicks || w.all >= mostPatience*patienceTicks
}

// fatal tells errors of a disk that cannot be trusted with bytes any more from those of
// one request: no room, no such file, too many open ones.
func fatal(what access, err error) bool {
	switch {
	case what == syncing:
		return true
	case errors.Is(err, unix.EIO):
		return what == changing
	}
	for _, e := range []error{unix.EROFS, unix.EUCLEAN, unix.ENODEV, unix.ENXIO, unix.ESTALE, vfs.ErrDead} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// takeOut ends the use of the disk.
func (v *volume) takeOut(cause error) error {
	v.endOnce.Do(func() {
		v.cause = cause
		close(v.out)
		v.log.Error("a disk is taken out of use", "disk", v.dir, "cause", cause)
		tell := v.onOut
		go func() {
			if tell != nil {
				tell(v.dir, cause)
			}
			close(v.told)
		}()
	})
	return v.err()
}

// err tells whether the disk is out of use.
func (v *volume) err() error {
	select {
	case <-v.out:
		return fmt.Errorf("%s: %w: %w", v.dir, ErrOut, v.cause)
	default:
		return nil
	}
}

// space returns what is free for new bytes, and all that there is.
func (v *volume) space() (free, total int64, err error) {
	type space struct{ free, total int64 }
	c := make(chan space, 1)
	err = v.do(asking, func() error {
		free, total, err := v.fs.Space(v.dir)
		c <- space{free, total}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	got := <-c
	return got.free, got.total, nil
}

// allot calls f with what space returns, less what others are about to take, one at a time for all who take room of the disk or promise it: f adds to that, and allocates nothing,
// which may hang.
func (v *volume) allot(others func() int64, f func(free, total int64) error) error {
	v.allotting <- struct{}{}
	defer func() { <-v.allotting }()
	taken := others() // before: what is allocated meanwhile counts twice, not never
	free, total, err := v.space()
	if err != nil {
		return err
	}
	return f(free-taken, total)
}

// path is where the combined file of a user's file lies.
func (v *volume) path(file uint64) string {
	return filepath.Join(v.dir, "files", directory(file), fmt.Sprintf("%016x.blocks", file))
}

// directory is the one in which that is.
func directory(file uint64) string { return fmt.Sprintf("%02x", uint8(file)) }

// parsePath is the way back from the last part of path.
func parsePath(name string) (file uint64, ok bool) {
	if _, err := fmt.Sscanf(name, "%016x.blocks", &file); err != nil {
		return 0, false
	}
	return file, fmt.Sprintf("%016x.blocks", file) == name
}

// makeDir makes a directory durably. Only who makes the first block of a directory's
// first file waits for it.
func (v *volume) makeDir(dir string) error {
	if err := v.do(changing, func() error { return v.fs.MkdirAll(dir) }); err != nil {
		return err
	}
	return v.do(syncing, func() error { return v.fs.SyncDir(filepath.Dir(dir)) })
}

// replaceFile writes a file durably, all of it or nothing.
func (v *volume) replaceFile(name string, content []byte) error {
	path := filepath.Join(v.dir, name)
	err := v.do(changing, func() error {
		f, err := v.fs.Open(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(content, 0)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return err
	}
	return v.do(syncing, func() error {
		f, err := v.fs.Open(path+".new", os.O_RDWR)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		if err := v.fs.Rename(path+".new", path); err != nil {
			return err
		}
		return v.fs.SyncDir(v.dir)
	})
}

// readFile reads a small file.
func (v *volume) readFile(name string) ([]byte, error) {
	c := make(chan []byte, 1)
	err := v.do(reading, func() error {
		b, err := readFile(v.fs, filepath.Join(v.dir, name), os.O_RDWR)
		c <- b
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-c, nil
}

func readFile(fs vfs.FS, name string, flags int) ([]byte, error) {
	f, err := fs.Open(name, flags)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err = f.ReadAt(b, 0); err == io.EOF {
		err = nil
	}
	return b, err
}
