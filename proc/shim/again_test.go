package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// TestLooksAgain: one look at /proc fails, when a checkpoint has been committed or a task was restored. The first
// leaves no process, the second none that is stopped.
func TestLooksAgain(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(*task) error
		end phase
	}{
		"the end of a checkpoint": {func(t *task) error { return dump{t: t}.kill() }, empty},
		"the end of a restore":    {func(t *task) error { return t.stops.contAtLast() }, running},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			x := &task{life: life{phase: stopped, over: make(chan struct{}), cutOff: make(chan os.Signal, 1)}}
			x.processes.reaper = &reaper{}
			x.stops = stopper{op: &x.op, processes: &x.processes, life: &x.life, resumed: func() {}}
			failed := failOnce(t)
			if err := c.do(x); err != nil {
				t.Error(err)
			}
			<-failed
			if p := x.life.now(); p != c.end {
				t.Errorf("it is %v, want %v", p.state(), c.end.state())
			}
			st, err := linux.ProcFS("").Stat(cmd.Process.Pid)
			if err != nil || linux.Dead(st.State) != (c.end == empty) || c.end == running && linux.Stopped(st.State) {
				t.Errorf("its process is in state %c, %v", st.State, err)
			}
		})
	}
}

// failOnce has the first look at /proc fail; the channel is closed then.
func failOnce(t *testing.T) <-chan struct{} {
	dir := t.TempDir()
	link, pipe := filepath.Join(dir, "proc"), filepath.Join(dir, "bad", "1", "stat")
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	must(os.MkdirAll(filepath.Dir(pipe), 0o700))
	must(unix.Mkfifo(pipe, 0o600))
	must(os.Symlink(filepath.Join(dir, "bad"), link))
	before := procs
	procs = linux.ProcFS(link)
	t.Cleanup(func() { procs = before })
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		w, err := os.OpenFile(pipe, syscall.O_WRONLY, 0) // returns when somebody looks
		must(err)
		must(os.Symlink("/proc", link+".new"))
		must(os.Rename(link+".new", link))
		w.WriteString("nothing that makes sense")
		w.Close()
	}()
	return failed
}
