package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/lab/slowdisk"
)

// A readingDisk is where the files of an experiment on reading lie: a directory
// on a disk of the machine, or the same behind a modelled disk.
type readingDisk struct {
	// dir is where the files are read; source where they are made, which takes no
	// time of a model.
	dir, source string
	model       *slowdisk.Disk // nil: the machine's own
}

// modelledDisk is one in the scratch, with a hard disk in front of it.
func (h *harness) modelledDisk(ctx context.Context) (*readingDisk, error) {
	d := &readingDisk{dir: filepath.Join(h.disk.dir, "modelled"), source: filepath.Join(h.disk.dir, "source")}
	for _, dir := range []string{d.dir, d.source} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	// The path to the scratch is for root alone, and so are the files.
	var err error
	d.model, err = slowdisk.Start(ctx, slowdisk.Options{Source: d.source, Mount: d.dir, Program: h.programs.Lab})
	return d, err
}

// close ends the model. Nobody may read any more.
func (d *readingDisk) close() error {
	if d.model == nil {
		return nil
	}
	return d.model.Close()
}

// String is for captions.
func (d *readingDisk) String() string {
	if d.model == nil {
		return "the disk of " + d.dir
	}
	return d.model.Model().String()
}

// stats is what the head of a model has done; nothing without a model.
func (d *readingDisk) stats() slowdisk.Stats {
	if d.model == nil {
		return slowdisk.Stats{}
	}
	return d.model.Stats()
}

// makeFile writes a file of random text and makes it durable. It is not in memory
// afterwards. It returns the path at which it is read.
func (d *readingDisk) makeFile(name string, bytes int64, seed uint64) (string, error) {
	f, err := os.OpenFile(filepath.Join(d.source, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text := newPieces(seed)
	for left := bytes; left > 0; {
		piece := text.next()
		piece = piece[:min(int64(len(piece)), left)]
		if _, err := f.Write(piece); err != nil {
			return "", err
		}
		left -= int64(len(piece))
	}
	if err := errors.Join(f.Sync(), dropCached(f)); err != nil {
		return "", err
	}
	return filepath.Join(d.dir, name), nil
}

// pieces are a text of words, cut into pieces that differ from each other.
type pieces struct {
	piece []byte
	n     uint64
}

func newPieces(seed uint64) *pieces {
	p := &pieces{piece: make([]byte, 1<<20)}
	const letters = "etaoinshrdlucmfwypvbgkjqxz      \n"
	r := random(seed)
	for i := range p.piece {
		p.piece[i] = letters[(r.next()>>32)%uint64(len(letters))]
	}
	return p
}

func (p *pieces) next() []byte {
	p.n++
	copy(p.piece, "piece "+strconv.FormatUint(p.n, 10)+" ")
	return p.piece
}

// answerOf is what a mapper must print for a file that makeFile has made. It reads
// it where it takes no time of a model, and leaves nothing in memory.
func (d *readingDisk) answerOf(path string, like mapper) (string, error) {
	like.file, like.readers = filepath.Join(d.source, filepath.Base(path)), 1
	f, err := os.Open(like.file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	done := &mapped{}
	if err := like.read(info.Size(), done); err != nil {
		return "", err
	}
	return answer("map", done.sum), dropCached(f)
}

// resident is how many bytes of the files are in memory.
func resident(paths []string) (int64, error) {
	var sum int64
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		info, err := f.Stat()
		if err == nil {
			var pages int64
			pages, err = linux.CachedPages(int(f.Fd()), 0, info.Size())
			sum += min(pages*int64(os.Getpagesize()), info.Size())
		}
		f.Close()
		if err != nil {
			return 0, fmt.Errorf("what of %s is in memory: %w", path, err)
		}
	}
	return sum, nil
}

// chill takes the files out of memory. What stays there all the same is an error:
// a measurement would begin warm.
func chill(paths []string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(dropCached(f), f.Close()); err != nil {
			return err
		}
	}
	left, err := resident(paths)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d bytes of %d files could not be taken out of memory: somebody has locked or mapped them", left, len(paths))
	}
	return err
}

// A held file is in memory and stays there.
type heldFile struct{ memory []byte }

// hold reads the files into memory and locks them there, one after the other. The
// returned function lets them go.
func hold(ctx context.Context, paths []string) (release func() error, err error) {
	var held []heldFile
	release = func() error {
		var errs []error
		for _, h := range held {
			errs = append(errs, unix.Munmap(h.memory))
		}
		held = nil
		return errors.Join(errs...)
	}
	for _, path := range paths {
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), release())
		}
		h, err := holdFile(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s in memory: %w", path, err), release())
		}
		held = append(held, h)
	}
	return release, nil
}

// holdFile reads before it maps: that is done in long pieces, and a page fault in
// a file system of our own would hold up the Go scheduler.
func holdFile(path string) (heldFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return heldFile{}, err
	}
	defer f.Close()
	// Without ReadFrom and WriteTo, which would choose pieces of their own.
	size, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	if err != nil {
		return heldFile{}, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return heldFile{}, err
	}
	if err := unix.Mlock(memory); err != nil {
		return heldFile{}, errors.Join(err, unix.Munmap(memory))
	}
	return heldFile{memory}, nil
}

// enoughRoom checks that there is room for files of the given size, on the disk
// and, because they may all be held there, in memory.
func (h *harness) enoughRoom(bytes int64) error {
	mem, err := linux.ProcFS("").MemInfo()
	if err != nil {
		return err
	}
	if need := bytes + bytes/2 + 512<<20; mem.Available < need {
		return fmt.Errorf("%d MB of memory are available, %d are needed", mem.Available>>20, need>>20)
	}
	return h.roomOnDisk(bytes + 256<<20)
}

// roomOnDisk checks that so many bytes are free where everything temporary is.
func (h *harness) roomOnDisk(need int64) error {
	free, err := diskFree(h.disk.dir)
	if err == nil && free < need {
		err = fmt.Errorf("%s has room for %d MB, %d are needed: choose another directory with --dir", h.dir, free>>20, need>>20)
	}
	return err
}

// completePlaceName takes the modelled disk if no other is named.
func completePlaceName(place *string) error {
	if *place == "" {
		*place = placeModelled
	}
	if !slices.Contains(readPlaces, *place) {
		return fmt.Errorf("place %q: want %s", *place, strings.Join(readPlaces, " or "))
	}
	return nil
}
