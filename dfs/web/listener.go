package web

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"headrace/internal/accept"
)

// listener keeps connections within bounds.
type listener struct {
	accept.Listener
	crowd accept.Crowd
}

func (s *Server) listener(l net.Listener) net.Listener {
	return &listener{Listener: accept.Listener{Listener: l, Name: "WebHDFS", Log: s.Log},
		crowd: accept.Crowd{Most: s.Connections, MostOfAddress: s.AddressConnections}}
}

// Accept waits for the next connection that there is room for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: nc, crowd: &l.crowd}
		c.since.Store(time.Now().UnixNano())
		if c.member = l.crowd.Enter(nc, c.idleSince); c.member != nil {
			return c, nil
		}
		l.Log.Info("too many connections, and all are busy", "from", nc.RemoteAddr())
		nc.Close()
	}
}

// conn is a connection of the crowd.
type conn struct {
	net.Conn
	crowd  *accept.Crowd
	member *accept.Member
	since  atomic.Int64 // since when it waits for a request: Unix time in ns, 0 while it has one
}

func (c *conn) idleSince() (time.Time, bool) {
	since := c.since.Load()
	return time.Unix(0, since), since != 0
}

func (c *conn) Close() error {
	c.crowd.Leave(c.member)
	return c.Conn.Close()
}

// noteState notes whether a connection has a request.
func noteState(nc net.Conn, state http.ConnState) {
	c := nc.(*conn)
	switch state {
	case http.StateActive:
		c.since.Store(0)
	case http.StateIdle:
		c.since.Store(time.Now().UnixNano())
	}
}

// patience gives the client BodyTime for the next bytes. While a request goes on, net/http reads ahead to learn whether the client has gone;
// when the time is over, that counts as gone.
func (s *Server) patience(w http.ResponseWriter) {
	c, by := http.NewResponseController(w), time.Now().Add(s.BodyTime)
	c.SetReadDeadline(by)
	c.SetWriteDeadline(by)
}
