package proc_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/testkit"
)

// TestStartThatNeverEnds: a task that waits for its own output to be opened runs, and can be
// suspended, continued and ended as any other.
func TestStartThatNeverEnds(t *testing.T) {
	w := newWorld(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	w.must(unix.Mkfifo(fifo, 0o600))
	s := w.spec("t", "echo", "read at last")
	s.Output = fifo
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	task, err := w.rt.Start(ctx, s)
	w.must(err)
	_, err = task.Suspend(ctx, 0)
	w.must(err)
	if st := w.stats(task); st.State != headrace.Suspended {
		t.Errorf("it is %v", st.State)
	}
	w.must(task.Resume(ctx))
	if b, err := os.ReadFile(fifo); string(b) != "read at last\n" || err != nil {
		t.Errorf("it has written %q, %v", b, err)
	}
	if e := w.end(task); e.Code != 0 || e.StartError != "" {
		t.Errorf("ended with %+v", e)
	}
}

// TestWhoKeepsTheReportsOfAStart: the socket by which the start is reported can be taken out of
// what becomes the command, as that is its user's already. Whoever has it cannot keep the task
// from ending, neither by keeping it nor by asking for more answers than it reads.
func TestWhoKeepsTheReportsOfAStart(t *testing.T) {
	for name, reports := range map[string]int{"open": 0, "without reading": 500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			fifo := filepath.Join(t.TempDir(), "fifo")
			w.must(unix.Mkfifo(fifo, 0o600))
			s := w.spec("kept-"+strings.Fields(name)[0], "echo", "read at last")
			s.Output = fifo
			task, err := w.rt.Start(w.ctx, s)
			w.must(err)
			kept := w.reportsOf(string(s.ID))
			for range reports {
				_, err := kept.WriteString(`{"output":{}}` + "\n")
				w.must(err)
			}
			_, err = os.ReadFile(fifo)
			w.must(err)
			select {
			case <-task.Exited():
			case <-time.After(time.Minute):
				unix.Kill(w.shimPID(string(s.ID)), unix.SIGKILL)
				t.Fatal("its end is not on record")
			}
			if e := task.Exit(); e.Code != 0 || e.StartError != "" || e.Lost {
				t.Errorf("ended with %+v", e)
			}
		})
	}
}

// reportsOf takes the socket of a start that waits for its output file.
func (w *world) reportsOf(id string) *os.File {
	w.Helper()
	pids := w.taskPIDs(id)
	if len(pids) != 1 {
		w.Fatalf("the start has processes %v, want one", pids)
	}
	process, err := unix.PidfdOpen(pids[0], 0)
	w.must(err)
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, 3, 0)
	w.must(err)
	kept := os.NewFile(uintptr(fd), "reports")
	w.Cleanup(func() { kept.Close() })
	return kept
}

// TestWantOfRoomForTheUser: what the user's output file lacks is told from what the machine lacks, and a
// process that is the user's cannot say that it is the latter.
func TestWantOfRoomForTheUser(t *testing.T) {
	t.Run("said", func(t *testing.T) {
		w := newWorld(t)
		dir := t.TempDir()
		if err := unix.Mount("full", dir, "tmpfs", 0, "nr_inodes=1"); err != nil {
			t.Skip("a full disk needs the right to mount:", err)
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		s := w.spec("full", "true")
		s.Output = filepath.Join(dir, "output")
		if e := w.end(w.start(s)); !e.MayPass || e.Lacking || !strings.Contains(e.StartError, unix.ENOSPC.Error()) {
			t.Errorf("ended with %+v", e)
		}
	})
	t.Run("forged", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := w.spec("forged", "true")
		s.Output = filepath.Join(t.TempDir(), "fifo")
		w.must(unix.Mkfifo(s.Output, 0o600))
		task, err := w.rt.Start(w.ctx, s)
		w.must(err)
		_, err = w.reportsOf("forged").WriteString(`{"code":126,"text":"no room","lacking":true}` + "\n")
		w.must(err)
		_, err = os.ReadFile(s.Output)
		w.must(err)
		if e := w.end(task); !e.MayPass || e.Lacking {
			t.Errorf("ended with %+v", e)
		}
	})
}

// TestKillOfATaskWhoseOutputIsGone: when a command has ended, and the server of its output
// file does not answer, the task can be killed.
func TestKillOfATaskWhoseOutputIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	silent, output := filepath.Join(dir, "silent"), filepath.Join(dir, "output")
	w.must(os.Mkdir(silent, 0o755))
	testkit.SilentFS(t, silent)
	s := w.spec("unsynced", "/bin/sh", "-c", "read end <fifo")
	s.Cwd, s.Output = dir, output
	w.must(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	task := w.start(s)
	w.must(os.Remove(output))
	w.must(os.Symlink(filepath.Join(silent, "output"), output))
	w.must(os.WriteFile(filepath.Join(dir, "fifo"), []byte("\n"), 0))
	w.await("the end of the command", func() bool {
		_, err := os.Stat(filepath.Join(w.rt.TaskDir("unsynced"), "command-exit"))
		return err == nil
	})
	select {
	case <-task.Exited():
		t.Fatalf("its end was recorded before its output: %+v", task.Exit())
	default:
	}
	w.must(task.Kill(w.ctx, time.Millisecond))
	if e := w.end(task); e.Code != 0 || e.Lost {
		t.Errorf("ended with %+v", e)
	}
}
