package consumer

import (
	"bytes"
	"errors"
	"fmt"

	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/stream/protocol"
)

// running is a runner that was started.
type running struct {
	t     testing.TB
	cmd   *exec.Cmd
	out   string // path of its output
	err   string // and of its standard error
	ended chan struct{}
}

// start starts the runner as consumer 0 and attempt 1 of a dealer's stream.
func start(t testing.TB, d *dealer, argv ...string) *running { return startAs(t, d, 0, argv...) }

func startAs(t testing.TB, d *dealer, consumer int, argv ...string) *running {
	t.Helper()
	args := []string{"--socket", d.path, "--stream", "s", "--consumer", fmt.Sprint(consumer), "--attempt", "1", "--"}
	return startArgs(t, append(args, argv...)...)
}

func startArgs(t testing.TB, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	dir := t.TempDir()
	r.out, r.err = filepath.Join(dir, "out"), filepath.Join(dir, "err")
	stdout, err := os.OpenFile(r.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	defer stdout.Close()
	stderr, err := os.OpenFile(r.err, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	defer stderr.Close()
	r.cmd.Env = runnerEnviron()
	r.cmd.Stdout, r.cmd.Stderr = stdout, stderr
	// A session of its own, as in a task.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, r.cmd.Start())
	go func() { r.cmd.Wait(); close(r.ended) }()
	t.Cleanup(func() {
		select {
		case <-r.ended:
		default:
			for _, c := range r.children() {
				unix.Kill(-c, unix.SIGKILL)
			}
			r.cmd.Process.Kill()
			<-r.ended
		}
	})
	return r
}

// runnerEnviron makes this program the runner; with the race detector it would
// wait a second before it ends.
func runnerEnviron() []string {
	return append(os.Environ(), runnerEnv+"=1", "GORACE=atexit_sleep_ms=0 exitcode=66")
}

func (r *running) children() []int { return childrenOf(r.cmd.Process.Pid) }

// childrenOf returns those of all threads of a process.
func childrenOf(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// feeds tells whether it has the end to write of what a command of it reads; a list of its threads may miss those of a moment.
func (r *running) feeds() bool {
	children := r.children()
	for _, child := range children {
		pipe, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", child))
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid))
		for _, f := range files {
			link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", r.cmd.Process.Pid, f.Name()))
			info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", r.cmd.Process.Pid, f.Name()))
			var pos, flags int
			if _, err := fmt.Sscanf(string(info), "pos:\t%d\nflags:\t%o", &pos, &flags); err == nil && link == pipe && flags&unix.O_ACCMODE == unix.O_WRONLY {
				return true
			}
		}
	}
	return len(children) == 0
}

func (r *running) signal(sig syscall.Signal) {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(sig))
}

// wait returns the exit code, 128 and the signal of one that was killed.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(2 * time.Minute): // the machine may be busy
		r.t.Fatalf("the runner does not end; it says %q", r.says())
	}
	ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (r *running) output() string {
	r.t.Helper()
	b, err := os.ReadFile(r.out)
	must(r.t, err)
	return string(b)
}

// says returns what is on its standard error.
func (r *running) says() string {
	r.t.Helper()
	b, err := os.ReadFile(r.err)
	must(r.t, err)
	return string(b)
}

func (r *running) awaitOutput(text string) {
	r.t.Helper()
	testkit.Await(r.t, fmt.Sprintf("output of %q", text), func() bool {
		select {
		case <-r.ended:
			if !strings.Contains(r.output(), text) {
				r.t.Fatalf("it ended without printing %q: %q, %q", text, r.output(), r.says())
			}
		default:
		}
		return strings.Contains(r.output(), text)
	}, r.output)
}

// plain returns what is in a unit.
func (u *testUnit) plain(t testing.TB) []byte {
	t.Helper()
	if u.codec == protocol.Plain {
		return u.data
	}
	out, err := decode(t, u.codec, u.data)
	must(t, err)
	return out
}

// expected returns what a command reads that is given these units.
func (d *dealer) expected(ids []uint32) []byte {
	d.t.Helper()
	var b []byte
	open := false
	for _, id := range ids {
		u := &d.units[id]
		data := u.plain(d.t)
		if len(data) == 0 {
			continue
		}
		if open {
			b = append(b, d.delimiter...)
		}
		b = append(b, data...)
		open = u.unterminated || u.codec != protocol.Plain && !bytes.HasSuffix(data, []byte(d.delimiter))
	}
	return b
}

// finished returns how the first attempt of consumer 0 ended, and its units.
func (d *dealer) finished() (f protocol.Finish, units []uint32) {
	d.t.Helper()
	d.look(func() {
		a := d.attempts[[2]uint32{0, 1}]
		if a == nil || a.finish == nil {
			d.t.Error("no end was recorded")
			return
		}
		f, units = *a.finish, slices.Clone(a.units)
	})
	return f, units
}

func (d *dealer) all() []uint32 {
	ids := make([]uint32, len(d.units))
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}

func TestRunRecords(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 5))
		delimiter := []string{"\n", "", "\r\n"}[seed%3]
		d, _ := randomDeal(t, r, "\n", true)
		inFiles(d.units)
		d.delimiter = delimiter
		run := start(t, d.listen(), "cat")
		if code := run.wait(); code != 0 {
			t.Errorf("code %d: %s", code, run.says())
		}
		f, units := d.finished()
		if f.Code != 0 || !slices.Equal(units, d.all()) {
			t.Errorf("ended with %+v and units %v", f, units)
		}
		if want := d.expected(units); run.output() != string(want) {
			t.Errorf("seed %d: the command read %d bytes, want %d", seed, len(run.output()), len(want))
		}
		if run.says() != "" {
			t.Errorf("it says %q", run.says())
		}
	}
}

// Units larger than the pipe, to a command that reads in its own time.
func TestRunLargeUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	units := []testUnit{{data: lines(r, 3<<20)}, {data: gzipped(t, "", lines(r, 2<<20)), codec: protocol.Gzip}, {data: lines(r, 1<<20)}}
	d := newDealer(t, inFiles(units)...)
	d.slot, d.window = 1<<20, 2
	run := start(t, d.listen(), "sh", "-c", "dd bs=1 count=1000 2>/dev/null; sleep 0.1; dd bs=7k 2>/dev/null; cat")
	if code := run.wait(); code != 0 || run.output() != string(d.expected(d.all())) {
		t.Errorf("code %d, %d bytes: %s", code, len(run.output()), run.says())
	}
}

func TestRunExitCodes(t *testing.T) {
	dir := t.TempDir()
	noExec, script := filepath.Join(dir, "plain"), filepath.Join(dir, "script")
	must(t, os.WriteFile(noExec, []byte("not a program"), 0o644))
	must(t, os.WriteFile(script, []byte("cat >/dev/null; exit 6\n"), 0o755))
	for name, c := range map[string]struct {
		argv   []string
		code   int
		reason string
		says   string
	}{
		"all is read":       {[]string{"sh", "-c", "cat >/dev/null"}, 0, "", ""},
		"a code":            {[]string{"sh", "-c", "cat >/dev/null; exit 3"}, 3, "code 3", ""},
		"reads nothing":     {[]string{"true"}, 0, "", ""},
		"reads a little":    {[]string{"head", "-c", "10"}, 0, "", ""},
		"fails early":       {[]string{"sh", "-c", "read x; exit 7"}, 7, "code 7", ""},
		"a signal":          {[]string{"sh", "-c", "kill -9 $$"}, 137, "SIGKILL", ""},
		"closes its input":  {[]string{"sh", "-c", "exec <&-; sleep 0.05; exit 5"}, 5, "code 5", ""},
		"leaves a reader":   {[]string{"sh", "-c", "exec 3<&0; sleep " + leftBehind + " & exit 4"}, 4, "code 4", ""}, // its own input is /dev/null
		"not found":         {[]string{"no-such-command"}, 127, "not found", "headrace: no-such-command: command not found"},
		"no such file":      {[]string{"/no/such/file"}, 127, "no such file", "headrace: /no/such/file: no such file"},
		"not executable":    {[]string{noExec}, 126, "no permission", "no permission"},
		"a directory":       {[]string{dir}, 126, "no permission", "no permission"},
		"script without #!": {[]string{script}, 6, "code 6", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 6))
			units := make([]testUnit, 20)
			for i := range units {
				units[i].data = lines(r, 40000)
			}
			d := newDealer(t, units...)
			run := start(t, d.listen(), c.argv...)
			if strings.Contains(c.argv[len(c.argv)-1], leftBehind) {
				defer func() { unix.Kill(-leaderOf(t, "sleep", leftBehind), unix.SIGKILL) }()
			}
			if code := run.wait(); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			if f, _ := d.finished(); int(f.Code) != c.code || !strings.Contains(f.Reason, c.reason) {
				t.Errorf("recorded %+v", f)
			}
			if says := run.says(); !strings.Contains(says, c.says) || (c.says == "") != (says == "") {
				t.Errorf("it says %q, want %q", says, c.says)
			}
		})
	}
}

// leftBehind is for how many seconds only the process sleeps that such a test leaves behind: it is found by that among all of the machine.
var leftBehind = fmt.Sprintf("1000.%d", os.Getpid())

// leaderOf finds the process group of a process that is left behind, which may be about to begin only.
func leaderOf(t testing.TB, argv ...string) (pgid int) {
	t.Helper()
	testkit.Await(t, "the process that is left behind", func() bool {
		names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, n := range names {
			if b, _ := os.ReadFile(n); string(b) == strings.Join(argv, "\x00")+"\x00" {
				var pid int
				fmt.Sscanf(n, "/proc/%d/cmdline", &pid)
				pgid, _ = unix.Getpgid(pid)
				return pgid > 1
			}
		}
		return false
	})
	return pgid
}

func TestRunEnvironment(t *testing.T) {
	t.Setenv(ConsumerEnv, "from outside")
	t.Setenv("ANOTHER", "stays")
	d := newDealer(t, testUnit{path: "/a", data: []byte("x\n")})
	run := startAs(t, d.listen(), 17, "sh", "-c", `echo $`+ConsumerEnv+` $ANOTHER; env | grep -c ^`+ConsumerEnv+`=; ulimit -n; ls /proc/self/fd`)
	if code := run.wait(); code != 0 {
		t.Fatalf("code %d: %s", code, run.says())
	}
	// Without the runner it would have the same limits and open files.
	same, err := exec.Command("sh", "-c", "ulimit -n; ls /proc/self/fd").Output()
	must(t, err)
	if want := "17 stays\n1\n" + string(same); run.output() != want {
		t.Errorf("the command prints %q, want %q", run.output(), want)
	}
}

// TestRunNothingLeft runs the command on nothing for the first consumer only.
func TestRunNothingLeft(t *testing.T) {
	d := newDealer(t).listen()
	for consumer, want := range []string{"0\n", "", ""} {
		run := startAs(t, d, consumer, "wc", "-l")
		if code := run.wait(); code != 0 || run.output() != want {
			t.Errorf("consumer %d: code %d, %q, want %q: %s", consumer, code, run.output(), want, run.says())
		}
	}
}

func TestRunUsage(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--socket", "/s", "--stream", "s", "--consumer", "0", "--attempt", "1"},
		{"--stream", "s", "--consumer", "0", "--attempt", "1", "--", "cat"},
		{"--socket", "/s", "--consumer", "0", "--attempt", "1", "--", "cat"},
		{"--socket", "/s", "--stream", "s", "--consumer", "0", "--attempt", "0", "--", "cat"},
		{"--socket", "/s", "--stream", "s", "--consumer", "-1", "--attempt", "1", "--", "cat"},
		{"--socket", "/s", "--stream", "s", "--consumer", "4294967296", "--attempt", "1", "--", "cat"},
		{"--socket", "/s", "--stream", "s", "--consumer", "0", "--attempt", "1", "--", ""},
		{"--nonsense"},
	} {
		run := startArgs(t, args...)
		if code := run.wait(); code != exitUsage || !strings.HasPrefix(run.says(), "headrace: ") {
			t.Errorf("%q: code %d, %q", args, code, run.says())
		}
	}
}

// Damaged input ends the command before it can take what came for everything.
func TestRunDamaged(t *testing.T) {
	good := lines(rand.New(rand.NewPCG(1, 7)), 5000)
	text := lines(rand.New(rand.NewPCG(2, 7)), 100000)
	z := gzipped(t, "", text)
	d := newDealer(t, testUnit{path: "/good", data: good}, testUnit{path: "/bad file.gz", codec: protocol.Gzip, data: z[:len(z)/2]})
	run := start(t, d.listen(), "sh", "-c", "cat; echo END OF INPUT; sleep 1000")
	if code := run.wait(); code != exitInput {
		t.Errorf("code %d", code)
	}
	want := "/bad file.gz cannot be decompressed (gzip: unexpected EOF): it is damaged or incomplete"
	if run.says() != "headrace: "+want+"\n" {
		t.Errorf("it says %q", run.says())
	}
	if out := run.output(); !strings.HasPrefix(string(good)+string(text), out) {
		t.Errorf("the command wrote %d bytes, ending with %q", len(out), out[max(0, len(out)-50):])
	}
	if f, _ := d.finished(); f != (protocol.Finish{Code: exitInput, Reason: want}) {
		t.Errorf("recorded %+v", f)
	}
}

// Of compressed files with records of one size only the consumer sees where they end: one that
// ends in the middle of a record ends the command before it can take the next file for the rest.
func TestRunRecordsOfOneSize(t *testing.T) {
	a, b := strings.Repeat("1234567\n", 40000), strings.Repeat("abcdefg\n", 30000)
	for name, c := range map[string]struct {
		codec  protocol.Codec
		data   []byte
		record string
		cut    string
	}{
		"gzip":            {protocol.Gzip, gzipped(t, "", []byte(a)), "8", ""},
		"cut gzip":        {protocol.Gzip, gzipped(t, "", []byte(a[:len(a)-3])), "8", "begins at byte 319992 and has 5 bytes of 8"},
		"zstd":            {protocol.Zstd, zstded(t, []byte(a)), "8", ""},
		"cut zstd":        {protocol.Zstd, zstded(t, []byte(a[:9])), "8", "begins at byte 8 and has 1 bytes of 8"},
		"members":         {protocol.Gzip, append(gzipped(t, "", []byte(a[:13])), gzipped(t, "", []byte(a[13:]))...), "8", ""},
		"nothing in it":   {protocol.Gzip, gzipped(t, "", nil), "8", ""},
		"no size is said": {protocol.Gzip, gzipped(t, "", []byte(a[:5])), "0", ""},
	} {
		d := newDealer(t, testUnit{path: "/first", codec: c.codec, data: c.data}, testUnit{path: "/b.gz", codec: protocol.Gzip, data: gzipped(t, "", []byte(b))})
		run := startArgs(t, "--socket", d.listen().path, "--stream", "s", "--consumer", "0", "--attempt", "1", "--record", c.record, "--", "cat")
		code, says := run.wait(), run.says()
		switch {
		case c.cut == "":
			if code != 0 || says != "" || !strings.HasSuffix(run.output(), b) {
				t.Errorf("%s: code %d, %q", name, code, says)
			}
		case code != exitInput, !strings.Contains(says, "/first ends in the middle of a record"), !strings.Contains(says, c.cut):
			t.Errorf("%s: code %d, %q", name, code, says)
		case strings.Contains(run.output(), "abc"):
			t.Errorf("%s: the command was given the next file", name)
		}
	}
}

// The daemon's error ends the command, whatever it is doing, with its children.
func TestRunStreamFails(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		at      string
	}{
		"while it reads":         {"echo ready; cat >/dev/null", "piece"},
		"while it is busy":       {"echo ready; sleep 1000", "ready"},
		"after the end":          {"cat >/dev/null; echo ready; sleep 1000", "ready"},
		"it ignores TERM":        {"trap '' TERM; echo ready; sleep 1000 & wait", "ready"},
		"a child of it survives": {"(trap '' TERM; echo ready; sleep 1000) & cat >/dev/null; wait", "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDealer(t, someUnits(30)...)
			d.fault = func(ev event) action {
				if p, ok := ev.m.(*protocol.Piece); ok && c.at == "piece" && p.Unit == 3 {
					return refuse
				}
				return goOn
			}
			run := start(t, d.listen(), "sh", "-c", c.command)
			var children []int
			if c.at == "ready" {
				run.awaitOutput("ready")
				for len(children) == 0 { // threads come and go while they are listed
					children = run.children()
				}
				d.look(func() {
					for k := range d.links {
						k.conn.Send(&protocol.Error{Text: "refused by the test"})
					}
				})
			}
			if code := run.wait(); code != exitInput || run.says() != "headrace: the stream ended: refused by the test\n" {
				t.Errorf("code %d, %q", code, run.says())
			}
			for _, pid := range children {
				// Killed they are when the command's own process has ended, dead a moment later.
				var left []string
				testkit.Await(t, "the end of the command's group", func() bool {
					left = nil
					all, err := procFS.All()
					must(t, err)
					for _, p := range all {
						if p.PGID == pid && !linux.Dead(p.State) {
							left = append(left, fmt.Sprintf("process %d (%s)", p.PID, p.Comm))
						}
					}
					return len(left) == 0
				}, &left)
			}
		})
	}
}

func TestRunFiles(t *testing.T) {
	paths := []string{"/plain", "/with space", "/new\nline", "/\xff\xfe", "/$(echo x) `y`;{", "-rf", "/{}"}
	deal := func(t *testing.T) *dealer {
		var units []testUnit
		for _, p := range paths {
			units = append(units, testUnit{path: p})
		}
		d := newDealer(t, units...)
		d.kind = protocol.Files
		return d.listen()
	}
	each := func(format string) (s string) {
		for _, p := range paths {
			s += strings.ReplaceAll(format, "P", p)
		}
		return s
	}
	show := `for a; do printf '<%s>' "$a"; done; wc -c`
	for name, c := range map[string]struct {
		argv []string
		want string
	}{
		"a mark":       {[]string{"sh", "-c", show, "sh", "a", "{}", "b"}, each("<a><P><b>0\n")},
		"no mark":      {[]string{"sh", "-c", show, "sh", "a"}, each("<a><P>0\n")},
		"inside":       {[]string{"sh", "-c", show, "sh", "--in={},{}"}, each("<--in=P,P>0\n")},
		"exactly once": {[]string{"printf", "%s\n"}, each("P\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deal(t)
			run := start(t, d, c.argv...)
			if code := run.wait(); code != 0 || run.output() != c.want || run.says() != "" {
				t.Errorf("code %d, printed %q, want %q; %s", code, run.output(), c.want, run.says())
			}
			f, units := d.finished()
			if f.Code != 0 || !slices.Equal(units, d.all()) {
				t.Errorf("recorded %+v, units %v", f, units)
			}
			d.look(func() {
				if a := d.attemptOf(0, 1); len(a.results) != len(paths) {
					t.Errorf("results %v", a.results)
				}
			})
		})
	}
}

// A failing invocation does not stop the others; the first code is that of all.
func TestRunFilesThatFail(t *testing.T) {
	d := newDealer(t, testUnit{path: "0"}, testUnit{path: "3"}, testUnit{path: "0"}, testUnit{path: "9"}, testUnit{path: "kill"})
	d.kind = protocol.Files
	run := start(t, d.listen(), "sh", "-c", `echo $1; [ $1 != kill ] || kill -9 $$; exit $1`, "sh")
	if code := run.wait(); code != 3 || run.output() != "0\n3\n0\n9\nkill\n" {
		t.Errorf("code %d, printed %q", code, run.output())
	}
	want := "headrace: 3: the command ended with code 3\nheadrace: 9: the command ended with code 9\n" +
		"headrace: kill: the command ended with code 137 (SIGKILL)\n"
	if run.says() != want {
		t.Errorf("it says %q", run.says())
	}
	if f, _ := d.finished(); f != (protocol.Finish{Code: 3, Reason: "3: the command ended with code 3; 3 files failed in all"}) {
		t.Errorf("recorded %+v", f)
	}
	d.look(func() {
		if got := fmt.Sprint(d.attemptOf(0, 1).results); got != "map[0:0 1:3 2:0 3:9 4:137]" {
			t.Errorf("results %s", got)
		}
	})
}

// A command that cannot be started at all is not tried on every file; one that is
// named by the file is.
func TestRunFilesWithoutCommand(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\necho ran\n"), 0o755))
	for _, c := range []struct {
		argv []string
		code int
		n    int
		out  string
	}{{[]string{"no-such-command"}, 127, 1, ""}, {[]string{"{}"}, 127, 2, "ran\n"}} {
		d := newDealer(t, testUnit{path: filepath.Join(dir, "missing")}, testUnit{path: script})
		d.kind = protocol.Files
		run := start(t, d.listen(), c.argv...)
		code := run.wait()
		f, units := d.finished()
		if code != c.code || f.Code != int32(c.code) || len(units) != c.n || run.output() != c.out {
			t.Errorf("%v: code %d, recorded %+v, units %v, printed %q", c.argv, code, f, units, run.output())
		}
	}
}

// The end is durable before the runner ends, whatever happens to the daemon.
func TestRunWaitsForTheEnd(t *testing.T) {
	for n, a := range []action{drop, restart, cut} {
		d := newDealer(t, someUnits(31)...)
		var times atomic.Int64
		d.fault = func(ev event) action {
			_, said := ev.m.(*protocol.Finish)
			_, answered := ev.m.(*protocol.Finished)
			if (said || answered) && times.Add(1) < 5 {
				return a
			}
			return goOn
		}
		run := start(t, d.listen(), "sh", "-c", "cat >/dev/null; exit 11")
		if code := run.wait(); code != 11 {
			t.Errorf("case %d: code %d: %s", n, code, run.says())
		}
		if f, _ := d.finished(); f.Code != 11 || times.Load() < 5 {
			t.Errorf("case %d: %+v after %d times", n, f, times.Load())
		}
	}
}

// A daemon that is away is waited for, and that is said once.
func TestRunWaitsForTheDaemon(t *testing.T) {
	d := newDealer(t, someUnits(32)...)
	run := start(t, d, "cat")
	testkit.Await(t, "a word that nobody answers", func() bool { return strings.Contains(run.says(), "does not answer") })
	d.listen()
	d.await("the first unit", func() bool { return d.attempts[[2]uint32{0, 1}] != nil })
	if code := run.wait(); code != 0 || run.output() != string(d.expected(d.all())) {
		t.Errorf("code %d: %s", code, run.says())
	}
	if n := strings.Count(run.says(), "does not answer"); n != 1 || strings.Count(run.says(), "\n") != 1 {
		t.Errorf("it says %q", run.says())
	}
}

// A command that ends while the daemon keeps the runner waiting for bytes ends the
// runner, too, whether these are of its first unit or of another.
func TestRunEndsWhileTheDaemonStalls(t *testing.T) {
	for consumer, unit := range []uint32{1, 0} {
		d := newDealer(t, testUnit{data: make([]byte, 5000)}, testUnit{data: make([]byte, 5000)})
		gate := make(chan bool)
		open := sync.OnceFunc(func() { close(gate) })
		t.Cleanup(open)
		d.fault = func(ev event) action {
			if p, ok := ev.m.(*protocol.Piece); ok && p.Unit == unit && p.Length < 4096 {
				<-gate
			}
			return goOn
		}
		run := startAs(t, d.listen(), consumer, "sh", "-c", "head -c 4096 >/dev/null; exit 13")
		a := d.attemptOfLocked(uint32(consumer), 1)
		d.await("the end, while no byte comes", func() bool { return a.finish != nil })
		open()
		if code := run.wait(); code != 13 {
			t.Errorf("consumer %d: code %d: %s", consumer, code, run.says())
		}
	}
}

// Signals reach the command; without one they end the wait.
func TestRunSignals(t *testing.T) {
	testkit.Unignore(t, unix.SIGHUP)
	t.Run("handled by the command", func(t *testing.T) {
		for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
			name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
			d := newDealer(t, someUnits(33)...).listen()
			run := start(t, d, "sh", "-c", "trap 'echo got it; exit 9' "+name+"; echo ready; while :; do sleep 0.01; done")
			run.awaitOutput("ready")
			run.signal(sig)
			if code := run.wait(); code != 9 || !strings.Contains(run.output(), "got it") {
				t.Errorf("%s: code %d, %q", name, code, run.output())
			}
			if f, _ := d.finished(); f.Code != 9 {
				t.Errorf("%s: recorded %+v", name, f)
			}
		}
	})
	t.Run("ended well by the command, with input left", func(t *testing.T) {
		d := newDealer(t, testUnit{data: make([]byte, 2*pipeSize)}, testUnit{data: make([]byte, 100)}).listen()
		run := start(t, d, "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
		run.awaitOutput("ready")
		run.signal(unix.SIGTERM)
		if code := run.wait(); code != 143 {
			t.Errorf("code %d: %s", code, run.says())
		}
		if f, _ := d.finished(); f.Code != 143 || !strings.Contains(f.Reason, "told to end by SIGTERM") {
			t.Errorf("recorded %+v", f)
		}
	})
	t.Run("ended well by the command, with input in the pipe", func(t *testing.T) {
		d := newDealer(t, testUnit{data: make([]byte, 100)}).listen()
		run := start(t, d, "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
		run.awaitOutput("ready")
		a := d.attemptOfLocked(0, 1)
		d.await("the last unit", func() bool { return len(a.units) == len(d.units) && a.whole })
		testkit.Await(t, "the end of the feeding", func() bool { return !run.feeds() })
		run.signal(unix.SIGTERM)
		if code := run.wait(); code != 143 {
			t.Errorf("code %d: %s", code, run.says())
		}
		if f, _ := d.finished(); f.Code != 143 || !strings.Contains(f.Reason, "told to end by SIGTERM") {
			t.Errorf("recorded %+v", f)
		}
	})
	t.Run("ended well by the command, that has read everything", func(t *testing.T) {
		d := newDealer(t, testUnit{data: make([]byte, 2*pipeSize)}).listen()
		run := start(t, d, "sh", "-c", "trap 'exit 0' TERM; cat >/dev/null; echo ready; while :; do sleep 0.01; done")
		run.awaitOutput("ready")
		run.signal(unix.SIGTERM)
		if code := run.wait(); code != 0 {
			t.Errorf("code %d: %s", code, run.says())
		}
	})
	t.Run("not handled", func(t *testing.T) {
		d := newDealer(t, someUnits(33)...).listen()
		run := start(t, d, "sh", "-c", "echo ready; sleep 1000")
		run.awaitOutput("ready")
		run.signal(unix.SIGTERM)
		if code := run.wait(); code != 143 {
			t.Errorf("code %d", code)
		}
		if f, _ := d.finished(); f.Code != 143 || !strings.Contains(f.Reason, "SIGTERM") {
			t.Errorf("recorded %+v", f)
		}
	})
	t.Run("before there is a daemon", func(t *testing.T) {
		d := newDealer(t)
		run := start(t, d, "cat")
		// The Go runtime has a handler for SIGTERM itself, which ends the process; of the two ours is there before that for SIGTSTP.
		testkit.Await(t, "a handler", func() bool { return catches(t, run.cmd.Process.Pid, unix.SIGTSTP) })
		run.signal(unix.SIGTERM)
		if code := run.wait(); code != 143 || !run.cmd.ProcessState.Exited() {
			t.Errorf("code %d (%v): %s", code, run.cmd.ProcessState, run.says())
		}
	})
	t.Run("while the end is recorded", func(t *testing.T) {
		for code, want := range map[string]int{"0": 130, "3": 3} {
			d := newDealer(t, someUnits(33)...)
			told, gate := make(chan bool, 1), make(chan bool)
			t.Cleanup(func() { close(gate) })
			d.fault = func(ev event) action {
				if _, ok := ev.m.(*protocol.Finish); ok {
					told <- true
					<-gate
				}
				return goOn
			}
			run := start(t, d.listen(), "sh", "-c", "cat >/dev/null; exit "+code)
			<-told
			run.signal(unix.SIGINT)
			if got := run.wait(); got != want {
				t.Errorf("the command ended with %s, the runner with %d, want %d: %s", code, got, want, run.says())
			}
		}
	})
	t.Run("between files", func(t *testing.T) {
		d := newDealer(t, testUnit{path: "a"}, testUnit{path: "b"})
		d.kind = protocol.Files
		run := start(t, d.listen(), "sh", "-c", "trap 'exit 0' TERM; echo ready $1; while :; do sleep 0.01; done", "sh")
		run.awaitOutput("ready a")
		run.signal(unix.SIGTERM)
		if code := run.wait(); code != 143 || run.output() != "ready a\n" {
			t.Errorf("code %d, %q", code, run.output())
		}
		if f, units := d.finished(); f.Code != 143 || len(units) != 1 {
			t.Errorf("recorded %+v", f)
		}
	})
}

func (d *dealer) attemptOfLocked(consumer, number uint32) *attempt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attemptOf(consumer, number)
}

// What the parent ignores, the command ignores.
func TestRunKeepsIgnoredSignals(t *testing.T) {
	d := newDealer(t).listen()
	cmd := exec.Command("sh", "-c", `trap '' HUP; exec "$0" "$@"`, os.Args[0],
		"--socket", d.path, "--stream", "s", "--consumer", "0", "--attempt", "1", "--", "grep", "SigIgn", "/proc/self/status")
	cmd.Env = runnerEnviron()
	out, err := cmd.Output()
	must(t, err)
	var mask uint64
	if _, err := fmt.Sscanf(string(out), "SigIgn:\t%x", &mask); err != nil || mask&(1<<(unix.SIGHUP-1)) == 0 {
		t.Errorf("the command has %q", out)
	}
}

// An ordinary user who may not use the socket is told so, after some time.
func TestRunDenied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	dir, err := os.MkdirTemp("", "headrace-consumer-test")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	binary := filepath.Join(dir, "runner")
	b, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(binary, b, 0o755))
	d := newDealer(t).listen()
	must(t, os.Chmod(d.path, 0o600))
	cmd := exec.Command(binary, "--socket", d.path, "--stream", "s", "--consumer", "0", "--attempt", "1", "--", "cat")
	cmd.Env = runnerEnviron()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.ExitCode() != exitInput || !strings.Contains(string(out), "permission denied") {
		t.Errorf("%v, %q", err, out)
	}
}
