package proc_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// networker has sockets of each kind, all of which belong to another user, as those of that
// user's task do. Asked, it says whose they are, and uses them.
const networker = `
import os, select, socket, sys, time
uid = int(sys.argv[1])
def own(s): os.fchown(s.fileno(), uid, os.getgid()); return s
def new(family, kind, at):
    s = own(socket.socket(family, kind)); s.bind(at); return s
lone = own(socket.socket())
listener = new(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)); listener.listen(7)
client = own(socket.create_connection(listener.getsockname()))
server, _ = listener.accept(); own(server)
late = own(socket.socket()); late.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); late.bind(("127.0.0.1", 0))
six = new(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)); six.listen()
udp = new(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
udp2 = new(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)); udp2.connect(udp.getsockname()); udp2.shutdown(socket.SHUT_RD)
shut = new(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)); ends = select.poll(); ends.register(shut, select.POLLRDHUP)
try: shut.shutdown(socket.SHUT_RD) # to wake whoever waits there
except OSError: pass
a, b = map(own, socket.socketpair())
all = lone, listener, client, server, late, six, udp, udp2, a, b
if os.getuid() == 0:
    named = new(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + sys.argv[2]); named.listen()
print(listener.getsockname()[1], client.getsockname()[1], udp.getsockname()[1], flush=True)
asked = open(sys.argv[3])
while True:
    line = asked.readline()
    if not line:
        time.sleep(0.01); continue
    client.sendall(b"x"); server.recv(1); a.send(b"y"); b.recv(1); udp2.send(b"z")
    x = socket.create_connection(listener.getsockname()); y, _ = listener.accept(); x.close(); y.recv(1); y.close(); assert ends.poll(0)
    print(line.strip(), [os.fstat(s.fileno()).st_uid for s in all], udp.recv(1) == b"z", udp.getsockname()[1], udp2.getpeername() == udp.getsockname(),
          [s.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) for s in all[:8]], [s.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for s in all[:8] if s not in (client, server)], flush=True)
    late.listen() if line == "1\n" else None
`

// TestSocketsKeepTheirOwners: restored sockets belong to whom they belonged, also when
// others than the task ask the kernel, and share their ports with nobody.
func TestSocketsKeepTheirOwners(t *testing.T) {
	ofRootAndAnother(t, 12345, socketsKeepTheirOwners)
}

func socketsKeepTheirOwners(t *testing.T, user uint32) {
	w := newWorld(t).needCheckpoints()
	const uid = 12345
	asked, err := os.CreateTemp(filepath.Dir(w.store), "") // where that user may pass
	w.must(err)
	defer asked.Close()
	w.must(asked.Chmod(0o644))
	s := w.spec("sockets", "python3", "-c", networker, fmt.Sprint(uid), t.TempDir(), asked.Name())
	s.UID, s.GID = user, user
	task := w.start(s)
	w.awaitOutput(task, "\n")
	var listens, client, udp int
	_, err = fmt.Sscan(w.log("sockets", "stdout"), &listens, &client, &udp)
	w.must(err)
	ask := func(n int) {
		t.Helper()
		fmt.Fprintln(asked, n)
		of := strings.TrimSuffix(strings.Repeat("12345, ", 10), ", ")
		w.awaitOutput(task, fmt.Sprintf("\n%d [%s] True %d True [0, 0, 0, 0, 1, 0, 0, 0] [0, 0, 0, 0, 0, 0]\n", n, of, udp))
	}
	ask(0)
	for round := 1; round <= 2; round++ {
		w.checkpoint(task)
		if round == 1 { // somebody who would share the port with whoever is root
			for _, network := range []string{"tcp", "udp"} {
				stop := w.sharePort(network, map[string]int{"tcp": listens, "udp": udp}[network])
				if _, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store}); err == nil || !strings.Contains(err.Error(), "port") {
					t.Fatalf("restored beside somebody who has its %s port: %v", network, err)
				}
				stop()
			}
		}
		task = w.restore(s, proc.RestoreOptions{})
		ask(round)
		local := func(port int) netip.AddrPort {
			return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))
		}
		if owner, err := linux.TCPOwner(local(client), local(listens)); err != nil || owner != uid {
			t.Errorf("the kernel says that its connection is user %d's, %v", owner, err)
		}
		for network, port := range map[string]int{"tcp": listens, "udp": udp} {
			if l, err := reusing(network, port); err == nil {
				l()
				t.Errorf("root could share %s port %d of the task", network, port)
			}
		}
	}
	w.must(task.Kill(w.ctx, 1))
	w.end(task)
}

// datagrams has a port of its own, one that two of its sockets share, and one that they have shared.
const datagrams = `
import socket, sys, time
def new(share, at=("127.0.0.1", 0)):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, share)
    s.bind(at)
    return s
lone = new(0)
a = new(1); b = new(1, a.getsockname())
c = new(1); d = new(1, c.getsockname())
for s in c, d: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
print(*[s.getsockname()[1] for s in (lone, a, c)], flush=True)
asked = open(sys.argv[1])
while not asked.readline(): time.sleep(0.01)
print("back", *[s.getsockname()[1] for s in (lone, a, b, c, d)], *[s.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) for s in (lone, a, b, c, d)], flush=True)
time.sleep(1000)
`

// TestPortsOfDatagramsAreNotShared: a port of UDP that somebody else has taken, in a way that lets others take it too, is taken.
func TestPortsOfDatagramsAreNotShared(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	asked := filepath.Join(t.TempDir(), "asked")
	w.must(os.WriteFile(asked, nil, 0o600))
	s := w.spec("datagrams", "python3", "-c", datagrams, asked)
	task := w.start(s)
	w.awaitOutput(task, "\n")
	var lone, shared, wasShared int
	_, err := fmt.Sscan(w.log("datagrams", "stdout"), &lone, &shared, &wasShared)
	w.must(err)
	w.checkpoint(task)
	for _, port := range []int{lone, wasShared} {
		stop := w.takePort("udp", port, unix.SO_REUSEADDR)
		if _, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d,", port)) {
			t.Fatalf("restored beside somebody who has its port %d: %v", port, err)
		}
		stop()
	}
	defer w.takePort("udp", shared, unix.SO_REUSEADDR)() // as the task lets everybody
	task = w.restore(s, proc.RestoreOptions{})
	w.must(os.WriteFile(asked, []byte("\n"), 0o600))
	w.awaitOutput(task, fmt.Sprintf("back %d %[2]d %[2]d %[3]d %[3]d 0 1 1 0 0\n", lone, shared, wasShared))
	w.must(task.Kill(w.ctx, 1))
	w.end(task)
}

// reusing takes a port as those who share it with others of the same user.
func reusing(network string, port int) (stop func(), err error) {
	return taking(network, port, unix.SO_REUSEPORT)
}

// taking takes a port with an option set.
func taking(network string, port, option int) (stop func(), err error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1) })
		return err
	}}
	at := fmt.Sprintf("127.0.0.1:%d", port)
	if network == "udp" {
		p, err := c.ListenPacket(context.Background(), network, at)
		if err != nil {
			return nil, err
		}
		return func() { p.Close() }, nil
	}
	l, err := c.Listen(context.Background(), network, at)
	if err != nil {
		return nil, err
	}
	return func() { l.Close() }, nil
}

func (w *world) sharePort(network string, port int) (stop func()) {
	w.Helper()
	return w.takePort(network, port, unix.SO_REUSEPORT)
}

func (w *world) takePort(network string, port, option int) (stop func()) {
	w.Helper()
	stop, err := taking(network, port, option)
	w.must(err)
	return stop
}

// TestListenersThatSharedAPort: two that listen at one port do so again, also when one says no longer that it shares it (SO_REUSEPORT).
func TestListenersThatSharedAPort(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	dir := t.TempDir()
	s := w.spec("listeners", "python3", "-uc", `
import os, socket, sys, time
def listener(port):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); s.bind(("127.0.0.1", port)); s.listen(); return s
a = listener(0)
b = listener(a.getsockname()[1])
a.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)
print("ready")
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
socket.create_connection(a.getsockname())
print(a.getsockname() == b.getsockname(), [s.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for s in (a, b)])
`, dir)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	w.awaitOutput(task, "True [0, 1]\n")
	w.end(task)
}

// A connection to a unix socket is kept that is not accepted yet, and one of datagrams, also where the process that has connected comes first.
func TestUnacceptedUnixConnection(t *testing.T) {
	t.Parallel()
	if said := newWorld(t).needCheckpoints().comesBack(0, "unaccepted.py"); said != "came back\n" {
		t.Errorf("it printed\n%s", said)
	}
}
