package linux

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// KillAndWait sends SIGKILL to a process, which need not be a child, and returns when
// it has ended, at the latest after patience. One that is already gone is no error.
func KillAndWait(pid int, patience time.Duration) error {
	return KillAndWaitIf(pid, patience, func() bool { return true })
}

// KillAndWaitIf is KillAndWait if the process is still the one that is meant: what the
// caller looks at then is of the process that gets the signal, or of none.
func KillAndWaitIf(pid int, patience time.Duration, meant func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if !meant() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	gone, err := AwaitGone(fd, patience)
	if err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	if !gone {
		return fmt.Errorf("end process %d: still there %v after SIGKILL", pid, patience)
	}
	return nil
}

// AwaitGone waits until the process of a pidfd has ended, and reports whether it has
// within patience. The first process of a pid namespace ends after all others in it.
func AwaitGone(pidfd int, patience time.Duration) (bool, error) {
	for deadline := time.Now().Add(patience); ; {
		left := max(0, time.Until(deadline).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left))
		if !errors.Is(err, unix.EINTR) {
			return n > 0, err
		}
	}
}
