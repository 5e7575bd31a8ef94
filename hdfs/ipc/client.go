package ipc

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// Options say how a client introduces itself.
type Options struct {
	Protocol string // the Java name of the protocol's interface
	User     User
	// ID is who calls, over several connections if need be; zero makes one up.
	ID ClientID
	// Negotiate begins with SASL, as Hadoop's clients do where security may be on.
	Negotiate bool
	// Answer is the largest answer, in bytes (128 MB).
	Answer int
	// Take is how long a server may need to take a call (60 s). Then the connection ends: a
	// call that was sent in part cannot be taken back.
	Take time.Duration
}

// A Client is a connection to a server of Hadoop RPC, for one protocol and user. It is safe for
// concurrent use. It does not connect again.
type Client struct {
	o    Options
	net  net.Conn
	next atomic.Int32

	write sync.Mutex

	mu      sync.Mutex
	waiting map[int32]chan<- answer
	err     error // once set, nothing more comes
	ended   chan struct{}
}

// answer is what a server says to a call.
type answer struct {
	header *pb.RpcResponseHeaderProto
	rest   []byte
}

// Dial connects to a server, HOST:PORT.
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	orDefault(&o.Answer, 128<<20)
	orDefault(&o.Take, time.Minute)
	if o.ID == (ClientID{}) {
		rand.Read(o.ID[:])
	}
	c := &Client{o: o, net: nc, waiting: map[int32]chan<- answer{}, ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	r := bufio.NewReader(nc)
	err = c.introduce(r)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("speak Hadoop RPC with %s: %w", address, err)
	}
	go c.read(r)
	return c, nil
}

// introduce sends header and connection context, and negotiates between them if asked to.
func (c *Client) introduce(r *bufio.Reader) error {
	auth := byte(authNone)
	if c.o.Negotiate {
		auth = authSASL
	}
	if _, err := c.net.Write([]byte{'h', 'r', 'p', 'c', version, 0, auth}); err != nil {
		return err
	}
	if c.o.Negotiate {
		if err := c.negotiate(r); err != nil {
			return err
		}
	}
	user := &pb.UserInformationProto{EffectiveUser: &c.o.User.Name}
	if c.o.User.Real != "" {
		user.RealUser = &c.o.User.Real
	}
	return c.send(c.header(callContext, -1), &pb.IpcConnectionContextProto{UserInfo: user, Protocol: &c.o.Protocol})
}

// negotiate hears that the server wants no more than a name.
func (c *Client) negotiate(r *bufio.Reader) error {
	if err := c.send(c.header(callSASL, -1), &pb.RpcSaslProto{State: pb.RpcSaslProto_NEGOTIATE.Enum()}); err != nil {
		return err
	}
	a, err := readAnswer(r, strangerFrame)
	if err != nil {
		return err
	}
	if err := a.err(); err != nil {
		return err
	}
	var m pb.RpcSaslProto
	if _, err := decode(a.rest, &m); err != nil {
		return err
	}
	if m.GetState() == pb.RpcSaslProto_SUCCESS {
		return nil
	}
	for _, auth := range m.GetAuths() {
		if auth.GetMethod() == "SIMPLE" {
			return nil
		}
	}
	return errors.New("the server has no simple authentication")
}

func (c *Client) header(id, retry int32) *pb.RpcRequestHeaderProto {
	return &pb.RpcRequestHeaderProto{
		RpcKind: pb.RpcKindProto_RPC_PROTOCOL_BUFFER.Enum(), RpcOp: pb.RpcRequestHeaderProto_RPC_FINAL_PACKET.Enum(),
		CallId: &id, ClientId: c.o.ID[:], RetryCount: &retry,
	}
}

func (c *Client) send(messages ...proto.Message) error {
	b, err := encode(messages...)
	if err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.net.SetWriteDeadline(time.Now().Add(c.o.Take)); err != nil {
		return err
	}
	_, err = c.net.Write(b)
	return err
}

// Ends returns the two ends of the connection, the server's the second.
func (c *Client) Ends() (here, there netip.AddrPort) {
	return c.net.LocalAddr().(*net.TCPAddr).AddrPort(), c.net.RemoteAddr().(*net.TCPAddr).AddrPort()
}

// ID returns who the server thinks is calling.
func (c *Client) ID() ClientID { return c.o.ID }

// Call calls a method and waits for its answer, which is decoded into out. The error is an
// *Exception when the server has answered with one.
func (c *Client) Call(ctx context.Context, method string, in, out proto.Message) error {
	return c.Retry(ctx, c.next.Add(1), 0, method, in, out)
}

// Retry is Call for one that may have been called before, under this id, perhaps by another
// connection with the same ClientID; n counts these times.
func (c *Client) Retry(ctx context.Context, id, n int32, method string, in, out proto.Message) error {
	answered := make(chan answer, 1)
	if err := c.wait(id, answered); err != nil {
		return err
	}
	defer c.forget(id)
	err := c.send(c.header(id, n), &pb.RequestHeaderProto{
		MethodName: &method, DeclaringClassProtocolName: &c.o.Protocol, ClientProtocolVersion: proto.Uint64(1)}, in)
	if err != nil {
		return c.refused(err)
	}
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
		select {
		case a = <-answered: // it came before the end
		default:
			return c.err
		}
	}
	if err := a.err(); err != nil {
		return err
	}
	_, err = decode(a.rest, out)
	return err
}

// refused returns why nothing can be sent. A server that refuses a client says so before it ends the
// connection, so what is read counts for more than what could not be written.
func (c *Client) refused(err error) error {
	select {
	case <-c.ended:
	case <-time.After(time.Second):
		c.fail(err)
	}
	return c.err
}

func (c *Client) wait(id int32, answered chan<- answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if _, ok := c.waiting[id]; ok || id < 0 {
		return fmt.Errorf("call %d is under way, or none", id)
	}
	c.waiting[id] = answered
	return nil
}

func (c *Client) forget(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// fail ends the connection; the first reason counts.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.ended)
		c.net.Close()
	}
}

// Close ends the connection, and what waits for answers.
func (c *Client) Close() error {
	c.fail(net.ErrClosed)
	return nil
}

// read hands answers to whom waits for them.
func (c *Client) read(r *bufio.Reader) {
	for {
		a, err := readAnswer(r, c.o.Answer)
		if err != nil {
			c.fail(err)
			return
		}
		id := int32(a.header.GetCallId())
		c.mu.Lock()
		to := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if to != nil {
			to <- a
		}
		if a.header.GetStatus() == pb.RpcResponseHeaderProto_FATAL {
			c.fail(a.err())
			return
		}
	}
}

func readAnswer(r *bufio.Reader, most int) (answer, error) {
	n, err := readLength(r, most)
	if err != nil {
		return answer{}, err
	}
	b, err := readBody(r, n, func(int) error { return nil })
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(b)
}

// parseAnswer reads the header of a frame from a server.
func parseAnswer(frame []byte) (a answer, err error) {
	a.header = new(pb.RpcResponseHeaderProto)
	if a.rest, err = decode(frame, a.header); err != nil {
		return a, fmt.Errorf("the header of an answer: %w", err)
	}
	return a, nil
}

// err returns the exception that an answer is.
func (a answer) err() error {
	h := a.header
	if h.GetStatus() == pb.RpcResponseHeaderProto_SUCCESS {
		return nil
	}
	return &Exception{Class: h.GetExceptionClassName(), Message: h.GetErrorMsg(), Code: h.GetErrorDetail(),
		Fatal: h.GetStatus() == pb.RpcResponseHeaderProto_FATAL}
}
