package proc_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// echoer connects to a server, sends back each line that comes from there, and ends when
// it has read an empty one.
const echoer = `
import socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
lines = c.makefile("rwb", buffering=0)
while True:
    line = lines.readline()
    lines.write(line)
    if line == b"\n": break
`

// An exchange is a task that runs echoer, and the server's end of its connection.
type exchange struct {
	*world
	spec proc.Spec
	task *proc.Task
	conn net.Conn
	in   *bufio.Reader
}

func newExchange(t *testing.T) *exchange { return newWorld(t).needCheckpoints().exchange() }

func (w *world) exchange() *exchange {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	w.must(err)
	defer l.Close()
	x := &exchange{world: w, spec: w.spec("echo", "python3", "-c", echoer, fmt.Sprint(l.Addr().(*net.TCPAddr).Port))}
	x.task = w.start(x.spec)
	w.must(l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	x.conn, err = l.Accept()
	w.must(err)
	w.Cleanup(func() { x.conn.Close() })
	x.in = bufio.NewReader(x.conn)
	x.say("hello")
	return x
}

// say sends a line to the task and waits for it to come back.
func (x *exchange) say(line string) {
	x.Helper()
	x.must(x.conn.SetDeadline(time.Now().Add(30 * time.Second)))
	_, err := fmt.Fprintln(x.conn, line)
	x.must(err)
	if got, err := x.in.ReadString('\n'); err != nil || got != line+"\n" {
		x.Fatalf("%q came back as %q, %v", line, got, err)
	}
}

// TestConnectionsOutliveAFailedCheckpoint: CRIU has dumped the task, and locked its
// connections for that, when it turns out that the image cannot be kept: there is something in it that belongs into none.
func TestConnectionsOutliveAFailedCheckpoint(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	spoils := filepath.Join(t.TempDir(), "spoils")
	w.must(os.WriteFile(spoils, nil, 0o600))
	w.withAction(fmt.Sprintf("[ ! -e %s -o -p $CRTOOLS_IMAGE_DIR/stray ] || mkfifo $CRTOOLS_IMAGE_DIR/stray", spoils))
	x := w.exchange()
	for range 2 {
		_, err := x.task.Checkpoint(x.ctx, proc.CheckpointOptions{Store: x.store})
		if err == nil || !strings.Contains(err.Error(), "stray is not a regular file") {
			t.Fatalf("the checkpoint with a named pipe in it: %v", err)
		}
		x.say("still here")
	}
	w.must(os.Remove(spoils))
	x.checkpoint(x.task)
	x.task = x.restore(x.spec, proc.RestoreOptions{})
	x.say("back")
	x.say("")
	if e := x.end(x.task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
}

// withAction has the next supervisors run CRIU with one action script more, which is asked
// before theirs when a dump is through, with everything locked, and has not been decided on.
func (w *world) withAction(script string) {
	w.Helper()
	action, real := filepath.Join(w.TempDir(), "action"), w.rt.CRIU
	w.must(os.WriteFile(action, []byte("#!/bin/sh\n[ $CRTOOLS_SCRIPT_ACTION = post-dump ] || exit 0\n"+script+"\n"), 0o755))
	// Which of several scripts CRIU asks first is its own business.
	w.withCRIU(fmt.Sprintf("[ $1 = dump ] || exec %[1]s \"$@\"\nshift\nexec %[1]s dump --action-script %[2]s \"$@\" --action-script %[2]s", real, action))
}

// heldBack reports whether a table of nftables drops the packets of the connection.
func (x *exchange) heldBack() bool {
	x.Helper()
	tables, err := linux.Tables()
	x.must(err)
	for _, table := range tables {
		held, err := linux.InSet(table, "conns4")
		x.must(err)
		for _, c := range held {
			if c.Near.String() == x.conn.LocalAddr().String() && c.Far.String() == x.conn.RemoteAddr().String() {
				return true
			}
		}
	}
	return false
}

// TestConnectionsOutliveAKilledCRIU: what a CRIU that is killed has locked is unlocked, and
// nothing else is.
func TestConnectionsOutliveAKilledCRIU(t *testing.T) {
	other := newExchange(t)
	other.checkpoint(other.task)
	w := newWorld(t).needCheckpoints()
	once := filepath.Join(t.TempDir(), "killed")
	w.withAction(fmt.Sprintf("[ -e %[1]s ] || { : >%[1]s; kill -KILL $PPID; }", once))
	x := w.exchange()
	if _, err := x.task.Checkpoint(x.ctx, proc.CheckpointOptions{Store: x.store}); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the checkpoint whose CRIU was killed: %v", err)
	}
	if x.heldBack() {
		t.Error("the packets of the connection are still held back")
	}
	x.say("still here")
	x.checkpoint(x.task)
	if !x.heldBack() || !other.heldBack() {
		t.Error("the packets of a checkpointed task are not held back")
	}
	x.task = x.restore(x.spec, proc.RestoreOptions{})
	x.say("back")
	other.task = other.restore(other.spec, proc.RestoreOptions{})
	other.say("back")
}

// TestConnectionsOfWhatIsLostInADump: a supervisor that is killed in a dump leaves the
// connections locked until the task is known to be lost.
func TestConnectionsOfWhatIsLostInADump(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	asked := filepath.Join(t.TempDir(), "asked")
	w.withAction(fmt.Sprintf(": >%s; exec sleep 1000", asked))
	x := w.exchange()
	go x.task.Checkpoint(x.ctx, proc.CheckpointOptions{Store: x.store}) // it comes to nothing
	x.await("the dump", func() bool { _, err := os.Stat(asked); return err == nil })
	x.must(unix.Kill(x.shimPID("echo"), unix.SIGKILL))
	if e := x.end(x.task); !e.Lost {
		t.Errorf("ended with %+v", e)
	}
	if !x.heldBack() {
		t.Error("nothing has locked the connection")
	}
	x.must(x.rt.Conclude("echo"))
	x.mustLose()
	x.must(x.rt.Conclude("echo"))
}

// mustLose checks that the other end of the task's connection learns that it is gone.
func (x *exchange) mustLose() {
	x.Helper()
	x.must(x.conn.SetDeadline(time.Now().Add(30 * time.Second)))
	_, err := fmt.Fprintln(x.conn, "are you there?")
	x.must(err)
	if line, err := x.in.ReadString('\n'); !errors.Is(err, unix.ECONNRESET) && err != io.EOF {
		x.Errorf("the connection of a task that is gone: %q, %v; want it reset or closed", line, err)
	}
}

// TestConnectionsOfWhatIsNotRestored: when a checkpointed task ends, nobody drops the
// packets of its connections any more.
func TestConnectionsOfWhatIsNotRestored(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		x := newExchange(t)
		x.checkpoint(x.task)
		x.must(x.task.Kill(x.ctx, time.Millisecond))
		x.end(x.task)
		x.mustLose()
	})
	t.Run("removed, without a supervisor", func(t *testing.T) {
		x := newExchange(t)
		x.checkpoint(x.task)
		x.must(unix.Kill(x.shimPID("echo"), unix.SIGKILL))
		x.must(x.rt.Remove(x.ctx, "echo"))
		x.mustLose()
	})
}

// TestConnectionsOfAnOlderImage: what comes back from an older image than the last has its
// connections too.
func TestConnectionsOfAnOlderImage(t *testing.T) {
	x := newExchange(t)
	first := x.checkpoint(x.task)
	x.task = x.restore(x.spec, proc.RestoreOptions{})
	x.checkpoint(x.task)
	x.task = x.restore(x.spec, proc.RestoreOptions{Seq: first.Seq})
	x.say("back")
}

// TestConnectionsOfWhatIsKilledInADump: CRIU gets to undo what it has done.
func TestConnectionsOfWhatIsKilledInADump(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	dumped := filepath.Join(t.TempDir(), "dumped")
	w.withAction(fmt.Sprintf(`[ ! -e %[1]s ] || exit 0
parent() { grep PPid /proc/$PPID/status; }
asked=$(parent)
: >%[1]s
while [ "$(parent)" = "$asked" ]; do sleep 0.01; done # who has asked for the dump is killed with it`, dumped))
	x := w.exchange()
	failed := make(chan error, 1)
	go func() {
		_, err := x.task.Checkpoint(x.ctx, proc.CheckpointOptions{Store: x.store})
		failed <- err
	}()
	x.await("the dump", func() bool { _, err := os.Stat(dumped); return err == nil })
	x.must(x.task.Kill(x.ctx, time.Millisecond))
	x.end(x.task)
	if err := <-failed; err == nil {
		t.Error("the checkpoint of a task that was killed succeeded")
	}
	x.mustLose()
}
