package proc_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/proc"
)

// keepContinuing sends SIGCONT to the processes of a task, from outside, as soon as there is a file and until it is told to stop.
func (w *world) keepContinuing(id, when string) (stop func()) {
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var tree []linux.Stat
		for {
			select {
			case <-over:
				return
			default:
			}
			if _, err := os.Stat(when); err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			if tree == nil {
				tree = w.taskProcesses(id)
			}
			for _, p := range tree {
				unix.Kill(p.PID, unix.SIGCONT)
			}
			time.Sleep(100 * time.Microsecond) // the task shall have a processor, too
		}
	}()
	return func() {
		close(over)
		<-stopped
	}
}

// restless connects a socket that it has had for long, and that is another user's, as soon as there is a file, and then the next.
const restless = `
import os, socket, sys, time
socks = [socket.socket() for _ in range(9)]
for s in socks: os.fchown(s.fileno(), int(sys.argv[3]), os.getgid())
print("ready", flush=True)
for n, s in enumerate(socks):
    while not os.path.exists(sys.argv[2] + str(n)): time.sleep(0.001)
    s.connect(("127.0.0.1", int(sys.argv[1])))
    s.recv(1)
    s.close()
    print("connected", n, flush=True)
while True: time.sleep(1000)
`

// TestContinuedInARestore: a task that somebody continues as soon as CRIU has let go of it comes back, and none of its sockets is root's when
// it runs, although CRIU takes its time then.
func TestContinuedInARestore(t *testing.T) {
	ofRootAndAnother(t, 12345, continuedInARestore)
}

func continuedInARestore(t *testing.T, user uint32) {
	w := newWorld(t).needCheckpoints()
	const uid = 12345
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	w.must(err)
	defer l.Close()
	flag := filepath.Join(testkit.OpenDir(t), "go")
	s := w.spec("restless", "python3", "-c", restless, fmt.Sprint(l.Addr().(*net.TCPAddr).Port), flag, fmt.Sprint(uid))
	s.UID, s.GID = user, user
	slow, letGo := filepath.Join(t.TempDir(), "slow"), filepath.Join(t.TempDir(), "let-go")
	w.must(os.WriteFile(slow, fmt.Appendf(nil, `#!/bin/sh
[ $CRTOOLS_SCRIPT_ACTION = post-resume ] || exit 0
: >%s
until [ $(grep -c connected %s) = $(ls %s* | wc -l) ]; do sleep 0.001; done
`, letGo, filepath.Join(w.rt.TaskDir("restless"), "stdout"), flag), 0o755))
	w.withCRIU(fmt.Sprintf("[ $1 = restore ] || exec %[1]s \"$@\"\nexec %[1]s \"$@\" --action-script %[2]s", w.rt.CRIU, slow))
	task := w.start(s)
	w.awaitOutput(task, "ready")
	for n := range 3 {
		w.checkpoint(task)
		w.must(os.WriteFile(flag+fmt.Sprint(n), nil, 0o644))
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := w.within(t)
			defer os.Remove(letGo)
			stop := w.keepContinuing("restless", letGo)
			owners := make(chan string, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					owners <- err.Error()
					return
				}
				defer c.Close()
				of := func(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
				owner, err := linux.TCPOwner(of(c.RemoteAddr()), of(c.LocalAddr()))
				owners <- fmt.Sprint(owner, err)
			}()
			again, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
			select {
			case owner := <-owners:
				if owner != fmt.Sprint(uid, error(nil)) {
					t.Errorf("the restored task made a connection, and the kernel said that it was user %s's, want %d", owner, uid)
				}
			case <-w.ctx.Done():
			}
			stop()
			w.must(err)
			task = again
			w.awaitOutput(task, fmt.Sprintf("connected %d\n", n))
		})
	}
	w.must(task.Kill(w.ctx, 1))
	w.end(task)
}

// growing opens one socket after another, and says how many it has.
const growing = `
import os, socket, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
socks = []
while True:
    socks.append(socket.socket())
    print(len(socks), flush=True)
    time.sleep(0.001)
`

// TestContinuedInADump: what somebody continues between a look at the stopped task and the dump makes no checkpoint that cannot be
// restored. If it is stopped again the checkpoint has what it has come to.
func TestContinuedInADump(t *testing.T) {
	for name, again := range map[string]string{"runs": "", "stopped again": `n=$(wc -l <$log); until [ $(wc -l <$log) -gt $n ]; do :; done; kill -STOP $pid`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			s := w.spec("growing", "python3", "-c", growing, filepath.Join(t.TempDir(), "pid"))
			calm := filepath.Join(t.TempDir(), "calm")
			begun := w.withCRIU(fmt.Sprintf(`if [ $1 = dump -a ! -e %s ]; then pid=$(cat %s) log=%s; kill -CONT $pid; %s
fi
exec %s "$@"`, calm, s.Argv[3], filepath.Join(w.rt.TaskDir("growing"), "stdout"), again, w.rt.CRIU))
			task := w.start(s)
			w.awaitOutput(task, "\n3\n")
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
			if _, statErr := os.Stat(begun); statErr != nil {
				t.Fatalf("nobody has continued it: %v, %v", statErr, err)
			}
			if again == "" {
				if !errors.Is(err, proc.ErrCheckpointLater) || !strings.Contains(err.Error(), "continued") {
					t.Fatalf("the checkpoint of a task that was continued: %v", err)
				}
				w.must(os.WriteFile(calm, nil, 0o600))
				w.checkpoint(task)
			} else {
				w.must(err)
			}
			had := strings.Count(w.log("growing", "stdout"), "\n")
			task = w.restore(s, proc.RestoreOptions{})
			w.awaitOutput(task, fmt.Sprintf("\n%d\n", had+1))
			w.must(task.Kill(w.ctx, 1))
			w.end(task)
		})
	}
}
