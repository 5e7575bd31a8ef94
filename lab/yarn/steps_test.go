package yarn

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A task that is held opens nothing that is gone when it may go on: what has a file open in its checkpoint needs that file.
func TestHeldStepsOpenNothing(t *testing.T) {
	s := must((&installation{Dir: t.TempDir()}).NewSteps("held", 5, time.Millisecond))(t)
	hold(t, s, 3)
	opened := must(unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC))(t)
	defer unix.Close(opened)
	must(unix.InotifyAddWatch(opened, s.holdDir(), unix.IN_OPEN))(t)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", s.Command())
	cmd.Env = append(os.Environ(), "CONTAINER_ID=c1", "HEADRACE_TASK=0", "LOG_DIRS="+t.TempDir())
	must(0, cmd.Start())(t)
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	done := func(n int) {
		t.Helper()
		must(0, await(within(t, patience), "wait for steps", patience, func(context.Context) (bool, error) {
			done, err := s.Done()
			return done == n, err
		}))(t)
	}
	done(3)
	if n, err := unix.Read(opened, make([]byte, 4096)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a task has opened %s: %d bytes of events, %v", s.holdDir(), n, err)
	}
	hold(t, s, 4)
	done(4)
	goOn(t, s)
	done(5)
}
