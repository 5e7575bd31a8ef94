package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/stream/protocol"
)

// testUnit is a unit that a dealer deals.
type testUnit struct {
	path         string
	codec        protocol.Codec
	data         []byte
	unterminated bool
	// piece is the size of its pieces, 0 for that of a slot.
	piece int
	// inFile: it is dealt as a part of a file.
	inFile bool
}

// inFiles has every second one of those units dealt as a part of a file that are
// not compressed.
func inFiles(units []testUnit) []testUnit {
	for i := range units {
		units[i].inFile = i%2 == 0 && units[i].codec == protocol.Plain
	}
	return units
}

// dealer is a small daemon. It deals units from byte slices through real shared
// memory, checks that consumers keep to the protocol, and overwrites memory as
// soon as it is allowed to, so that who reads too late reads something wrong.
type dealer struct {
	t    testing.TB
	path string
	kind protocol.Kind
	// delimiter is that of Welcome.
	delimiter string
	units     []testUnit
	// slot is the size of a slot; window how many one connection may hold.
	slot, window int
	// unsealed memory may shrink.
	unsealed bool
	// fault is asked before each message is sent and after each was received, by
	// several goroutines; nil has no faults.
	fault func(ev event) action

	mu       sync.Mutex
	listener *net.UnixListener
	links    map[*link]bool
	memory   *memory
	// input has the bytes of all units, one behind the other.
	input *input
	// graves is memory of earlier daemons; its descriptors may be in use.
	graves []*memory
	// dealt says for each unit who has it: an attempt, or nil.
	dealt    []*attempt
	attempts map[[2]uint32]*attempt
	changed  *sync.Cond
	nextID   uint32
	closed   bool
	work     sync.WaitGroup
}

// event is a message that was received, or is about to be sent.
type event struct {
	sent bool
	m    protocol.Message
}

type action int

const (
	goOn action = iota
	// drop closes the connection; before the message, if it is to be sent.
	drop
	// cut sends half of the message and closes the connection.
	cut
	// restart ends the daemon, and begins another one a little later.
	restart
	// refuse sends an Error and closes the connection.
	refuse
)

// attempt is what the dealer knows of an attempt of a consumer.
type attempt struct {
	consumer, number uint32
	units            []uint32
	position         uint64
	whole            bool
	results          map[uint32]int32
	finish           *protocol.Finish
	// unknown: it was there when the daemon was restarted, and has not come back.
	unknown bool
	link    *link
	// left is memory of connections that the dealer has closed. It is overwritten
	// when the consumer is known not to read in it any more.
	left []*slot
	// hellos counts its connections.
	hellos int
}

// memory is one arena.
type memory struct {
	id   uint32
	file *os.File
	mem  []byte
	free []*slot
}

type slot struct {
	mem       *memory
	off, size int
}

// link is one connection.
type link struct {
	d    *dealer
	sock *net.UnixConn
	conn *protocol.Conn
	at   *attempt

	told    map[*memory]bool
	given   bool    // the input
	held    []*slot // of pieces that were sent and are not consumed, in order
	ends    []uint64
	unit    uint32
	sending bool   // a unit is being sent
	sent    uint64 // bytes of it that were sent, those before a reconnect included
	asked   bool
	closed  bool

	queue []protocol.Message
	cond  *sync.Cond
}

func newDealer(t testing.TB, units ...testUnit) *dealer {
	d := &dealer{
		t: t, path: filepath.Join(t.TempDir(), "stream.sock"), units: units, slot: 4096, window: 4,
		links: map[*link]bool{}, dealt: make([]*attempt, len(units)), attempts: map[[2]uint32]*attempt{}, delimiter: "\n",
	}
	d.changed = sync.NewCond(&d.mu)
	t.Cleanup(d.close)
	return d
}

// listen begins to serve.
func (d *dealer) listen() *dealer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d
	}
	os.Remove(d.path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.path, Net: "unix"})
	if err != nil {
		d.t.Error(err)
		return d
	}
	d.listener = l
	d.changed.Broadcast()
	d.work.Go(func() { d.accept(l) })
	return d
}

func (d *dealer) accept(l *net.UnixListener) {
	for {
		sock, err := l.AcceptUnix()
		if err != nil {
			return
		}
		k := &link{d: d, sock: sock, conn: protocol.NewServerConn(sock), told: map[*memory]bool{}}
		k.cond = sync.NewCond(&d.mu)
		d.mu.Lock()
		if d.listener != l {
			sock.Close()
		}
		d.links[k] = true
		d.mu.Unlock()
		d.work.Go(k.serve)
		d.work.Go(k.write)
	}
}

func (d *dealer) close() {
	d.mu.Lock()
	d.closed = true
	d.down()
	d.mu.Unlock()
	d.work.Wait()
	for _, m := range d.graves {
		m.file.Close()
	}
	d.graves = nil
	if d.input != nil {
		d.input.Close()
		d.input = nil
	}
}

// stop ends the daemon as if it had been killed: all that it knows is forgotten,
// but for what is durable.
func (d *dealer) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down()
}

func (d *dealer) down() {
	if d.listener != nil {
		d.listener.Close() // and unlinks
		d.listener = nil
	}
	for k := range d.links {
		k.drop()
	}
	for _, a := range d.attempts {
		a.unknown = a.unknown || a.finish == nil && a.hellos > 0
		a.left = nil // who still maps the memory keeps it as it is
	}
	if d.memory != nil {
		d.memory.unmap()
		d.graves = append(d.graves, d.memory)
		d.memory = nil
	}
}

// restart is stop, a while of absence, and a new daemon.
func (d *dealer) restart(absence time.Duration) {
	d.stop()
	d.work.Go(func() {
		time.Sleep(absence)
		d.listen()
	})
}

// await waits until ok, which is called with the lock held.
func (d *dealer) await(what string, ok func() bool) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	late := false
	timer := time.AfterFunc(2*time.Minute, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		late = true
		d.changed.Broadcast()
	})
	defer timer.Stop()
	for !ok() {
		if late {
			d.t.Fatalf("waited in vain for %s", what)
		}
		d.changed.Wait()
	}
}

// look lets f look at the dealer.
func (d *dealer) look(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// attemptOf returns what is known of an attempt, which is made up if need be.
func (d *dealer) attemptOf(consumer, number uint32) *attempt {
	key := [2]uint32{consumer, number}
	if d.attempts[key] == nil {
		d.attempts[key] = &attempt{consumer: consumer, number: number, results: map[uint32]int32{}, whole: true}
	}
	return d.attempts[key]
}

func newMemory(id uint32, slotSize, n int, unsealed bool) (*memory, error) {
	fd, err := unix.MemfdCreate("dealer", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	m := &memory{id: id, file: os.NewFile(uintptr(fd), "dealer")}
	size := slotSize * n
	if err := m.file.Truncate(int64(size)); err != nil {
		return nil, err
	}
	if m.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	if !unsealed {
		if _, err := unix.FcntlInt(m.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
			return nil, err
		}
	}
	for i := range n {
		m.free = append(m.free, &slot{m, i * slotSize, slotSize})
	}
	return m, nil
}

func (m *memory) close() {
	m.unmap()
	m.file.Close()
}

func (m *memory) unmap() {
	unix.Munmap(m.mem)
	m.mem = nil
}

var rubbish = bytes.Repeat([]byte{'!'}, 64<<10)

// release overwrites a slot and makes it free.
func (s *slot) release() {
	if s.mem.mem == nil {
		return
	}
	for to := s.mem.mem[s.off : s.off+s.size]; len(to) > 0; {
		to = to[copy(to, rubbish):]
	}
	s.mem.free = append(s.mem.free, s)
}

// drop closes the connection from the dealer's side. Its memory is left alone
// until the consumer comes back or is gone.
func (k *link) drop() {
	k.end(false)
}

// end takes note of the end of a connection. Callers hold the lock.
func (k *link) end(byConsumer bool) {
	if k.closed {
		return
	}
	k.closed = true
	k.sock.Close()
	k.cond.Broadcast()
	delete(k.d.links, k)
	for _, s := range k.held {
		if byConsumer {
			s.release()
		} else if k.at != nil {
			k.at.left = append(k.at.left, s)
		}
	}
	k.held = nil
	if k.at != nil && k.at.link == k {
		k.at.link = nil
	}
	k.d.changed.Broadcast()
}

// serve receives messages.
func (k *link) serve() {
	for {
		m, err := k.conn.Receive()
		k.d.mu.Lock()
		if err != nil || k.closed {
			k.end(true)
			k.d.mu.Unlock()
			return
		}
		k.d.mu.Unlock()
		if !k.do(event{false, m}) {
			return
		}
		k.d.mu.Lock()
		if !k.closed {
			if err := k.take(m); err != nil {
				k.d.t.Errorf("the consumer breaks the protocol: %v (%#v)", err, m)
				k.drop()
			}
			k.d.changed.Broadcast()
		}
		k.d.mu.Unlock()
	}
}

// do carries out the fault for an event; false when the connection is over.
func (k *link) do(ev event) bool {
	if k.d.fault == nil {
		return true
	}
	a := k.d.fault(ev)
	switch a {
	case goOn:
		return true
	case cut:
		if b, err := protocol.Append(nil, ev.m); err == nil && ev.sent {
			k.sock.Write(b[:len(b)/2])
		}
	case refuse:
		k.conn.Send(&protocol.Error{Text: "refused by the test"})
	case restart:
		k.d.restart(time.Millisecond)
	}
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	k.drop()
	return false
}

func (k *link) send(m protocol.Message) {
	k.queue = append(k.queue, m)
	k.cond.Broadcast()
}

// write sends what is queued.
func (k *link) write() {
	d := k.d
	for {
		d.mu.Lock()
		for len(k.queue) == 0 && !k.closed {
			k.cond.Wait()
		}
		if k.closed {
			d.mu.Unlock()
			return
		}
		m := k.queue[0]
		k.queue = k.queue[1:]
		mem, in := d.memory, d.input
		d.mu.Unlock()
		if !k.do(event{true, m}) {
			return
		}
		if a, ok := m.(*protocol.Arena); ok && a.ID == mem.id {
			k.conn.SendWith(a, mem.file)
		} else if _, ok := m.(*protocol.File); ok {
			again, err := os.Open(in.Name()) // it has a position and flags of its own
			if err != nil {
				d.t.Error(err)
			}
			k.conn.SendWith(m, again)
			again.Close()
		} else {
			k.conn.Send(m) // the reader notices
		}
	}
}

// take takes a message of the consumer. Callers hold the lock.
func (k *link) take(m protocol.Message) error {
	if h, ok := m.(*protocol.Hello); ok != (k.at == nil) {
		return errors.New("Hello is the first message, and no other")
	} else if ok {
		return k.hello(h)
	}
	a := k.at
	switch m := m.(type) {
	case *protocol.Next:
		if !a.whole || k.asked || a.finish != nil {
			return errors.New("Next is not allowed here")
		}
		k.asked = true
		k.d.deal()
	case *protocol.Consumed:
		return k.consumed(m)
	case *protocol.Result:
		if k.d.kind != protocol.Files || !slices.Contains(a.units, m.Unit) {
			return errors.New("a Result of something else")
		}
		a.results[m.Unit] = m.Code
	case *protocol.Finish:
		if a.finish != nil && *a.finish != *m {
			return fmt.Errorf("it has finished with %+v before", *a.finish)
		}
		k.d.finish(a, m)
		k.send(&protocol.Finished{})
	default:
		return errors.New("this is not for the daemon")
	}
	return nil
}

func (d *dealer) finish(a *attempt, m *protocol.Finish) {
	if a.finish == nil && m.Code != 0 {
		for _, u := range a.units {
			d.dealt[u] = nil
		}
		defer d.deal()
	}
	a.finish, a.unknown = m, false
}

func (k *link) hello(h *protocol.Hello) error {
	if k.conn.HungUp() {
		k.end(true)
		return nil
	}
	a := k.d.attemptOf(h.Consumer, h.Attempt)
	if h.Version != protocol.Version || h.Stream != "s" {
		return errors.New("a wrong Hello")
	}
	if a.finish != nil {
		k.at, a.link = a, k
		k.welcome()
		return nil
	}
	// It may not have seen the last unit that was dealt.
	switch n := len(a.units); {
	case slices.Equal(h.Units, a.units):
	case n > 0 && slices.Equal(h.Units, a.units[:n-1]):
		k.d.dealt[a.units[n-1]] = nil
		a.units, a.whole, a.position = h.Units, true, 0
		if n > 1 {
			a.position = uint64(k.d.size(h.Units[n-2]))
		}
	default:
		return fmt.Errorf("its units are %v, it was given %v", h.Units, a.units)
	}
	if len(h.Units) > 0 {
		size := uint64(k.d.size(h.Units[len(h.Units)-1]))
		if h.Position < a.position || h.Position > size || a.whole && !h.Whole || h.Whole && h.Position != size {
			return fmt.Errorf("it was at %d (whole: %v) of %d", a.position, a.whole, size)
		}
		a.position, a.whole = h.Position, h.Whole
	}
	if a.link != nil {
		a.link.drop()
	}
	for _, s := range a.left {
		s.release()
	}
	a.left = nil
	a.hellos++
	a.unknown = false
	k.at, a.link = a, k
	k.welcome()
	if len(h.Units) > 0 && !h.Whole {
		k.begin(h.Units[len(h.Units)-1], h.Position)
	}
	k.d.deal()
	return nil
}

func (d *dealer) size(u uint32) int {
	if d.kind == protocol.Files {
		return 0
	}
	return len(d.units[u].data)
}

func (k *link) welcome() {
	k.send(&protocol.Welcome{Kind: k.d.kind, Delimiter: k.d.delimiter, Units: uint32(len(k.d.units))})
}

// deal gives units to those who wait.
func (d *dealer) deal() {
	for _, a := range d.attempts {
		if a.unknown {
			return
		}
	}
	for _, a := range d.attempts {
		k := a.link
		if k == nil || !k.asked {
			continue
		}
		u := slices.Index(d.dealt, nil)
		if u < 0 {
			k.send(&protocol.EOF{})
			k.asked = false
			continue
		}
		d.dealt[u] = a
		a.units, a.position, a.whole = append(slices.Clone(a.units), uint32(u)), 0, false
		k.asked = false
		k.begin(uint32(u), 0)
	}
}

// begin sends a unit from a position on.
func (k *link) begin(u uint32, from uint64) {
	t := &k.d.units[u]
	k.unit, k.sending, k.sent = u, true, from
	k.send(&protocol.Unit{ID: u, Path: t.path, Offset: uint64(u) << 20, Codec: t.codec})
	k.pump()
}

// pump sends as much of a unit as the window allows.
func (k *link) pump() {
	d, t := k.d, &k.d.units[k.unit]
	size := uint64(d.size(k.unit))
	for k.sending && k.sent < size && len(k.held) < d.window {
		n := d.slot
		if t.piece > 0 {
			n = min(n, t.piece)
		}
		data := t.data[k.sent:min(k.sent+uint64(n), size)]
		k.sent += uint64(len(data))
		if t.inFile {
			k.sendFrom(d.inputFile(), uint32(len(data)))
			continue
		}
		m := d.arena()
		s := m.free[0]
		m.free = m.free[1:]
		copy(m.mem[s.off:], data)
		if !k.told[m] {
			k.told[m] = true
			k.send(&protocol.Arena{ID: m.id, Size: uint64(len(m.mem))})
		}
		k.send(&protocol.Piece{Unit: k.unit, Arena: m.id, Offset: uint64(s.off), Length: uint32(len(data))})
		k.held, k.ends = append(k.held, s), append(k.ends, k.sent)
	}
	if k.sending && k.sent == size {
		k.sending = false
		k.send(&protocol.End{Unit: k.unit, Bytes: size, Unterminated: t.unterminated})
	}
}

// input is a file that units are parts of. What is dealt from it is never
// overwritten, unlike memory.
type input struct {
	*os.File
	is     protocol.File
	starts []uint64
}

func (d *dealer) inputFile() *input {
	if d.input != nil {
		return d.input
	}
	d.input = &input{is: protocol.File{ID: 1000}}
	var err error
	if d.input.File, err = os.Create(filepath.Join(filepath.Dir(d.path), "dealer-input")); err != nil {
		d.t.Error(err)
	}
	for _, u := range d.units {
		d.input.starts = append(d.input.starts, d.input.is.Size)
		d.input.Write(u.data)
		d.input.is.Size += uint64(len(u.data))
	}
	st, err := d.input.Stat()
	if err != nil {
		d.t.Error(err)
	}
	d.input.is.Mtime = uint64(st.ModTime().UnixNano())
	return d.input
}

// sendFrom sends the last n bytes up to what was sent as a part of a file.
func (k *link) sendFrom(in *input, n uint32) {
	if !k.given {
		k.given = true
		is := in.is
		k.send(&is)
	}
	k.send(&protocol.Piece{Unit: k.unit, Arena: in.is.ID, Offset: in.starts[k.unit] + k.sent - uint64(n), Length: n})
}

// arena returns memory with a free slot.
func (d *dealer) arena() *memory {
	if d.memory == nil {
		d.nextID = d.nextID%3 + 1 // another daemon may use a number again
		m, err := newMemory(d.nextID, d.slot, 64, d.unsealed)
		if err != nil {
			d.t.Error(err)
		}
		d.memory = m
	}
	if len(d.memory.free) == 0 {
		d.t.Error("the dealer has no memory left")
	}
	return d.memory
}

func (k *link) consumed(m *protocol.Consumed) error {
	a := k.at
	size := uint64(k.d.size(m.Unit))
	switch {
	case m.Unit != k.unit || a.whole:
		return errors.New("Consumed of another unit")
	case m.Bytes < a.position || m.Bytes > k.sent:
		return fmt.Errorf("it has consumed %d bytes before, and was sent %d", a.position, k.sent)
	case m.Whole && (k.sending || m.Bytes != size):
		return fmt.Errorf("the whole has %d bytes", size)
	}
	a.position, a.whole = m.Bytes, m.Whole
	for len(k.held) > 0 && k.ends[0] <= m.Bytes {
		k.held[0].release()
		k.held, k.ends = k.held[1:], k.ends[1:]
	}
	k.pump()
	return nil
}
