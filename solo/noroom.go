package solo

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc"
)

// lacks reports whether a task could not be started because the machine had too little of something.
func lacks(err error) bool {
	return linux.Lacking(err) || errors.Is(err, proc.ErrNotNow) || errors.Is(err, context.DeadlineExceeded)
}

// awayError is why a store that is not there, or does not answer, keeps a task from being started.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// waitsFor returns for what a task waits that was not started because of that, for people.
func waitsFor(err error) string {
	var away awayError
	if errors.As(err, &away) {
		return away.Error()
	}
	return waitsForMachine(err.Error())
}

// waitsForMachine is waitsFor where it is the machine that had too little of something.
func waitsForMachine(err string) string {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if strings.Contains(err, full.Error()) {
			return "waits for room on a disk that is full: " + err
		}
	}
	return "waits until the machine can start another process: " + err
}

// shortageRetry is how often it is tried to start a task for which the machine had too little of something.
const shortageRetry = 2 * time.Second

// awaitRoom has a task wait for which there was a shortage: that passes, and is not the task's fault.
func (l *life) awaitRoom(t *task, reason string) {
	t.retryAt = l.clk.boot() + shortageRetry
	if t.rec.State != headrace.Pending {
		l.startOver(t, reason)
		return
	}
	t.rec.Reason = reason
	l.touch(t)
}
