package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
)

const (
	blockPages = 1024
	// blocks is how many blocks of pages (4 MiB each) are under way at most:
	// one is received while another is hashed and stored.
	blocks = 4
)

// A block is a number of pages as they came.
type block struct {
	data []byte // whole pages, capacity blockPages
	runs []run  // whose they are, in the order of data
}

// A run is pages at adjacent addresses.
type run struct {
	vaddr uint64
	pages int
	flags uint32
}

// A pageSink stores pages. The page server calls it from one goroutine.
type pageSink interface {
	// open begins the pagemap image of this base name and ends the one before.
	open(name string) error
	// store may change the block but not keep it.
	store(b *block) error
	// finish ends the last image. It is called at most once, and not after an
	// error.
	finish() error
}

// finish is the last item of work of a dump that CRIU has closed.
type finish struct{}

// A pageServer is CRIU's partner in one dump.
type pageServer struct {
	conn     io.ReadWriter
	sink     pageSink
	hangUp   func() // closes conn; makes a blocked Read return
	memory   func(pid int, at uint64, b []byte) error
	received atomic.Int64 // bytes of pages; tests wait for it

	in  *bufio.Reader
	cur *block
	// process is that to which the pages belong that come now; 0: they are shared memory.
	process int
	work    chan any // string: open this image; *block: store it; finish
	free    chan *block

	stored   chan struct{} // closed when the storing goroutine has ended
	storeErr error         // set before stored is closed
}

var errNoClose = errors.New("criu ended, or closed its connection, in the middle of the dump; see its log")

// serve talks to CRIU until it has closed the dump, and returns nil only when
// everything is stored. Whenever it returns an error CRIU has seen one too: a
// status other than 0 or a closed connection.
func (s *pageServer) serve() error {
	s.in = bufio.NewReaderSize(s.conn, 64<<10)
	s.work = make(chan any, blocks)
	s.free = make(chan *block, blocks)
	for range blocks {
		s.free <- nil
	}
	s.stored = make(chan struct{})
	go s.store()

	closed, err := s.converse()
	close(s.work)
	<-s.stored
	if s.storeErr != nil {
		err = s.storeErr
	}
	if closed {
		err = errors.Join(err, s.answer(4, err == nil))
	}
	s.hangUp()
	return err
}

// answer sends a number of n bytes, 0 if ok and -1 if not.
func (s *pageServer) answer(n int, ok bool) error {
	var b [4]byte
	if !ok {
		binary.LittleEndian.PutUint32(b[:], ^uint32(0))
	}
	if _, err := s.conn.Write(b[:n]); err != nil {
		return peerError("answer to", err)
	}
	return nil
}

// converse reads requests until CRIU closes the dump (closed) or something is
// wrong.
func (s *pageServer) converse() (closed bool, err error) {
	var buf [requestSize]byte
	for first := true; ; first = false {
		if err := s.readRequest(&buf, first); err != nil {
			return false, err
		}
		r := parseRequest(&buf)
		switch r.cmd {
		case cmdOpen:
			err = s.open(r)
		case cmdParent:
			// CRIU would leave out what it thinks is unchanged; we want all pages.
			err = s.answer(4, true)
		case cmdAdd:
			err = s.add(r)
		case cmdClose, cmdForceClose:
			return true, errors.Join(s.passOn(), s.send(finish{}))
		default:
			err = fmt.Errorf("criu sent unknown request %d; CRIU 4.2 is required", r.cmd)
		}
		if err != nil {
			return false, err
		}
	}
}

// readRequest reads one request. CRIU sends the first one by itself and, unless
// it is a close, waits for an answer; so the first read returns all of it and
// nothing else.
func (s *pageServer) readRequest(buf *[requestSize]byte, first bool) error {
	n := 0
	if first {
		var err error
		if n, err = s.conn.Read(buf[:]); err != nil && n == 0 {
			return peerError("read from", err)
		}
		if n == oldRequestSize {
			return fmt.Errorf("criu sent a request of %d bytes, which is the protocol of versions before 4.2; CRIU 4.2 or newer is required", n)
		}
	}
	if _, err := io.ReadFull(s.in, buf[n:]); err != nil {
		return peerError("read from", err)
	}
	return nil
}

// peerError tells an end of the connection from other errors. It is a reset or a
// broken pipe when criu has left something unread.
func peerError(doing string, err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return errNoClose
		}
	}
	return fmt.Errorf("%s criu: %w", doing, err)
}

func (s *pageServer) open(r request) error {
	name, err := r.imageName()
	if err != nil {
		return fmt.Errorf("criu opened an %w; CRIU 4.2 is required", err)
	}
	if err := s.passOn(); err != nil {
		return err
	}
	if err := s.send(name); err != nil {
		return err
	}
	s.process = r.process()
	return s.answer(1, true) // 0: no parent image, send all pages
}

func (s *pageServer) add(r request) error {
	if err := r.checkAdd(); err != nil {
		return fmt.Errorf("criu sent %w", err)
	}
	for r.pages > 0 {
		if s.cur == nil {
			b, err := s.newBlock()
			if err != nil {
				return err
			}
			s.cur = b
		}
		have := len(s.cur.data)
		n := min(r.pages, uint64((cap(s.cur.data)-have)/pageSize))
		s.cur.data = s.cur.data[:have+int(n)*pageSize]
		if _, err := io.ReadFull(s.in, s.cur.data[have:]); err != nil {
			return peerError("read from", err)
		}
		if err := s.removeInjected(s.cur.data[have:], r.vaddr); err != nil {
			return err
		}
		s.received.Add(int64(n) * pageSize)
		s.cur.runs = append(s.cur.runs, run{r.vaddr, int(n), uint32(r.flags)})
		r.vaddr += n * pageSize
		r.pages -= n
		if len(s.cur.data) == cap(s.cur.data) {
			if err := s.passOn(); err != nil {
				return err
			}
		}
	}
	return nil
}

// newBlock waits for a block to be free.
func (s *pageServer) newBlock() (*block, error) {
	select {
	case b := <-s.free:
		if b == nil {
			b = &block{data: make([]byte, 0, blockPages*pageSize), runs: make([]run, 0, 64)}
		}
		b.data, b.runs = b.data[:0], b.runs[:0]
		return b, nil
	case <-s.stored:
		return nil, s.storeErr
	}
}

// passOn gives the current block, if there is one, to the storing goroutine.
func (s *pageServer) passOn() error {
	if s.cur == nil {
		return nil
	}
	b := s.cur
	s.cur = nil
	return s.send(b)
}

func (s *pageServer) send(item any) error {
	select {
	case s.work <- item:
		return nil
	case <-s.stored:
		return s.storeErr
	}
}

// store carries out work until the channel is closed or something fails; then it
// hangs up, so that CRIU learns about it at its next page.
func (s *pageServer) store() {
	defer close(s.stored)
	for item := range s.work {
		var err error
		switch item := item.(type) {
		case string:
			err = s.sink.open(item)
		case *block:
			err = s.sink.store(item)
			s.free <- item
		case finish:
			err = s.sink.finish()
		}
		if err != nil {
			s.storeErr = err
			s.hangUp()
			return
		}
	}
}
