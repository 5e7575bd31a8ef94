package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/accept"
	"headrace/internal/linux"
)

// SocketName is the socket's name in the task's directory.
const SocketName = "shim.sock"

// Error is a failure that the supervisor reports.
type Error struct {
	// Kind is what a program acts on; empty when there is nothing to act on.
	Kind string `json:"kind,omitempty"`
	Text string `json:"text"`
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// ErrClosed: the supervisor has gone.
var ErrClosed = errors.New("the supervisor closed the connection")

type request struct {
	ID   uint64          `json:"id"`
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

type response struct {
	ID     uint64          `json:"id"`
	Error  *Error          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Client is a connection to one supervisor, safe for concurrent use.
type Client struct {
	conn net.Conn
	peer *os.File // a pidfd of the supervisor; nil if it could not be had
	pid  int      // its pid; 0 likewise
	done chan struct{}

	// writing has room for whoever writes. unsent is the rest of a request whose caller
	// has given up in the middle of it.
	writing chan struct{}
	unsent  []byte

	mu      sync.Mutex // guards what follows
	next    uint64
	waiting map[uint64]chan response
}

// Dial connects to the supervisor of the task whose directory is given. The
// length of the path does not matter.
func Dial(ctx context.Context, dir string) (*Client, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), SocketName))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", filepath.Join(dir, SocketName), err)
	}
	c := &Client{conn: conn, done: make(chan struct{}), writing: make(chan struct{}, 1), waiting: make(map[uint64]chan response)}
	c.peer, c.pid = openPeer(conn.(*net.UnixConn))
	go c.read()
	return c, nil
}

// openPeer returns nil for a supervisor that has gone already or is in a pid namespace
// that this process does not see.
func openPeer(conn *net.UnixConn) (*os.File, int) {
	peer, err := linux.PeerCredentials(conn)
	if err != nil {
		return nil, 0
	}
	pidfd, err := unix.PidfdOpen(int(peer.Pid), 0)
	if err != nil {
		return nil, 0
	}
	return os.NewFile(uintptr(pidfd), "supervisor"), int(peer.Pid)
}

// PeerPID returns the supervisor's pid, 0 if it could not be had. Once the supervisor has
// gone it may be another process's.
func (c *Client) PeerPID() int { return c.pid }

// withPeer calls use with the supervisor's pidfd, which stays open meanwhile.
func (c *Client) withPeer(use func(pidfd int) error) error {
	if c.peer == nil {
		return errors.New("the supervisor's process cannot be found")
	}
	return linux.Control(c.peer, use)
}

func (c *Client) read() {
	defer close(c.done)
	defer c.conn.Close()
	dec := json.NewDecoder(bufio.NewReader(c.conn))
	for {
		var r response
		if dec.Decode(&r) != nil {
			return
		}
		c.mu.Lock()
		ch := c.waiting[r.ID]
		delete(c.waiting, r.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
}

// Call asks for an operation and waits for the answer, which is stored in
// result when that is not nil. When ctx ends first the operation goes on; when it
// has ended already, or the supervisor takes in no more requests until then, nothing
// is asked for.
func (c *Client) Call(ctx context.Context, op string, args, result any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	answer := make(chan response, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = answer
	c.mu.Unlock()
	line, err := json.Marshal(request{ID: id, Op: op, Args: raw})
	if err == nil {
		err = c.send(ctx, append(line, '\n'))
	}
	if err != nil {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return err
	}
	r, err := c.await(ctx, answer)
	if err != nil {
		return err
	}
	return r.decode(result)
}

// await returns the answer, also one that has come in just before the end of the connection or of ctx.
func (c *Client) await(ctx context.Context, answer <-chan response) (r response, err error) {
	select {
	case r = <-answer:
		return r, nil
	case <-c.done:
		err = ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	select {
	case r = <-answer:
		return r, nil
	default:
		return r, err
	}
}

// send writes a request, or as much of it as a supervisor takes in that stands still; the
// rest goes ahead of the next one. It fails if that is nothing.
func (c *Client) send(ctx context.Context, line []byte) error {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.writing }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.conn.SetWriteDeadline(time.Now())
		close(ended)
	})
	before := len(c.unsent)
	all := append(c.unsent, line...)
	n, err := c.conn.Write(all)
	if !stop() {
		<-ended
		c.conn.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil, n > before:
		c.unsent = all[n:]
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.unsent = all[n:before]
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w (%v)", ErrClosed, err)
}

func (r response) decode(result any) error {
	if r.Error != nil {
		return r.Error
	}
	if result == nil || len(r.Result) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// Done returns what is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// KillPeer sends SIGKILL to the supervisor. One that has gone is no error.
func (c *Client) KillPeer() error {
	return c.withPeer(func(pidfd int) error {
		if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); !errors.Is(err, unix.ESRCH) {
			return err
		}
		return nil
	})
}

// AwaitPeer waits until the supervisor and its pid namespace have no process left, or
// patience is over. The connection of one that is killed ends before that.
func (c *Client) AwaitPeer(patience time.Duration) error {
	return c.withPeer(func(pidfd int) error {
		gone, err := linux.AwaitGone(pidfd, patience)
		if err == nil && !gone {
			err = fmt.Errorf("the supervisor is still there after %v", patience)
		}
		return err
	})
}

// Close ends the connection and nothing else.
func (c *Client) Close() error {
	c.peer.Close() // nil is no file, which is an error and no harm
	return c.conn.Close()
}

// Handler carries out one request. Its error goes to the caller, an *Error as
// it is.
type Handler func(ctx context.Context, op string, args json.RawMessage) (any, error)

// Listen makes the socket in the current directory, replacing a stale one, for
// the calling user alone.
func Listen() (*net.UnixListener, error) {
	if err := os.Remove(SocketName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: SocketName, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

// A Server answers requests, each in a goroutine of its own.
type Server struct {
	handler Handler
	// answering is held for reading from when a request came in until its answer is
	// written.
	answering sync.RWMutex
}

// NewServer returns a server that has h carry out its requests.
func NewServer(h Handler) *Server { return &Server{handler: h} }

// Drain returns when the requests that are being carried out have been answered, or
// the patience is at an end; it reports which. Later requests get no answer.
//
// A process that ends without it may take back with it that something has been done,
// and the caller would do it a second time.
func (s *Server) Drain(patience time.Duration) bool {
	drained := make(chan struct{})
	go func() {
		s.answering.Lock() // for good
		close(drained)
	}()
	select {
	case <-drained:
		return true
	case <-time.After(patience):
		return false
	}
}

// Serve answers connections, of unix sockets, until the listener is closed. It goes on when
// the kernel is short of something: with the supervisor the task would end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	patient := accept.Listener{Listener: l}
	for {
		conn, err := patient.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if !allowed(conn.(*net.UnixConn)) {
			conn.Close()
			continue
		}
		go s.serveConn(ctx, conn)
	}
}

func allowed(conn *net.UnixConn) bool {
	cred, err := linux.PeerCredentials(conn)
	return err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
}

func (s *Server) serveConn(ctx context.Context, conn io.ReadWriteCloser) {
	defer conn.Close()
	var mu sync.Mutex
	dec := json.NewDecoder(bufio.NewReader(conn))
	for {
		var q request
		if dec.Decode(&q) != nil {
			return
		}
		go func() {
			s.answering.RLock()
			defer s.answering.RUnlock()
			line := answer(ctx, q, s.handler)
			mu.Lock()
			defer mu.Unlock()
			conn.Write(line) // a peer that has gone needs no answer
		}()
	}
}

func answer(ctx context.Context, q request, h Handler) []byte {
	r := response{ID: q.ID}
	result, err := h(ctx, q.Op, q.Args)
	if err == nil && result != nil {
		r.Result, err = json.Marshal(result)
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Text: err.Error()}
		}
		r.Error = &Error{Kind: e.Kind, Text: err.Error()}
	}
	line, err := json.Marshal(r)
	if err != nil {
		line, _ = json.Marshal(response{ID: q.ID, Error: &Error{Text: err.Error()}})
	}
	return append(line, '\n')
}
