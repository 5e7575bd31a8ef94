package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/criu"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/proc"
	"headrace/stream/protocol"
)

// taskWorld runs the real runner in real tasks.
type taskWorld struct {
	t     *testing.T
	rt    *proc.Runtime
	store string
	dir   string
	ctx   context.Context
	begun time.Duration // after boot; nothing of its tasks is older
}

func newTaskWorld(t *testing.T) *taskWorld {
	t.Helper()
	if testing.Short() {
		t.Skip("builds headrace-shim")
	}
	// Not t.TempDir, whose names are too long for a socket.
	dir, err := os.MkdirTemp("", "headrace-consumer-world")
	must(t, err)
	must(t, os.Chmod(dir, 0o711))
	w := &taskWorld{t: t, begun: linux.Clock(), dir: dir, store: filepath.Join(dir, "store"), ctx: testContext(t)}
	w.rt = &proc.Runtime{Shim: testkit.Shim(t), Dir: filepath.Join(dir, "tasks")}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		names, _ := os.ReadDir(w.rt.Dir)
		for _, n := range names {
			if t.Failed() {
				w.showLogs(filepath.Join(w.rt.Dir, n.Name()))
			}
			if err := w.rt.Remove(ctx, headrace.TaskID(n.Name())); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
		os.RemoveAll(dir)
	})
	return w
}

func (w *taskWorld) showLogs(dir string) {
	for _, f := range []string{"shim.log", "dump.log", "restore.log", "stderr"} {
		if b, err := os.ReadFile(filepath.Join(dir, f)); err == nil && len(b) > 0 {
			w.t.Logf("%s/%s:\n%s", filepath.Base(dir), f, b[max(0, len(b)-2500):])
		}
	}
}

// needCRIU skips the test where there is none.
func (w *taskWorld) needCRIU() {
	w.t.Helper()
	if os.Geteuid() != 0 {
		w.t.Skip("checkpoints need root")
	}
	c, err := criu.Find()
	if err != nil {
		w.t.Skipf("checkpoints need CRIU: %v", err)
	}
	w.rt.CRIU = c.Path
}

// spec returns a task that is a runner.
func (w *taskWorld) spec(d *dealer, argv ...string) proc.Spec {
	return proc.Spec{
		ID: "t", Argv: argv, Cwd: "/", Umask: 0o22,
		Under: []string{"consume", "--socket", d.path, "--stream", "s", "--consumer", "0", "--attempt", "1"},
		Env:   []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LANG=C.UTF-8"}, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
}

func (w *taskWorld) output() string {
	b, err := os.ReadFile(filepath.Join(w.rt.TaskDir("t"), "stdout"))
	must(w.t, err)
	return string(b)
}

// awaitOutput waits until the task has written at least n bytes; false if it has
// ended before.
func (w *taskWorld) awaitOutput(task *proc.Task, n int) bool {
	w.t.Helper()
	for len(w.output()) < n {
		select {
		case <-task.Exited():
			return false
		case <-w.ctx.Done():
			w.t.Fatalf("the task does not write %d bytes", n)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return true
}

func (w *taskWorld) end(task *proc.Task) proc.Exit {
	w.t.Helper()
	select {
	case <-task.Exited():
	case <-w.ctx.Done():
		w.t.Fatal("the task does not end")
	}
	return task.Exit()
}

// runnerPID finds the runner among the processes of this machine; 0 when it has
// ended.
func (w *taskWorld) runnerPID(d *dealer) int {
	w.t.Helper()
	all, err := procFS.All()
	must(w.t, err)
	for _, p := range all {
		if p.Start < w.begun-20*time.Millisecond { // the kernel counts in hundredths of a second; the machine may have thousands
			continue
		}
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if bytes.Contains(b, []byte("\x00consume\x00--socket\x00"+d.path+"\x00")) {
			return p.PID
		}
	}
	return 0
}

// A task whose command reads a stream is checkpointed and restored in the middle,
// again and again, with the daemon restarted meanwhile; what it writes is exactly
// what was dealt.
func TestCheckpoint(t *testing.T) {
	w := newTaskWorld(t)
	w.needCRIU()
	r := rand.New(rand.NewPCG(1, 20))
	units := []testUnit{
		{path: "/a", data: lines(r, 600000)}, {path: "/b", data: []byte("no end"), unterminated: true},
		{path: "/c", codec: protocol.Gzip, data: gzipped(t, "", lines(r, 600000)), piece: 1000},
		{path: "/d", codec: protocol.Zstd, data: zstded(t, lines(r, 300000)), piece: 500},
		{path: "/e", data: lines(r, 300000)}, {path: "/f", data: lines(r, 900000), inFile: true},
	}
	d := newDealer(t, units...)
	d.path = filepath.Join(w.dir, "stream.sock")
	want := string(d.expected(d.all()))
	d.listen()
	const times, first = 4, 100000 // checkpoints, and where the first is taken
	g, step := newGate(t), len(want)/times
	s := w.spec(d, slowCatTo(first+(times-1)*step, g, 16<<10, 5*time.Millisecond)...)
	task, err := w.rt.Start(w.ctx, s)
	must(t, err)
	for i := range times {
		if !w.awaitOutput(task, first+i*step) {
			t.Fatalf("it has ended: %+v", task.Exit())
		}
		d.await("a connection", func() bool { return len(d.links) > 0 })
		res, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		must(t, err)
		d.await("the end of the connection", func() bool { return len(d.links) == 0 })
		d.stop()
		before := len(w.output())
		d.listen()
		t.Logf("checkpoint of %.1f MB at byte %d in %v", float64(res.Total)/1e6, before, res.Took)
		task, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
		must(t, err)
	}
	g.open(t)
	if e := w.end(task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
	if got := strings.TrimPrefix(w.output(), "ready\n"); got != want {
		t.Errorf("it wrote %d bytes, want %d", len(got), len(want))
	}
	if f, units := d.finished(); f.Code != 0 || len(units) != len(d.units) {
		t.Errorf("recorded %+v, units %v", f, units)
	}
}

// A runner that waits for its daemon, for the end of its command, or for the end
// to be recorded, can be checkpointed as well.
func TestCheckpointWhileWaiting(t *testing.T) {
	w := newTaskWorld(t)
	w.needCRIU()
	d := newDealer(t, testUnit{path: "/a", data: []byte("x\n")})
	d.path = filepath.Join(w.dir, "stream.sock")
	g := newGate(t)
	s := w.spec(d, "sh", "-c", `cat; echo read; until [ -e "$0" ]; do sleep 0.01; done; exit 5`, string(g))
	task, err := w.rt.Start(w.ctx, s)
	must(t, err)
	again := func() {
		t.Helper()
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		must(t, err)
		task, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
		must(t, err)
	}
	testkit.Await(t, "a runner that waits for a daemon", func() bool { return catches(t, w.runnerPID(d), unix.SIGTSTP) })
	again()
	d.listen()
	if !w.awaitOutput(task, len("x\nread\n")) {
		t.Fatalf("it has ended: %+v", task.Exit())
	}
	again() // it waits for the command
	d.stop()
	g.open(t)
	testkit.Await(t, "the end of the command", func() bool { return len(childrenOf(w.runnerPID(d))) == 0 })
	again() // it waits for the daemon, to tell the end
	d.listen()
	if e := w.end(task); e.Code != 5 {
		t.Errorf("ended with %+v", e)
	}
	if f, _ := d.finished(); f.Code != 5 {
		t.Errorf("recorded %+v", f)
	}
}

// Suspending and resuming by the supervisor itself, also of a command that starts
// processes all the time: the supervisor may have to let these go on for a moment.
func TestSuspendedBySupervisor(t *testing.T) {
	g := newGate(t)
	for name, command := range map[string][]string{
		"one process": slowCatTo(500_000, g+"1", 32<<10, 5*time.Millisecond),
		"many": {"sh", "-c", `echo ready; n=0
			while dd bs=32k count=1 iflag=fullblock of="$0" 2>/dev/null && test -s "$0"; do
				cat "$0"; /bin/true
				n=$((n+1)); [ $n -lt 16 ] || until [ -e "$1" ]; do sleep 0.01; done
			done`, filepath.Join(t.TempDir(), "block"), string(g + "2")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTaskWorld(t)
			r := rand.New(rand.NewPCG(1, 21))
			d := newDealer(t, testUnit{path: "/a", data: lines(r, 500000)}, testUnit{path: "/b", data: lines(r, 500000)})
			d.path = filepath.Join(w.dir, "stream.sock")
			d.listen()
			task, err := w.rt.Start(w.ctx, w.spec(d, command...))
			must(t, err)
			var took []time.Duration
			for at := 20000; w.awaitOutput(task, at); at += 50000 {
				res, err := task.Suspend(w.ctx, 20*time.Second)
				if errors.Is(err, proc.ErrGone) {
					break // it has just ended
				}
				must(t, err)
				if res.Forced != 0 {
					t.Errorf("it was not ready: %+v", res)
				}
				if took = append(took, res.Took); len(took) == 5 {
					gate(command[len(command)-1]).open(t)
				}
				if pid := w.runnerPID(d); pid != 0 {
					if held := holds(t, pid); len(held) > 0 {
						t.Errorf("suspended the runner holds %q", held)
					}
				}
				if err := task.Resume(w.ctx); err != nil && !errors.Is(err, proc.ErrGone) {
					t.Fatal(err)
				}
			}
			t.Logf("suspended within %v", took)
			if e := w.end(task); e.Code != 0 || len(took) < 5 {
				t.Errorf("ended with %+v after %d suspensions", e, len(took))
			}
			if got := strings.TrimPrefix(w.output(), "ready\n"); got != string(d.expected(d.all())) {
				t.Errorf("it wrote %d bytes, want %d", len(got), len(d.expected(d.all())))
			}
		})
	}
}
