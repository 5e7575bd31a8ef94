package accept

import (
	"container/list"
	"net"
	"sync"
)

// Newest is a listener that keeps so many connections and no more: a new one takes
// the place of the oldest. It is for callers of whom nothing is known: who holds
// connections without need loses them, and who asks gets an answer.
type Newest struct {
	net.Listener
	Max int

	mu    sync.Mutex
	conns list.List // of *newestConn, the oldest first
}

type newestConn struct {
	net.Conn
	l    *Newest
	at   *list.Element
	once sync.Once
}

// Accept waits for the next connection.
func (l *Newest) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &newestConn{Conn: conn, l: l}
	l.mu.Lock()
	c.at = l.conns.PushBack(c)
	var oldest *newestConn
	if l.conns.Len() > l.Max {
		oldest = l.conns.Front().Value.(*newestConn)
	}
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return c, nil
}

// Close ends the connection.
func (c *newestConn) Close() error {
	c.once.Do(func() {
		c.l.mu.Lock()
		c.l.conns.Remove(c.at)
		c.l.mu.Unlock()
	})
	return c.Conn.Close()
}
