package solo

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
)

// noRoom reports whether an error says that a file system is full. It may have come
// from another process, as a text.
func noRoom(err string) bool {
	return strings.Contains(err, unix.ENOSPC.Error()) || strings.Contains(err, unix.EDQUOT.Error())
}

// roomRetry is how often it is tried to start a task that had no room on a disk.
const roomRetry = 2 * time.Second

// awaitRoom has a task that could not be started for a full disk wait: that passes,
// and is not the task's fault.
func (l *life) awaitRoom(t *task, why string) {
	t.retryAt = l.clk.boot() + roomRetry
	reason := "waits for room on a disk that is full: " + why
	if t.rec.State != headrace.Pending {
		l.startOver(t, reason)
		return
	}
	t.rec.Reason = reason
	l.touch(t)
}
