package consumer

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"sync"

	"headrace/stream/protocol"
)

// Options say which attempt of which consumer a Client is.
type Options struct {
	Stream   string
	Consumer uint32
	// Attempt counts from 1. The daemon refuses an attempt that it has given up.
	Attempt uint32
	// Away, if not nil, is called once for each time that the daemon does not
	// answer for some seconds, by a goroutine of the client, with the reason.
	Away func(error)
	// dial connects to a socket; nil: dialSocket. Tests have it fail.
	dial func(path string) (*net.UnixConn, error)
}

var (
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("the client of the stream is closed")
	// ErrStale: the unit is not the present one any more.
	ErrStale = errors.New("the unit was left behind by a call of Next or Finish")
)

// StreamError is the daemon's word that the stream has failed or the attempt was
// given up. It is final: what was read counts for nothing.
type StreamError struct{ Text string }

func (e *StreamError) Error() string { return "the stream ended: " + e.Text }

// ProtocolError is an answer of the daemon that makes no sense. It is final;
// most likely the programs are of different versions.
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string {
	return "the daemon's answer is not understood (is it of the same version?): " + e.Text
}

// Client is one attempt of one consumer. One goroutine at a time calls Next,
// Finish and the methods of units; Disconnect, Reconnect, Close, Failed and Err
// may be called by any.
type Client struct {
	path string
	opt  Options

	// kick ends a pause between attempts to connect.
	kick   chan struct{}
	failed chan struct{}
	ended  chan struct{}

	// sending is held while what is to be told is put together and sent, so that
	// it goes out in order. It is taken before mu.
	sending sync.Mutex

	mu sync.Mutex
	// changed is signalled when anything below has changed.
	changed *sync.Cond
	held    bool // by Disconnect
	closed  bool
	err     error // final
	// busy: there is or may be a connection. live is the one that was welcomed;
	// conn is set as soon as there is one.
	busy bool
	conn *protocol.Conn
	live *session
	// lent: somebody reads in shared memory.
	lent    bool
	welcome *protocol.Welcome

	units []uint32
	unit  *Unit
	// want: a Next has no answer yet.
	want bool
	eof  bool
	// results are to be told; failures were told, and are again when there is
	// another connection.
	results  []protocol.Message
	failures []protocol.Message
	finish   *protocol.Finish
	done     bool

	// buf is for what is read from files, by the goroutine that reads units.
	buf []byte
}

// fileStep is how much of a file is read at a time.
const fileStep = 256 << 10

func (c *Client) buffer() []byte {
	if c.buf == nil {
		c.buf = make([]byte, fileStep)
	}
	return c.buf
}

// open begins to connect.
func open(socketPath string, o Options) *Client {
	if o.dial == nil {
		o.dial = dialSocket
	}
	c := &Client{
		path: socketPath, opt: o,
		kick: make(chan struct{}, 1), failed: make(chan struct{}), ended: make(chan struct{}),
	}
	c.changed = sync.NewCond(&c.mu)
	go c.run()
	return c
}

// await waits until the daemon has said what the stream is.
func (c *Client) await(ctx context.Context) (protocol.Welcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.welcome == nil {
		if err := c.wait(ctx); err != nil {
			return protocol.Welcome{}, err
		}
	}
	return *c.welcome, nil
}

// Welcome returns what the daemon said of the stream when the client first connected.
func (c *Client) Welcome() protocol.Welcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.welcome
}

// wait waits for a change. Callers hold mu and look again at what they wait for.
func (c *Client) wait(ctx context.Context) error {
	switch {
	case c.closed:
		return ErrClosed
	case c.err != nil:
		return c.err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		defer stop()
	}
	c.changed.Wait()
	return nil
}

// Next returns the next unit, and io.EOF when nothing is left for this consumer.
// What was not read of the present unit is passed over and counts as consumed.
// The unit may be used until the next call of Next or Finish; ctx also governs
// what waits for its bytes.
func (c *Client) Next(ctx context.Context) (*Unit, error) {
	c.mu.Lock()
	last := c.unit
	c.mu.Unlock()
	if last != nil && last.taken {
		// What an earlier Next has asked for, which gave up, may come at any time: then there is
		// nothing left to pass.
		if err := last.pass(ctx); err != nil && !(err == ErrStale && c.left(last)) {
			return nil, err
		}
	}
	c.mu.Lock()
	if c.finish != nil {
		c.mu.Unlock()
		return nil, ErrStale
	}
	c.want = c.unit == last && (last == nil || last.taken) && !c.eof
	c.mu.Unlock()
	c.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.unit != nil && !c.unit.taken:
			c.unit.taken, c.unit.ctx = true, ctx
			return c.unit, nil
		case c.eof:
			return nil, io.EOF
		}
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// left reports whether another unit has come.
func (c *Client) left(u *Unit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unit != u && c.finish == nil
}

// Finish ends the attempt with an exit code and, for people, a reason. When it
// returns without an error an end with code 0 is durable: all units that the
// attempt was given are read, unless the daemon comes to take its end for none. It waits for a daemon
// that is away until ctx ends, and can then be called again, with the same result as the
// first time.
func (c *Client) Finish(ctx context.Context, code int, reason string) error {
	c.mu.Lock()
	if c.finish == nil {
		c.finish = &protocol.Finish{Code: int32(min(max(code, math.MinInt32), math.MaxInt32)), Reason: reason}
		c.want = false
		c.discard()
	}
	c.mu.Unlock()
	c.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.done {
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Result reports the exit code of the command that was run on a file, for
// people.
func (c *Client) Result(unit uint32, code int) {
	c.mu.Lock()
	c.results = append(c.results, &protocol.Result{Unit: unit, Code: int32(code)})
	c.mu.Unlock()
	c.tell()
}

// Disconnect closes the connection and unmaps all shared memory, and keeps it so
// until Reconnect. The position is kept to the byte. When it returns, the client
// holds no descriptor, and nobody reads in shared memory: it waits for a call of
// Use that is in the middle of it. Calls that need the daemon wait for
// Reconnect.
func (c *Client) Disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
	c.settle()
}

// settle ends the connection and waits until the client has let go of
// everything. Callers hold mu.
func (c *Client) settle() {
	c.stopLending()
	if c.conn != nil {
		c.conn.Close() // what is to be said is said again on the next one
	}
	c.changed.Broadcast()
	c.rouse()
	for c.busy {
		c.changed.Wait()
	}
}

// stopLending waits until nobody reads in shared memory, which is not lent again
// before there is another connection. Callers hold mu.
func (c *Client) stopLending() {
	c.live = nil
	for c.lent {
		c.changed.Wait()
	}
}

// Reconnect lets a client that was disconnected connect again. It does not wait.
func (c *Client) Reconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	c.changed.Broadcast()
	c.rouse()
}

func (c *Client) rouse() {
	select {
	case c.kick <- struct{}{}:
	default: // it is roused already
	}
}

// Close gives the attempt up without an end that the daemon would know of, and
// lets go of everything. It may be called more than once. Like Disconnect it
// waits for who reads in shared memory.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.settle()
	c.mu.Unlock()
	<-c.ended
	return nil
}

// Failed returns what is closed when the client has failed for good; Err then tells why.
func (c *Client) Failed() <-chan struct{} { return c.failed }

// Err returns the final error of the client, nil as long as there is none.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail makes an error final.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.failed)
	}
	c.changed.Broadcast()
}

// discard drops what has come and was not read. Callers hold mu.
func (c *Client) discard() {
	for c.lent {
		c.changed.Wait()
	}
	for c.unit != nil && len(c.unit.pieces) > 0 {
		c.unit.pop()
	}
	c.changed.Broadcast()
}

// hello says where this attempt is. Callers hold mu.
func (c *Client) hello() *protocol.Hello {
	h := &protocol.Hello{
		Version: protocol.Version, Stream: c.opt.Stream, Consumer: c.opt.Consumer, Attempt: c.opt.Attempt,
		Units: slices.Clone(c.units),
	}
	if c.unit != nil {
		h.Position, h.Whole = c.unit.position, c.unit.whole
	}
	return h
}
