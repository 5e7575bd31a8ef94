package stream

import (
	"os"
	"sync"

	"headrace/internal/linux"
	"headrace/stream/protocol"
)

// outgoing is a message on its way. With some goes a descriptor of their own, as
// what it stands for may be closed meanwhile: an Arena takes it along, a File one
// that is opened by it.
type outgoing struct {
	m    protocol.Message
	file *os.File
}

func message(m protocol.Message) outgoing { return outgoing{m: m} }

// link is one connection. The engine's lock guards it, except for conn.
type link struct {
	e     *Engine
	uid   uint32
	conn  *protocol.Conn
	owner linux.Credentials // of the stream
	// told are the arenas and files that the consumer has been told of.
	told map[uint32]bool

	// queue is sent by a goroutine of its own.
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []outgoing
	ending bool
}

// send queues a message.
func (l *link) send(o outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		o.drop()
		return
	}
	l.queue = append(l.queue, o)
	l.cond.Signal()
}

func (o outgoing) drop() {
	if o.file != nil {
		o.file.Close()
	}
}

// sendPiece queues a piece and, if need be, what it lies in.
func (l *link) sendPiece(unit uint32, p piece) {
	m := &protocol.Piece{Unit: unit, Length: uint32(p.n)}
	if in := p.slot.input; in != nil {
		m.Arena, m.Offset = in.id, uint64(p.slot.at+int64(p.off))
		l.sendFrom(in, m)
		return
	}
	a := p.slot.a
	if !l.told[a.id] {
		if !l.sendWith(&protocol.Arena{ID: a.id, Size: uint64(len(a.mem))}, a.file) {
			return
		}
		l.told[a.id] = true
	}
	m.Arena, m.Offset = a.id, uint64(p.slot.off+p.off)
	l.send(message(m))
}

// sendFrom queues a piece that lies in a file.
func (l *link) sendFrom(in *input, m *protocol.Piece) {
	if !l.told[in.id] {
		if !l.sendWith(&protocol.File{ID: in.id, Size: uint64(in.Size), Mtime: uint64(in.Mtime)}, in.File) {
			return
		}
		l.told[in.id] = true
	}
	l.send(message(m))
}

// sendWith queues a message with a descriptor. It fails when there are no more of
// them: then the consumer comes again.
func (l *link) sendWith(m protocol.Message, f *os.File) bool {
	own, err := duplicate(f)
	if err != nil {
		l.e.cfg.Log.Error("share memory or a file with a consumer", "err", err)
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
		l.send(message(&protocol.Drop{ID: id}))
	}
}

// fail queues an error as the last message.
func (l *link) fail(text string) {
	l.send(message(&protocol.Error{Text: text}))
	l.finish()
}

// finish makes the writer end when it has sent everything.
func (l *link) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	l.cond.Signal()
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
		for len(l.queue) == 0 && !l.ending {
			l.cond.Wait()
		}
		queue := l.queue
		l.queue = nil
		ending := l.ending
		l.mu.Unlock()
		if err := l.flush(queue); err != nil {
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
			if f, err := openAgain(o.file, l.owner); err != nil {
				m, with = &protocol.Error{Text: err.Error()}, nil
			} else {
				defer f.Close()
				with = f
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
