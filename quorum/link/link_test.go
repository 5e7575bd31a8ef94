package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"headrace/internal/accept"
	"headrace/quorum"
)

// list is a machine that keeps all commands.
type list struct {
	mu    sync.Mutex
	text  []byte
	index uint64
	// changed has something in it after a change.
	changed chan struct{}
}

func (l *list) begins(text []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.HasPrefix(l.text, text)
}

func (l *list) change() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *list) Durable() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

func (l *list) Apply(entries []quorum.Entry) (answers [][]byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.change()
	for _, e := range entries {
		l.text, l.index = append(l.text, e.Data...), e.Index
		answers = append(answers, bytes.Clone(l.text))
	}
	return answers, nil
}

func (l *list) Snapshot() (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return io.NopCloser(bytes.NewReader(bytes.Clone(l.text))), nil
}

func (l *list) Restore(index uint64, r io.Reader) error {
	text, err := io.ReadAll(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text, l.index = text, index
	l.change()
	return err
}

// dial connects to a link, and says whom it means.
func dial(ctx context.Context, address, hello string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		err = Greet(ctx, c, hello)
	}
	return c, err
}

// TestNodes has four nodes speak over TCP: three members, and one that joins, by a snapshot.
func TestNodes(t *testing.T) {
	var drivers [4]*quorum.Driver
	var machines [4]*list
	var addresses [4]string
	var links [4]*Link
	var wait sync.WaitGroup
	members := []quorum.Replica{quorum.NewReplica(1, 1), quorum.NewReplica(2, 1), quorum.NewReplica(3, 1)}
	listeners := [4]net.Listener{}
	for i := range drivers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i], addresses[i] = l, l.Addr().String()
	}
	for i := range drivers {
		machines[i] = &list{changed: make(chan struct{}, 1)}
		links[i] = New(Config{
			Dial: func(ctx context.Context, node uint32) (net.Conn, error) {
				return dial(ctx, addresses[node-1], "")
			},
			Deliver: func(m quorum.Message) { drivers[i].Deliver(m) },
		})
		n, err := quorum.Open(quorum.Config{Dir: filepath.Join(t.TempDir(), fmt.Sprint(i)), Send: links[i].Send, ChunkSize: 10,
			Machine: func(uint64) (quorum.Machine, error) { return machines[i], nil }})
		if err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			err = n.Create(1, members[i], members)
		} else {
			err = n.Create(1, quorum.NewReplica(4, 1), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		drivers[i] = quorum.Drive(n, 20*time.Millisecond)
	}
	for i := range links {
		wait.Go(func() {
			if err := links[i].Serve(&accept.Listener{Listener: listeners[i], Name: "test"}); err != nil {
				t.Error(err)
			}
		})
	}
	defer wait.Wait()
	for i := range links {
		defer links[i].Close()
		defer drivers[i].Close()
	}
	ask := func(f func(*quorum.Driver) error) {
		t.Helper()
		for i := 0; ; {
			err := f(drivers[i])
			var notLeader *quorum.NotLeader
			switch {
			case err == nil:
				return
			case errors.As(err, &notLeader):
				if i = (i + 1) % 3; notLeader.Leader != 0 {
					i = int(notLeader.Leader.Node()) - 1
				}
			case !errors.Is(err, quorum.ErrBusy) && !errors.Is(err, quorum.ErrUncertain):
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // those who are to answer have the processors
		}
	}
	var text []byte
	for i := range 20 {
		ask(func(d *quorum.Driver) error {
			answer, err := d.Propose(t.Context(), 1, fmt.Append(nil, i, " "))
			text = answer
			return err
		})
	}
	ask(func(d *quorum.Driver) error { // once more does no harm
		changed := make(chan error, 1)
		if err := d.Do(func(n *quorum.Node) error {
			n.Change(1, []quorum.MemberStep{{Replica: quorum.NewReplica(4, 1), Learner: true}}, func(err error) { changed <- err })
			return nil
		}); err != nil {
			return err
		}
		return <-changed
	})
	for !machines[3].begins(text) {
		<-machines[3].changed
	}
}

// TestNonsense: what is no message ends a connection, and nothing is delivered.
func TestNonsense(t *testing.T) {
	good := quorum.Message{Kind: quorum.Raft, Group: 7, From: 1, To: 2, Payload: []byte("abc")}
	frame := good.Append(make([]byte, head))
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-head))
	const begun = magic + "\x02\x00me"
	for name, b := range map[string][]byte{
		"long hello": []byte(magic + "\xff\xff"), "hello": []byte("GET / HTTP/1.1\r\n\r\n"), "checksum": append([]byte(begun), frame...),
		"length": append([]byte(begun), 255, 255, 255, 255, 0, 0, 0, 0), "empty": append([]byte(begun), make([]byte, head)...),
	} {
		t.Run(name, func(t *testing.T) {
			l := New(Config{Deliver: func(m quorum.Message) { t.Errorf("came: %+v", m) }})
			ours, theirs := net.Pipe()
			l.wait.Go(func() { l.receive(theirs) })
			go ours.Write(b)
			if bytes.HasPrefix(b, []byte(begun)) {
				if why, err := readText(ours); why != "" || err != nil {
					t.Errorf("the hello is answered with %q, %v", why, err)
				}
			}
			if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the connection is there: %v", err)
			}
			l.Close()
		})
	}
}

// TestRefusal: who means somebody else is told why, before anything is delivered.
func TestRefusal(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(Config{Deliver: func(m quorum.Message) { t.Errorf("came: %+v", m) }, Welcome: func(hello string, from net.Addr) error {
		if hello != "b" {
			return fmt.Errorf("here is b, and not %s", hello)
		}
		return nil
	}})
	served := make(chan error, 1)
	go func() { served <- l.Serve(&accept.Listener{Listener: listener}) }()
	if _, err := dial(t.Context(), listener.Addr().String(), "a"); !errors.Is(err, ErrRefused) || err.Error() != "the other end refuses messages: here is b, and not a" {
		t.Error(err)
	}
	c, err := dial(t.Context(), listener.Addr().String(), "b")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestQueueIsBounded: a node that is not there costs neither time nor more than so much memory.
func TestQueueIsBounded(t *testing.T) {
	p := &peer{wake: make(chan struct{}, 1)}
	for range 100 {
		p.put(make([]byte, 1<<20))
	}
	if p.bytes > queueLimit || len(p.queue) != queueLimit>>20 {
		t.Errorf("%d bytes wait in %d messages", p.bytes, len(p.queue))
	}
}

func TestMessagesComeAsTheyWere(t *testing.T) {
	got := make(chan quorum.Message, 2)
	l := New(Config{Deliver: func(m quorum.Message) { got <- m }})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.config.Dial = func(ctx context.Context, _ uint32) (net.Conn, error) {
		return dial(ctx, listener.Addr().String(), "")
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve(&accept.Listener{Listener: listener}) }()
	for _, m := range []quorum.Message{
		{Kind: quorum.Chunk, Group: 1 << 40, From: quorum.NewReplica(1, 2), To: quorum.NewReplica(3, 4), Stream: 5, Number: 6, Last: true, Payload: bytes.Repeat([]byte("x"), 300_000)},
		{Kind: quorum.Got, Group: 1, From: 2, To: 3, Payload: []byte{}},
	} {
		l.Send(m)
		if g := <-got; !reflect.DeepEqual(g, m) {
			t.Errorf("%.200v", g)
		}
	}
	l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
