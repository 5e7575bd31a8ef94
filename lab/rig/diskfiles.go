package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"headrace/internal/linux"
	"headrace/lab/pages"
	"headrace/lab/work"
)

// MakeFile writes a file of random text and makes it durable. It is not in memory
// afterwards. It returns the path at which it is read.
func (d *Disk) MakeFile(name string, bytes int64, seed uint64) (string, error) {
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
	if err := errors.Join(f.Sync(), pages.DropCached(f)); err != nil {
		return "", err
	}
	return filepath.Join(d.Dir, name), nil
}

// pieces are a text of words, cut into pieces that differ from each other.
type pieces struct {
	piece []byte
	n     uint64
}

func newPieces(seed uint64) *pieces {
	p := &pieces{piece: make([]byte, 1<<20)}
	const letters = "etaoinshrdlucmfwypvbgkjqxz      \n"
	r := work.Random(seed)
	for i := range p.piece {
		p.piece[i] = letters[(r.Next()>>32)%uint64(len(letters))]
	}
	return p
}

func (p *pieces) next() []byte {
	p.n++
	copy(p.piece, "piece "+strconv.FormatUint(p.n, 10)+" ")
	return p.piece
}

// AnswerOf returns what a mapper must print for a file that makeFile has made. It reads
// it where it takes no time of a model, and leaves nothing in memory.
func (d *Disk) AnswerOf(path string, like work.Mapper) (string, error) {
	like.File, like.Readers = filepath.Join(d.source, filepath.Base(path)), 1
	f, err := os.Open(like.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	done := &work.Mapped{}
	if like.Sort != "" {
		done.Sum, err = work.SumSorted(like.File)
	} else {
		err = like.Read(info.Size(), done)
	}
	return work.Answer("map", done.Sum), errors.Join(err, pages.DropCached(f))
}

// EnoughRoom checks that there is room for files of the given size, on the disk
// and, because they may all be held there, in memory.
func (h *Bench) EnoughRoom(bytes int64) error {
	mem, err := linux.ProcFS("").MemInfo()
	if err != nil {
		return err
	}
	if need := bytes + bytes/2 + 512<<20; mem.Available < need {
		return fmt.Errorf("%d MB of memory are available, %d are needed", mem.Available>>20, need>>20)
	}
	return h.RoomOnDisk(bytes + 256<<20)
}

// RoomOnDisk checks that so many bytes are free where everything temporary is.
func (h *Bench) RoomOnDisk(need int64) error {
	free, err := DiskFree(h.Disk.Dir)
	if err == nil && free < need {
		err = fmt.Errorf("%s has room for %d MB, %d are needed: choose another directory with --dir", h.Dir, free>>20, need>>20)
	}
	return err
}

// ChillSoon does as chill, again and again for a while: a page that somebody has just
// read, or is reading ahead, cannot be dropped yet.
func ChillSoon(ctx context.Context, paths []string) error {
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := pages.Chill(paths)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := WaitUntil(ctx, time.Now().Add(20*time.Millisecond)); err != nil {
			return err
		}
	}
}
