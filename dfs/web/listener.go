package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
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
		c.activity.Wait()
		if c.member = l.crowd.Enter(nc, c.activity.Idle); c.member != nil {
			return c, nil
		}
		l.Log.Info("too many connections, and all are busy", "from", nc.RemoteAddr())
		nc.Close()
	}
}

// conn is a connection of the crowd.
type conn struct {
	net.Conn
	crowd    *accept.Crowd
	member   *accept.Member
	activity accept.Activity // it waits for requests
}

func (c *conn) Write(p []byte) (n int, err error) {
	_, err = c.activity.Send(func() (int64, error) { n, err = c.Conn.Write(p); return int64(n), err })
	return n, err
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
		c.activity.Work()
	case http.StateIdle:
		c.activity.Wait()
	}
}

// connOf has a handler find the connection of its request.
type connOf struct{}

func withConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connOf{}, nc)
}

// answered notes that a request was answered of which more of the body may be to come: net/http waits for it, and nobody wants it.
func answered(r *http.Request) {
	if c, ok := r.Context().Value(connOf{}).(*conn); ok && r.Body != http.NoBody {
		c.activity.Wait()
	}
}

// patience gives the client time to take the next bytes.
func patience(w http.ResponseWriter, d time.Duration) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// body gives the client time for each part of what it sends. When that is over, net/http reads ahead to learn whether the client has gone, and takes the end of
// a time to read for that; so there is none then.
type body struct {
	io.ReadCloser
	*http.ResponseController
	each time.Duration
}

func (b body) Read(p []byte) (int, error) {
	b.SetReadDeadline(time.Now().Add(b.each))
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.SetReadDeadline(time.Time{})
	}
	return n, err
}
