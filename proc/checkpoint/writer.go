package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/criu/image"
	"headrace/internal/linux"
)

const (
	// DefaultMaxChain limits what a restore has to read: the newest version of a
	// page may be in any image of the chain.
	DefaultMaxChain = 5

	// reserve is how much room must be left beside a dump, and after it.
	reserve = 16 << 20
	// socketBuffer saves CRIU and the page server waking each other up for every
	// few pages.
	socketBuffer = 4 << 20
	// sealers is how many files Commit reads and makes durable at the same time.
	sealers = 8

	inventoryName = "inventory.img"
)

// BeginOptions say what kind of image to write. The zero value works.
type BeginOptions struct {
	// MaxChain is the longest chain of images that may result; 0 means
	// DefaultMaxChain, 1 is the same as Full.
	MaxChain int
	// Full asks for an image without a parent.
	Full bool
	// Need is how many bytes CRIU will write by itself, past the page server: what is in
	// deleted files. Begin refuses with ErrNoSpace if there is not that much room, and
	// pages leave room for what is still to come of it.
	Need int64
}

// A Writer is an image that is being written. Except for Cancel its
// methods must not be called at the same time.
type Writer struct {
	store  *Store
	task   string
	seq    int
	dir    string
	parent *Image // nil: full
	full   string

	lock    *taskLock
	client  *os.File
	server  *pageServer
	dump    *dumpWriter
	served  chan struct{} // closed when the page server has ended
	err     error         // how it ended; set before served is closed
	settled bool          // committed or aborted
}

// Begin makes a directory for a new image of a task, and starts a page server
// for it. The newest committed image becomes its parent if its chain may still
// grow and its manifests, sizes and page index are as they were written; else
// the new image is a full one, and Writer.Full says why. What is left of images that
// were never committed is removed.
//
// The caller must end with Commit or Abort. Until then the task is locked.
func (s *Store) Begin(task string, o BeginOptions) (*Writer, error) {
	if err := checkTask(task); err != nil {
		return nil, err
	}
	w := &Writer{store: s, task: task, served: make(chan struct{})}
	if err := w.begin(o); err != nil {
		w.lock.unlock()
		return nil, fmt.Errorf("begin checkpoint of task %s in %s: %w", task, s.Dir, s.stillThere(err))
	}
	crash.Here("checkpoint.begun")
	return w, nil
}

func (w *Writer) begin(o BeginOptions) error {
	if err := w.store.makeTaskDir(w.task); err != nil {
		return err
	}
	var err error
	if w.lock, err = w.store.lock(context.Background(), w.task, unix.LOCK_EX); err != nil {
		return err
	}
	if err := w.store.removeUncommitted(w.task); err != nil {
		return err
	}
	if err := checkRoom(w.store.Dir, o.Need); err != nil {
		return err
	}
	if w.parent, w.full, err = w.store.chooseParent(w.task, o); err != nil {
		return err
	}
	seqs, err := w.store.seqs(w.task)
	if err != nil {
		return err
	}
	if w.seq = 1; len(seqs) > 0 {
		w.seq = seqs[len(seqs)-1] + 1
	}
	if w.seq > maxSeq {
		return fmt.Errorf("checkpoint number %d is too large; remove the task's checkpoints", w.seq)
	}
	w.dir = w.store.imageDir(w.task, w.seq)
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		return err
	}
	if err = w.linkParent(); err == nil {
		err = w.serve(o.Need)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(w.dir))
	}
	return nil
}

func checkRoom(dir string, need int64) error {
	room, err := free(dir)
	if err != nil {
		return err
	}
	if room < need+reserve {
		return fmt.Errorf("%w: %d bytes are free, about %d are needed; remove checkpoints of ended tasks, or configure another store", ErrNoSpace, room, need+reserve)
	}
	return nil
}

// chooseParent returns nil and the reason if the image is to be full.
func (s *Store) chooseParent(task string, o BeginOptions) (*Image, string, error) {
	if o.MaxChain == 0 {
		o.MaxChain = DefaultMaxChain
	}
	images, err := s.Images(task)
	if err != nil {
		return nil, "", err
	}
	if len(images) == 0 {
		return nil, "it is the first", nil
	}
	p := images[len(images)-1]
	switch {
	case o.Full:
		return nil, "a full one was asked for", nil
	case p.Err != nil:
		return nil, p.Err.Error(), nil
	case p.Chain >= o.MaxChain:
		return nil, fmt.Sprintf("the chain has reached its limit of %d", o.MaxChain), nil
	case p.m.NeedsFull:
		return nil, ErrNeedsFull.Error(), nil
	case p.Compressed != s.Compress:
		return nil, "the store's compression has changed", nil
	}
	if err := p.checkAsParent(); err != nil {
		return nil, err.Error(), nil
	}
	return p, "", nil
}

// checkAsParent finds what would make an incremental image useless, as far as
// that is possible without reading pages.
func (im *Image) checkAsParent() error {
	for _, c := range im.chain() {
		if err := c.checkParentLink(); err != nil {
			return err
		}
		for _, f := range c.m.Files {
			r, err := c.openFile(f)
			if err != nil {
				return err
			}
			r.Close()
		}
	}
	buf := make([]byte, 1<<20)
	for _, f := range im.m.Files {
		if strings.HasSuffix(f.Name, indexSuffix) {
			if err := im.checkFile(f, buf, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) linkParent() error {
	if w.parent == nil {
		return nil
	}
	return os.Symlink(parentTarget(w.parent.Seq), filepath.Join(w.dir, parentLink))
}

// parentIndex is dumpWriter.parentIndex.
func (w *Writer) parentIndex(image string) (*os.File, error) {
	if w.parent == nil {
		return nil, nil
	}
	f := w.parent.m.file(image + indexSuffix)
	if f == nil {
		return nil, nil
	}
	return w.parent.openFile(*f)
}

// serve starts the page server on one end of a socket pair.
func (w *Writer) serve(need int64) error {
	w.dump = &dumpWriter{dir: w.dir, need: need, parentIndex: w.parentIndex}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket pair: %w", err)
	}
	w.client = os.NewFile(uintptr(fds[0]), "page-client")
	end := os.NewFile(uintptr(fds[1]), "page-server")
	defer end.Close()
	for _, fd := range fds {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer) != nil {
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer) // only for speed
		}
	}
	conn, err := net.FileConn(end)
	if err != nil {
		w.client.Close()
		return fmt.Errorf("page server: %w", err)
	}
	if w.store.Compress {
		w.dump.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(compressors), zstd.WithEncoderCRC(false))
		if err != nil {
			w.client.Close()
			conn.Close()
			return err
		}
	}
	w.server = &pageServer{conn: conn, sink: w.dump, memory: readProcess, hangUp: func() { conn.Close() }}
	go func() {
		defer close(w.served)
		w.err = w.server.serve()
		w.dump.abandon()
	}()
	return nil
}

// Dir returns the directory for criu dump -D.
func (w *Writer) Dir() string { return w.dir }

// Full says why the image has no parent; it is empty for an incremental one.
func (w *Writer) Full() string { return w.full }

// PageSocket returns the connection to the page server, to be inherited by criu dump
// --page-server --ps-socket. It belongs to the Writer: pass it on, do not close
// it.
func (w *Writer) PageSocket() *os.File { return w.client }

// Commit makes the image durable and then valid. Call it when criu dump has
// written all files of the image; what it writes later is not part of it. meta is kept
// with the image for the caller. If it fails the image does not count, and Abort must be called.
//
// If the error is ErrNeedsFull, abort and dump again with BeginOptions.Full.
func (w *Writer) Commit(meta []byte) (*Image, error) {
	if w.settled {
		return nil, fmt.Errorf("commit checkpoint %d of task %s: already committed or aborted", w.seq, w.task)
	}
	m, err := w.commit(meta)
	if err != nil {
		err = w.store.stillThere(err)
		return nil, fmt.Errorf("commit checkpoint %d of task %s: %w", w.seq, w.task, err)
	}
	w.settle()
	crash.Here("checkpoint.committed")
	return w.store.newImage(w.task, w.seq, m, w.parent), nil
}

func (w *Writer) commit(meta []byte) (*manifest, error) {
	w.closeClient() // criu has sent everything; so the server cannot wait for ever
	<-w.served
	if w.err != nil {
		return nil, w.err
	}
	needsFull, err := w.needsFull()
	if err != nil {
		return nil, err
	}
	crash.Here("checkpoint.before-fsync")
	files, err := w.seal()
	if err != nil {
		return nil, err
	}
	crash.Here("checkpoint.before-manifest")
	m := &manifest{
		Task: w.task, Seq: w.seq, Chain: 1, TakenAt: time.Now().Round(0), counts: w.dump.counts,
		Compressed: w.store.Compress, NeedsFull: needsFull, Files: files, Meta: meta,
	}
	if w.parent != nil {
		m.Parent, m.ParentID, m.Chain = w.parent.Seq, w.parent.m.id, w.parent.Chain+1
	}
	return m, w.mark(m)
}

// needsFull looks whether any process has mappings that CRIU does not restore
// from incremental images.
func (w *Writer) needsFull() (bool, error) {
	paths, err := image.Named(w.dir, "mm-*.img")
	if err != nil {
		return false, err
	}
	for _, path := range paths {
		full, err := needsFull(path)
		if err != nil {
			return false, err
		}
		if full && w.parent != nil {
			return false, fmt.Errorf("%w (%s)", ErrNeedsFull, filepath.Base(path))
		}
		if full {
			return true, nil
		}
	}
	return false, nil
}

// seal makes all files of the image durable and returns their checksums. Logs
// are not part of the image.
func (w *Writer) seal() ([]manifestFile, error) {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return nil, err
	}
	var files []manifestFile
	for _, e := range entries {
		switch {
		case e.Name() == parentLink && w.parent != nil, strings.HasSuffix(e.Name(), ".log"):
		case !e.Type().IsRegular():
			return nil, fmt.Errorf("%s is not a regular file", filepath.Join(w.dir, e.Name()))
		default:
			files = append(files, manifestFile{Name: e.Name()})
		}
	}
	if !slices.ContainsFunc(files, func(f manifestFile) bool { return f.Name == inventoryName }) {
		return nil, fmt.Errorf("criu has not written %s; did the dump fail?", inventoryName)
	}
	var group errgroup.Group
	group.SetLimit(sealers)
	for i := range files {
		group.Go(func() error { return w.sealFile(&files[i]) })
	}
	return files, group.Wait()
}

func (w *Writer) sealFile(f *manifestFile) error {
	file, err := os.OpenFile(filepath.Join(w.dir, f.Name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Chmod(0o600); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if i := slices.IndexFunc(w.dump.pages, func(p pagesFile) bool { return p.name == f.Name }); i >= 0 {
		p := w.dump.pages[i]
		f.Size, f.Sums, f.RawSize = p.size, p.sums, p.rawSize
		st, err := file.Stat()
		if err == nil && st.Size() != p.size {
			err = fmt.Errorf("%s has %d bytes, but %d were written", file.Name(), st.Size(), p.size)
		}
		return err
	}
	f.Size, f.Sum, err = copySum(io.Discard, file, make([]byte, 256<<10), nil)
	return err
}

// mark writes the manifest; with it the image is committed.
func (w *Writer) mark(m *manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	if len(b) > maxManifest {
		return fmt.Errorf("manifest of %d bytes is too long", len(b))
	}
	if err := w.store.stillThere(nil); err != nil {
		return err
	}
	tmp := filepath.Join(w.dir, manifestTmp)
	if err := writeDurable(tmp, b); err != nil {
		return err
	}
	crash.Here("checkpoint.before-rename")
	if err := os.Rename(tmp, filepath.Join(w.dir, manifestName)); err != nil {
		return err
	}
	crash.Here("checkpoint.before-dirsync")
	for _, dir := range []string{w.dir, filepath.Dir(w.dir), w.store.Dir} {
		if err := linux.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Cancel makes a criu dump that is sending pages fail by itself; then call Abort.
// It is how to stop a dump: a criu that is killed while it makes the task
// execute system calls takes the task with it. Safe for concurrent use.
func (w *Writer) Cancel() { w.server.hangUp() }

// Abort ends the page server, which makes a criu that still runs fail, and
// removes the image. After Commit has succeeded, or a second time, it does
// nothing, so that it can be deferred.
func (w *Writer) Abort() error {
	if w.settled {
		return nil
	}
	w.closeClient()
	w.server.hangUp()
	<-w.served
	err := removeImage(w.dir)
	w.settle()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("abort checkpoint %d of task %s: %w; it does not count, but takes room until collected", w.seq, w.task, err)
	}
	return nil
}

// closeClient ends the connection even if another process has inherited it.
func (w *Writer) closeClient() {
	if conn, err := w.client.SyscallConn(); err == nil {
		conn.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	w.client.Close()
}

func (w *Writer) settle() {
	w.settled = true
	w.lock.unlock()
	if w.dump.encoder != nil {
		w.dump.encoder.Close()
	}
}
