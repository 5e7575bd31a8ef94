package proc_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/proc"
)

// Events that a program has not read yet cannot be put back: there is no
// checkpoint while there are any, and one as soon as there are none. None is lost.
func TestUnreadEventsAreNotDropped(t *testing.T) {
	for _, kind := range []string{"inotify", "fanotify"} {
		t.Run(kind, func(t *testing.T) { unreadEvents(t, kind) })
	}
}

func unreadEvents(t *testing.T, kind string) {
	w := newWorld(t).needCheckpoints()
	dir := t.TempDir()
	sign := func(name string) { w.must(os.WriteFile(filepath.Join(dir+".d", name), nil, 0o600)) }
	program, err := filepath.Abs("testdata/programs/watcher.py")
	w.must(err)
	s := w.spec("watcher", "python3", program, kind, dir)
	task := w.start(s)
	defer os.RemoveAll(dir + ".d")
	w.awaitOutput(task, "queued")

	refused := func(state headrace.TaskState) {
		t.Helper()
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		if !errors.Is(err, proc.ErrCheckpointLater) || !strings.Contains(err.Error(), "unread "+kind+" events") {
			t.Fatalf("checkpoint with unread events: %v", err)
		}
		if st := w.stats(task); st.State != state {
			t.Errorf("the task is %v after the refusal, it was %v", st.State, state)
		}
	}
	refused(headrace.Running)
	_, err = task.Suspend(w.ctx, 0)
	w.must(err)
	refused(headrace.Suspended)
	w.must(task.Resume(w.ctx))

	sign("read")
	w.awaitOutput(task, "read 100")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	sign("more")
	w.awaitOutput(task, "all 110")
	if e := w.end(task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
}

// What CRIU would dump and never restore is refused, and the task goes on.
func TestUndumpable(t *testing.T) {
	for name, c := range map[string]struct{ program, reason string }{
		// A daemon whose session leader has ended, adopted by a process of the task.
		"session of a dead process": {`
libc.prctl(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while os.getppid() != top: time.sleep(0.01)
        os.write(w, b"x")
        time.sleep(1000)
    os._exit(0)
os.wait(); os.read(r, 1)
`, "cannot be restored"},
		"watch on a deleted file": {`
import tempfile
f = tempfile.NamedTemporaryFile(delete=False)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, f.name.encode(), 2) > 0
os.unlink(f.name)
`, "a file that is deleted"},
		"mount namespace":           {`assert libc.unshare(0x20000) == 0`, "a mnt namespace of its own"},
		"network namespace":         {`assert libc.unshare(0x40000000) == 0`, "a net namespace of its own"},
		"pid namespace of children": {`assert libc.unshare(0x20000000) == 0`, "a pid namespace of its own"},
		"network namespace of a thread": {`
import threading
def other():
    assert libc.unshare(0x40000000) == 0
    moved.set(); time.sleep(1000)
moved = threading.Event()
threading.Thread(target=other, daemon=True).start()
moved.wait()
`, "a net namespace of its own"},
		"message queue": {`
rt = ctypes.CDLL("librt.so.1")
name = b"/headrace-test-%d" % time.time_ns()
assert rt.mq_open(name, 0o102, 0o600, None) >= 0
rt.mq_unlink(name)
`, "the POSIX message queue /headrace-test-"},
		"semaphore of an eventfd": {`assert libc.eventfd(3, 1) >= 0 # EFD_SEMAPHORE
`, "EFD_SEMAPHORE"},
		"socket filter of BPF": {`
import socket, struct
accept = ctypes.create_string_buffer(b"\xb7" + b"\0" * 7 + b"\x95" + b"\0" * 7) # r0 = 0; exit
licence = ctypes.create_string_buffer(b"GPL")
attr = ctypes.create_string_buffer(struct.pack("=IIQQ", 1, 2, ctypes.addressof(accept), ctypes.addressof(licence)), 128)
program = libc.syscall({"x86_64": 321, "aarch64": 280}[os.uname().machine], 5, attr, 128) # BPF_PROG_LOAD
assert program >= 0
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(1, 50, program) # SO_ATTACH_BPF
os.close(program)
`, "a filter of BPF"},
		"deadline of a thread": {`
import struct, threading
def urgent():
    global answer
    attr = ctypes.create_string_buffer(struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10**7, 10**8, 10**8))
    answer = libc.syscall({"x86_64": 314, "aarch64": 274}[os.uname().machine], 0, attr, 0)
    asked.set(); time.sleep(1000)
asked = threading.Event()
threading.Thread(target=urgent, daemon=True).start()
asked.wait()
assert answer == 0
`, "SCHED_DEADLINE"},
		"traced": {`
child = os.fork()
if child == 0: time.sleep(1000)
assert libc.ptrace(0x4206, child, None, None) == 0 # PTRACE_SEIZE
`, "a debugger or tracer"},
		// As valgrind has; with CAP_SYS_RESOURCE programs may go to the limit of the machine, and so may CRIU.
		"descriptor at the end of what is allowed": {`
import resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
try:
    allowed = int(open("/proc/sys/fs/nr_open").read())
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    most = allowed
except ValueError:
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
os.dup2(0, most - 20)
`, "CRIU needs some above the greatest"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			task := w.start(w.spec("odd", "python3", "-uc", `
import ctypes, os, time
libc = ctypes.CDLL(None)
top = os.getpid()
`+c.program+`
print("ready")
while True: time.sleep(0.02); print("alive")
`))
			w.awaitOutput(task, "ready")
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
			if !errors.Is(err, proc.ErrNotCheckpointable) || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("checkpoint: %v", err)
			}
			n := strings.Count(w.log("odd", "stdout"), "alive")
			w.await("progress after the refusal", func() bool { return strings.Count(w.log("odd", "stdout"), "alive") > n })
		})
	}
}

// TestTracedIsNotStopped: a checkpoint that is refused because of a tracer sends no signals before, which the tracer would see,
// and which come between it and what it does.
func TestTracedIsNotStopped(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	dir := t.TempDir()
	task := w.start(w.spec("traced", "python3", "-uc", `
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
child = os.fork()
if child == 0:
    assert libc.ptrace(0, 0, None, None) == 0 # PTRACE_TRACEME
    signal.raise_signal(signal.SIGSTOP)
    while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
    os._exit(0)
os.waitpid(child, 0)
assert libc.ptrace(7, child, None, None) == 0 # PTRACE_CONT
print("ready")
while os.WIFSTOPPED(status := os.waitpid(child, 0)[1]):
    print("sees", os.WSTOPSIG(status))
    assert libc.ptrace(7, child, None, None) == 0
`, dir))
	w.awaitOutput(task, "ready")
	if _, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); !errors.Is(err, proc.ErrNotCheckpointable) {
		t.Errorf("checkpoint: %v", err)
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if e := w.end(task); e.Code != 0 || w.log("traced", "stdout") != "ready\n" {
		t.Errorf("ended with %+v: %q", e, w.log("traced", "stdout"))
	}
}

// TestUrgentData: what is urgent cannot be told after a restore, so that there is no checkpoint while it is unread.
func TestUrgentData(t *testing.T) {
	for name, pair := range map[string]string{
		"unix": `a, b = socket.socketpair()`,
		"TCP":  `l = socket.create_server(("127.0.0.1", 0)); a = socket.create_connection(l.getsockname()); b, _ = l.accept()`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			dir := t.TempDir()
			s := w.spec("urgent", "python3", "-uc", `
import os, select, socket, sys, time
`+pair+`
p = select.poll(); p.register(b, select.POLLPRI)
a.send(b"xy"); a.send(b"!", socket.MSG_OOB)
assert p.poll(60000)
print("ready")
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
print(b.recv(1, socket.MSG_OOB), b.recv(10))
while os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
a.send(b"z", socket.MSG_OOB); p.poll(60000); print(b.recv(1, socket.MSG_OOB))
`, dir)
			task := w.start(s)
			w.awaitOutput(task, "ready")
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
			if err == nil || !strings.Contains(err.Error(), "unread urgent data (MSG_OOB)") {
				t.Fatalf("checkpoint with unread urgent data: %v", err)
			}
			w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
			w.awaitOutput(task, "b'!' b'xy'\n")
			w.checkpoint(task)
			task = w.restore(s, proc.RestoreOptions{})
			w.must(os.Remove(filepath.Join(dir, "go")))
			w.awaitOutput(task, "b'z'\n")
			w.end(task)
		})
	}
}

// A program with a terminal of its own has it back, by the name /dev/tty too.
func TestOwnTerminal(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	dir := t.TempDir()
	s := w.spec("terminal", "python3", "-uc", `
import fcntl, os, sys, termios, time
def line(): # which may come in parts
    text = b""
    while not text.endswith(b"\n"): text += os.read(master, 10)
    return text
child = os.fork()
if child == 0:
    os.setsid()
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    tty = os.open("/dev/tty", os.O_RDWR)
    os.write(tty, b"first\n")
    print(line())
    while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
    os.write(tty, b"second\n")
    print(line())
    os._exit(0)
os.waitpid(child, 0)
`, dir)
	task := w.start(s)
	w.awaitOutput(task, "first")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if e := w.end(task); e.Code != 0 || !strings.Contains(w.log("terminal", "stdout"), "second") {
		t.Errorf("ended with %+v: %s", e, w.log("terminal", "stderr"))
	}
}

// The clocks that have nothing to do with the time of day stand still while a task
// is checkpointed.
func TestClocksStandStill(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	if _, err := os.Stat("/proc/self/ns/time"); err != nil {
		t.Skipf("this kernel has no time namespaces: %v", err)
	}
	dir := t.TempDir()
	s := w.spec("clocks", "python3", "-uc", `
import os, sys, time
clocks = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME
before = [time.clock_gettime(c) for c in clocks]
print("ready")
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
day, monotonic, boot = [time.clock_gettime(c) - b for c, b in zip(clocks, before)]
print("stood still" if 0 < monotonic < day - 1.4 and 0 < boot < day - 1.4 else (day, monotonic, boot))
`, dir)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.checkpoint(task)
	begin := time.Now()
	w.await("a while", func() bool { return time.Since(begin) > 1500*time.Millisecond })
	task = w.restore(s, proc.RestoreOptions{})
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if e := w.end(task); e.Code != 0 || !strings.Contains(w.log("clocks", "stdout"), "stood still") {
		t.Errorf("ended with %+v: %s", e, w.log("clocks", "stdout"))
	}
}
