package solo

import (
	"context"
	"strings"
	"syscall"
	"time"

	"headrace"
)

// shortages are what the machine may have too little of to start a task, with the errors that say so.
var shortages = []struct {
	waits string
	says  []error
}{
	{"waits for room on a disk that is full", []error{syscall.ENOSPC, syscall.EDQUOT}},
	{"waits until the machine can start another process", []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, context.DeadlineExceeded}},
}

// shortage returns for what a task has to wait by an error of its start, or nothing. The error may have come
// from another process, as a text.
func shortage(err string) string {
	for _, s := range shortages {
		for _, says := range s.says {
			if strings.Contains(err, says.Error()) {
				return s.waits
			}
		}
	}
	return ""
}

// shortageRetry is how often it is tried to start a task for which the machine had too little of something.
const shortageRetry = 2 * time.Second

// awaitRoom has a task wait for which there was a shortage: that passes, and is not the task's fault.
func (l *life) awaitRoom(t *task, why string) {
	t.retryAt = l.clk.boot() + shortageRetry
	reason := shortage(why) + ": " + why
	if t.rec.State != headrace.Pending {
		l.startOver(t, reason)
		return
	}
	t.rec.Reason = reason
	l.touch(t)
}
