package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// sockets returns both ends of a connection.
func sockets(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

func openFiles(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// memory makes a small piece of shared memory that holds text.
func memory(t testing.TB, text string) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t testing.TB, f *os.File) string {
	t.Helper()
	if f == nil {
		return "no descriptor"
	}
	b := make([]byte, 100)
	n, err := f.ReadAt(b, 0)
	if err != io.EOF {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestConn(t *testing.T) {
	x, y := sockets(t)
	daemon, consumer := NewServerConn(x), NewConn(y)
	whole := func() []Message {
		return slices.DeleteFunc(samples(), func(m Message) bool { return m.Type() == TypeGiven })
	}
	messages, wanted := whole(), whole() // what is being sent is not to be touched
	sent := make(chan error, 1)
	go func() {
		err := daemon.Send(messages...)
		if err == nil {
			err = daemon.CloseWrite()
		}
		sent <- err
	}()
	for i, want := range wanted {
		got, err := consumer.Receive()
		if err != nil || !reflect.DeepEqual(normal(got), normal(want)) {
			t.Fatalf("message %d is %#v, %v; want %#v", i, got, err, want)
		}
	}
	if m, err := consumer.Receive(); err != io.EOF {
		t.Errorf("after the last: %v, %v", m, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// Frames may come in any pieces.
func TestConnByteByByte(t *testing.T) {
	x, y := sockets(t)
	consumer := NewConn(y)
	var stream []byte
	messages := []Message{&Unit{ID: 1, Path: "/f"}, &Piece{Unit: 1, Arena: 1, Length: 7}, &End{Unit: 1, Bytes: 7}, &EOF{}}
	for _, m := range messages {
		stream = append(stream, encode(t, m)...)
	}
	go func() {
		for i := range stream {
			x.Write(stream[i : i+1])
		}
		x.Close()
	}()
	for i, want := range messages {
		if got, err := consumer.Receive(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("message %d: %#v, %v", i, got, err)
		}
	}
}

func TestConnCutShort(t *testing.T) {
	whole := encode(t, &Error{Text: "a text"})
	for n := range len(whole) {
		x, y := sockets(t)
		if _, err := x.Write(whole[:n]); err != nil {
			t.Fatal(err)
		}
		x.Close()
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if m, err := NewConn(y).Receive(); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, %v; want %v", n, m, err, want)
		}
	}
}

// A length alone costs no memory, and one beyond the limit is refused.
func TestConnLengths(t *testing.T) {
	x, y := sockets(t)
	consumer := NewConn(y)
	x.Write([]byte{0xff, 0xff, 0xff, 0xff, byte(TypeError)})
	if m, err := consumer.Receive(); !errors.Is(err, ErrMalformed) {
		t.Errorf("4 GB: %v, %v", m, err)
	}

	x, y = sockets(t)
	consumer = NewConn(y)
	head := binary.BigEndian.AppendUint32(nil, MaxBody)
	x.Write(append(head, byte(TypeError), 1, 2, 3))
	x.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if m, err := consumer.Receive(); err != io.ErrUnexpectedEOF {
		t.Errorf("3 bytes of %d: %v, %v", MaxBody, m, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("3 bytes took %d bytes of memory", n)
	}
}

// A body that is long comes whole.
func TestConnLongBody(t *testing.T) {
	x, y := sockets(t)
	data := make([]byte, 5<<20+17)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	go NewServerConn(x).Send(&Error{Text: string(data)})
	m, err := NewConn(y).Receive()
	if e, ok := m.(*Error); !ok || err != nil || e.Text != string(data) {
		t.Errorf("%T, %v", m, err)
	}
}

// A list of units that no frame can hold comes whole, and costs what was asked for.
func TestLongList(t *testing.T) {
	for _, n := range []int{listMax, listMax + 1, MaxBody/4 + 5} {
		x, y := sockets(t)
		daemon, consumer := NewServerConn(x), NewConn(y)
		units := make([]uint32, n)
		for i := range units {
			units[i] = uint32(n - i)
		}
		asked := 0
		daemon.Bound(func(n int) error { asked += n; return nil })
		sent := make(chan error, 1)
		go func() { sent <- consumer.Send(&Hello{Stream: "s", Units: units, Position: 7}, &Next{}) }()
		m, err := daemon.Receive()
		if h, ok := m.(*Hello); err != nil || !ok || h.Stream != "s" || h.Position != 7 || !slices.Equal(h.Units, units) {
			t.Errorf("%d units: %T, %v", n, m, err)
			y.Close() // or the sender waits
		} else if m, err := daemon.Receive(); err != nil || m.Type() != TypeNext {
			t.Errorf("after %d units: %T, %v", n, m, err)
		}
		if err := <-sent; err != nil {
			t.Errorf("%d units: %v", n, err)
		}
		if asked < 4*n-2*MaxShort {
			t.Errorf("%d units: room for %d bytes was asked for", n, asked)
		}
	}
}

// What is not the beginning of a longer list is refused.
func TestPartsOfLists(t *testing.T) {
	full := &Given{make([]uint32, listMax)}
	for name, say := range map[string][]Message{
		"a short part":      {&Given{make([]uint32, 5)}, &Hello{}},
		"no end":            {full, &Next{}},
		"an empty end":      {full, &Hello{}},
		"behind the list":   {&Hello{}, full},
		"a part after Next": {&Next{}, full},
	} {
		x, y := sockets(t)
		daemon, consumer := NewServerConn(x), NewConn(y)
		daemon.Bound(func(int) error { return nil })
		go consumer.Send(say...)
		var err error
		for range say {
			if _, err = daemon.Receive(); err != nil {
				break
			}
		}
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		x.Close()
		y.Close()
	}
}

// Each descriptor comes with its frame, and in order, however many frames are
// read at once.
func TestDescriptors(t *testing.T) {
	x, y := sockets(t)
	daemon, consumer := NewServerConn(x), NewConn(y)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(daemon.Send(&Welcome{}))
	must(daemon.SendWith(&Arena{ID: 1, Size: 5}, memory(t, "first")))
	must(daemon.Send(&Unit{ID: 1}))
	must(daemon.SendWith(&Arena{ID: 2, Size: 6}, memory(t, "second")))
	must(daemon.SendWith(&Arena{ID: 3, Size: 5}, memory(t, "third")))
	must(daemon.Send(&EOF{}))
	want := map[uint32]string{1: "first", 2: "second", 3: "third"}
	for {
		m, err := consumer.Receive()
		must(err)
		if _, last := m.(*EOF); last {
			break
		}
		a, ok := m.(*Arena)
		if !ok {
			continue
		}
		f := consumer.TakeFile()
		if got := read(t, f); got != want[a.ID] {
			t.Errorf("arena %d has %q", a.ID, got)
		}
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("the descriptor of arena %d would reach the command: %v", a.ID, err)
		}
		f.Close()
	}
	if f := consumer.TakeFile(); f != nil {
		t.Error("there is a descriptor more than was sent")
	}
}

// Descriptors do not leak: neither those that nobody takes, nor those that a
// consumer sends to the daemon, nor more than belong to anything.
func TestDescriptorsDoNotLeak(t *testing.T) {
	f := memory(t, "text")
	x, y := sockets(t)
	before := openFiles(t)
	daemon, consumer := NewServerConn(x), NewConn(y)
	for range 5 {
		if err := daemon.SendWith(&Arena{ID: 1, Size: 4}, f); err != nil {
			t.Fatal(err)
		}
		if _, err := consumer.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	if n := openFiles(t); n != before+5 {
		t.Fatalf("%d descriptors are open, want %d: they should have come", n, before+5)
	}
	consumer.Release()
	if n := openFiles(t); n != before {
		t.Errorf("%d descriptors are open after Release, %d were before", n, before)
	}

	if err := consumer.SendWith(&Arena{ID: 1, Size: 4}, f); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Receive(); err != nil {
		t.Fatal(err)
	}
	if n := openFiles(t); n != before {
		t.Errorf("%d descriptors are open after one was sent to the daemon, %d were before", n, before)
	}

	var err error
	for range maxFiles + 10 {
		if err = daemon.SendWith(&Arena{ID: 1, Size: 4}, f); err != nil {
			t.Fatal(err)
		}
		if _, err = consumer.Receive(); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("%d descriptors that nobody takes: %v", maxFiles+10, err)
	}
	consumer.Release()
	if n := openFiles(t); n != before {
		t.Errorf("%d descriptors are open after too many have come, %d were before", n, before)
	}
}

// A close ends a Receive that waits.
func TestCloseWhileReceiving(t *testing.T) {
	_, y := sockets(t)
	c := NewConn(y)
	ended := make(chan error, 1)
	go func() { _, err := c.Receive(); ended <- err }()
	c.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// Who has closed its end is known, whatever is still to be read.
func TestHungUp(t *testing.T) {
	x, y := sockets(t)
	daemon, consumer := NewServerConn(x), NewConn(y)
	if err := consumer.Send(&Hello{}, &Next{}); err != nil {
		t.Fatal(err)
	}
	if daemon.HungUp() || consumer.HungUp() {
		t.Error("an open connection is taken for closed")
	}
	consumer.Close()
	if !daemon.HungUp() {
		t.Error("a closed connection is taken for open")
	}
	if m, err := daemon.Receive(); err != nil || m.Type() != TypeHello {
		t.Errorf("%v, %v", m, err)
	}
	if !daemon.HungUp() || !consumer.HungUp() {
		t.Error("a closed connection is taken for open")
	}
}

// Several goroutines may send; frames are not mixed.
func TestSendersDoNotMix(t *testing.T) {
	x, y := sockets(t)
	daemon, consumer := NewServerConn(x), NewConn(y)
	const senders, each = 4, 200
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for n := range each {
				if daemon.Send(&Unit{ID: uint32(i), Offset: uint64(n), Path: string(make([]byte, n))}, &End{Unit: uint32(i)}) != nil {
					return
				}
			}
		})
	}
	next := make([]uint64, senders)
	for range senders * each {
		m, err := consumer.Receive()
		if err != nil {
			t.Fatal(err)
		}
		u := m.(*Unit)
		if u.Offset != next[u.ID] || len(u.Path) != int(u.Offset) {
			t.Fatalf("%d came from sender %d, want %d", u.Offset, u.ID, next[u.ID])
		}
		next[u.ID]++
		if m, err = consumer.Receive(); err != nil || m.(*End).Unit != u.ID {
			t.Fatalf("%v, %v", m, err)
		}
	}
	wg.Wait()
}

// What comes over a socket may be anything.
func FuzzReceive(f *testing.F) {
	var all []byte
	for _, m := range samples() {
		b := encode(f, m)
		if len(b) < 300 {
			f.Add(b)
			all = append(all, b...)
		}
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, stream []byte) {
		x, y := sockets(t)
		defer x.Close()
		defer y.Close()
		go func() {
			x.Write(stream)
			x.Close()
		}()
		c := NewConn(y)
		var back []byte
		for {
			m, err := c.Receive()
			if err != nil {
				if err == io.EOF && !bytes.Equal(back, stream) {
					t.Fatalf("%x was taken for %x", stream, back)
				}
				if !bytes.HasPrefix(stream, back) {
					t.Fatalf("%x was taken for %x", stream, back)
				}
				return
			}
			if back, err = Append(back, m); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestBounds: but for Hello, what a consumer says is short, and room is asked for what is
// long, as it comes.
func TestBounds(t *testing.T) {
	list := make([]uint32, 3<<20/4)
	for name, c := range map[string]struct {
		say    []Message
		room   int
		refuse bool
	}{
		"a list":               {[]Message{&Hello{Units: list}}, 4 << 20, false},
		"too little room":      {[]Message{&Hello{Units: list}}, 2 << 20, true},
		"short ones":           {[]Message{&Hello{}, &Next{}, &Finish{Reason: "why"}}, 0, false},
		"a long reason":        {[]Message{&Hello{}, &Finish{Reason: string(make([]byte, MaxShort))}}, 1 << 30, true},
		"another list":         {[]Message{&Hello{}, &Hello{Units: list}}, 1 << 30, true},
		"a long one at first":  {[]Message{&Finish{Reason: string(make([]byte, MaxShort))}}, 1 << 30, true},
		"a short one at first": {[]Message{&Finish{Reason: "why"}}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := sockets(t)
			daemon, consumer := NewServerConn(x), NewConn(y)
			defer daemon.Close()
			defer consumer.Close()
			daemon.Bound(func(n int) error {
				if c.room -= n; c.room < 0 {
					return errors.New("no room")
				}
				return nil
			})
			go consumer.Send(c.say...)
			var err error
			for range c.say {
				if _, err = daemon.Receive(); err != nil {
					break
				}
			}
			if (err != nil) != c.refuse {
				t.Error(err)
			}
		})
	}
}
