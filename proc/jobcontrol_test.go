package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"headrace/proc"
)

// stepsScript is what runs below programs that take part in job control. Its output
// shows whether it was run to its end, once. It ends when there is a file named go beside it.
const stepsScript = `#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do echo "step $i "; sleep 0.02; done
until [ -e "${0%/*}/go" ]; do sleep 0.02; done
echo after
`

// jobControllers wait for children which stop (WUNTRACED), or are told of it by
// SIGCHLD. STEPS stands for a program that runs stepsScript, DIR for a fresh
// directory, LOG for the file that is the task's standard output.
var jobControllers = []program{
	{"su", []string{"su", "root", "-s", "/bin/sh", "-c", "STEPS; echo end"}, []string{"su", "root", "-c", "true"}},
	{"su with a terminal", []string{"su", "--pty", "root", "-c", "STEPS; echo end"}, []string{"su", "--pty", "root", "-c", "true"}},
	{"su twice", []string{"su", "root", "-c", "su root -c STEPS; echo end"}, []string{"su", "root", "-c", "true"}},
	{"runuser", []string{"runuser", "root", "-c", "STEPS; echo end"}, []string{"runuser", "root", "-c", "true"}},
	{"script", []string{"script", "-qec", "STEPS", "/dev/null"}, []string{"script", "-qec", "true", "/dev/null"}},
	{"su in script", []string{"script", "-qec", "su root -c STEPS; echo end", "/dev/null"}, []string{"su", "root", "-c", "true"}},
	{"script in su", []string{"su", "root", "-c", "script -qec STEPS /dev/null; echo end"}, []string{"su", "root", "-c", "true"}},
	{"sudo", []string{"sudo", "-n", "STEPS"}, []string{"sudo", "-n", "true"}},
	{"sudo in script", []string{"script", "-qec", "sudo -n STEPS; echo end", "/dev/null"}, []string{"sudo", "-n", "true"}},
	{"bash", []string{"bash", "-c", "STEPS; echo end"}, []string{"bash", "-c", "true"}},
	{"bash with job control", []string{"bash", "-mc", "STEPS & wait; STEPS"}, []string{"bash", "-c", "true"}},
	{"interactive bash", []string{"script", "-qec", "bash --norc -ic 'STEPS; echo end'", "/dev/null"}, []string{"script", "-qec", "true", "/dev/null"}},
	{"jobs of an interactive bash", []string{"script", "-qec", "bash --norc -ic 'STEPS & wait; STEPS; jobs; echo end'", "/dev/null"}, []string{"script", "-qec", "true", "/dev/null"}},
	{"dash", []string{"dash", "-c", "STEPS; echo end"}, []string{"dash", "-c", "true"}},
	{"interactive dash", []string{"script", "-qec", "dash -ic 'STEPS; STEPS; echo end'", "/dev/null"}, []string{"script", "-qec", "true", "/dev/null"}},
	{"zsh", []string{"zsh", "-fc", "STEPS; echo end"}, []string{"zsh", "-c", "true"}},
	{"interactive zsh", []string{"script", "-qec", "zsh -fic 'STEPS; STEPS; echo end'", "/dev/null"}, []string{"zsh", "-c", "true"}},
	{"ksh with job control", []string{"ksh", "-mc", "STEPS & wait; STEPS"}, []string{"ksh", "-c", "true"}},
	{"make", []string{"make", "-sf", "DIR/Makefile"}, []string{"make", "-v"}},
	{"xargs", []string{"sh", "-c", "echo STEPS | xargs sh; echo end"}, []string{"xargs", "--version"}},
	{"timeout", []string{"timeout", "1000", "STEPS"}, []string{"timeout", "1", "true"}},
	{"setsid", []string{"setsid", "-w", "STEPS"}, []string{"setsid", "-w", "true"}},
	{"python", []string{"python3", "-c", "import subprocess; subprocess.run(['STEPS'], check=True); print('end')"}, []string{"python3", "-V"}},
	{"terminal of python", []string{"python3", "-c", "import pty; pty.spawn(['STEPS']); print('end')"}, []string{"python3", "-V"}},
	{"tmux", []string{"sh", "-c", "export TMUX_TMPDIR=DIR; tmux -f /dev/null new-session -d 'STEPS >>LOG; tmux wait-for -S over'; tmux wait-for over; echo end"}, []string{"tmux", "-V"}},
}

// makesTerminal is in the command of programs that make a terminal, which has a number: two of them at a time
// could want the same at their restore.
var makesTerminal = regexp.MustCompile(`--pty|script|sudo|import pty|tmux`)

// TestJobControl suspends, and checkpoints, trees in which parents take part in job
// control. Neither their output nor their end must show it.
func TestJobControl(t *testing.T) {
	for _, p := range jobControllers {
		t.Run(p.name, func(t *testing.T) {
			if !makesTerminal.MatchString(strings.Join(p.argv, " ")) {
				t.Parallel()
			}
			if out, err := exec.Command(p.need[0], p.need[1:]...).CombinedOutput(); err != nil {
				t.Skipf("this machine, or this user, cannot run it: %v: %s", err, out)
			}
			w := newWorld(t)
			undisturbed, letEnd := w.jobController(p, "calm")
			letEnd()
			calm := w.start(undisturbed)
			want := sync.OnceValue(func() proc.Exit { return w.end(calm) })
			for _, frozen := range []bool{false, true} {
				t.Run(fmt.Sprintf("suspend, freezer=%v", frozen), func(t *testing.T) {
					w := w.within(t)
					if frozen {
						w.withCgroups(hasFreezer)
					}
					s, letEnd := w.jobController(p, fmt.Sprintf("suspended%v", frozen))
					task := w.start(s)
					for _, step := range []int{3, 8, 12} {
						w.awaitOutput(task, fmt.Sprintf("step %d ", step))
						_, err := task.Suspend(w.ctx, 0)
						w.must(err)
						if frozen {
							if is, err := w.groupOf(string(s.ID)).Frozen(); err != nil || !is {
								t.Fatalf("suspended, it is frozen: %v, %v", is, err)
							}
						}
						w.must(task.Resume(w.ctx))
					}
					letEnd()
					w.sameEnd(task, want())
				})
			}
			t.Run("checkpoint", func(t *testing.T) {
				w := w.within(t).needCheckpoints()
				s, letEnd := w.jobController(p, "checkpointed")
				task := w.start(s)
				for _, step := range []int{3, 10} {
					w.awaitOutput(task, fmt.Sprintf("step %d ", step))
					task = w.putAside(task, s)
				}
				letEnd()
				w.sameEnd(task, want())
			})
		})
	}
}

// putAside checkpoints and restores a task, or skips the test if CRIU refuses: what
// shares its terminal in certain ways cannot be dumped, and a terminal cannot be
// restored while another one on this machine has its number.
func (w *world) putAside(task *proc.Task, s proc.Spec) *proc.Task {
	w.Helper()
	_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	for try := 0; try < 20 && errors.Is(err, proc.ErrCheckpointLater); try++ { // its terminal has unread output
		_, err = task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	}
	if errors.Is(err, proc.ErrNotCheckpointable) {
		w.Skip(err)
	}
	w.must(err)
	task.Close()
	again, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
	if err != nil && strings.Contains(err.Error(), "ptmx with specified index") {
		w.Skip(err)
	}
	w.must(err)
	return again
}

// within returns the world for a part of its test.
func (w *world) within(t *testing.T) *world {
	inner := *w
	inner.T = t
	rt := proc.Runtime{Shim: w.rt.Shim, Dir: w.rt.Dir}
	inner.rt = &rt
	return &inner
}

// jobController returns the spec of a program, with a directory of its own, and what lets
// its steps end.
func (w *world) jobController(p program, id string) (s proc.Spec, letEnd func()) {
	w.Helper()
	dir, err := os.MkdirTemp("", "headrace-jobs") // short: there will be a socket in it
	w.must(err)
	w.Cleanup(func() { os.RemoveAll(dir) })
	at := filepath.Join(dir, "steps")
	w.must(os.WriteFile(at, []byte(stepsScript), 0o755))
	w.must(os.WriteFile(filepath.Join(dir, "Makefile"), []byte("all: one\n\t@echo end\none:\n\t@"+at+"\n"), 0o644))
	s = w.spec(id)
	names := strings.NewReplacer("STEPS", at, "TMUX_TMPDIR", "TMUX_TMPDIR", "DIR", dir, "LOG", filepath.Join(w.rt.TaskDir(s.ID), "stdout"))
	for _, a := range p.argv {
		s.Argv = append(s.Argv, names.Replace(a))
	}
	return s, func() { w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644)) }
}

// sameEnd compares the end and the output of a task to those of the one named calm.
func (w *world) sameEnd(task *proc.Task, want proc.Exit) {
	w.Helper()
	if got := w.end(task); got.Code != want.Code || got.Signal != want.Signal {
		w.Errorf("ended with %+v, undisturbed with %+v", got, want)
	}
	for _, f := range []string{"stdout", "stderr"} {
		if g, u := plainText(w.log(task.ID, f)), plainText(w.log("calm", f)); g != u {
			w.Errorf("%s is\n%s\nundisturbed it is\n%s", f, g, u)
		}
	}
}

// accidental is what differs from one run to the next: when the pid of a job is told, whether a shell
// that has waited for a job tells of its end once more, directories, and where a
// terminal shows the end of its input.
var accidental = regexp.MustCompile(`\[1\] \d+\r?\n|\[1\]\+  Done[^\n]*\n|/\S*headrace-jobs\d+|\^@|\^D|\x00|\x08`)

func plainText(s string) string { return accidental.ReplaceAllString(s, "") }
