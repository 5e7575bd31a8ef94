package attach_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/attach"
)

// counter writes numbers, to standard output and to a file, and ends with code 9. It is caught in the middle: the last numbers come when there is
// the file go, so that a test may be slow.
const counter = `
import os, sys, time
with open("count", "a") as f:
    for n in range(1, 41):
        print(n, flush=True)
        print(n, file=f, flush=True)
        time.sleep(0.02)
        while n == 30 and not os.path.exists("go"): time.sleep(0.01)
sys.exit(9)
`

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// put brings a running task to a state.
func (w *world) put(t *proc.Task, state headrace.TaskState) {
	w.Helper()
	if state == headrace.Running {
		return
	}
	_, err := t.Suspend(w.ctx, 0)
	w.must(err)
	if state == headrace.Checkpointed {
		w.checkpoint(t)
	}
}

var states = []headrace.TaskState{headrace.Running, headrace.Suspended, headrace.Checkpointed}

// When attach is killed, nothing is left, whatever the task was doing.
func TestKilled(t *testing.T) {
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			w := newWorld(t, run)
			if state == headrace.Checkpointed {
				w.needCheckpoints()
			}
			c := w.attach("/bin/bash", "-c", `trap '' TERM HUP INT; setsid sleep 1000 & echo > ready; while :; do sleep 0.01; done`)
			w.awaitText("ready", "\n")
			task := c.task()
			w.put(task, state)
			begin := linux.Clock()
			c.signal(unix.SIGKILL)
			e := w.end(task)
			took := linux.Clock() - begin
			if c.wait() != 137 || e.Code != 137 || e.Signal != 9 || !e.Abandoned || e.Lost || e.StartError != "" {
				t.Errorf("ended with %+v", e)
			}
			if n := w.left(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			t.Logf("the end is recorded %v after the kill", took)
		})
	}
}

// A checkpoint that is being taken does not keep a task alive.
func TestKilledDuringDump(t *testing.T) {
	w := newWorld(t, run).needCheckpoints()
	// CRIU asks first of all, and then whoever has started it, whether what it has dumped is to count.
	real, action := w.rt.CRIU, w.path("action")
	w.rt.CRIU = w.path("criu")
	w.must(os.WriteFile(action, fmt.Appendf(nil, "#!/bin/sh\n[ $CRTOOLS_SCRIPT_ACTION = post-dump ] || exit 0\necho >%s; exec sleep 1000\n", w.path("dumped")), 0o755))
	w.must(os.WriteFile(w.rt.CRIU, fmt.Appendf(nil, "#!/bin/sh\n[ $1 = dump ] || exec %[1]s \"$@\"\nshift\nexec %[1]s dump --action-script %[2]s \"$@\" --action-script %[2]s\n", real, action), 0o755))
	c := w.attach("/bin/bash", "-c", "echo > ready; exec sleep 1000")
	w.awaitText("ready", "\n")
	task := c.task()
	failed := make(chan error, 1)
	go func() {
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		failed <- err
	}()
	w.awaitText("dumped", "\n")
	c.signal(unix.SIGKILL)
	if e := w.end(task); !e.Abandoned {
		t.Errorf("ended with %+v", e)
	}
	if <-failed == nil {
		t.Error("the checkpoint of a task that was killed succeeded")
	}
	w.awaitNothingLeft()
}

// TERM stays pending while a task is suspended, and ends one that is checkpointed.
func TestTerminated(t *testing.T) {
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			w := newWorld(t, run)
			if state == headrace.Checkpointed {
				w.needCheckpoints()
			}
			c := w.attach("/bin/bash", "-c", `echo > ready; exec sleep 1000`)
			w.awaitText("ready", "\n")
			task := c.task()
			w.put(task, state)
			c.signal(unix.SIGTERM)
			if state == headrace.Suspended {
				st, err := task.State(w.ctx)
				w.must(err)
				if st != headrace.Suspended {
					t.Errorf("after TERM the task is %s", st)
				}
				w.must(task.Resume(w.ctx))
			}
			if code := c.wait(); code != 143 {
				t.Errorf("code %d", code)
			}
			if e := w.end(task); e.Code != 143 || e.Signal != 15 || e.Abandoned || e.Lost || e.StartError != "" {
				t.Errorf("ended with %+v", e)
			}
			w.awaitNothingLeft()
		})
	}
}

// YARN sends TERM, and KILL a quarter of a second later.
func TestTerminatedThenKilled(t *testing.T) {
	w := newWorld(t, run)
	c := w.attach("/bin/bash", "-c", `echo > ready; exec sleep 1000`)
	w.awaitText("ready", "\n")
	task := c.task()
	w.put(task, headrace.Suspended)
	c.signal(unix.SIGTERM)
	c.signal(unix.SIGKILL)
	if e := w.end(task); e.Code != 137 && e.Code != 143 {
		t.Errorf("ended with %+v", e)
	}
	w.awaitNothingLeft()
}

// Other signals reach a task when it goes on.
func TestSignalsWait(t *testing.T) {
	for _, state := range states[1:] {
		t.Run(state.String(), func(t *testing.T) {
			w := newWorld(t, run)
			if state == headrace.Checkpointed {
				w.needCheckpoints()
			}
			c := w.attach("/bin/bash", "-c", `trap 'echo heard; exit 7' USR1; echo > ready; while :; do sleep 0.01; done`)
			w.awaitText("ready", "\n")
			s := w.result()
			w.put(s.task, state)
			c.signal(unix.SIGUSR1)
			// The signal has arrived when attach has none pending and sleeps.
			w.await("attach to pass the signal on", func() bool { return w.idle(c.cmd.Process.Pid) && w.idle(w.supervisor()) })
			if state == headrace.Checkpointed {
				w.restore(s.spec)
			} else {
				w.must(s.task.Resume(w.ctx))
			}
			if code := c.wait(); code != 7 || c.stdout.String() != "heard\n" {
				t.Errorf("code %d, %q", code, &c.stdout)
			}
		})
	}
}

// idle reports whether all threads of a process sleep.
func (w *world) idle(pid int) bool {
	idle := true
	err := linux.ProcFS("").ThreadStates(pid, func(_ int, state byte) bool {
		idle = state == 'S'
		return idle
	})
	return err == nil && idle
}

// goOn has what counts come to its end.
func (w *world) goOn() {
	w.Helper()
	w.must(os.WriteFile(w.path("go"), nil, 0o644))
}

// disturb suspends, checkpoints and restores a task again and again while it
// counts, and calls meanwhile when it is checkpointed.
func (w *world) disturb(s started, file string, meanwhile func()) {
	w.Helper()
	task := s.task
	for _, at := range []string{"\n3\n", "\n12\n", "\n20\n", "\n28\n"} {
		w.awaitText(file, at)
		_, err := task.Suspend(w.ctx, 0)
		w.must(err)
		w.must(task.Resume(w.ctx))
		w.checkpoint(task)
		if n := w.left(); n != 0 {
			w.Errorf("%d processes run after a checkpoint", n)
		}
		if meanwhile != nil {
			meanwhile()
		}
		task.Close()
		task = w.restore(s.spec)
	}
	w.goOn()
	if e := w.end(task); e.Abandoned || e.Lost {
		w.Errorf("ended with %+v", e)
	}
}

func TestCheckpointWithPipes(t *testing.T) {
	w := newWorld(t, run).needCheckpoints()
	c := w.attach("python3", "-c", counter)
	w.disturb(w.result(), "count", nil)
	if code := c.wait(); code != 9 || c.stdout.String() != numbers(40) || w.read("count") != numbers(40) {
		t.Errorf("code %d, printed %q", code, &c.stdout)
	}
}

// A file that the shell opens with truncation, not for appending.
func TestCheckpointWithRedirections(t *testing.T) {
	w := newWorld(t, run).needCheckpoints()
	w.must(os.WriteFile(w.path("stdout"), []byte("something else"), 0o600))
	w.must(os.WriteFile(w.path("script.py"), []byte(counter), 0o600))
	c := w.attachWith(func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = nil, nil },
		"/bin/bash", "-c", "python3 script.py 1>stdout 2>stderr")
	w.disturb(w.result(), "stdout", nil)
	if code := c.wait(); code != 9 || w.read("stdout") != numbers(40) {
		t.Errorf("code %d, printed %q", code, w.read("stdout"))
	}
}

func TestCheckpointOfPipeline(t *testing.T) {
	w := newWorld(t, run).needCheckpoints()
	w.must(os.WriteFile(w.path("script.py"), []byte(counter), 0o600))
	c := w.attach("/bin/bash", "-c", `set -o pipefail; python3 script.py | grep -v x | { while read n; do echo $n; done; } 2>/dev/null > stdout`)
	w.disturb(w.result(), "count", nil)
	if code := c.wait(); code != 9 || w.read("stdout") != numbers(40) {
		t.Errorf("code %d, %q; %s", code, w.read("stdout"), &c.stderr)
	}
}

func TestCheckpointOfJava(t *testing.T) {
	if out, err := exec.Command("java", "-version").CombinedOutput(); err != nil {
		t.Skipf("java: %v: %s", err, out)
	}
	w := newWorld(t, run).needCheckpoints()
	w.must(os.WriteFile(w.path("Count.java"), []byte(`
import java.util.*;
public class Count {
  public static void main(String[] args) throws Exception {
    System.err.println(System.getenv("JVM_PID").equals(String.valueOf(ProcessHandle.current().pid())));
    List<byte[]> kept = new ArrayList<>();
    for (int n = 1; n <= 40; n++) {
      kept.add(new byte[500_000]);
      System.out.println(n);
      Thread.sleep(20);
      while (n == 30 && !new java.io.File("go").exists()) Thread.sleep(10);
    }
    System.exit(9);
  }
}`), 0o600))
	c := w.attachWith(func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "JVM_PID=1") },
		"/bin/bash", "-c", "exec java -Xmx64m Count.java 1>stdout 2>stderr")
	w.disturb(w.result(), "stdout", func() {
		// Another JVM of the user takes what the first has mapped for left over.
		if out, err := exec.Command("java", "-version").CombinedOutput(); err != nil {
			t.Errorf("java: %v: %s", err, out)
		}
	})
	if code := c.wait(); code != 9 || w.read("stdout") != numbers(40) || w.read("stderr") != "true\n" {
		t.Errorf("code %d, printed %q, %q", code, w.read("stdout"), w.read("stderr"))
	}
}

// With its supervisor a checkpointed task is lost: its pipes are gone, and so is
// whoever waited.
func TestSupervisorKilled(t *testing.T) {
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			w := newWorld(t, run)
			if state == headrace.Checkpointed {
				w.needCheckpoints()
			}
			c := w.attach("/bin/bash", "-c", `echo > ready; exec sleep 1000`)
			w.awaitText("ready", "\n")
			s := w.result()
			w.put(s.task, state)
			w.must(unix.Kill(w.supervisor(), unix.SIGKILL))
			if code := c.wait(); code != 137 || !strings.Contains(c.stderr.String(), "supervisor has gone") {
				t.Errorf("code %d, said %q", code, &c.stderr)
			}
			if e := w.end(s.task); !e.Lost {
				t.Errorf("ended with %+v", e)
			}
			w.awaitNothingLeft()
			_, _, err := w.rt.Restore(w.ctx, s.spec, proc.RestoreOptions{Store: w.store})
			if !errors.Is(err, proc.ErrAbandoned) {
				t.Errorf("restore: %v", err)
			}
		})
	}
}

// A supervisor that is killed when a checkpoint counts, and before it has said so, is not the end: its process
// asks for another one, for as long as it takes, and the command goes on under that. So it is when that is told to end before
// the command goes on.
func TestSupervisorKilledWhenSaved(t *testing.T) {
	held := make(chan *proc.Task, 1)
	asked := 0
	var spec proc.Spec
	w := newWorld(t, func(w *world, conn *net.UnixConn) {
		runOr(w, conn, func(_ attach.Request, files attach.Files) attach.Reply {
			if asked++; asked == 1 {
				return attach.Reply{Error: "it is being looked for", Later: true}
			}
			task, err := w.rt.Hold(w.ctx, spec, files.Stdio())
			if err != nil {
				return attach.Reply{Error: err.Error(), Later: errors.Is(err, proc.ErrState)} // the last one is about to go
			}
			held <- task
			return attach.Reply{}
		})
	}).needCheckpoints()
	t.Setenv(crash.Env, "shim.before-kill")
	c := w.attach("python3", "-c", counter)
	s := w.result()
	w.awaitText("count", "\n12\n")
	spec = s.spec
	if _, err := s.task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); !errors.Is(err, proc.ErrGone) {
		t.Fatalf("the checkpoint: %v", err)
	}
	w.end(s.task)
	for _, ends := range []bool{true, false} {
		var next *proc.Task
		select {
		case next = <-held:
		case <-c.done:
			t.Fatalf("its process has ended: %s", &c.stderr)
		case <-w.ctx.Done():
			t.Fatal("nobody asks for another supervisor")
		}
		if ends {
			w.must(unix.Kill(w.supervisor(), unix.SIGTERM))
			w.end(next)
		}
		next.Close()
	}
	w.goOn()
	if e := w.end(w.restore(spec)); e.Code != 9 {
		t.Errorf("ended with %+v", e)
	}
	if code := c.wait(); code != 9 || c.stdout.String() != numbers(40) || w.read("count") != numbers(40) {
		t.Errorf("code %d, printed %q; %s", code, &c.stdout, &c.stderr)
	}
}

// The daemon's kill ends attach as well.
func TestKilledByTheDaemon(t *testing.T) {
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			w := newWorld(t, run)
			if state == headrace.Checkpointed {
				w.needCheckpoints()
			}
			c := w.attach("/bin/bash", "-c", `trap 'exit 8' TERM; echo > ready; while :; do sleep 0.01; done`)
			w.awaitText("ready", "\n")
			task := c.task()
			w.put(task, state)
			w.must(task.Kill(w.ctx, 5*time.Second))
			want := 8
			if state == headrace.Checkpointed {
				want = 137
			}
			if code := c.wait(); code != want {
				t.Errorf("code %d, want %d", code, want)
			}
		})
	}
}

// Attach and the supervisor need nobody else.
func TestWithoutTheDaemon(t *testing.T) {
	w := newWorld(t, run)
	c := w.attach("/bin/bash", "-c", `trap 'exit 8' TERM; echo > ready; while :; do sleep 0.01; done`)
	w.awaitText("ready", "\n")
	c.task().Close()
	c.signal(unix.SIGTERM)
	if code := c.wait(); code != 8 {
		t.Errorf("code %d", code)
	}
	w.await("the record of the end", func() bool { e, ok, err := w.rt.ExitOf("c1"); return err == nil && ok && e.Code == 8 })
}
