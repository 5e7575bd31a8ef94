package attach_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/proc"
	"headrace/proc/attach"
)

// Whoever waits for attach cannot tell it from the command, with the daemon and
// without.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"/bin/bash", "-c", "exit 0"},
		{"/bin/bash", "-c", "exit 3"},
		{"/bin/bash", "-c", "exit 137"},
		{"/bin/bash", "-c", "exit 255"},
		{"/bin/bash", "-c", "kill -9 $$"},
		{"/bin/bash", "-c", "kill -TERM $$"},
		{"/bin/bash", "-c", "kill -SEGV $$"},
		{"/bin/bash", "-c", "sleep 1000 & kill -9 $!; wait $!"},
		{"/bin/bash", "-c", "/no/such/command"},
		{"no-such-command"},
		{"/no/such/command"},
		{plain},
		{"true"},
	} {
		shell := exec.Command("/bin/bash", append([]string{"-c", `"$@"`, "bash"}, argv...)...)
		shell.Run()
		want := shellCode(shell.ProcessState)
		for name, handle := range map[string]handler{"attached": run, "alone": nil} {
			t.Run(fmt.Sprint(name, argv), func(t *testing.T) {
				w := newWorld(t, handle)
				c := w.attach(argv...)
				if got := c.wait(); got != want {
					t.Errorf("exit code %d, bash shows %d; stderr: %s", got, want, &c.stderr)
				}
				if handle != nil {
					if e := w.end(c.task()); e.Code != want || e.Abandoned || e.Lost {
						t.Errorf("the record is %+v, want code %d", e, want)
					}
				}
				w.awaitNothingLeft()
			})
		}
	}
}

const tell = `echo out; echo err >&2; pwd; umask; id -u; echo "$A"; echo $((1 + 1))`

// All that was written is there when attach ends, wherever it goes.
func TestOutput(t *testing.T) {
	for name, handle := range map[string]handler{"attached": run, "alone": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, handle)
			old := unix.Umask(0o027)
			defer unix.Umask(old)
			want := fmt.Sprintf("out\n%s\n0027\n%d\na b\nc\n2\n", w.dir, os.Geteuid())
			env := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "A=a b\nc") }

			c := w.attachWith(env, "/bin/bash", "-c", tell)
			if code := c.wait(); code != 0 || c.stdout.String() != want || !strings.HasSuffix(c.stderr.String(), "err\n") {
				t.Errorf("by pipes: code %d, %q, %q, want %q", code, &c.stdout, &c.stderr, want)
			}

			w.must(os.WriteFile(w.path("both"), []byte("before\n"), 0o600))
			both, err := os.OpenFile(w.path("both"), os.O_WRONLY|os.O_TRUNC, 0)
			w.must(err)
			defer both.Close()
			c = w.attachWith(func(cmd *exec.Cmd) { env(cmd); cmd.Stdout, cmd.Stderr = both, both }, "/bin/bash", "-c", tell)
			c.wait()
			if got := w.read("both"); !strings.HasSuffix(got, strings.Replace(want, "out\n", "out\nerr\n", 1)) {
				t.Errorf("by a file: %q", got)
			}

			c = w.attach("/bin/bash", "-c", "seq 200000; echo the end >&2")
			c.wait()
			if got := c.stdout.String(); len(got) != 1288895 || !strings.HasSuffix(got, "199999\n200000\n") {
				t.Errorf("%d bytes came through", len(got))
			}

			c = w.attachWith(func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = nil, nil }, "/bin/bash", "-c", "echo lost; exit 4")
			if code := c.wait(); code != 4 {
				t.Errorf("output to /dev/null: code %d", code)
			}
		})
	}
}

// Files that the launch script opens, as YARN's do.
func TestRedirections(t *testing.T) {
	w := newWorld(t, run)
	c := w.attach("/bin/bash", "-c", `/bin/bash -c 'echo one; echo two >&2; exit 6' 1>stdout 2>stderr`)
	if code := c.wait(); code != 6 || w.read("stdout") != "one\n" || w.read("stderr") != "two\n" {
		t.Errorf("code %d, %q, %q", code, w.read("stdout"), w.read("stderr"))
	}
}

// JVM_PID is the command, for the task's own processes.
func TestPIDVariable(t *testing.T) {
	w := newWorld(t, run)
	script := `export JVM_PID=$$; exec ` + w.rt.Shim + ` attach -socket ` + w.socket + ` -id c1 -- /bin/bash -c "$1"`
	look := `exec python3 -c '
import os
pid = int(os.environ["JVM_PID"])
print(pid == os.getpid(), os.path.basename(open("/proc/%d/cmdline" % pid).read().split("\0")[0]), os.environ.get("OTHER"))'`
	out, err := exec.Command("/bin/bash", "-c", script, "bash", look).Output()
	if w.result().task == nil {
		t.Fatal("the command did not run as a task")
	}
	if err != nil || string(out) != "True python3 None\n" {
		t.Errorf("%v: %q", err, out)
	}
	c := w.attach("/bin/bash", "-c", "echo ${JVM_PID-none}")
	if c.wait(); c.stdout.String() != "none\n" {
		t.Errorf("JVM_PID came from nowhere: %q", &c.stdout)
	}
}

const showLimits = `ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc; ulimit -Su; ulimit -Hu; ulimit -Ss; ulimit -Sf; ulimit -Hf; ulimit -Sl; nice; cat /proc/self/oom_score_adj`

// The command has the limits that it would have, and no more.
func TestLimits(t *testing.T) {
	w := newWorld(t, run)
	set := `ulimit -Sn 300; ulimit -Hn 700; ulimit -c 0; ulimit -u 5000; ulimit -Ss 4096; ulimit -f 20000; echo 77 > /proc/self/oom_score_adj; exec nice -n 4 `
	want, err := exec.Command("/bin/bash", "-c", set+`/bin/bash -c "$1"`, "bash", showLimits).Output()
	w.must(err)
	got, err := exec.Command("/bin/bash", "-c", set+w.rt.Shim+` attach -socket `+w.socket+` -id c1 -- /bin/bash -c "$1"`, "bash", showLimits).Output()
	w.must(err)
	if w.result().task == nil {
		t.Fatal("the command did not run as a task")
	}
	if string(got) != string(want) || !strings.Contains(string(want), "300\n700\n") {
		t.Errorf("limits\n%s\nwant\n%s", got, want)
	}
}

// Limits that the caller claims to have count no more than those it has.
func TestClaimedLimits(t *testing.T) {
	q := attach.Request{Limits: []proc.Limit{{Resource: 7, Soft: 900, Hard: 5000}, {Resource: 4, Soft: 5, Hard: 6}}}
	p := attach.Peer{Limits: []proc.Limit{{Resource: 7, Soft: 50, Hard: 100}, {Resource: 4, Soft: 7, Hard: 8}, {Resource: 1, Soft: 1, Hard: 2}}}
	want := "[{7 100 100} {4 5 6} {1 1 2}]"
	if got := fmt.Sprint(q.Spec(p).Limits); got != want {
		t.Errorf("limits %s, want %s", got, want)
	}
}

func TestPeer(t *testing.T) {
	w := newWorld(t, run)
	if os.Geteuid() != 0 {
		t.Skip("changing the user needs root")
	}
	c := w.attachWith(func(cmd *exec.Cmd) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 12345, Gid: 12346, Groups: []uint32{12346, 12347}}
	}, "/bin/bash", "-c", "id -u; id -g; id -G")
	c.wait()
	s := w.result()
	if s.err != nil || s.peer.PID != c.cmd.Process.Pid || s.peer.UID != 12345 || s.peer.GID != 12346 || fmt.Sprint(s.peer.Groups) != "[12346 12347]" {
		t.Errorf("the peer is %+v (%v)", s.peer, s.err)
	}
	if got := c.stdout.String(); got != "12345\n12346\n12346 12347\n" {
		t.Errorf("it ran as %q", got)
	}
}

func TestSignals(t *testing.T) {
	testkit.Unignore(t, unix.SIGHUP)
	w := newWorld(t, run)
	c := w.attach("/bin/bash", "-c", `
for s in HUP INT QUIT USR1 USR2 WINCH; do trap "echo $s >> heard" $s; done
trap 'echo TERM >> heard; exit 5' TERM
echo ready > ready
while :; do sleep 0.01; done`)
	w.awaitText("ready", "ready")
	c.task()
	for _, name := range []string{"HUP", "QUIT", "USR1", "USR2", "WINCH", "INT", "TERM"} {
		c.signal(unix.SignalNum("SIG" + name))
		w.awaitText("heard", name+"\n")
	}
	if code := c.wait(); code != 5 || w.read("heard") != "HUP\nQUIT\nUSR1\nUSR2\nWINCH\nINT\nTERM\n" {
		t.Errorf("code %d, heard %q", code, w.read("heard"))
	}

	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
		ready := fmt.Sprint("ready", int(sig))
		// Not by a shell, which ignores some signals until it has become a command.
		c = w.attach("python3", "-c", `
import resource, signal, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGINT, signal.SIG_DFL)
print(file=open(sys.argv[1], "w"), flush=True)
time.sleep(1000)`, ready)
		w.awaitText(ready, "\n")
		task := c.task()
		c.signal(sig)
		if code := c.wait(); code != 128+int(sig) {
			t.Errorf("after %v: code %d", sig, code)
		}
		if e := w.end(task); e.Signal != int(sig) || e.Abandoned {
			t.Errorf("after %v: %+v", sig, e)
		}
		w.awaitNothingLeft()
	}
}

// Without root there are no namespaces, and nothing to checkpoint; the rest works.
func TestAsOrdinaryUser(t *testing.T) {
	testkit.AsOrdinaryUser(t, "TestKilled", "short", "timeout=30m", "run=ExitCodes|Output|Limits|Signals|Killed|Terminated|Without|TooLate|Crashes|Receive")
}
