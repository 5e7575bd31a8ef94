package blocks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/hdfs/ipc"
	"headrace/internal/linux"
	"headrace/wire"
)

var someBlock = headrace.BlockID{Pool: "BP-1", Number: 7}

// standIn answers in the place of a node, as processes of a user, with a path.
type standIn struct {
	net.Listener
	as   linux.Credentials
	path string
}

func (s *standIn) Accept() (c net.Conn, err error) {
	return c, linux.AsUser(s.as, func() error { c, err = s.Listener.Accept(); return err })
}

// near returns what asks a stand-in. Whoever has the port answers.
func near(t *testing.T, s *standIn) *Near {
	t.Helper()
	var err error
	if s.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	n := &Near{Address: s.Addr().String()}
	n.line.within = time.Hour // however slow the machine is
	server := ipc.Server{Protocols: map[string]ipc.Handler{"headrace.v1.LocalBlocks": ipc.HandlerFunc(func(context.Context, *ipc.Call) (proto.Message, error) {
		return &wire.ExtentResponse{Copy: &wire.BlockCopy{Block: 7, State: wire.BlockCopy_FINAL, Length: 4, Stamp: 1}, Path: s.path, Size: 4}, nil
	})}}
	go server.Serve(s)
	t.Cleanup(func() {
		if n.line.client != nil {
			n.line.client.Close()
		}
		server.Close()
	})
	return n
}

// TestNearOpensFiles: what is no file is not opened. A pipe would never be.
func TestNearOpensFiles(t *testing.T) {
	dir := t.TempDir()
	s := &standIn{as: linux.Credentials{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}}
	n := near(t, s)
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, link, "/dev/null", "/proc/self/status"} {
		s.path = path
		if c, err := n.Any(t.Context(), someBlock); err == nil {
			c.Data.Close()
			t.Errorf("%s was opened", path)
		}
	}
	s.path = file
	c, err := n.Any(t.Context(), someBlock)
	if err != nil || c.Bytes != 4 {
		t.Fatalf("%v, %v", c, err)
	}
	c.Data.Close()
}

// TestNearOfAnotherUser: whoever has the port of the node while it is not there has root open no files but their own.
func TestNearOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root opens files of others")
	}
	const nobody = 65534
	s := &standIn{as: linux.Credentials{UID: nobody, GID: nobody, Groups: []uint32{nobody}}, path: filepath.Join(t.TempDir(), "secret")}
	n := near(t, s)
	if err := os.WriteFile(s.path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Any(t.Context(), someBlock); err == nil || !strings.Contains(err.Error(), "user 65534 has named") {
		t.Errorf("a file of root's: %v", err)
	}
	if err := os.Chown(s.path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	c, err := n.Any(t.Context(), someBlock)
	if err != nil {
		t.Fatalf("their own: %v", err)
	}
	c.Data.Close()
}

// TestNearDiskHangs: a disk that does not answer is waited for as long as there is time, and then not at all; those beside it are looked at.
func TestNearDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		n := &Near{opens: func(e *extent) (*os.File, error) {
			if strings.HasPrefix(e.path, "/bad/") {
				<-answer
			}
			return os.Open("/dev/null")
		}}
		open := func(path string) error {
			ctx, cancel := context.WithTimeout(t.Context(), lookAtMost)
			defer cancel()
			f, err := n.open(ctx, extent{path: path})
			if err == nil {
				f.Close()
			}
			return err
		}
		if err := open("/bad/files/00/1.blocks"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at first: %v", err)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		for i := range 100 {
			if err := open(fmt.Sprintf("/bad/files/%02x/1.blocks", i)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("later: %v", err)
			}
			if err := open("/good/files/00/1.blocks"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("a disk that is known to hang has held up others for %v", took)
		}
		close(answer)
		synctest.Wait()
		if err := open("/bad/files/00/1.blocks"); err != nil {
			t.Errorf("when it answers: %v", err)
		}
	})
}

// TestNearStandsStill: one look waits, those after it do not.
func TestNearStandsStill(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := &Near{Address: l.Addr().String()}
	n.line.within = 50 * time.Millisecond
	_, first := n.Any(t.Context(), someBlock)
	if first == nil {
		t.Fatal("nobody has answered")
	}
	n.line.within = time.Hour // who waits now waits until the test gives up
	ctx, giveUp := context.WithTimeout(t.Context(), time.Minute)
	defer giveUp()
	for range 50 {
		if _, err := n.Any(ctx, someBlock); err == nil || err.Error() != first.Error() {
			t.Fatalf("%v, before %v", err, first)
		}
	}
}
