package slowdisk

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A board is a page of memory in which the server shows what its head has done and
// another process reads it at any time, and in which that process says whether the head
// is to be left out (Disk.Bypass).
type board struct {
	memory []byte
	words  *boardWords
}

// boardWords is the layout of the page. turn is odd while the rest is being
// written: a reader that has seen it change reads again. buffered is apart,
// because others than the head count it. bypass is 0 or 1; only the reader sets it.
type boardWords struct {
	magic    uint64
	turn     atomic.Uint64
	values   [5]atomic.Int64
	buffered atomic.Int64
	bypass   atomic.Int64
}

const boardMagic = 0x68722d736c6f7732

// newBoard makes the page of a file that the server writes.
func newBoard(f *os.File) (*board, error) {
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, fmt.Errorf("make room for statistics: %w", err)
	}
	b, err := mapBoard(f, unix.PROT_READ|unix.PROT_WRITE)
	if err == nil {
		b.words.magic = boardMagic
	}
	return b, err
}

// openBoard returns the page of a file that a server has made.
func openBoard(f *os.File) (*board, error) {
	b, err := mapBoard(f, unix.PROT_READ|unix.PROT_WRITE)
	if err == nil && b.words.magic != boardMagic {
		err = errors.Join(fmt.Errorf("%s: no statistics of a modelled disk", f.Name()), b.close())
	}
	return b, err
}

func mapBoard(f *os.File, protection int) (*board, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < int64(unsafe.Sizeof(boardWords{})) {
		return nil, fmt.Errorf("%s: too short for the statistics of a modelled disk", f.Name())
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the statistics: %w", err)
	}
	return &board{memory: memory, words: (*boardWords)(unsafe.Pointer(&memory[0]))}, nil
}

// close must come after the last use.
func (b *board) close() error { return unix.Munmap(b.memory) }

// show replaces the numbers. One goroutine at a time may call it.
func (b *board) show(s Stats) {
	b.words.turn.Add(1)
	for i, v := range [...]int64{s.Requests, s.Seeks, s.Read, s.Written, int64(s.Busy)} {
		b.words.values[i].Store(v)
	}
	b.words.turn.Add(1)
}

// read returns what was shown last. A server that was killed while it wrote leaves what
// it had written by then.
func (b *board) read() Stats {
	var v [len(b.words.values)]int64
	for range 1000 {
		turn := b.words.turn.Load()
		for i := range v {
			v[i] = b.words.values[i].Load()
		}
		if turn%2 == 0 && b.words.turn.Load() == turn {
			break
		}
		runtime.Gosched()
	}
	return Stats{Requests: v[0], Seeks: v[1], Read: v[2], Written: v[3], Busy: time.Duration(v[4]), Buffered: b.words.buffered.Load()}
}
