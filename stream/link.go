package stream

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/stream/protocol"
	"headrace/stream/scan"
)

// outgoing is a message on its way. With some goes a descriptor of their own, as
// what it stands for may be closed meanwhile: an Arena takes it along, a File one
// that is opened by it.
type outgoing struct {
	m    protocol.Message
	file *os.File
}

// link is one connection. The engine's lock guards it, except for conn.
type link struct {
	log   *slog.Logger
	conn  *protocol.Conn
	owner linux.Credentials // of the stream
	// told are the arenas and files that the consumer has been told of.
	told map[uint32]bool

	// queue is sent by a goroutine of its own, at the time when sending is set.
	mu      sync.Mutex
	cond    *sync.Cond
	queue   []outgoing
	sending bool
	ending  bool
}

func newLink(sock *net.UnixConn, log *slog.Logger) *link {
	l := &link{log: log, conn: protocol.NewServerConn(sock), told: map[uint32]bool{}}
	l.cond = sync.NewCond(&l.mu)
	return l
}

// say queues a message.
func (l *link) say(m protocol.Message) { l.send(outgoing{m: m}) }

func (l *link) send(o outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		o.drop()
		return
	}
	l.queue = append(l.queue, o)
	l.cond.Broadcast()
}

// awaitSent waits until all that was said has been sent, or the connection ends.
func (l *link) awaitSent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for (l.sending || len(l.queue) > 0) && !l.ending {
		l.cond.Wait()
	}
}

func (o outgoing) drop() {
	if o.file != nil {
		o.file.Close()
	}
}

// sendPiece queues a piece and, if need be, what it lies in.
func (l *link) sendPiece(unit uint32, p scan.Piece) {
	in, at := p.Location()
	if !l.told[in.ID] {
		if !l.sendWith(in.Announce, in.Shared) {
			return
		}
		l.told[in.ID] = true
	}
	l.say(&protocol.Piece{Unit: unit, Arena: in.ID, Offset: at, Length: uint32(p.N)})
}

// sendWith queues a message with a descriptor. It fails when there are no more of
// them: then the consumer comes again.
func (l *link) sendWith(m protocol.Message, f *os.File) bool {
	own, err := duplicate(f)
	if err != nil {
		l.log.Error("share memory or a file with a consumer", "err", err)
		l.close()
		return false
	}
	l.send(outgoing{m, own})
	return true
}

// forget tells the consumer that an arena or a file is gone.
func (l *link) forget(id uint32) {
	if l.told[id] {
		delete(l.told, id)
		l.say(&protocol.Drop{ID: id})
	}
}

// fail queues an error as the last message.
func (l *link) fail(text string) {
	l.say(&protocol.Error{Text: text})
	l.finish()
}

// finish makes the writer end when it has sent everything.
func (l *link) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	l.cond.Broadcast()
}

// close ends the connection at once.
func (l *link) close() {
	l.finish()
	l.conn.Close()
}

// write sends what is queued, in order.
func (l *link) write() {
	for {
		l.mu.Lock()
		l.sending = false
		for len(l.queue) == 0 && !l.ending {
			l.cond.Broadcast()
			l.cond.Wait()
		}
		queue := l.queue
		l.queue, l.sending = nil, true
		ending := l.ending
		l.mu.Unlock()
		if err := l.flush(queue); err != nil {
			l.log.Debug("a connection of a stream ends", "err", err)
			l.conn.Close() // the reader notices
			l.finish()
			return
		}
		if ending && len(queue) == 0 {
			l.conn.CloseWrite()
			return
		}
	}
}

func (l *link) flush(queue []outgoing) error {
	defer func() {
		for _, o := range queue {
			o.drop()
		}
	}()
	var batch []protocol.Message
	for _, o := range queue {
		m, with := o.m, o.file
		if _, is := m.(*protocol.File); is {
			f, err := openAgain(o.file, l.owner)
			switch {
			case err == nil:
				defer f.Close()
				with = f
			case linux.Lacking(err):
				return err // the consumer comes again
			default:
				m, with = &protocol.Error{Text: err.Error()}, nil
			}
		}
		if with == nil {
			batch = append(batch, m)
			continue
		}
		if err := l.conn.Send(batch...); err != nil {
			return err
		}
		batch = batch[:0]
		if err := l.conn.SendWith(m, with); err != nil {
			return err
		}
	}
	return l.conn.Send(batch...)
}

// duplicate is another descriptor for an open file.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// openAgain opens a file for a consumer: what that does with the descriptor, such as
// setting flags, must not change anything for others. It has the owner's rights, for
// some file systems refuse root. It may take as long as the file system likes. The
// caller closes the file.
func openAgain(file *os.File, owner linux.Credentials) (f *os.File, err error) {
	err = linux.AsUser(owner, func() error {
		f, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s again for a consumer: %w", file.Name(), err)
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // reads ahead twice as far
	return f, nil
}
