package link

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"

	"headrace/internal/accept"
	"headrace/quorum"
)

const (
	magic = "hrquorum2\n"
	// mostHello is the longest hello, and the longest answer to one, in bytes.
	mostHello = 2048
	// frameLimit is more than Raft's largest message, or a piece of a snapshot.
	frameLimit = 16 << 20
	// queueLimit is how many bytes wait for one node.
	queueLimit = 64 << 20
	head       = 8 // length, checksum

	dialTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	minPause     = 50 * time.Millisecond
	maxPause     = 2 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errFrame = errors.New("link: what came is no message")

// Config says how a link is.
type Config struct {
	// Dial connects to a node, and greets it; see Greet.
	Dial func(ctx context.Context, node uint32) (net.Conn, error)
	// Welcome says why a connection from an address is refused whose other end means somebody by its hello; nil: it is taken.
	// It may be called at any time by any goroutine. Where it is not set all are taken.
	Welcome func(hello string, from net.Addr) error
	// Deliver takes a message that has come. It does not wait.
	Deliver func(quorum.Message)
}

// Link sends messages to other nodes, and receives theirs.
type Link struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu     sync.Mutex
	peers  map[uint32]*peer
	closed bool
}

// New makes a link.
func New(c Config) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	return &Link{config: c, ctx: ctx, cancel: cancel, peers: map[uint32]*peer{}}
}

// peer is a node that is sent to.
type peer struct {
	mu    sync.Mutex
	queue [][]byte
	bytes int
	wake  chan struct{}
}

// Send puts a message into the queue of its node.
func (l *Link) Send(m quorum.Message) {
	b := m.Append(make([]byte, head, head+len(m.Payload)+64))
	if len(b) > frameLimit {
		return
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-head))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[head:], castagnoli))
	node := m.To.Node()
	l.mu.Lock()
	p := l.peers[node]
	if p == nil && !l.closed {
		p = &peer{wake: make(chan struct{}, 1)}
		l.peers[node] = p
		l.wait.Go(func() { l.feed(node, p) })
	}
	l.mu.Unlock()
	if p != nil {
		p.put(b)
	}
}

func (p *peer) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes+len(b) > queueLimit {
		return
	}
	p.queue, p.bytes = append(p.queue, b), p.bytes+len(b)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take waits for messages.
func (p *peer) take(ctx context.Context) ([][]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.wake:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queue
	p.queue, p.bytes = nil, 0
	return queue, nil
}

// feed sends what is in the queue of a node, as long as the link lives.
func (l *Link) feed(node uint32, p *peer) {
	pause := minPause
	for l.ctx.Err() == nil {
		queue, err := p.take(l.ctx)
		if err != nil {
			return
		}
		dial, cancel := context.WithTimeout(l.ctx, dialTimeout)
		conn, err := l.config.Dial(dial, node)
		cancel()
		if err == nil {
			pause = minPause
			l.write(conn, p, queue)
			conn.Close()
			continue
		}
		select { // what waited is old by then, but Raft says it again
		case <-l.ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// ErrRefused is the error of a connection to who is not whoever was meant.
var ErrRefused = errors.New("the other end refuses messages")

// Greet begins a connection that was made to a Link, and says whom it is meant for: its error is ErrRefused, with the reason that was given, when
// the other end is somebody else. It closes a connection that is of no use.
func Greet(ctx context.Context, conn net.Conn, hello string) (err error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			conn.Close()
		}
	}()
	conn.SetDeadline(time.Now().Add(dialTimeout))
	if err := writeText(conn, magic, hello); err != nil {
		return err
	}
	why, err := readText(conn)
	if err == nil && why != "" {
		err = fmt.Errorf("%w: %s", ErrRefused, why)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return err
}

// writeText writes a text, cut if it is too long, behind its length.
func writeText(w io.Writer, before, text string) error {
	text = text[:min(len(text), mostHello)]
	_, err := w.Write(append(binary.LittleEndian.AppendUint16([]byte(before), uint16(len(text))), text...))
	return err
}

func readText(r io.Reader) (string, error) {
	var n [2]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", err
	}
	b := make([]byte, binary.LittleEndian.Uint16(n[:]))
	if len(b) > mostHello {
		return "", errFrame
	}
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// write sends queue and what follows, until the connection breaks.
func (l *Link) write(conn net.Conn, p *peer, queue [][]byte) {
	stop := context.AfterFunc(l.ctx, func() { conn.Close() })
	defer stop()
	// Nothing comes back but the end: without reading it, messages would be sent to nobody.
	broken, ended := context.WithCancel(l.ctx)
	l.wait.Go(func() {
		defer ended()
		io.Copy(io.Discard, conn)
	})
	w := bufio.NewWriterSize(conn, 64<<10)
	for {
		for _, b := range queue {
			conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			w.Write(b) // bufio keeps the first error for Flush
		}
		if w.Flush() != nil {
			return
		}
		var err error
		if queue, err = p.take(broken); err != nil {
			return
		}
	}
}

// Serve receives from connections until the listener or the link is closed.
func (l *Link) Serve(listener *accept.Listener) error {
	stop := context.AfterFunc(l.ctx, func() { listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if l.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("link: %w", err)
		}
		l.mu.Lock()
		if l.closed {
			conn.Close()
		} else {
			l.wait.Go(func() { l.receive(conn) })
		}
		l.mu.Unlock()
	}
}

// receive hands over what comes.
func (l *Link) receive(conn net.Conn) {
	stop := context.AfterFunc(l.ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	if l.greeted(conn, r) != nil {
		return
	}
	for {
		m, err := readMessage(r)
		if err != nil {
			return
		}
		l.config.Deliver(m)
	}
}

// greeted answers a hello.
func (l *Link) greeted(conn net.Conn, r io.Reader) error {
	var begin [len(magic)]byte
	conn.SetDeadline(time.Now().Add(dialTimeout))
	if _, err := io.ReadFull(r, begin[:]); err != nil || string(begin[:]) != magic {
		return errors.Join(errFrame, err)
	}
	hello, err := readText(r)
	if err != nil {
		return err
	}
	why := ""
	if l.config.Welcome != nil {
		if err = l.config.Welcome(hello, conn.RemoteAddr()); err != nil {
			why = err.Error()
		}
	}
	return errors.Join(err, writeText(conn, "", why), conn.SetDeadline(time.Time{}))
}

func readMessage(r io.Reader) (quorum.Message, error) {
	var h [head]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return quorum.Message{}, err
	}
	n := binary.LittleEndian.Uint32(h[:])
	if n > frameLimit {
		return quorum.Message{}, errFrame
	}
	// Who only says that much follows gets no memory for it.
	b := make([]byte, 0, min(n, 64<<10))
	for len(b) < int(n) {
		from := len(b)
		b = append(b, make([]byte, min(int(n)-from, max(from, 64<<10)))...)
		if _, err := io.ReadFull(r, b[from:]); err != nil {
			return quorum.Message{}, err
		}
	}
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(h[4:]) {
		return quorum.Message{}, errFrame
	}
	return quorum.ParseMessage(b)
}

// Close ends all connections and waits for what used them.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.wait.Wait()
}
