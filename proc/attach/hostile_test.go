package attach_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/proc"
	"headrace/proc/attach"
)

// pair makes a connection: the caller's side and the daemon's.
func pair(t *testing.T) (caller, daemon *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/s", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if caller, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err == nil {
		daemon, err = l.AcceptUnix()
	}
	if err != nil {
		t.Fatal(err)
	}
	return caller, daemon
}

func frame(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func good() attach.Request {
	return attach.Request{ID: "c1", Argv: []string{"true"}, Env: []string{"A=b"}, Cwd: "/"}
}

// with returns a good request with a change.
func with(change func(*attach.Request)) attach.Request {
	q := good()
	change(&q)
	return q
}

// Whatever a caller sends, the daemon gets a request that makes sense or an error,
// and keeps no descriptor that it does not hand on.
func TestReceive(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pipeR, pipeW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipeR.Close()
	defer pipeW.Close()
	socket := func(kind int) int {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
		return fds[0]
	}
	inet, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inet)
	line, packets := socket(unix.SOCK_STREAM), socket(unix.SOCK_SEQPACKET)
	n, p := int(null.Fd()), int(pipeW.Fd())
	bothPipes := with(func(q *attach.Request) { q.Stdout.Pipe, q.Stderr.Pipe = true, true })
	many := make([]int, 100)
	for i := range many {
		many[i] = n
	}
	var limits = `{"id":"c","argv":["a"],"cwd":"/","limits":[` + strings.Repeat(`{"resource":1},`, 20) + `{"resource":1}]}`

	for name, c := range map[string]struct {
		bytes []byte
		fds   []int
		want  string // in the error; empty: none
	}{
		"good":                  {frame(t, good()), []int{line}, ""},
		"good with pipes":       {frame(t, bothPipes), []int{line, p, p}, ""},
		"no descriptors":        {frame(t, good()), nil, "0 descriptors came with the request, not 1"},
		"pipes are missing":     {frame(t, bothPipes), []int{line}, "1 descriptors"},
		"one too many":          {frame(t, good()), []int{line, p}, "2 descriptors"},
		"many":                  {frame(t, bothPipes), many, "more than 3 descriptors"},
		"a file for a pipe":     {frame(t, bothPipes), []int{line, p, n}, "not a pipe"},
		"a file for a lifeline": {frame(t, good()), []int{n}, "not a socket"},
		"a pipe for a lifeline": {frame(t, good()), []int{p}, "not a socket"},
		"packets":               {frame(t, good()), []int{packets}, "not a unix stream socket"},
		"internet":              {frame(t, good()), []int{inet}, "not a unix stream socket"},
		"nothing":               {nil, nil, "read the request"},
		"half a size":           {[]byte{0, 0}, []int{line, p, p}, "read the request"},
		"half a request":        {frame(t, good())[:20], []int{line, p, p}, "read the request"},
		"size only":             {[]byte{0, 0x3f, 0xff, 0xff}, []int{line}, "read the request"},
		"too big":               {[]byte{0xff, 0xff, 0xff, 0xff}, []int{line}, "more than"},
		"empty":                 {[]byte{0, 0, 0, 0}, []int{line}, "read the request"},
		"no JSON":               {append([]byte{0, 0, 0, 3}, "{[}"...), []int{line}, "read the request"},
		"no command":            {frame(t, with(func(q *attach.Request) { q.Argv = nil })), []int{line}, "no command"},
		"an empty command":      {frame(t, with(func(q *attach.Request) { q.Argv = []string{""} })), []int{line}, "no command"},
		"a long argument":       {frame(t, with(func(q *attach.Request) { q.Argv = []string{strings.Repeat("x", 131072)} })), []int{line}, "longer than"},
		"many arguments":        {frame(t, with(func(q *attach.Request) { q.Env = strings.Split(strings.Repeat("a=123456789,", 150000), ",") })), []int{line}, "more than 2097152"},
		"a NUL":                 {frame(t, with(func(q *attach.Request) { q.Argv = []string{"a\x00b"} })), []int{line}, "NUL"},
		"climbing":              {frame(t, with(func(q *attach.Request) { q.ID = "../x" })), []int{line}, "name of a task"},
		"no name":               {frame(t, with(func(q *attach.Request) { q.ID = "" })), []int{line}, "name of a task"},
		"hidden":                {frame(t, with(func(q *attach.Request) { q.ID = ".x" })), []int{line}, "name of a task"},
		"a long name":           {frame(t, with(func(q *attach.Request) { q.ID = strings.Repeat("x", 201) })), []int{line}, "name of a task"},
		"relative":              {frame(t, with(func(q *attach.Request) { q.Cwd = "x" })), []int{line}, "absolute"},
		"nowhere":               {frame(t, with(func(q *attach.Request) { q.Cwd = "" })), []int{line}, "no working directory"},
		"relative output":       {frame(t, with(func(q *attach.Request) { q.Stdout.Path = "x" })), []int{line}, "absolute"},
		"two outputs":           {frame(t, with(func(q *attach.Request) { q.Stdout = attach.Output{Pipe: true, Path: "/x"} })), []int{line, p}, "not both"},
		"a umask":               {frame(t, with(func(q *attach.Request) { q.Umask = 0o1000 })), []int{line}, "umask"},
		"a variable":            {frame(t, with(func(q *attach.Request) { q.PIDVar = "A=B" })), []int{line}, "variable"},
		"a strange limit":       {frame(t, json.RawMessage(`{"id":"c","argv":["a"],"cwd":"/","limits":[{"resource":99}]}`)), []int{line}, "limit"},
		"an upside down limit":  {frame(t, json.RawMessage(`{"id":"c","argv":["a"],"cwd":"/","limits":[{"resource":1,"soft":2,"hard":1}]}`)), []int{line}, "limit"},
		"many limits":           {frame(t, json.RawMessage(limits)), []int{line}, "limits"},
	} {
		t.Run(name, func(t *testing.T) {
			caller, daemon := pair(t)
			defer daemon.Close()
			go func() {
				defer caller.Close()
				if len(c.bytes) > 0 {
					rights := []byte(nil)
					if len(c.fds) > 0 {
						rights = unix.UnixRights(c.fds...)
					}
					sent, _, err := caller.WriteMsgUnix(c.bytes, rights, nil)
					if err == nil {
						caller.Write(c.bytes[sent:]) // the daemon may have had enough
					}
				}
			}()
			before := testkit.Descriptors(t)
			q, files, peer, err := attach.Receive(daemon)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || files != (attach.Files{}) {
					t.Errorf("%v, want %q", err, c.want)
				}
			} else {
				if err != nil || q.ID != "c1" || fmt.Sprint(q.Argv, q.Env) != "[true] [A=b]" || peer.PID != os.Getpid() || peer.UID != uint32(os.Getuid()) {
					t.Errorf("%+v of %+v: %v", q, peer, err)
				}
				if got := 1 + btoi(files.Stdout != nil) + btoi(files.Stderr != nil); files.Lifeline == nil || got != len(c.fds) {
					t.Errorf("%+v of %d descriptors", files, len(c.fds))
				}
				files.Close()
			}
			// The caller's own descriptor may have been closed meanwhile.
			if after := testkit.Descriptors(t); after > before {
				t.Errorf("%d descriptors are open, %d were", after, before)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Descriptors that come later than the first byte are not taken.
func TestLateDescriptors(t *testing.T) {
	caller, daemon := pair(t)
	defer daemon.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	b := frame(t, good())
	before := testkit.Descriptors(t)
	for i := range b {
		if _, _, err := caller.WriteMsgUnix(b[i:i+1], unix.UnixRights(int(null.Fd()), int(null.Fd())), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := attach.Receive(daemon); err == nil {
		t.Error("it was taken")
	}
	caller.Close()
	if after := testkit.Descriptors(t); after >= before {
		t.Errorf("%d descriptors are open, %d were with the caller's", after, before)
	}
}

// TestLifelineThatWaits: an owner who has kept a copy of the supervisor's end, makes it wait
// where it should not, and leaves no room in it, holds up neither start nor end.
func TestLifelineThatWaits(t *testing.T) {
	for name, early := range map[string]bool{"from the beginning": true, "when it runs": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			w.must(err)
			kept, other := fds[0], os.NewFile(uintptr(fds[1]), "other end")
			defer other.Close()
			defer unix.Close(kept)
			theirs, err := unix.FcntlInt(uintptr(kept), unix.F_DUPFD_CLOEXEC, 0)
			w.must(err)
			lifeline := os.NewFile(uintptr(theirs), "lifeline")
			defer lifeline.Close()
			stop := make(chan struct{})
			defer close(stop)
			attack := func() {
				for { // it is full as long as nobody reads
					if _, err := unix.SendmsgN(kept, make([]byte, 4096), nil, nil, unix.MSG_DONTWAIT); err != nil {
						break
					}
				}
				w.must(unix.SetNonblock(kept, false))
			}
			if early {
				attack()
				go func() {
					for {
						select {
						case <-stop:
							return
						default:
							unix.SetNonblock(kept, false)
						}
					}
				}()
			} else {
				w.must(attach.Send(other, attach.Message{Go: true}))
			}
			spec := with(func(q *attach.Request) { q.Argv = []string{"sleep", "1000"} }).
				Spec(attach.Peer{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())})
			spec.Env = []string{"PATH=" + os.Getenv("PATH")}
			task, err := w.rt.StartWith(w.ctx, spec, proc.Stdio{Lifeline: lifeline})
			if early {
				if err == nil {
					t.Error("started for somebody who cannot be told")
				}
				return
			}
			w.must(err)
			attack()
			w.must(task.Kill(w.ctx, time.Millisecond))
			w.end(task)
		})
	}
}

// TestLookAtWhatHasChanged: the limits of a set-user-id program, which may have raised them, are not those of the user who
// runs it. A process that has only become its user has its own.
func TestLookAtWhatHasChanged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changing the user needs root")
	}
	for name, users := range map[string]string{
		"its user alone": "12345, 12345, 12345", "set-user-id": "12345, 0, 12345", "a saved user": "12345, 12345, 0", "all of root's": "0, 0, 0",
	} {
		program := exec.Command("python3", "-c", "import os, sys\nos.setresuid("+users+")\nprint(1, flush=True)\nsys.stdin.read()")
		said, end := testkit.Converse(t, program)
		if _, err := said.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		peer, err := attach.Look(program.Process.Pid, 12345)
		if want := name == "its user alone"; (err == nil) != want || want && len(peer.Limits) == 0 {
			t.Errorf("%s: %+v, %v", name, peer, err)
		}
		end()
	}
}
