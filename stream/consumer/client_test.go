package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/stream/protocol"
)

// testContext ends when something hangs, and not before: the machine may be busy.
func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect begins to connect, and waits for the daemon until ctx ends. The error may
// be a *StreamError. The caller closes the client.
func connect(ctx context.Context, path string, o Options) (*Client, error) {
	c := open(path, o)
	if _, err := c.await(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func dial(t testing.TB, d *dealer, o Options) *Client {
	t.Helper()
	o.Stream = "s"
	if o.Attempt == 0 {
		o.Attempt = 1
	}
	c, err := connect(testContext(t), d.path, o)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// lines makes n bytes of lines, the last one whole.
func lines(r *rand.Rand, n int) []byte {
	const pad = "------------------------------------------------------------"
	b := make([]byte, 0, n+80)
	for len(b) < n {
		b = strconv.AppendInt(b, int64(len(b)), 10)
		b = append(append(b, pad[:r.IntN(len(pad))]...), '\n')
	}
	return b
}

// someUnits are units of all kinds of sizes.
func someUnits(seed uint64) []testUnit {
	r := rand.New(rand.NewPCG(seed, 0))
	return []testUnit{
		{path: "/a", data: lines(r, 10000)},
		{path: "/a", data: lines(r, 1)},
		{path: "/b"},
		{path: "/c", data: bytes.TrimSuffix(lines(r, 5000), []byte("\n")), unterminated: true, piece: 700},
		{path: "/d", data: lines(r, 4096*3)[:4096*3]},
		{path: "/e", data: []byte("x"), unterminated: true},
		{path: "/f", data: lines(r, 20000), piece: 1700},
	}
}

func concat(units []testUnit) []byte {
	var b []byte
	for _, u := range units {
		b = append(b, u.data...)
	}
	return b
}

// read reads a unit in one of several ways.
func read(u *Unit, how int, to *bytes.Buffer) error {
	switch how % 4 {
	case 0:
		for {
			err := u.Use(func(p []byte) (int, error) { return to.Write(p) })
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	case 1: // a byte or two at a time
		p := make([]byte, 0, 2)
		for i := 0; ; i++ {
			n, err := u.Read(p[:i%3])
			to.Write(p[:n])
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	case 2:
		_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{u})
		return err
	}
	for {
		err := u.Use(func(p []byte) (int, error) {
			n := (len(p) + 1) / 2
			to.Write(p[:n])
			return n, nil
		})
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readAll reads all units and finishes.
func readAll(ctx context.Context, c *Client, how int) ([]byte, error) {
	var b bytes.Buffer
	for {
		u, err := c.Next(ctx)
		if err == io.EOF {
			return b.Bytes(), c.Finish(ctx, 0, "")
		}
		if err != nil {
			return nil, err
		}
		if err := read(u, how, &b); err != nil {
			return nil, err
		}
	}
}

func TestClientReads(t *testing.T) {
	for how := range 4 {
		for _, window := range []int{1, 3, 50} {
			units := inFiles(someUnits(1))
			d := newDealer(t, units...)
			d.window = window
			c := dial(t, d.listen(), Options{})
			got, err := readAll(testContext(t), c, how)
			if err != nil || !bytes.Equal(got, concat(units)) {
				t.Errorf("way %d, window %d: %d bytes, %v; want %d", how, window, len(got), err, len(concat(units)))
			}
			if _, err := c.Next(testContext(t)); err != ErrStale {
				t.Errorf("Next after Finish: %v", err)
			}
			must(t, c.Close())
		}
	}
}

// What the daemon says of a unit is what a reader gets to know.
func TestUnit(t *testing.T) {
	units := someUnits(1)
	units[3].codec = protocol.Zstd
	d := newDealer(t, units...)
	d.delimiter = "\r\n"
	c := dial(t, d.listen(), Options{Consumer: 3})
	if w := c.Welcome(); w.Kind != protocol.Records || w.Delimiter != "\r\n" || w.Units != uint32(len(units)) {
		t.Errorf("welcome %+v", w)
	}
	ctx := testContext(t)
	for i, want := range units {
		u, err := c.Next(ctx)
		must(t, err)
		if u.ID() != uint32(i) || u.Path() != want.path || u.Offset() != uint64(i)<<20 || u.Codec() != want.codec {
			t.Errorf("unit %d: %d, %q, %d, %d", i, u.ID(), u.Path(), u.Offset(), u.Codec())
		}
		more, err := u.More()
		if err != nil || more != (len(want.data) > 0) {
			t.Errorf("unit %d: more %v, %v", i, more, err)
		}
		if i%2 == 0 { // else Next passes over the rest
			_, err = io.Copy(io.Discard, u)
			must(t, err)
			if u.Unterminated() != want.unterminated {
				t.Errorf("unit %d: unterminated %v", i, u.Unterminated())
			}
		}
	}
	last := c.unit
	_, err := c.Next(ctx)
	if err != io.EOF {
		t.Errorf("after the last unit: %v", err)
	}
	if _, err := last.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a unit that was read: %v", err)
	}
	must(t, c.Finish(ctx, 7, "a reason"))
	must(t, c.Finish(ctx, 7, "a reason"))
	d.look(func() {
		if f := d.attemptOf(3, 1).finish; *f != (protocol.Finish{Code: 7, Reason: "a reason"}) {
			t.Errorf("finished with %+v", f)
		}
	})
}

// A unit that was left behind cannot be read.
func TestStaleUnit(t *testing.T) {
	c := dial(t, newDealer(t, someUnits(1)...).listen(), Options{})
	ctx := testContext(t)
	a, err := c.Next(ctx)
	must(t, err)
	b, err := c.Next(ctx)
	must(t, err)
	if _, err := a.Read(make([]byte, 1)); err != ErrStale {
		t.Errorf("the unit before: %v", err)
	}
	must(t, c.Finish(ctx, 0, ""))
	if _, err := b.Read(make([]byte, 1)); err != ErrStale {
		t.Errorf("a unit after Finish: %v", err)
	}
}

// Whatever breaks at whatever moment, each byte is read once.
func TestEveryFault(t *testing.T) {
	units := inFiles(someUnits(2))
	want := concat(units)
	run := func(t *testing.T, fault func(n int) action) (events int) {
		var n atomic.Int64
		d := newDealer(t, units...)
		d.fault = func(event) action { return fault(int(n.Add(1)) - 1) }
		c := dial(t, d.listen(), Options{})
		defer c.Close()
		got, err := readAll(testContext(t), c, 0)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, %v; want %d", len(got), err, len(want))
		}
		return int(n.Load())
	}
	events := run(t, func(int) action { return goOn })
	if events < 40 {
		t.Fatalf("there were only %d events", events)
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for name, a := range map[string]action{"drop": drop, "cut": cut, "restart": restart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := 0; at < events; at += step {
				run(t, func(n int) action {
					if n == at || n == at+3 {
						return a
					}
					return goOn
				})
				if t.Failed() {
					t.Fatalf("with the fault at event %d", at)
				}
			}
		})
	}
}

// The daemon's error is final, whenever it comes.
func TestErrorIsFinal(t *testing.T) {
	for at := range 30 {
		var n atomic.Int64
		d := newDealer(t, someUnits(3)...)
		d.fault = func(event) action {
			if int(n.Add(1))-1 == at {
				return refuse
			}
			return goOn
		}
		d.listen()
		c, err := connect(testContext(t), d.path, Options{Stream: "s", Attempt: 1})
		if err == nil {
			_, err = readAll(testContext(t), c, 0)
			<-c.Failed()
			if c.Err() == nil {
				t.Errorf("event %d: Err is nil", at)
			}
			c.Close()
		}
		var se *StreamError
		if !errors.As(err, &se) || se.Text != "refused by the test" {
			t.Errorf("an error at event %d: %v", at, err)
		}
	}
}

// sharedMemory counts what this process has mapped as a client.
func sharedMemory(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	return len(regexp.MustCompile(`(?m) r--s .*memfd:dealer`).FindAll(b, -1))
}

// While it is disconnected a client has no socket and no shared memory; then it
// goes on at the same byte.
func TestDisconnect(t *testing.T) {
	units := someUnits(4)
	d := newDealer(t, units...).listen()
	c := dial(t, d, Options{})
	ctx := testContext(t)
	var got []byte
	for at := 0; ; at += 997 { // disconnect after each so many bytes
		u, err := c.Next(ctx)
		if err == io.EOF {
			break
		}
		must(t, err)
		for left := 997; ; left-- {
			var b [1]byte
			n, err := u.Read(b[:])
			if err == io.EOF {
				break
			}
			must(t, err)
			got = append(got, b[:n]...)
			if left > 0 {
				continue
			}
			left = 997
			if sharedMemory(t) == 0 {
				t.Fatal("no shared memory is mapped: this test sees nothing")
			}
			c.Disconnect()
			if n := sharedMemory(t); n != 0 {
				t.Fatalf("%d pieces of shared memory are mapped", n)
			}
			d.await("the end of the connection", func() bool { return len(d.links) == 0 })
			c.Disconnect() // again
			c.Reconnect()
		}
	}
	must(t, c.Finish(ctx, 0, ""))
	if !bytes.Equal(got, concat(units)) {
		t.Errorf("read %d bytes, want %d", len(got), len(concat(units)))
	}
	d.look(func() {
		if n := d.attemptOf(0, 1).hellos; n < 40 {
			t.Errorf("connected only %d times", n)
		}
	})
	must(t, c.Close())
	if n := sharedMemory(t); n != 0 {
		t.Errorf("%d pieces of shared memory are mapped after Close", n)
	}
}

// Disconnect waits for who reads in shared memory, and nobody gets into it
// meanwhile.
func TestDisconnectWaitsForReaders(t *testing.T) {
	d := newDealer(t, someUnits(5)...).listen()
	c := dial(t, d, Options{})
	u, err := c.Next(testContext(t))
	must(t, err)
	inside, leave := make(chan bool), make(chan bool)
	read := make(chan error, 1)
	go func() {
		read <- u.Use(func(p []byte) (int, error) {
			inside <- true
			<-leave
			if p[0] != '0' {
				t.Errorf("the memory has been taken away: it begins with %q", p[0])
			}
			return 1, nil
		})
	}()
	<-inside
	done := make(chan bool)
	go func() { c.Disconnect(); close(done) }()
	for { // until Disconnect is at it
		c.mu.Lock()
		held := c.held
		c.mu.Unlock()
		if held {
			break
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case <-done:
		t.Fatal("Disconnect did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	leave <- true
	<-done
	must(t, <-read)
	if n := sharedMemory(t); n != 0 {
		t.Errorf("%d pieces of shared memory are mapped", n)
	}
	next := make(chan error, 1)
	go func() { _, err := u.Read(make([]byte, 1)); next <- err }()
	select {
	case err := <-next:
		t.Fatalf("read without a connection: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	c.Reconnect()
	must(t, <-next)
}

// A piece that was lent when the daemon ended the connection stays what it is
// until it is given back.
func TestLostConnectionLeavesLentMemory(t *testing.T) {
	units := someUnits(6)
	d := newDealer(t, units...).listen()
	c := dial(t, d, Options{})
	u, err := c.Next(testContext(t))
	must(t, err)
	var got bytes.Buffer
	must(t, u.Use(func(p []byte) (int, error) {
		d.restart(0)
		d.await("the new daemon", func() bool { return d.listener != nil })
		got.Write(p[:100])
		return 100, nil
	}))
	must(t, read(u, 0, &got))
	if !bytes.Equal(got.Bytes(), units[0].data) {
		t.Error("the unit is not what was dealt")
	}
}

// A call that gave up waiting loses nothing.
func TestNextAfterTimeout(t *testing.T) {
	units := someUnits(7)
	d := newDealer(t, units...)
	gate := make(chan bool)
	d.fault = func(ev event) action {
		if _, ok := ev.m.(*protocol.Unit); ok && ev.sent {
			<-gate
		}
		return goOn
	}
	c := dial(t, d.listen(), Options{})
	var got bytes.Buffer
	for i := range units {
		ctx, cancel := context.WithTimeout(testContext(t), 5*time.Millisecond)
		if u, err := c.Next(ctx); err != context.DeadlineExceeded {
			t.Fatalf("unit %d: %v, %v", i, u, err)
		}
		cancel()
		gate <- true
		if i%2 == 0 { // it comes before or while somebody waits
			c.mu.Lock()
			for c.unit == nil || c.unit.id != uint32(i) {
				c.changed.Wait()
			}
			c.mu.Unlock()
		}
		u, err := c.Next(testContext(t))
		must(t, err)
		must(t, read(u, i, &got))
	}
	if !bytes.Equal(got.Bytes(), concat(units)) {
		t.Error("what was read is not what was dealt")
	}
}

func TestCloseEndsWaiting(t *testing.T) {
	d := newDealer(t, someUnits(8)...)
	stall := make(chan bool)
	defer close(stall)
	d.fault = func(ev event) action {
		if _, ok := ev.m.(*protocol.Unit); ok && ev.sent {
			<-stall
		}
		return goOn
	}
	c := dial(t, d.listen(), Options{})
	ended := make(chan error, 2)
	go func() { _, err := c.Next(context.Background()); ended <- err }()
	d.await("Next", func() bool { a := d.attempts[[2]uint32{0, 1}]; return a != nil && len(a.units) == 1 })
	must(t, c.Close())
	must(t, c.Close())
	if err := <-ended; err != ErrClosed {
		t.Errorf("Next: %v", err)
	}
	c.Disconnect()
	c.Reconnect()
	if err := c.Finish(context.Background(), 0, ""); err != ErrClosed {
		t.Errorf("Finish: %v", err)
	}
}

// A daemon that is not there is waited for, and that is told once for each time.
func TestDaemonIsAway(t *testing.T) {
	units := someUnits(9)
	d := newDealer(t, units...)
	away := make(chan error, 10)
	o := Options{Stream: "s", Attempt: 1, Away: func(err error) { away <- err }}
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	if _, err := connect(ctx, d.path, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial nobody: %v", err)
	}
	go func() { <-away; d.listen() }()
	c, err := connect(testContext(t), d.path, o)
	must(t, err)
	defer c.Close()
	got, err := readAll(testContext(t), c, 0)
	if err != nil || !bytes.Equal(got, concat(units)) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	select {
	case err := <-away:
		t.Errorf("told again: %v", err)
	default:
	}
}

// TestShortOfSomething: a moment without descriptors or memory while a consumer connects does not end its attempt.
func TestShortOfSomething(t *testing.T) {
	units := someUnits(9)
	d := newDealer(t, units...).listen()
	short := []error{unix.ENFILE, unix.EMFILE, unix.ENOMEM, unix.ENOBUFS}
	c := dial(t, d, Options{dial: func(path string) (*net.UnixConn, error) {
		if len(short) > 0 {
			err := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("socket", short[0])}
			short = short[1:]
			return nil, err
		}
		return dialSocket(path)
	}})
	if got, err := readAll(testContext(t), c, 0); err != nil || !bytes.Equal(got, concat(units)) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// Nothing is waited for that waiting does not mend.
func TestDialGivesUp(t *testing.T) {
	dir := t.TempDir()
	plain := dir + "/plain"
	must(t, os.WriteFile(plain, nil, 0o600))
	dgram, err := net.ListenPacket("unixgram", dir+"/dgram")
	must(t, err)
	defer dgram.Close()
	for _, path := range []string{dir + "/dgram", dir + "/" + strings.Repeat("x", 200)} {
		ctx := testContext(t)
		_, err := connect(ctx, path, Options{Stream: "s", Attempt: 1})
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// script returns a daemon that says what it is told to, and then waits for the other
// end.
func script(t *testing.T, say func(k *protocol.Conn, sock *net.UnixConn)) string {
	path := t.TempDir() + "/s"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		sock, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer sock.Close()
		k := protocol.NewServerConn(sock)
		k.Receive() // Hello
		say(k, sock)
		for err == nil {
			_, err = k.Receive()
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return path
}

// Answers that make no sense end the attempt with an error that says so.
func TestNonsense(t *testing.T) {
	sealed, err := newMemory(1, 100, 1, false)
	must(t, err)
	defer sealed.close()
	open, err := newMemory(1, 100, 1, true)
	must(t, err)
	defer open.close()
	unit, end := &protocol.Unit{ID: 4}, &protocol.End{Unit: 4}
	welcome := &protocol.Welcome{}
	for name, say := range map[string][]any{
		"no welcome":            {&protocol.EOF{}},
		"another kind":          {&protocol.Welcome{Kind: 9}},
		"a word of a consumer":  {welcome, &protocol.Next{}},
		"welcome twice":         {welcome, welcome},
		"an end of nothing":     {welcome, end},
		"a piece of nothing":    {welcome, &protocol.Piece{Unit: 4}},
		"two at a time":         {welcome, unit, unit},
		"an end of another":     {welcome, unit, &protocol.End{Unit: 5}},
		"a piece of another":    {welcome, unit, &protocol.Piece{Unit: 5}},
		"another codec":         {welcome, &protocol.Unit{ID: 4, Codec: 3}},
		"bytes are missing":     {welcome, unit, &protocol.End{Unit: 4, Bytes: 1}},
		"too many bytes":        {welcome, arenaOf{1, 100, sealed}, unit, &protocol.Piece{Unit: 4, Arena: 1, Length: 1}, end},
		"a piece in arena 0":    {welcome, unit, &protocol.Piece{Unit: 4, Length: 1}},
		"an unknown arena":      {welcome, unit, &protocol.Piece{Unit: 4, Arena: 1, Length: 1}},
		"no descriptor":         {welcome, &protocol.Arena{ID: 1, Size: 10}},
		"arena 0":               {welcome, arenaOf{0, 100, sealed}},
		"an arena twice":        {welcome, arenaOf{1, 100, sealed}, arenaOf{1, 100, sealed}},
		"a larger arena":        {welcome, arenaOf{1, 101, sealed}},
		"an empty arena":        {welcome, arenaOf{1, 0, sealed}},
		"memory may shrink":     {welcome, arenaOf{1, 100, open}},
		"drop of nothing":       {welcome, &protocol.Drop{ID: 2}},
		"a dropped arena":       {welcome, arenaOf{1, 100, sealed}, &protocol.Drop{ID: 1}, unit, &protocol.Piece{Unit: 4, Arena: 1, Length: 1}},
		"outside of an arena":   {welcome, arenaOf{1, 100, sealed}, unit, &protocol.Piece{Unit: 4, Arena: 1, Offset: 99, Length: 2}},
		"far outside":           {welcome, arenaOf{1, 100, sealed}, unit, &protocol.Piece{Unit: 4, Arena: 1, Offset: 1<<64 - 1, Length: 2}},
		"finished without":      {welcome, &protocol.Finished{}},
		"EOF and then a unit":   {welcome, &protocol.EOF{}, unit},
		"EOF inside of a unit":  {welcome, unit, &protocol.EOF{}},
		"a frame of a new type": {welcome, []byte{0, 0, 0, 0, 77}},
		"a frame that lies":     {welcome, []byte{0xff, 0, 0, 0, byte(protocol.TypeError)}},
	} {
		t.Run(name, func(t *testing.T) {
			path := script(t, func(k *protocol.Conn, sock *net.UnixConn) {
				for i, m := range say {
					if i == 1 {
						k.Receive() // Next
					}
					switch m := m.(type) {
					case protocol.Message:
						k.Send(m)
					case arenaOf:
						k.SendWith(&protocol.Arena{ID: m.id, Size: m.size}, m.m.file)
					case []byte:
						sock.Write(m)
					}
				}
			})
			ctx := testContext(t)
			c, err := connect(ctx, path, Options{Stream: "s", Attempt: 1})
			if err == nil {
				defer c.Close()
				var u *Unit
				for err == nil {
					if u, err = c.Next(ctx); err == nil {
						_, err = io.Copy(io.Discard, u)
					}
				}
				if err == io.EOF {
					<-c.Failed()
					err = c.Err()
				}
			}
			var pe *ProtocolError
			if !errors.As(err, &pe) {
				t.Errorf("%v", err)
			}
		})
	}
}

type arenaOf struct {
	id   uint32
	size uint64
	m    *memory
}

// Memory is unmapped when it was dropped and its last piece was read, not before.
func TestDrop(t *testing.T) {
	a, err := newMemory(1, 4096, 1, false)
	must(t, err)
	defer a.close()
	copy(a.mem, "hello")
	consumed := make(chan bool)
	path := script(t, func(k *protocol.Conn, _ *net.UnixConn) {
		k.Send(&protocol.Welcome{})
		k.Receive()
		k.SendWith(&protocol.Arena{ID: 7, Size: 4096}, a.file)
		k.Send(&protocol.Unit{ID: 1}, &protocol.Piece{Unit: 1, Arena: 7, Length: 2},
			&protocol.Piece{Unit: 1, Arena: 7, Offset: 2, Length: 3}, &protocol.Drop{ID: 7}, &protocol.End{Unit: 1, Bytes: 5})
		defer close(consumed)
		for { // what was read may be told in parts
			m, err := k.Receive()
			c, ok := m.(*protocol.Consumed)
			if !ok || c.Unit != 1 || c.Bytes > 5 || c.Whole && c.Bytes != 5 {
				t.Errorf("%#v, %v", m, err)
				return
			}
			if c.Whole {
				return
			}
		}
	})
	c, err := connect(testContext(t), path, Options{Stream: "s", Attempt: 1})
	must(t, err)
	defer c.Close()
	u, err := c.Next(testContext(t))
	must(t, err)
	var b bytes.Buffer
	must(t, u.Use(func(p []byte) (int, error) { return b.Write(p) }))
	if n := sharedMemory(t); n != 1 {
		t.Errorf("%d pieces of memory are mapped while one is in use", n)
	}
	must(t, read(u, 0, &b))
	if n := sharedMemory(t); n != 0 || b.String() != "hello" {
		t.Errorf("%d pieces of memory are mapped after %q was read", n, b.String())
	}
	<-consumed
}

// Descriptors and goroutines do not pile up.
func TestClientLeaks(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(names)
	}
	d := newDealer(t, someUnits(10)...).listen()
	c := dial(t, d, Options{})
	ctx := testContext(t)
	u, err := c.Next(ctx)
	must(t, err)
	before := 0
	for i := range 30 {
		_, err := u.Read(make([]byte, 10))
		must(t, err)
		c.Disconnect()
		d.await("the end of the connection", func() bool { return len(d.links) == 0 })
		if i == 5 {
			before = count()
		}
		c.Reconnect()
	}
	c.Disconnect()
	d.await("the end of the connection", func() bool { return len(d.links) == 0 })
	// The dealer closes a socket when it has also done with writing to it.
	testkit.Await(t, fmt.Sprint("no more descriptors than ", before), func() bool { return count() <= before })
}

// The daemon's memory may be swapped for another with the same number while
// nobody is connected.
func TestReadOnly(t *testing.T) {
	d := newDealer(t, someUnits(11)...).listen()
	c := dial(t, d, Options{})
	u, err := c.Next(testContext(t))
	must(t, err)
	must(t, u.Use(func(p []byte) (int, error) {
		// The kernel refuses to write there: the mapping is read-only.
		f, err := os.Open("/dev/zero")
		must(t, err)
		defer f.Close()
		if _, err := unix.Read(int(f.Fd()), p); err != unix.EFAULT {
			t.Errorf("writing to lent memory: %v, want EFAULT", err)
		}
		return 0, nil
	}))
}
