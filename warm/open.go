package warm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
)

// identity tells whether a path still leads to the same file, and whether all of
// it is still there.
type identity struct {
	dev, ino uint64
	size     int64
}

// opened is a file that was opened with the rights of a request's owner.
type opened struct {
	identity
	f *os.File
}

// open opens a file of a request. The caller closes it. It may block.
func (e *Engine) open(r *request, path string) (*opened, error) {
	f, err := e.cfg.Open(r.Owner, path)
	if err != nil {
		return nil, err
	}
	id, err := identify(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &opened{id, f}, nil
}

// openTime is how long one waits for a file to be opened who has more to do than that file.
const openTime = 2 * time.Second

// errSilent: a file is not opened for as long as its file system does not answer.
var errSilent = errors.New("its file system does not answer")

// party is who is passed over while a file of theirs is silent: an ordinary user, who has made the
// path lead there, or one request of root's.
type party struct {
	uid     uint32
	request RequestID
}

func (r *request) party() party {
	if budget.Privileged(r.Owner.UID) {
		return party{request: r.ID}
	}
	return party{uid: r.Owner.UID}
}

// silence is how many files of a party are silent, and one of their paths.
type silence struct {
	files int
	path  string
}

// openSoon opens a file of a request as open does, but does not wait for long: a path may lead to another file
// system than when it was looked at last. It fails with errSilent then, and from then on at once for all files of the
// party, until that one has been opened.
func (e *Engine) openSoon(r *request, path string) (*opened, error) {
	by := r.party()
	e.mu.Lock()
	silent := e.silent[by] != nil
	e.mu.Unlock()
	if silent {
		return nil, errSilent
	}
	var o *opened
	var err error
	answered := make(chan struct{})
	go func() {
		o, err = e.open(r, path)
		close(answered)
	}()
	late := time.NewTimer(openTime)
	defer late.Stop()
	select {
	case <-answered:
		return o, err
	case <-late.C:
		e.cfg.Log.Warn("warm: a file system does not answer; what its user asks for waits", "file", path, "user", r.Owner.UID)
	case <-e.ctx.Done():
	}
	e.mu.Lock()
	if e.silent[by] == nil {
		e.silent[by] = &silence{path: path}
	}
	e.silent[by].files++
	e.mu.Unlock()
	go func() {
		<-answered
		if err == nil {
			o.f.Close()
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.silent[by].files--; e.silent[by].files == 0 {
			delete(e.silent, by)
		}
		e.kickAll()
	}()
	return nil, errSilent
}

func identify(f *os.File) (identity, error) {
	var st unix.Stat_t
	err := linux.Control(f, func(fd int) error { return os.NewSyscallError("fstat", unix.Fstat(fd, &st)) })
	switch {
	case err != nil:
		return identity{}, err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return identity{}, fileset.ErrNotRegular
	}
	return identity{uint64(st.Dev), st.Ino, st.Size}, nil
}

// changed says why a file is not what the request is about any more, or nothing.
// It may have grown. The engine's lock is held.
func (r *request) changedFile(file int, now identity) string {
	if was, begun := r.begun[int32(file)]; begun && (was.dev != now.dev || was.ino != now.ino) {
		return "it was replaced by another file while it was warmed"
	}
	if want := r.Files[file].Off + r.wantedSize(file); now.size < want {
		return fmt.Sprintf("it shrank from %d to %d bytes", want, now.size)
	}
	return ""
}

// begin remembers what a file of several blocks was when its first one was
// opened. The engine's lock is held.
func (r *request) begin(file int, id identity) {
	if r.start[file+1]-r.start[file] < 2 {
		return
	}
	if r.begun == nil {
		r.begun = map[int32]identity{}
	}
	if _, begun := r.begun[int32(file)]; !begun {
		r.begun[int32(file)] = id
	}
}

// reason returns an error without the path, which is told beside it.
func reason(err error) string {
	var problem *fileset.Problem
	var path *fs.PathError
	switch {
	case errors.As(err, &problem):
		err = problem.Err
	case errors.As(err, &path):
		err = path.Err
	}
	return err.Error()
}

// assigner finds out on which device the files of a request are: that of their directory, and of a link that of the file.
// Should that be wrong, it shows when they are opened.
type assigner struct {
	*Engine
	r    *request
	dirs map[string]disk.Device
}

// start has it found out of files that are new. e.mu is held.
func (e assigner) start() {
	if !e.r.assigning {
		e.r.assigning = true
		e.wg.Add(1)
		go e.run()
	}
}

func (e assigner) run() {
	defer e.wg.Done()
	end, err := e.assigning.Begin(e.ctx, e.r.party())
	if err != nil {
		return // the engine ends
	}
	defer end()
	e.dirs = map[string]disk.Device{}
	for {
		from, files := e.next()
		if len(files) == 0 {
			return
		}
		var batch []int32
		var at disk.Device
		for i, f := range files {
			d, err := e.place(f.Path)
			if err != nil {
				e.mu.Lock()
				e.failFile(e.r, from+i, err)
				e.mu.Unlock()
				continue
			}
			if d.ID != at.ID && len(batch) > 0 {
				e.hand(at, batch)
				batch = nil
			}
			at = d
			batch = append(batch, int32(from+i))
		}
		e.hand(at, batch)
	}
}

// next returns the next files to be assigned; none: that is over.
func (e assigner) next() (from int, files []File) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.r
	from = r.assigned
	files = r.Files[from:min(from+assignBatch, len(r.Files))]
	if r.assigned += len(files); len(files) == 0 {
		r.assigning = false
		r.touch()
	}
	if r.ended || e.ctx.Err() != nil {
		return from, nil
	}
	return from, files
}

const (
	maxAssigning = 4
	assignBatch  = 1024
	// knownDirs is how many directories are remembered while files are assigned.
	knownDirs = 4096
)

// place returns the device that a file is on, as far as one can tell without opening
// it.
func (e assigner) place(path string) (disk.Device, error) {
	dir := filepath.Dir(path)
	if e.isLink(path) {
		return e.deviceOf(path)
	}
	if d, ok := e.dirs[dir]; ok {
		return d, nil
	}
	d, err := e.deviceOfDir(dir)
	if err != nil { // the file may have vanished, or be reached in a way of its own
		if d, err = e.deviceOf(path); err != nil {
			return disk.Device{}, err
		}
	}
	if len(e.dirs) >= knownDirs {
		clear(e.dirs)
	}
	e.dirs[dir] = d
	return d, nil
}

// isLink reports whether a path is a symbolic link, as far as one may know.
func (e assigner) isLink(path string) (is bool) {
	e.cfg.as(e.r.Owner, func() error {
		fd, st, err := linux.Lookup(path, unix.O_NOFOLLOW, 0)
		if err == nil {
			unix.Close(fd)
			is = st.Mode&unix.S_IFMT == unix.S_IFLNK
		}
		return nil
	})
	return is
}

// deviceOf opens a file and returns the device that it is on.
func (e assigner) deviceOf(path string) (disk.Device, error) {
	o, err := e.open(e.r, path)
	if err != nil {
		return disk.Device{}, err
	}
	defer o.f.Close()
	return e.cfg.Devices.Of(o.f)
}

func (e assigner) deviceOfDir(dir string) (d disk.Device, err error) {
	err = linux.AsUser(e.r.Owner, func() error {
		fd, _, err := linux.Lookup(dir, unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), dir)
		defer f.Close()
		d, err = e.cfg.Devices.Of(f)
		return err
	})
	return d, err
}

// hand gives files to the lane of a device, if the request still wants them.
func (e assigner) hand(d disk.Device, files []int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(files) > 0 && !e.r.ended && e.ctx.Err() == nil {
		e.lane(d).portion(e.r).add(files)
	}
}

// failFile gives up a file of a request. e.mu is held.
func (e *Engine) failFile(r *request, file int, err error) {
	e.failReason(r, file, reason(err))
}

func (e *Engine) failReason(r *request, file int, why string) {
	before := r.failedFiles
	r.fail(file, why)
	e.counters.FailedFiles += int64(r.failedFiles - before)
}
