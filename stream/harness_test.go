package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/internal/accept"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/protocol"
	"headrace/stream/source"
)

// patience is how long a test waits at most for what must happen: the machine may be busy.
const patience = 5 * time.Minute

// fakeCache says that a chosen part of every file is in memory.
type fakeCache struct {
	pagecache.Cache
	resident func(f *os.File, r pagecache.Range) int64
	watch    func(f *os.File) (pagecache.Watched, error)
}

func (c *fakeCache) Resident(f *os.File, r pagecache.Range) (int64, error) {
	if c.resident == nil {
		return 0, nil
	}
	return c.resident(f, r), nil
}

func (c *fakeCache) Refresh(context.Context) error { return nil }
func (c *fakeCache) Watch(f *os.File) (pagecache.Watched, error) {
	if c.watch != nil {
		return c.watch(f)
	}
	return nil, errors.New("not here")
}

// place is an engine with its socket, which can be killed and started again.
type place struct {
	t      testing.TB
	cfg    Config
	local  *source.Local
	socket string
	e      *Engine
	served chan error
	// seekless: no device seeks. referred counts the pieces that were read from files.
	seekless bool
	referred atomic.Int64
}

func newPlace(t testing.TB) *place {
	dir := t.TempDir()
	p := &place{t: t, socket: filepath.Join(dir, "s")}
	p.local = &source.Local{
		Cache: &fakeCache{}, Disks: &disk.Scheduler{}, Devices: &disk.Devices{},
		Seeks: func(disk.Device) bool { return !p.seekless },
	}
	p.cfg = Config{Dir: filepath.Join(dir, "streams"), Source: p.local}
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *place) start() *place {
	p.t.Helper()
	var err error
	if p.e, err = New(p.cfg); err != nil {
		p.t.Fatal(err)
	}
	os.Remove(p.socket)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket, Net: "unix"})
	if err != nil {
		p.t.Fatal(err)
	}
	served, e := make(chan error, 1), p.e
	p.served = served
	go func() { served <- e.Serve(&accept.Listener{Listener: l}) }()
	return p
}

func (p *place) stop() {
	if p.e != nil {
		p.e.Close()
		if err := <-p.served; err != nil {
			p.t.Error(err)
		}
		p.e = nil
	}
}

func (p *place) open(spec Spec) Info {
	p.t.Helper()
	spec.Owner = linux.Credentials{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	info, err := p.e.Open(p.t.Context(), spec)
	if err != nil {
		p.t.Fatal(err)
	}
	return info
}

// undealt returns how many units of a stream nobody has been given.
func (p *place) undealt(stream string) int {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	return p.e.streams[stream].deal.Units.Undealt()
}

// client is one attempt of a consumer, with what it has been given.
type client struct {
	place   *place
	hello   protocol.Hello
	conn    *protocol.Conn
	welcome *protocol.Welcome
	arenas  map[uint32][]byte
	files   map[uint32]*os.File
	// got is what each unit had, in the order of hello.Units.
	got  [][]byte
	path []string
	open []bool // unterminated
}

func (p *place) client(stream string, consumer, attempt uint32) *client {
	return &client{place: p, arenas: map[uint32][]byte{}, files: map[uint32]*os.File{}, hello: protocol.Hello{
		Version: protocol.Version, Stream: stream, Consumer: consumer, Attempt: attempt, Whole: true,
	}}
}

var errRefused = errors.New("refused")

func (c *client) connect() error {
	sock, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: c.place.socket, Net: "unix"})
	if err != nil {
		return err
	}
	c.place.t.Cleanup(func() { sock.Close() }) // of a client that nobody keeps it would be closed whenever memory is collected
	c.conn = protocol.NewConn(sock)
	if err := c.conn.Send(&c.hello); err != nil {
		return err
	}
	m, err := c.receive()
	if err != nil {
		return err
	}
	c.welcome = m.(*protocol.Welcome)
	return nil
}

// receive takes care of the memory.
func (c *client) receive() (protocol.Message, error) {
	for {
		m, err := c.conn.Receive()
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *protocol.Error:
			return nil, errors.Join(errRefused, errors.New(m.Text))
		case *protocol.Arena:
			f := c.conn.TakeFile()
			mem, err := unix.Mmap(int(f.Fd()), 0, int(m.Size), unix.PROT_READ, unix.MAP_SHARED)
			f.Close()
			if err != nil {
				return nil, err
			}
			c.arenas[m.ID] = mem
		case *protocol.File:
			c.files[m.ID] = c.conn.TakeFile()
		case *protocol.Drop:
			if f := c.files[m.ID]; f != nil {
				f.Close()
				delete(c.files, m.ID)
				continue
			}
			unix.Munmap(c.arenas[m.ID])
			delete(c.arenas, m.ID)
		default:
			return m, nil
		}
	}
}

func (c *client) disconnect() {
	c.conn.Close()
	c.conn.Release()
	for _, mem := range c.arenas {
		unix.Munmap(mem)
	}
	clear(c.arenas)
	for _, f := range c.files {
		f.Close()
	}
	clear(c.files)
}

// next takes one unit, stopping in the middle when told to; errEnd when nothing is left: io.EOF is a
// connection that has ended, and who finishes after that leaves the rest to others.
func (c *client) next(stop func() bool) error {
	if c.hello.Whole {
		if err := c.conn.Send(&protocol.Next{}); err != nil {
			return err
		}
	}
	for {
		m, err := c.receive()
		if err != nil {
			return err
		}
		last := len(c.got) - 1
		switch m := m.(type) {
		case *protocol.EOF:
			return errEnd
		case *protocol.Unit:
			if c.hello.Whole {
				c.hello.Units = append(c.hello.Units, m.ID)
				c.hello.Whole, c.hello.Position = false, 0
				c.got, c.path, c.open = append(c.got, nil), append(c.path, m.Path), append(c.open, false)
			} else if m.ID != c.hello.Units[last] {
				return errors.New("another unit came back")
			}
		case *protocol.Piece:
			got := c.got[last]
			if len(got)+int(m.Length) > cap(got) {
				got = slices.Grow(got, max(len(got), int(m.Length))) // the race detector makes new memory dear: by twice as much
			}
			data := got[len(got):][:m.Length]
			if f := c.files[m.Arena]; f != nil {
				if _, err := f.ReadAt(data, int64(m.Offset)); err != nil {
					return err
				}
				c.place.referred.Add(1)
			} else {
				copy(data, c.arenas[m.Arena][m.Offset:])
			}
			if stop != nil && stop() {
				data = data[:len(data)/2]
			}
			c.got[last] = got[:len(got)+len(data)]
			c.hello.Position += uint64(len(data))
			if len(data) < int(m.Length) {
				return errStopped
			}
			if err := c.conn.Send(&protocol.Consumed{Unit: m.Unit, Bytes: c.hello.Position}); err != nil {
				return err
			}
		case *protocol.End:
			if m.Bytes != c.hello.Position {
				return errors.New("the unit's length is wrong")
			}
			c.open[last] = m.Unterminated
			c.hello.Whole = true
			return c.conn.Send(&protocol.Consumed{Unit: m.Unit, Bytes: m.Bytes, Whole: true})
		default:
			return errors.New("unexpected message")
		}
	}
}

var (
	errStopped = errors.New("stopped in the middle")
	errEnd     = errors.New("nothing is left")
)

func (c *client) finish(code int32) error {
	if err := c.conn.Send(&protocol.Finish{Code: code}); err != nil {
		return err
	}
	m, err := c.receive()
	if err != nil {
		return err
	}
	if _, ok := m.(*protocol.Finished); !ok {
		return errors.New("unexpected answer to Finish")
	}
	return nil
}

// drain consumes everything and finishes.
func (c *client) drain(code int32) error { return c.drainWith(nil, code) }

// drainWith is drain, with what next is told.
func (c *client) drainWith(stop func() bool, code int32) error {
	if err := c.connect(); err != nil {
		return err
	}
	defer c.disconnect()
	for {
		if err := c.next(stop); err == errEnd {
			return c.finish(code)
		} else if err != nil {
			return err
		}
	}
}

// all drains with all consumers at once.
func (p *place) all(info Info) (clients []*client) {
	p.t.Helper()
	var wg sync.WaitGroup
	for i := range info.Consumers {
		c := p.client(info.ID, uint32(i), 1)
		clients = append(clients, c)
		wg.Go(func() {
			if err := c.drain(0); err != nil {
				p.t.Errorf("consumer %d: %v", c.hello.Consumer, err)
			}
		})
	}
	wg.Wait()
	return clients
}

// joined returns what all units of clients have, in the order of the units: for
// blocks that is the file.
func joined(clients []*client) []byte {
	type one struct {
		id   uint32
		data []byte
	}
	var units []one
	for _, c := range clients {
		for i, id := range c.hello.Units {
			units = append(units, one{id, c.got[i]})
		}
	}
	slices.SortFunc(units, func(a, b one) int { return int(a.id) - int(b.id) })
	parts := make([][]byte, len(units))
	for i, u := range units {
		if i > 0 && u.id == units[i-1].id {
			return []byte("a unit was dealt twice")
		}
		parts[i] = u.data
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return slices.Concat(parts...)
}

// letters are what lines are cut from: a random letter for each byte of a large file
// would keep the race detector busy for longer than its test.
var letters = func() []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return b
}()

// lines makes about n bytes of lines of random length.
func lines(rng *rand.Rand, n, longest int) []byte {
	b := make([]byte, 0, n+longest)
	for len(b) < n {
		size := rng.IntN(longest)
		at := rng.IntN(len(letters) - size)
		b = append(append(b, letters[at:at+size]...), '\n')
	}
	return b
}

func (p *place) write(name string, data []byte) string {
	p.t.Helper()
	path := filepath.Join(filepath.Dir(p.socket), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path
}
