package stream

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/stream/deal"
	"headrace/stream/protocol"
)

// TestShortOfDescriptorsForAConsumer: a consumer for which there is no descriptor just now comes again, and is not
// told that its attempt is over.
func TestShortOfDescriptorsForAConsumer(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var socks [2]*net.UnixConn
	for i, fd := range ends {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		socks[i] = c.(*net.UnixConn)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(socks[0], slog.New(slog.DiscardHandler))
	l.owner = linux.Self()
	l.send(outgoing{&protocol.File{ID: 1}, f})
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	l.finish() // when that is sent, if it can be
	l.write()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if m, err := protocol.NewConn(socks[1]).Receive(); err != io.EOF {
		t.Errorf("it is told %+v, %v", m, err)
	}
}

// TestConsumerThatDoesNotRead: a consumer that asks on and on and does not read what it is told
// has to wait, with what the daemon holds for it, and is told everything when it reads.
func TestConsumerThatDoesNotRead(t *testing.T) {
	p := newPlace(t)
	p.cfg.NoResidentFirst = true // in their order
	p.start()
	const files = 1500 // with more messages than fit into the buffers of a connection
	var paths []string
	for i := range files {
		paths = append(paths, p.write(fmt.Sprintf("in/%04d", i), []byte("x")))
	}
	info := p.open(Spec{Paths: paths, Rule: deal.Rule{Split: deal.Files}, Consumers: 1})
	c := p.client(info.ID, 0, 1)
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	defer c.disconnect()
	asked := make(chan error, 1)
	go func() {
		for id := range uint32(files) {
			if err := c.conn.Send(&protocol.Next{}, &protocol.Consumed{Unit: id, Whole: true}); err != nil {
				asked <- err
				return
			}
		}
		asked <- nil
	}()
	select {
	case err := <-asked:
		t.Fatalf("it could ask for everything: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	for id := range uint32(files) {
		unit, err := c.receive()
		if m, is := unit.(*protocol.Unit); err != nil || !is || m.ID != id {
			t.Fatalf("got %+v, %v, want unit %d", unit, err, id)
		}
		end, err := c.receive()
		if m, is := end.(*protocol.End); err != nil || !is || m.Unit != id {
			t.Fatalf("got %+v, %v, want the end of unit %d", end, err, id)
		}
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
}
