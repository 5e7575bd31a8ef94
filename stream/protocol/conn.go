package protocol

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Conn sends and receives messages. One goroutine may receive while others
// send.
type Conn struct {
	sock *net.UnixConn
	in   *bufio.Reader
	fds  fdReader
	// room, if not nil, is asked before a long body is read; see Bound. begun:
	// something has come, but for given, the beginning of the units of a Hello.
	room  func(n int) error
	begun bool
	given []uint32

	mu  sync.Mutex
	out []byte
}

// NewConn takes over a consumer's end of a connection.
func NewConn(sock *net.UnixConn) *Conn {
	c := &Conn{sock: sock, fds: fdReader{sock: sock}}
	c.in = bufio.NewReaderSize(&c.fds, 64<<10)
	return c
}

// NewServerConn takes over the daemon's end. Descriptors that a consumer sends
// are dropped by the kernel.
func NewServerConn(sock *net.UnixConn) *Conn {
	return &Conn{sock: sock, in: bufio.NewReaderSize(sock, 4<<10)}
}

// Bound bounds what is received: only the first message may be longer than MaxShort, if
// it is Hello, with the frames that belong to it. Room is asked before memory for the next bytes
// of that is taken; its error ends Receive.
func (c *Conn) Bound(room func(n int) error) { c.room = room }

// Close ends the connection; a blocked Receive returns. The other end notices
// before Close returns, also when a process that is just being started has a copy
// of the descriptor.
func (c *Conn) Close() error {
	_ = c.sock.CloseWrite() // fails when it is closed
	return c.sock.Close()
}

// HungUp tells whether the other end has closed the connection, or at least its
// own half, however much of what it said was not received yet.
func (c *Conn) HungUp() bool {
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return true
	}
	fds := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		for {
			if _, err := unix.Poll(fds, 0); err != unix.EINTR {
				return
			}
		}
	})
	return err != nil || fds[0].Revents != 0
}

// CloseWrite tells the other end that nothing more comes.
func (c *Conn) CloseWrite() error { return c.sock.CloseWrite() }

// Release closes descriptors that came and were not taken. Call it when
// nothing receives any more.
func (c *Conn) Release() {
	for _, f := range c.fds.files {
		f.Close()
	}
	c.fds.files = nil
}

// Send sends messages at once, in order.
func (c *Conn) Send(ms ...Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.out[:0]
	for _, m := range ms {
		var err error
		if b, err = Append(b, m); err != nil {
			return err
		}
	}
	if cap(b) <= 1<<20 {
		c.out = b
	}
	_, err := c.sock.Write(b)
	return err
}

// SendWith sends a message, Arena or File, with its descriptor.
func (c *Conn) SendWith(m Message, f *os.File) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := Append(c.out[:0], m)
	if err != nil {
		return err
	}
	c.out = b
	n, _, err := c.sock.WriteMsgUnix(b, unix.UnixRights(int(f.Fd())), nil)
	if err == nil && n < len(b) {
		_, err = c.sock.Write(b[n:])
	}
	return err
}

// Receive waits for a message; io.EOF is a connection that ended between two.
func (c *Conn) Receive() (Message, error) {
	for {
		m, err := c.receive()
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *Given:
			if len(m.Units) != listMax || len(c.given) > MaxUnits {
				return nil, fmt.Errorf("%w: a part of a list of %d units, after %d", ErrMalformed, len(m.Units), len(c.given))
			}
			c.given = append(c.given, m.Units...)
			continue
		case *Hello:
			if c.given != nil && len(m.Units) > 0 {
				m.Units, c.given = append(c.given, m.Units...), nil
			}
		}
		if c.given != nil {
			return nil, fmt.Errorf("%w: a list of units without its end", ErrMalformed)
		}
		return m, nil
	}
}

// receive waits for a frame.
func (c *Conn) receive() (Message, error) {
	var h [header]byte
	if _, err := io.ReadFull(c.in, h[:]); err != nil {
		return nil, err
	}
	n, t := binary.BigEndian.Uint32(h[:]), Type(h[4])
	most := uint32(MaxBody)
	if c.room != nil && (c.begun || t != TypeHello && t != TypeGiven) {
		most = MaxShort
	}
	c.begun = c.begun || t != TypeGiven
	if n > most {
		return nil, fmt.Errorf("%w of type %d: %d bytes", ErrMalformed, t, n)
	}
	body, err := c.readBody(int(n))
	if err != nil {
		return nil, err
	}
	return Parse(t, body)
}

// readBody reads n bytes, growing as they come: a length alone costs no memory.
func (c *Conn) readBody(n int) ([]byte, error) {
	const step = 1 << 20
	var body []byte
	for more := min(n, step); more > 0; more = min(n-len(body), len(body)) {
		if c.room != nil && n > MaxShort {
			if err := c.room(more); err != nil {
				return nil, err
			}
		}
		have := len(body)
		body = append(body, make([]byte, more)...)
		if _, err := io.ReadFull(c.in, body[have:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return body, nil
}

// TakeFile returns the next descriptor that has come, nil if none has.
func (c *Conn) TakeFile() *os.File {
	if len(c.fds.files) == 0 {
		return nil
	}
	f := c.fds.files[0]
	c.fds.files = c.fds.files[1:]
	return f
}

// maxFiles is how many descriptors may wait to be taken.
const maxFiles = 64

// fdReader reads from a socket and collects descriptors.
type fdReader struct {
	sock  *net.UnixConn
	files []*os.File
	oob   [64]byte
}

func (r *fdReader) Read(p []byte) (int, error) {
	n, oobn, _, _, err := r.sock.ReadMsgUnix(p, r.oob[:])
	n = max(n, 0) // it is -1 with some errors
	if oobn > 0 {
		if perr := r.collect(r.oob[:oobn]); perr != nil && err == nil {
			err = perr
		}
	}
	if n == 0 && (err == nil && len(p) > 0 || errors.Is(err, io.EOF)) {
		err = io.EOF // without the wrapping of package net, which io does not know
	}
	return n, err
}

func (r *fdReader) collect(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			r.files = append(r.files, os.NewFile(uintptr(fd), "received"))
		}
	}
	if len(r.files) > maxFiles {
		return fmt.Errorf("%w: %d descriptors that belong to nothing", ErrMalformed, len(r.files))
	}
	return nil
}
