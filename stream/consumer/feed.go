package consumer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/stream/protocol"
)

// pipeSize is what fits between the runner and the command: enough that the
// command goes on while the next unit is asked for, and little enough to stay in
// the processor's cache.
const pipeSize = 256 << 10

// drainPause is how often it is looked at last whether the command has read everything.
const drainPause = 50 * time.Millisecond

// records runs the command on the records of all units. A consumer for which
// nothing is left when it comes does not run it, except for the first one, so that
// a job on an empty input runs its command once.
func (r *runner) records(ctx context.Context, delimiter string) (outcome, error) {
	var first *Unit
	if !r.first {
		var err error
		if first, err = r.client.Next(ctx); err == io.EOF {
			return outcome{}, nil
		} else if err != nil {
			return outcome{}, err
		}
	}
	in, out, err := pipe()
	if err != nil {
		return outcome{}, err
	}
	defer out.Close()
	cmd, err := r.start(r.argv, in)
	unix.Close(in)
	if err != nil {
		return r.couldNotStart(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	fed := make(chan error, 1)
	go func() { fed <- feed(ctx, r.client, first, out, delimiter, r.record) }()
	given := false // everything
	rest := -1     // an end to read of the pipe, when ours to write is closed
	defer func() { unix.Close(rest) }()
	stopFeeding := func() {
		cancel()
		out.SetWriteDeadline(time.Unix(1, 0))
		if fed != nil {
			given = <-fed == nil
		}
	}
	for {
		select {
		case err = <-fed:
			fed = nil
			if given = err == nil; given || errors.Is(err, unix.EPIPE) {
				rest = readEnd(out)
				out.Close() // the command reads the end, or does not read any more
				continue
			}
		case <-r.client.Failed():
			err = r.client.Err()
		case <-cmd.exited:
			stopFeeding()
			end := r.reap()
			if !given || unread(rest, out) {
				end = r.cutShort(end)
			}
			return end, nil
		}
		// The pipe stays open: what came so far must not look like everything.
		r.stop()
		stopFeeding()
		return r.inputFailed(err)
	}
}

// readEnd returns another end to read of a pipe, by which it is known later what nobody has read.
func readEnd(out *os.File) (fd int) {
	fd = -1
	_ = linux.Control(out, func(w int) (err error) { // else nobody knows, and unread says so
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", w), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	return fd
}

// unread tells whether there may be bytes in a pipe that the command, which has ended, has not read.
// Our end to write is open if there is no other.
func unread(in int, out *os.File) bool {
	n, err := unix.IoctlGetInt(in, unix.TIOCINQ)
	if in < 0 {
		err = linux.Control(out, func(w int) (err error) {
			n, err = unix.IoctlGetInt(w, unix.TIOCINQ)
			return err
		})
	}
	return n > 0 || err != nil
}

// inputFailed returns the outcome for damaged input; another error is left as it is.
func (r *runner) inputFailed(err error) (outcome, error) {
	var d *DataError
	if !errors.As(err, &d) {
		return outcome{}, err
	}
	r.say("%v", err)
	return outcome{exitInput, err.Error()}, nil
}

// pipe makes a pipe of which the end to write to does not block.
func pipe() (in int, out *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, nil, fmt.Errorf("make a pipe for the command: %w", err)
	}
	_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, pipeSize) // a smaller one works as well
	if err := unix.SetNonblock(p[1], true); err != nil {
		return 0, nil, fmt.Errorf("make a pipe for the command: %w", err)
	}
	return p[0], os.NewFile(uintptr(p[1]), "the command's standard input"), nil
}

// feeder writes units to a pipe.
type feeder struct {
	w         *os.File
	raw       syscall.RawConn
	delimiter []byte
	record    int64 // see runner
	// open: the last record lacks its delimiter.
	open bool
	// noSplice: the file system cannot.
	noSplice bool
	buf      []byte
	// sent counts what was written to the pipe. spliced are the files that are or may
	// be in it, in order: who writes to them changes what the command reads.
	sent    int64
	spliced []spliced
}

// spliced is a file of which pages were put into the pipe, before byte end of all.
type spliced struct {
	path  string
	codec protocol.Codec
	was   fileset.Was
	end   int64
}

// feed writes all units to w, in order, beginning with one that was taken already
// if there is one. The error is EPIPE when nobody reads any more.
func feed(ctx context.Context, c *Client, u *Unit, w *os.File, delimiter string, record int64) error {
	raw, err := w.SyscallConn()
	if err != nil {
		return err
	}
	f := &feeder{w: w, raw: raw, delimiter: []byte(delimiter), record: record}
	if u != nil {
		u.within(ctx)
	}
	for ; ; u = nil {
		if u == nil {
			if u, err = c.Next(ctx); err == io.EOF {
				return f.drained(ctx)
			}
		}
		if err == nil {
			err = f.write(ctx, u)
		}
		if err != nil {
			return err
		}
	}
}

func (f *feeder) write(ctx context.Context, u *Unit) error {
	if u.Codec() != protocol.Plain {
		return f.decoded(u)
	}
	more, err := u.More()
	if err != nil || !more {
		return err
	}
	if err := f.separate(); err != nil {
		return err
	}
	if err := f.plain(ctx, u); err != nil {
		return err
	}
	f.open = u.Unterminated()
	return nil
}

// separate puts a delimiter behind a record that lacks it, before the next.
func (f *feeder) separate() error {
	if !f.open {
		return nil
	}
	f.open = false
	_, err := f.w.Write(f.delimiter)
	return err
}

// errFull: the pipe takes nothing at the moment.
var errFull = errors.New("the pipe is full")

// plain writes a unit straight from shared memory, or has the kernel put the pages
// of a file into the pipe. It does not wait for the command in there: it writes what
// the pipe takes, and waits for room outside.
func (f *feeder) plain(ctx context.Context, u *Unit) (err error) {
	waitErr := f.raw.Write(func(fd uintptr) bool {
		put := func(p piece) (int, error) { return f.put(ctx, int(fd), u, p) }
		for err = nil; err == nil; {
			if err = u.use(put); err == nil {
				err = ctx.Err()
			}
		}
		return err != errFull
	})
	switch {
	case waitErr != nil:
		return waitErr
	case err == io.EOF:
		return nil
	}
	return err
}

// put writes as much of a piece as fits.
func (f *feeder) put(ctx context.Context, fd int, u *Unit, p piece) (int, error) {
	if p.inFile() && !f.noSplice {
		n, err := spliceSome(fd, p)
		if n > 0 {
			f.sent += int64(n)
			return n, f.noteSpliced(ctx, u, p.arena)
		}
		if err != unix.EINVAL && err != unix.EOPNOTSUPP {
			return n, err
		}
		f.noSplice = true
	}
	data, err := p.bytes(u.c.buffer())
	if err != nil {
		return 0, err
	}
	n, err := writeSome(fd, data)
	f.sent += int64(n)
	return n, err
}

// noteSpliced remembers that pages of a file are the last in the pipe, and looks at those
// that have left it.
func (f *feeder) noteSpliced(ctx context.Context, u *Unit, a *arena) error {
	if n := len(f.spliced); n == 0 || f.spliced[n-1].was.Identity != a.check.Identity {
		f.spliced = append(f.spliced, spliced{path: u.path, codec: u.codec, was: a.check.Known()})
	}
	f.spliced[len(f.spliced)-1].end = f.sent
	for f.spliced[0].end+pipeSize < f.sent {
		if err := f.spliced[0].changed(ctx); err != nil {
			return err
		}
		f.spliced = f.spliced[1:]
	}
	return nil
}

// changed tells whether the file was written to. If it has another name by now, or is
// gone, nobody knows. There may be anything else in its place, a pipe for example.
func (s *spliced) changed(ctx context.Context) error {
	file, err := fileset.OutlastLease(ctx, func() (*os.File, error) { return fileset.Open(s.path) })
	if err != nil {
		return nil
	}
	defer file.Close()
	now, err := fileset.Identify(file)
	if err != nil || now.Dev != s.was.Dev || now.Ino != s.was.Ino {
		return nil
	}
	check := fileset.Check{Was: s.was}
	if why, err := check.Changed(file); err == nil && why != "" {
		return &DataError{s.path, s.codec, fmt.Errorf("it %s while it was read", why)}
	}
	return nil
}

// drained waits until the command has read what is in the pipe, if pages of files are: an
// end that it sees before tells it that all is well.
func (f *feeder) drained(ctx context.Context) error {
	for pause := time.Millisecond; len(f.spliced) > 0; pause = min(2*pause, drainPause) {
		left, err := f.inPipe()
		if err != nil {
			return err
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	for i := range f.spliced {
		if err := f.spliced[i].changed(ctx); err != nil {
			return err
		}
	}
	return nil
}

// inPipe returns how many bytes the command has not read; none when it has closed the pipe.
func (f *feeder) inPipe() (n int, err error) {
	cerr := f.raw.Control(func(fd uintptr) {
		closed := []unix.PollFd{{Fd: int32(fd)}}
		if _, perr := unix.Poll(closed, 0); perr != nil || closed[0].Revents&unix.POLLERR == 0 {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
	})
	return n, cmp.Or(cerr, err)
}

// spliceSome has the pages of a file go into the pipe, as many as fit.
func spliceSome(fd int, p piece) (int, error) {
	for {
		at := p.at
		n, err := unix.Splice(int(p.arena.file.Fd()), &at, fd, nil, p.n, unix.SPLICE_F_NONBLOCK)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, errFull
		case err == nil && n > 0:
			return int(n), nil
		case err == nil:
			return 0, &readError{io.EOF}
		case err == unix.EPIPE, err == unix.EINVAL, err == unix.EOPNOTSUPP:
			return 0, err
		default:
			return 0, &readError{err}
		}
	}
}

// writeSome writes what fits.
func writeSome(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Write(fd, p)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, errFull
		default:
			return 0, err
		}
	}
}

// decoded writes a compressed unit decompressed.
func (f *feeder) decoded(u *Unit) error {
	in, err := u.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if f.buf == nil {
		f.buf = make([]byte, pipeSize)
	}
	var tail []byte
	var total int64
	for {
		n, rerr := in.Read(f.buf)
		total += int64(n)
		if n > 0 {
			if err := f.separate(); err != nil {
				return err
			}
			if _, err := f.w.Write(f.buf[:n]); err != nil {
				return err
			}
			tail = lastBytes(tail, f.buf[:n], len(f.delimiter))
		}
		if rerr == io.EOF {
			// The members of a file are one sequence of records: programs cut them anywhere.
			if over := total % max(1, f.record); over > 0 {
				return &DataError{u.path, u.codec, &cutRecord{total - over, over, f.record}}
			}
			// Of compressed bytes the daemon cannot tell how the last record ends. (Where
			// nothing came, it is as it was.)
			f.open = f.open || len(tail) > 0 && !bytes.Equal(tail, f.delimiter)
			return nil
		}
		if rerr != nil {
			return rerr
		}
	}
}

// lastBytes returns the last n bytes of what tail is the end of and p follows.
func lastBytes(tail, p []byte, n int) []byte {
	tail = append(tail, p[max(0, len(p)-n):]...)
	return tail[max(0, len(tail)-n):]
}
