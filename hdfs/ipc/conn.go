package ipc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/accept"
)

// conn is a connection of a client. One goroutine reads it, one more of the crew runs each call.
type conn struct {
	s    *Server
	net  *accept.Member
	near netip.AddrPort // this end; zero for one without a port, of which nothing is proved
	r    *bufio.Reader
	ctx  context.Context

	user       User // set once introduced
	introduced bool
	only       string // the one protocol of a connection that is not proved
	negotiated bool   // the client has begun to negotiate

	calls    chan struct{} // one for each call that is being served
	serving  sync.WaitGroup
	draining atomic.Bool
	active   atomic.Int64 // when it last did something: Unix time, in ns

	write   sync.Mutex // of what follows
	unsent  []answered
	sending bool
}

// answered is an answer to be sent.
type answered struct {
	frame []byte
	sent  func() // is called when it was sent, or never will be
}

func newConn(s *Server) *conn {
	c := &conn{s: s, r: bufio.NewReader(nil), calls: make(chan struct{}, s.Limits.Calls)}
	c.touch()
	return c
}

func (c *conn) touch() { c.active.Store(time.Now().UnixNano()) }

// idleSince returns since when nothing has happened, and whether nothing is under way.
func (c *conn) idleSince() (time.Time, bool) { return time.Unix(0, c.active.Load()), len(c.calls) == 0 }

// drain has the connection end once its calls are answered.
func (c *conn) drain() {
	c.draining.Store(true)
	c.net.SetReadDeadline(time.Unix(1, 0))
}

// deadline bounds the next reads, unless the connection is draining.
func (c *conn) deadline(d time.Duration) error {
	if err := c.net.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	if c.draining.Load() { // it may have begun just before
		return errDraining
	}
	return nil
}

var errDraining = errors.New("the server is closing")

// serve reads the connection to its end, and returns when all calls have ended.
func (c *conn) serve() {
	ctx, cancel := context.WithCancel(c.s.ctx)
	c.ctx = ctx
	defer c.net.Close()
	err := c.read()
	if !c.draining.Load() {
		cancel()
	}
	if e := (*Exception)(nil); errors.As(err, &e) {
		sent := make(chan struct{})
		c.answer(&pb.RpcRequestHeaderProto{CallId: proto.Int32(callUnknown)}, nil, e, nil, func() { close(sent) })
		<-sent
		c.linger()
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.s.Log.Debug("a connection ends", "from", c.net.Remote, "err", err)
	}
	c.serving.Wait()
	cancel()
}

// read reads frames until the connection ends, or is of no more use; it returns why.
func (c *conn) read() error {
	until := time.Now().Add(c.s.Limits.Handshake)
	if err := c.deadline(time.Until(until)); err != nil {
		return err
	}
	if err := c.readHeader(); err != nil {
		return err
	}
	for !c.introduced {
		if err := c.deadline(time.Until(until)); err != nil {
			return err
		}
		if err := c.readFrame(strangerFrame, time.Until(until)); err != nil {
			return err
		}
	}
	for {
		if err := c.wait(); err != nil {
			return err
		}
		if err := c.readFrame(c.s.Limits.Frame, c.s.Limits.Request); err != nil {
			return err
		}
	}
}

// wait waits for the next frame to begin. A connection that serves calls is not idle.
func (c *conn) wait() error {
	for {
		if err := c.deadline(c.s.Limits.Idle); err != nil {
			return err
		}
		_, err := c.r.Peek(1)
		if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() && len(c.calls) > 0 && !c.draining.Load() {
			continue
		}
		return err
	}
}

// readHeader reads the header of the connection.
func (c *conn) readHeader() error {
	var h [7]byte
	if _, err := io.ReadFull(c.r, h[:4]); err != nil {
		return err
	}
	switch string(h[:4]) {
	case "hrpc":
	case "GET ", "POST", "PUT ", "HEAD":
		c.send(answered{[]byte("HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\n" +
			"This is a port of Hadoop RPC. Web pages and WebHDFS have another port.\r\n"), func() {}})
		return errors.New("a request of HTTP")
	default:
		return errors.New("not a client of Hadoop RPC")
	}
	if _, err := io.ReadFull(c.r, h[4:]); err != nil {
		return err
	}
	if h[4] != version {
		return fatal(ClassVersion, pb.RpcResponseHeaderProto_FATAL_VERSION_MISMATCH,
			"Server IPC version %d cannot communicate with client version %d", version, h[4])
	}
	if h[6] != authNone && h[6] != authSASL {
		return fatal(ClassIO, pb.RpcResponseHeaderProto_FATAL_INVALID_RPC_HEADER, "Unknown auth protocol: %d", h[6])
	}
	return nil
}

// readFrame reads a frame and does what it asks for. An error ends the connection.
func (c *conn) readFrame(most int, within time.Duration) error {
	if err := c.deadline(within); err != nil {
		return err
	}
	n, err := readLength(c.r, most)
	if err != nil {
		return err
	}
	var took int
	give := func() { c.s.memory.give(c.net.Remote.Addr(), n, took) }
	frame, err := readBody(c.r, n, func(bytes int) error {
		err := c.s.memory.take(c.net.Remote.Addr(), n, bytes)
		if err == nil {
			took += bytes
		}
		return err
	})
	c.touch()
	var q request
	if err == nil {
		q, err = parseRequest(frame)
	}
	if err != nil {
		give()
		return err
	}
	if q.header.GetCallId() >= 0 {
		return c.begin(q, give)
	}
	defer give()
	return c.special(q)
}

// special serves what is no call.
func (c *conn) special(q request) error {
	switch id := q.header.GetCallId(); id {
	case callPing:
		return nil
	case callSASL:
		return c.negotiate(q)
	case callContext:
		return c.introduce(q)
	default:
		return fatal(ClassServer, pb.RpcResponseHeaderProto_FATAL_INVALID_RPC_HEADER, "Unknown out of band call #%d", id)
	}
}

// negotiate answers a client that wants to negotiate: with success, by which a server
// with simple authentication alone says that there is no need to (Server.buildNegotiateResponse).
func (c *conn) negotiate(q request) error {
	var m pb.RpcSaslProto
	if _, err := decode(q.rest, &m); err != nil {
		return fmt.Errorf("a message of SASL: %w", err)
	}
	if c.negotiated || c.introduced {
		return fatal(ClassAccess, pb.RpcResponseHeaderProto_FATAL_UNAUTHORIZED, "Client already attempted negotiation")
	}
	c.negotiated = true
	if m.GetState() != pb.RpcSaslProto_NEGOTIATE {
		return fatal(ClassAccess, pb.RpcResponseHeaderProto_FATAL_UNAUTHORIZED,
			"this server has simple authentication only, and no state %v of SASL", m.GetState())
	}
	c.answer(q.header, &pb.RpcSaslProto{State: pb.RpcSaslProto_SUCCESS.Enum()}, nil, nil, func() {})
	return nil
}

// introduce takes the connection context: who calls.
func (c *conn) introduce(q request) error {
	if c.introduced {
		return fatal(ClassServer, pb.RpcResponseHeaderProto_FATAL_INVALID_RPC_HEADER, "Connection context already processed")
	}
	var m pb.IpcConnectionContextProto
	if _, err := decode(q.rest, &m); err != nil {
		return fmt.Errorf("the connection context: %w", err)
	}
	u := User{Name: m.GetUserInfo().GetEffectiveUser(), Real: m.GetUserInfo().GetRealUser()}
	if u.Name == "" {
		return fatal(ClassAccess, pb.RpcResponseHeaderProto_FATAL_UNAUTHORIZED, "the connection context names no user")
	}
	if len(u.Name) > mostUser || len(u.Real) > mostUser {
		return fatal(ClassAccess, pb.RpcResponseHeaderProto_FATAL_UNAUTHORIZED, "the connection context names a user with more than %d bytes", mostUser)
	}
	if u.Real == u.Name {
		u.Real = ""
	}
	if c.s.Unproved[m.GetProtocol()] {
		c.only = m.GetProtocol()
	} else if c.s.Prove != nil {
		if err := c.s.Prove(cmp.Or(u.Real, u.Name), c.net.Remote, c.near); err != nil {
			return fatal(ClassAccess, pb.RpcResponseHeaderProto_FATAL_UNAUTHORIZED, "%s", err)
		}
	}
	if u.Real != "" {
		err := error(fmt.Errorf("User: %s is not allowed to impersonate %s", u.Real, u.Name))
		if c.s.Impersonate != nil {
			err = c.s.Impersonate(c.ctx, u, c.net.Remote.Addr())
		}
		if err != nil {
			return fatal(ClassUnauthorized, pb.RpcResponseHeaderProto_FATAL_UNAUTHORIZED, "%s", err)
		}
	}
	c.user, c.introduced = u, true
	return nil
}

// mostUser is how many bytes the name of a user may have.
const mostUser = 255

// begin has a call served, beside the others of the connection; done is called afterwards. It
// waits while the connection has too many.
func (c *conn) begin(q request, done func()) error {
	if !c.introduced {
		done()
		return fatal(ClassAccess, pb.RpcResponseHeaderProto_FATAL_UNAUTHORIZED, "a call before the connection context")
	}
	call, err := parseCall(q)
	if err != nil {
		done()
		return fatal(ClassServer, pb.RpcResponseHeaderProto_FATAL_DESERIALIZING_REQUEST, "%s", err)
	}
	call.User, call.Remote, call.Local = c.user, c.net.Remote, c.near
	leave := c.s.Enter(call)
	select {
	case c.calls <- struct{}{}:
	case <-c.ctx.Done():
		done()
		return c.ctx.Err()
	}
	c.serving.Add(1)
	c.s.crew.run(func() {
		m, err := c.call(call)
		c.answer(q.header, m, err, leave, func() { c.touch(); <-c.calls; done(); c.serving.Done() })
	})
	return nil
}

// call runs a handler. A panic of it is an error of the call.
func (c *conn) call(call *Call) (m proto.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.s.Log.Error("a handler has panicked", "protocol", call.Protocol, "method", call.Method, "panic", p, "stack", string(debug.Stack()))
			err = Throw("java.lang.RuntimeException", "internal error in %s", call.Method)
		}
	}()
	if c.only != "" && call.Protocol != c.only {
		return nil, Throw(ClassAccess, "this connection was begun for %s, and nothing proves whose it is: connect again for %s", c.only, call.Protocol)
	}
	h := c.s.Protocols[call.Protocol]
	if h == nil {
		return nil, &Exception{Class: ClassNoProtocol, Message: "Unknown protocol: " + call.Protocol, Code: pb.RpcResponseHeaderProto_ERROR_NO_SUCH_PROTOCOL}
	}
	return h.Serve(c.ctx, call)
}

// answer sends the answer of a call: it calls encoded before it does, and sent afterwards. One that cannot be sent ends the connection.
func (c *conn) answer(to *pb.RpcRequestHeaderProto, m proto.Message, err error, encoded, sent func()) {
	h := &pb.RpcResponseHeaderProto{Status: pb.RpcResponseHeaderProto_SUCCESS.Enum()}
	if err != nil {
		h, m = ExceptionOf(err).response(), nil
	}
	h.CallId = proto.Uint32(uint32(to.GetCallId()))
	h.ClientId, h.RetryCount = to.ClientId, to.RetryCount
	h.ServerIpcVersionNum = proto.Uint32(version)
	b, encodeErr := encode(h, m)
	if encoded != nil {
		encoded()
	}
	if encodeErr != nil && err == nil {
		c.answer(to, nil, Throw(ClassServer, "the answer: %v", encodeErr), encoded, sent)
		return
	}
	// They wait for those before them: a client that asks and does not read would fill the memory.
	if err := c.s.memory.take(c.net.Remote.Addr(), len(b), len(b)); err != nil {
		c.s.Log.Info("an answer is not sent, and the connection ends", "from", c.net.Remote, "err", err)
		c.net.Close()
		sent()
		return
	}
	c.send(answered{b, func() {
		c.s.memory.give(c.net.Remote.Addr(), len(b), len(b))
		if h.GetStatus() == pb.RpcResponseHeaderProto_FATAL && to.GetCallId() >= 0 {
			c.net.Close()
		}
		sent()
	}})
}

// How long, and how many bytes, a client that was refused may go on sending.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 1 << 20
)

// linger waits until the client has read why it was refused: closed at once, the connection
// would be reset while it sends, and it would not.
func (c *conn) linger() {
	if t, ok := c.net.Conn.(interface{ CloseWrite() error }); ok && t.CloseWrite() == nil && c.deadline(lingerTime) == nil {
		_, _ = io.CopyN(io.Discard, c.r, lingerBytes)
	}
}

// send writes an answer, or leaves that to who is writing others. What is ready at the same time goes out at once: a write
// costs the server about as much as all else that it does for a look at the names, and each piece that comes wakes the client.
func (c *conn) send(a answered) {
	c.write.Lock()
	c.unsent = append(c.unsent, a)
	first := !c.sending
	c.sending = true
	c.write.Unlock()
	if !first {
		return
	}
	runtime.Gosched() // whose call ended with this one, as those of one round of the log do, is to come along
	for all := c.take(); len(all) > 0; all = c.take() {
		b := all[0].frame
		for _, a := range all[1:] {
			b = append(b, a.frame...)
		}
		c.net.SetWriteDeadline(time.Now().Add(c.s.Limits.Answer))
		if _, err := c.net.Write(b); err != nil {
			c.net.Close()
		}
		for _, a := range all {
			a.sent()
		}
		clear(all) // else the connection would keep what was answered last
	}
}

// take returns what is to be sent next, so much that a slow client has taken it in time. When there is nothing, nobody sends any more.
func (c *conn) take() (all []answered) {
	c.write.Lock()
	defer c.write.Unlock()
	n, bytes := 0, 0
	for n < len(c.unsent) && (n == 0 || bytes+len(c.unsent[n].frame) <= usual) {
		bytes += len(c.unsent[n].frame)
		n++
	}
	all, c.unsent = c.unsent[:n:n], c.unsent[n:]
	c.sending = n > 0
	return all
}
