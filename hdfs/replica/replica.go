package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
)

// Replica is a finalized replica of a block on this machine. Its fields are not changed;
// its methods may not be called by several goroutines at once.
type Replica struct {
	ID         headrace.BlockID
	Generation int64
	Bytes      int64 // of Data
	// Volume is the directory of the data node where it was found.
	Volume string
	// Data and Meta are its files, open for reading: the block, and its checksums with a
	// header. Close closes them.
	Data, Meta *os.File

	volume *volume
	path   string // of the directory of both, in the volume
	// was is how they were when their names led to them.
	was look
}

// look is what the kernel says of both files.
type look struct {
	data, meta stamp
	at         time.Time // no later than that
}

func (r *Replica) look() (l look, err error) {
	l.at = time.Now()
	var data, meta unix.Stat_t
	err = errors.Join(unix.Fstat(int(r.Data.Fd()), &data), unix.Fstat(int(r.Meta.Fd()), &meta))
	l.data, l.meta = stampOf(data), stampOf(meta)
	return l, err
}

// settle is for how long the time of a change may stay the same while there are more:
// the kernel's clock of files ticks up to every 10 ms, that of other file systems every
// two seconds.
const settle = 3 * time.Second

// untouched reports whether nothing has happened to the files between two looks. Linux's
// file systems set the ctime of a file when it is renamed, linked or deleted, too.
func (was look) untouched(now look) bool {
	old := func(s stamp) bool { return was.at.Sub(time.Unix(s.changed.Unix())) > settle }
	return was.data == now.data && was.meta == now.meta && was.data.links > 0 && was.meta.links > 0 && old(was.data) && old(was.meta)
}

// Check returns nil if the data node has the replica still: under its own names, in
// full, finalized and of the same generation. Else the error is ErrChanged, or that for
// which its volume cannot be looked at. What it costs as a rule is two fstat.
func (r *Replica) Check(ctx context.Context) error {
	now, err := r.look()
	if err != nil {
		return r.volume.problem(err)
	}
	if r.was.untouched(now) {
		return nil
	}
	if now.data.links == 0 || now.meta.links == 0 {
		return fmt.Errorf("%s: %s: %w: it was deleted there", r.Volume, r.ID, ErrChanged)
	}
	if now.data.size != r.Bytes {
		return fmt.Errorf("%s: %s: %w: it has %d bytes now, not %d", r.Volume, r.ID, ErrChanged, now.data.size, r.Bytes)
	}
	_, err = Ask(ctx, r.volume.line, func() (struct{}, error) { return struct{}{}, r.named(now) }, func(struct{}) {})
	if err != nil {
		return r.volume.silent(err)
	}
	r.was = now
	return nil
}

// named returns nil if the names of both files lead to them.
func (r *Replica) named(now look) error {
	root, err := r.volume.root()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for name, want := range map[string]stamp{dataName(r.ID.Number): now.data, metaName(r.ID.Number, r.Generation): now.meta} {
		fd, st, err := linux.LookupAt(root, r.path+"/"+name, 0, below)
		if err == nil {
			unix.Close(fd)
		}
		switch {
		case err != nil && !missing(err):
			return r.volume.problem(err)
		case err != nil, uint64(st.Dev) != want.dev, st.Ino != want.ino:
			return fmt.Errorf("%s: %s: %w: %s is not there any more", r.Volume, r.ID, ErrChanged, name)
		}
	}
	return nil
}

// Close closes the files.
func (r *Replica) Close() error {
	err := r.Data.Close()
	if r.Meta != nil {
		err = errors.Join(err, r.Meta.Close())
	}
	return err
}

// Paths returns the absolute names of Data and Meta.
func (r *Replica) Paths() (data, meta string) {
	dir := filepath.Join(r.volume.dir, r.path)
	return filepath.Join(dir, dataName(r.ID.Number)), filepath.Join(dir, metaName(r.ID.Number, r.Generation))
}
