package peer

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"headrace/internal/accept"
)

// conn is a connection that somebody has made to a port, below TLS.
type conn struct {
	net.Conn
	port   *Port
	came   time.Time
	active atomic.Int64                  // when it last did something: Unix time in ns
	member atomic.Pointer[accept.Member] // of the nodes
}

func (c *conn) touch() { c.active.Store(time.Now().UnixNano()) }

// waiting: one that has proved nothing is in the way, from the beginning.
func (c *conn) waiting() (time.Time, bool) { return c.came, true }

// silentTime is how long one that was proved may say nothing before it may have to give way.
const silentTime = time.Minute

func (c *conn) silent() (time.Time, bool) {
	at := time.Unix(0, c.active.Load())
	return at, time.Since(at) > silentTime
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.touch()
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.touch()
	return n, err
}

func (c *conn) Close() error {
	c.port.left(c)
	if m := c.member.Load(); m != nil {
		c.port.crowds.nodes.Leave(m)
	}
	return c.Conn.Close()
}

// queue is a listener of connections that were accepted and proved elsewhere.
type queue struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   func() net.Addr
}

var _ net.Listener = (*queue)(nil)

func (q *queue) put(c net.Conn) error {
	select {
	case q.conns <- c:
		return nil
	case <-q.closed:
		return net.ErrClosed
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

func (q *queue) Addr() net.Addr { return q.addr() }

// crowds are the connections of strangers and of nodes. What closes one that has to give way is below conn, whose Close
// uses the crowd.
type crowds struct{ strangers, nodes accept.Crowd }
