package tasklog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// readerBlock is how much a Reader gives at a time at most, in bytes.
const readerBlock = 64 << 10

// Reader reads one log as it grows, from its beginning, or from an offset, or from
// its last lines. A log may be cut back or made anew when its task starts over; then
// what is new is read. It is used by one goroutine at a time.
type Reader struct {
	Path string
	// From is the offset in bytes to begin at, Tail how many of the last lines to begin with; nil: it is not said,
	// or Read has been there. FromLog is the log that From is an offset of, as ID told: another one is read from its
	// beginning. Empty: the one that is there.
	From    *int64
	FromLog string
	Tail    *uint32

	file   *os.File
	id     string
	offset int64
	buf    []byte
}

// Close lets go of the file.
func (l *Reader) Close() {
	if l.file != nil {
		l.file.Close()
	}
}

// ID tells the log that Read was in last from others that have had or will have its path. Empty: there was none.
func (l *Reader) ID() string { return l.id }

// Read gives each what is there and has not been given, with its offset; data is good during the call. The first
// time, if From or Tail is set, it begins with where it begins, and no data. A log that is not there has nothing. The
// error is that of each, ctx's cause, or that the log cannot be read.
func (l *Reader) Read(ctx context.Context, each func(data []byte, offset int64) error) error {
	if err := l.open(); err != nil {
		return err
	}
	if err := l.begin(ctx, each); err != nil || l.file == nil {
		return err
	}
	if l.buf == nil {
		l.buf = make([]byte, readerBlock)
	}
	for ctx.Err() == nil {
		// What was dropped of a log that got too large is a hole.
		from, to, err := data(l.file, l.offset)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		l.offset = from
		n, err := l.file.ReadAt(l.buf[:min(int64(len(l.buf)), to-from)], from)
		if n > 0 {
			l.offset += int64(n)
			if err := each(l.buf[:n], from); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
	}
	return context.Cause(ctx)
}

// begin finds where to begin, the first time. That is the beginning of a log that is
// not there yet.
func (l *Reader) begin(ctx context.Context, each func(data []byte, offset int64) error) error {
	from, lines := l.From, l.Tail
	l.From, l.Tail = nil, nil
	if from == nil && lines == nil {
		return nil
	}
	if l.file != nil {
		size, err := l.file.Seek(0, io.SeekEnd)
		if from != nil && l.FromLog != "" && l.FromLog != l.id {
			l.offset = 0
		} else if from != nil {
			l.offset = min(*from, size)
		} else if err == nil {
			l.offset, err = tail(ctx, l.file, *lines)
		}
		if err != nil {
			return fmt.Errorf("look for the end of the log: %w", err)
		}
	}
	return each(nil, l.offset)
}

// open makes file the file that has the name now; none is no error.
func (l *Reader) open() error {
	var st unix.Stat_t
	err := unix.Lstat(l.Path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	if l.file != nil {
		var have unix.Stat_t
		if err := unix.Fstat(int(l.file.Fd()), &have); err != nil {
			return fmt.Errorf("look at the log: %w", err)
		}
		if have.Ino == st.Ino && have.Dev == st.Dev {
			l.offset = min(l.offset, st.Size)
			return nil
		}
		l.file.Close()
		l.file, l.id, l.offset = nil, "", 0
	}
	// The file belongs to the task's user: it must not lead elsewhere.
	fd, err := unix.Open(l.Path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	l.file, l.id = os.NewFile(uintptr(fd), l.Path), idOf(fd)
	return nil
}

// idOf names an open file: a new file soon gets the inode of one that was removed, but was born later. Empty if the
// kernel does not tell.
func idOf(fd int) string {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%x-%x.%x", st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
