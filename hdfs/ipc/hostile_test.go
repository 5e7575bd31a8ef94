package ipc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/testkit"
)

// TestStrangers sends what is no client of Hadoop RPC, or a bad one.
func TestStrangers(t *testing.T) {
	address := start(t, serving(sized))
	context := introduced(t)[len(hello):]
	long := strings.Repeat("x", strangerFrame)
	for name, c := range map[string]struct {
		bytes [][]byte
		says  string // in what the server answers
	}{
		"http":         {[][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}, "404"},
		"tls":          {[][]byte{{0x16, 3, 1, 2, 0, 1, 0}}, ""},
		"version":      {[][]byte{{'h', 'r', 'p', 'c', 7, 0, 0}}, "cannot communicate with client version 7"},
		"auth":         {[][]byte{{'h', 'r', 'p', 'c', version, 0, 5}}, "Unknown auth protocol: 5"},
		"2 GB":         {[][]byte{hello, length(2 << 30)}, ""},
		"negative":     {[][]byte{hello, length(1<<32 - 1)}, ""},
		"empty":        {[][]byte{hello, length(0)}, ""},
		"no header":    {[][]byte{hello, length(1), {9}}, ""},
		"rubbish":      {[][]byte{hello, length(3), {2, 0xff, 0xff}}, ""},
		"too long":     {[][]byte{hello, frame(t, head(callContext), &pb.IpcConnectionContextProto{Protocol: &long})}, ""},
		"call first":   {[][]byte{hello, frame(t, head(1))}, "before the connection context"},
		"long user":    {[][]byte{hello, frame(t, head(callContext), &pb.IpcConnectionContextProto{UserInfo: &pb.UserInformationProto{EffectiveUser: proto.String(strings.Repeat("u", 256))}})}, "more than 255 bytes"},
		"no user":      {[][]byte{hello, frame(t, head(callContext), &pb.IpcConnectionContextProto{})}, "names no user"},
		"context":      {[][]byte{hello, context, context}, "already processed"},
		"kind":         {[][]byte{hello, context, frame(t, &pb.RpcRequestHeaderProto{CallId: proto.Int32(1), ClientId: []byte{}})}, "kind"},
		"no call":      {[][]byte{hello, context, frame(t, head(1))}, "what is called"},
		"no request":   {[][]byte{hello, context, frame(t, head(1), call("getFileInfo"))}, "the request of getFileInfo"},
		"out of band":  {[][]byte{hello, context, frame(t, head(-77))}, "#-77"},
		"half an id":   {[][]byte{hello, context, frame(t, &pb.RpcRequestHeaderProto{CallId: proto.Int32(1), ClientId: []byte{1}})}, ""},
		"sasl":         {[][]byte{hello, frame(t, head(callSASL), sasl(pb.RpcSaslProto_INITIATE))}, "simple authentication only"},
		"sasl twice":   {[][]byte{hello, frame(t, head(callSASL), sasl(pb.RpcSaslProto_NEGOTIATE)), frame(t, head(callSASL), sasl(pb.RpcSaslProto_NEGOTIATE))}, "already attempted"},
		"sasl late":    {[][]byte{hello, context, frame(t, head(callSASL), sasl(pb.RpcSaslProto_NEGOTIATE))}, "already attempted"},
		"sasl rubbish": {[][]byte{hello, frame(t, head(callSASL))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if b := wantEnd(t, raw(t, address, bytes.Join(c.bytes, nil)...)); !strings.Contains(string(b), c.says) {
				t.Errorf("%q, want %q", b, c.says)
			}
		})
	}
}

func call(method string) *pb.RequestHeaderProto {
	return &pb.RequestHeaderProto{MethodName: &method, DeclaringClassProtocolName: proto.String(clientProtocol), ClientProtocolVersion: proto.Uint64(1)}
}

func sasl(s pb.RpcSaslProto_SaslState) *pb.RpcSaslProto { return &pb.RpcSaslProto{State: &s} }

// TestPing: a ping is no call, and asks for no answer.
func TestPing(t *testing.T) {
	address := start(t, serving(sized))
	c := raw(t, address, bytes.Join([][]byte{introduced(t), frame(t, head(callPing)),
		frame(t, head(5), call("getFileInfo"), &pb.GetFileInfoRequestProto{Src: proto.String("/123")})}, nil)...)
	a, err := readAnswer(bufio.NewReader(c), 1000)
	if err != nil || a.header.GetCallId() != 5 || a.err() != nil {
		t.Errorf("%v, %v", a, err)
	}
}

// TestTimeLimits: who is slow is not waited for.
func TestTimeLimits(t *testing.T) {
	s := serving(sized)
	s.Limits = Limits{Handshake: 50 * time.Millisecond, Request: 50 * time.Millisecond, Idle: 50 * time.Millisecond}
	address := start(t, s)
	for name, b := range map[string][]byte{
		"silent": {}, "half a header": hello[:5], "no context": hello, "half a context": introduced(t)[:12],
		"half a length": append(introduced(t), 0, 0), "half a request": append(introduced(t), append(length(1000), 1, 2)...), "idle": introduced(t),
	} {
		t.Run(name, func(t *testing.T) { wantEnd(t, raw(t, address, b...)) })
	}
}

// TestBusyIsNotIdle: a connection whose call takes longer than idle ones are kept goes on.
func TestBusyIsNotIdle(t *testing.T) {
	var s *Server
	s = serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		time.Sleep(4 * s.Limits.Idle)
		return sized(ctx, c, q)
	})
	s.Limits.Idle = 20 * time.Millisecond
	// At once, else a client that gets no processor for as long is idle.
	c := raw(t, start(t, s), append(introduced(t), frame(t, head(5), call("getFileInfo"), &pb.GetFileInfoRequestProto{Src: proto.String("/long")})...)...)
	if a, err := readAnswer(bufio.NewReader(c), 1000); err != nil || a.header.GetCallId() != 5 || a.err() != nil {
		t.Errorf("%v, %v", a, err)
	}
}

// TestAnswerNotTaken: a client that reads no answers is disconnected, and takes no more
// than its calls.
func TestAnswerNotTaken(t *testing.T) {
	s := serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		a := size(1)
		a.Fs.Symlink = make([]byte, 8<<20)
		return a, nil
	})
	s.Limits.Answer, s.Limits.Calls = 50*time.Millisecond, 2
	address := start(t, s)
	c := raw(t, address, introduced(t)...)
	one := frame(t, head(1), call("getFileInfo"), &pb.GetFileInfoRequestProto{Src: proto.String("/")})
	for range 20 {
		if _, err := c.Write(one); err != nil {
			break
		}
	}
	testkit.Await(t, "the connection to end", func() bool { return s.crowd.Members() == 0 })
}

// TestLongRequestsLeaveRoom: who fills the memory with long requests that never end keeps nobody from short calls.
func TestLongRequestsLeaveRoom(t *testing.T) {
	s := serving(sized)
	s.Limits.Memory, s.Limits.AddressMemory = 4<<20, 4<<20
	address := start(t, s)
	const held = 512 << 10 // as much is taken for the next part of a request of which as much has come
	var ends []net.Conn
	for range 16 {
		c := raw(t, address, introduced(t)...)
		c.Write(append(length(2*held), make([]byte, held)...)) // it may be cut off in the midst of it
		ends = append(ends, c)
	}
	testkit.Await(t, "what is left to be too little for one more", func() bool {
		all, _ := s.memory.long.Taken()
		return all > 3<<20-2*held && s.crowd.Members() < len(ends)
	})
	wantLength(t, dial(t, address, Options{}), "/short")
}

// TestManyAnswersNotTaken: answers that nobody reads take no more memory than clients may have, and keep nobody from being answered.
func TestManyAnswersNotTaken(t *testing.T) {
	const bytes = 1 << 20
	s := serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		if q.(*pb.GetFileInfoRequestProto).GetSrc() != "/large" {
			return sized(ctx, c, q)
		}
		a := size(1)
		a.Fs.Symlink = make([]byte, bytes)
		return a, nil
	})
	s.Limits.Memory, s.Limits.AddressMemory = 16*bytes, 16*bytes
	address := start(t, s)
	one := frame(t, head(1), call("getFileInfo"), &pb.GetFileInfoRequestProto{Src: proto.String("/large")})
	var ends []net.Conn
	for range 4 {
		c := raw(t, address, introduced(t)...)
		for range 32 {
			if _, err := c.Write(one); err != nil {
				break
			}
		}
		ends = append(ends, c)
	}
	testkit.Await(t, "connections to end that have too much", func() bool { return s.crowd.Members() < len(ends) })
	for _, c := range ends {
		c.Close()
	}
	wantLength(t, dial(t, address, Options{}), "/other")
}

// TestManyConnections: 2,000 idle connections of one address keep nobody out.
func TestManyConnections(t *testing.T) {
	s := serving(sized)
	s.Limits.AddressConnections = 100
	address := start(t, s)
	held := dial(t, address, Options{})
	wantLength(t, held, "/")
	for range 2000 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	wantLength(t, dial(t, address, Options{}), "/later")
	if n := s.crowd.Members(); n > 100 {
		t.Errorf("%d connections", n)
	}
}

// TestBusyConnectionsStay: where all are busy, a new one is refused; and all addresses together
// have a bound.
func TestBusyConnectionsStay(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	s := serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		begun <- struct{}{}
		<-proceed
		return sized(ctx, c, q)
	})
	s.Limits.Connections = 2
	address := start(t, s)
	heard := make(chan error, 2)
	for range 2 {
		c := dial(t, address, Options{})
		go func() { _, err := lengthOf(t.Context(), c, "/"); heard <- err }()
		<-begun
	}
	wantEnd(t, raw(t, address, introduced(t)...))
	close(proceed)
	for range 2 {
		if err := <-heard; err != nil {
			t.Error(err)
		}
	}
}

// TestMemory: an address that sends more than it may is disconnected, others are served, and what
// it had comes back.
func TestMemory(t *testing.T) {
	s := serving(sized)
	s.Limits.AddressMemory = 1 << 20
	address := start(t, s)
	big := dial(t, address, Options{})
	if _, err := lengthOf(t.Context(), big, strings.Repeat("x", 2<<20)); err == nil {
		t.Error("a request larger than the address may have")
	}
	// A length alone takes hardly any memory.
	for range 20 {
		raw(t, address, append(introduced(t), length(60<<20)...)...)
	}
	wantLength(t, dial(t, address, Options{}), strings.Repeat("x", 600<<10))
}

// TestMemoryOfANetwork: all addresses of one machine share, also where it has a /64 of IPv6.
func TestMemoryOfANetwork(t *testing.T) {
	m := newMemory(Limits{Memory: 100, AddressMemory: 10})
	first, second, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8:0:1::1")
	if err := errors.Join(m.take(first, 6, 6), m.take(other, 6, 6)); err != nil {
		t.Fatal(err)
	}
	if m.take(second, 6, 6) == nil {
		t.Error("an address has the share of another one of its network")
	}
	m.give(first, 6, 6)
	if err := m.take(second, 6, 6); err != nil {
		t.Error(err)
	}
}

// TestLargeAnswersWaitForEachOther: answers that say how much memory they take are not put together beside more of them than fit, and others are.
func TestLargeAnswersWaitForEachOther(t *testing.T) {
	var building, most atomic.Int32
	s := serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		path := q.(*pb.GetFileInfoRequestProto).GetSrc()
		if path != "/large" {
			return size(len(path)), nil
		}
		if err := c.Reserve(ctx, 60); err != nil {
			return nil, err
		}
		if n := building.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer building.Add(-1)
		runtime.Gosched()
		return size(len(path)), c.Reserve(ctx, 60) // once more: it has it
	})
	s.Limits.Large = 100
	c := dial(t, start(t, s), Options{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { wantLength(t, c, "/large") })
		all.Go(func() { wantLength(t, c, "/small") })
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d large answers at once", most.Load())
	}
	if !s.large.TryAcquire(100) {
		t.Error("something was not given back")
	}
}

// TestGreedyServer: a server's frames have a bound as well.
func TestGreedyServer(t *testing.T) {
	c := dial(t, start(t, serving(sized)), Options{Answer: 10})
	if _, err := lengthOf(t.Context(), c, "/"); err == nil {
		t.Error("an answer of more than 10 bytes")
	}
}

// FuzzRequest parses any frame as a server does: no panic, and nothing longer than the frame.
func FuzzRequest(f *testing.F) {
	f.Add(frame(f, head(1), call("getFileInfo"), &pb.GetFileInfoRequestProto{Src: proto.String("/a")})[4:])
	f.Add(frame(f, head(callSASL), sasl(pb.RpcSaslProto_NEGOTIATE))[4:])
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := parseRequest(b)
		if err != nil {
			return
		}
		if c, err := parseCall(q); err == nil && len(c.Request) > len(b) {
			t.Errorf("a request of %d bytes in %d", len(c.Request), len(b))
		}
	})
}

// FuzzAnswer parses any frame as a client does.
func FuzzAnswer(f *testing.F) {
	no := Throw(ClassIO, "no").response()
	no.CallId = proto.Uint32(1)
	f.Add(frame(f, no)[4:])
	f.Add(frame(f, &pb.RpcResponseHeaderProto{CallId: proto.Uint32(1), Status: pb.RpcResponseHeaderProto_SUCCESS.Enum()}, size(1))[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parseAnswer(b); err == nil {
			_ = a.err()
			_, _ = decode(a.rest, new(pb.GetFileInfoResponseProto))
		}
	})
}

// FuzzConnection sends any bytes to a server: it ends the connection or waits, and goes on
// serving others.
func FuzzConnection(f *testing.F) {
	address := start(f, serving(sized))
	f.Add(introduced(f))
	f.Add(append(introduced(f), frame(f, head(1), call("getFileInfo"), &pb.GetFileInfoRequestProto{Src: proto.String("/a")})...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := raw(t, address, b...)
		c.(*net.TCPConn).CloseWrite()
		wantEnd(t, c)
		wantLength(t, dial(t, address, Options{}), "/")
	})
}

// TestServerThatTakesNothing: a call to a server that does not read ends, and so does the
// connection.
func TestServerThatTakesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := dial(t, l.Addr().String(), Options{})
	c.o.Take = 50 * time.Millisecond // not before: on a busy machine even what there is room for takes longer
	if _, err := lengthOf(t.Context(), c, strings.Repeat("x", 32<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a call that nobody takes: %v", err)
	}
	if _, err := lengthOf(t.Context(), c, "x"); err == nil {
		t.Error("the connection goes on behind half a call")
	}
}
