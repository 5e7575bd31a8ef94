package xfer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/accept"
	"headrace/internal/budget"
)

// ErrClosed is what Serve returns after the server was closed.
var ErrClosed = errors.New("the server is closed")

// Limits bound what clients may take of a server. 0: the default. All addresses of one /64 of IPv6 are one.
type Limits struct {
	// Connections are those of all addresses (4,096, as dfs.datanode.max.transfer.threads) and of one
	// (1,024). One too many takes the place of one that waits for its next operation, or has not shown that it may do what it wants, or of a
	// reader that has taken nothing for as long as Stalled (10 s): its client connects again.
	Connections, AddressConnections int
	// Memory is for packets that are larger than usual (256 KB), in bytes: of all addresses (512 MB), and of one (128 MB). Who sends
	// more of them at a time is disconnected.
	Memory, AddressMemory int64
	// Operation is how long a client may take until it says what it wants (10 s), Next the same after another operation (4 s),
	// Receive how long to send the next packet (8 min: clients that have nothing to write send a heartbeat every half of a
	// timeout that is theirs to choose, dfs.client.socket-timeout), Send how long to take one (8 min: a reader may be slow).
	// Connect is how long the next node may take to be connected to (60 s), Answer how long to answer a packet, and 5 s more
	// for each after it, and how long a client to say that it has read (60 s).
	Operation, Next, Receive, Send, Connect, Answer, Stalled time.Duration
}

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// PerNode is how much longer an answer may take for each node that it passes: each is to hear who is to blame before it gives up the next one.
const PerNode = 5 * time.Second

// A Server is the data transfer of a data node. Set its fields before Serve.
type Server struct {
	Store Store
	// Check says whether somebody may do something; an error is the reason why not, for the client with
	// the status ERROR_ACCESS_TOKEN. Without it everybody may do everything.
	Check func(ctx context.Context, a Access) error
	// Issue makes the token with which a replica is copied to another data node (Access.Copy); the client's own, which is to
	// copy, when nil.
	Issue func(Block) *pb.TokenProto
	// Verify has each node of a pipeline compare what comes with its checksums, for stores that keep checksums of
	// their own; otherwise the last one does.
	Verify bool
	// Dial connects to another data node, HOST:PORT; by TCP when nil.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Limits Limits
	// Packet is how many bytes of data a packet has (64 KB), a multiple of Chunk.
	Packet int
	Log    *slog.Logger

	once   sync.Once
	crowd  accept.Crowd
	memory budget.SharedTiers
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	listener map[net.Listener]struct{}
	running  sync.WaitGroup // connections
}

func (s *Server) init() {
	s.once.Do(func() {
		orDefault(&s.Limits.Connections, 4096)
		orDefault(&s.Limits.AddressConnections, 1024)
		orDefault(&s.Limits.Memory, 512<<20)
		orDefault(&s.Limits.AddressMemory, 128<<20)
		orDefault(&s.Limits.Operation, 10*time.Second)
		orDefault(&s.Limits.Next, 4*time.Second)
		orDefault(&s.Limits.Receive, 8*time.Minute)
		orDefault(&s.Limits.Send, 8*time.Minute)
		orDefault(&s.Limits.Connect, time.Minute)
		orDefault(&s.Limits.Answer, time.Minute)
		orDefault(&s.Packet, 64<<10)
		if s.Dial == nil {
			s.Dial = dialTCP
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		s.crowd = accept.Crowd{Most: s.Limits.Connections, MostOfAddress: s.Limits.AddressConnections}
		s.memory.Tiers = budget.Tiers{What: "bytes of packets", Owner: s.Limits.AddressMemory, All: s.Limits.Memory}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.listener = map[net.Listener]struct{}{}
	})
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// Serve accepts connections, until Close, or until the listener fails. It closes the listener. It may
// be called with several listeners, at the same time.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	defer l.Close()
	if !s.listen(l) {
		return ErrClosed
	}
	listener := accept.Listener{Listener: l, Name: "data transfer", Log: s.Log}
	for {
		nc, err := listener.Accept()
		if err != nil {
			if s.ctx.Err() != nil {
				return ErrClosed
			}
			return err
		}
		s.begin(nc)
	}
}

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener[l] = struct{}{}
	return !s.closed
}

// begin serves a connection in the background, unless there are too many.
func (s *Server) begin(nc net.Conn) {
	c := &conn{s: s, activity: accept.Activity{Stalled: s.Limits.Stalled}}
	c.activity.Wait()
	if c.net = s.crowd.Enter(nc, c.activity.Idle); c.net == nil {
		s.Log.Info("too many connections, and all are busy", "from", nc.RemoteAddr())
		nc.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		s.crowd.Leave(c.net)
		return
	}
	s.running.Go(func() {
		defer s.crowd.Leave(c.net)
		defer nc.Close()
		if err := c.serve(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			s.Log.Debug("a connection ends", "from", c.net.Remote, "err", err)
		}
	})
}

// Close ends everything at once, and returns when all operations have ended. Clients recover.
func (s *Server) Close() error {
	s.init()
	s.cancel()
	s.mu.Lock()
	s.closed = true
	for l := range s.listener {
		l.Close()
	}
	s.mu.Unlock()
	s.crowd.Each(func(m *accept.Member) { m.Close() })
	s.running.Wait()
	return nil
}

// conn is a connection of a client, or of the node before this one in a pipeline.
type conn struct {
	s   *Server
	net *accept.Member
	r   *bufio.Reader

	activity accept.Activity // it waits for operations
}

// deadlines bound the reads and writes that follow.
func (c *conn) deadlines(receive, send time.Duration) {
	now := time.Now()
	c.net.SetReadDeadline(now.Add(receive))
	c.net.SetWriteDeadline(now.Add(send))
}

// serve serves one operation after the other.
func (c *conn) serve() error {
	c.r = bufio.NewReaderSize(c.net, 8<<10)
	for wait := c.s.Limits.Operation; ; wait = min(c.s.Limits.Next, c.s.Limits.Operation) {
		c.deadlines(wait, c.s.Limits.Send)
		op, err := readOp(c.r)
		if errors.Is(err, errSASL) {
			return c.refuseSASL()
		}
		if err != nil {
			return err
		}
		c.deadlines(c.s.Limits.Operation, c.s.Limits.Send)
		if err := c.operate(op); err != nil {
			return err
		}
		c.activity.Wait()
	}
}

// operate serves an operation. After an error the connection is of no more use.
func (c *conn) operate(op Op) error {
	ctx, cancel := context.WithCancel(c.s.ctx)
	defer cancel()
	switch op {
	case OpReadBlock:
		return operation(ctx, c, op, new(pb.OpReadBlockProto), c.read)
	case OpWriteBlock:
		return operation(ctx, c, op, new(pb.OpWriteBlockProto), c.write)
	case OpTransferBlock:
		return operation(ctx, c, op, new(pb.OpTransferBlockProto), c.transfer)
	case OpBlockChecksum:
		return operation(ctx, c, op, new(pb.OpBlockChecksumProto), c.checksum)
	case OpRequestFDs, OpGroupChecksum, OpCopyBlock, OpReplaceBlock, OpReleaseFDs, OpRequestSegment:
		return c.unsupported(op)
	}
	return refuse(pb.Status_ERROR_INVALID, "unknown %v", op)
}

// operation reads what an operation is asked for, and serves it.
func operation[M proto.Message](ctx context.Context, c *conn, op Op, m M, serve func(context.Context, Op, M) error) error {
	if err := readMessage(c.r, m); err != nil {
		return err
	}
	return serve(ctx, op, m)
}

// check asks whether the operation is allowed, and tells the client if not.
func (c *conn) check(ctx context.Context, op Op, h *pb.BaseHeaderProto, client string) error {
	return c.checkAs(ctx, Access{op, blockOf(h.GetBlock()), client, h.GetToken(), false})
}

func (c *conn) checkAs(ctx context.Context, a Access) error {
	var err error
	if c.s.Check != nil {
		err = c.s.Check(ctx, a)
	}
	if err == nil {
		c.activity.Work() // not before: half an operation of a stranger keeps nobody out
		return nil
	}
	return c.fail(refuse(pb.Status_ERROR_ACCESS_TOKEN, "%s", err))
}

// fail tells the client of an error, and returns it.
func (c *conn) fail(err error) error {
	if e := c.answer(response(err)); e != nil {
		return errors.Join(err, e)
	}
	return err
}

// answer sends one message.
func (c *conn) answer(m proto.Message) error { return writeMessage(c.net, m) }

// unsupported refuses what there is not. A client that asks for a short circuit reads by READ_BLOCK
// then, perhaps on this connection; one of its requests has an answer of its own.
func (c *conn) unsupported(op Op) error {
	var ask proto.Message
	var text = op.String() + " is not supported"
	var answer proto.Message = &pb.BlockOpResponseProto{Status: pb.Status_ERROR_UNSUPPORTED.Enum(), Message: &text}
	switch op {
	case OpRequestFDs:
		ask = new(pb.OpRequestShortCircuitAccessProto)
	case OpReleaseFDs:
		ask, answer = new(pb.ReleaseShortCircuitAccessRequestProto),
			&pb.ReleaseShortCircuitAccessResponseProto{Status: pb.Status_ERROR_UNSUPPORTED.Enum(), Error: &text}
	case OpRequestSegment:
		ask, answer = new(pb.ShortCircuitShmRequestProto), &pb.ShortCircuitShmResponseProto{Status: pb.Status_ERROR_UNSUPPORTED.Enum(), Error: &text}
	case OpCopyBlock:
		ask = new(pb.OpCopyBlockProto)
	case OpReplaceBlock:
		ask = new(pb.OpReplaceBlockProto)
	default:
		ask = new(pb.OpBlockGroupChecksumProto)
	}
	if err := readMessage(c.r, ask); err != nil {
		return err
	}
	return c.answer(answer)
}

// refuseSASL answers the first message of a handshake.
func (c *conn) refuseSASL() error {
	if _, err := c.r.Discard(2); err != nil {
		return err
	}
	var ask pb.DataTransferEncryptorMessageProto
	if err := readMessage(c.r, &ask); err != nil {
		return err
	}
	text := errSASL.Error()
	return errors.Join(errSASL, c.answer(&pb.DataTransferEncryptorMessageProto{
		Status: pb.DataTransferEncryptorMessageProto_ERROR.Enum(), Message: &text}))
}
