package solo

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"headrace"
	"headrace/internal/accounts"
	"headrace/internal/linux"
	"headrace/proc"
)

// lacks reports whether a task could not be started, or restored, because the machine had too little of something.
func lacks(err error) bool {
	return linux.Lacking(err) || errors.Is(err, proc.ErrNotNow) || errors.Is(err, context.DeadlineExceeded) || unknownUser(err)
}

// unknownUser reports whether it was because nobody knows a user, which a directory service may do again.
func unknownUser(err error) bool {
	return errors.Is(err, accounts.ErrUnknown) || errors.Is(err, accounts.ErrSilent)
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
	if unknownUser(err) {
		return "waits until its user is known: " + err.Error()
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

// setbacks are how often something went wrong with a task, and what it has to wait for then.
type setbacks struct {
	// Until retryAt (boot time) orders of the policy are not carried out for the
	// task, after failures many failures in a row.
	retryAt  time.Duration
	failures int
	// shortages is how often in a row it was not started because there was too little of something.
	shortages int
	// displaced: others were made to leave for it since it last failed to run. Nobody is made to leave
	// again before claimsAt (boot time).
	displaced bool
	claimsAt  time.Duration
}

// claimPause is for how long nobody has to leave for a task for which others have left in vain. It doubles
// each time, without an end: what is killed for it runs twice as long each time, so that it ends. And
// it is how long a task runs until its setbacks are forgotten.
const claimPause = time.Minute

// setBack takes in that a task did not come to run.
func (t *task) setBack(c clock) {
	if t.displaced {
		pause := claimPause << min(t.rec.InVain, 20)
		t.displaced, t.claimsAt = false, c.boot()+pause
		t.rec.InVain, t.rec.ClaimsMs = t.rec.InVain+1, c.wall().Add(pause).UnixMilli()
	}
}

// recall takes from the record until when nobody is made to leave for a task. Where the wall clock has
// jumped that is not for longer than it was to be.
func (t *task) recall(c clock) {
	if n := t.rec.InVain; n > 0 {
		t.claimsAt = c.boot() + max(0, min(time.UnixMilli(t.rec.ClaimsMs).Sub(c.wall()), claimPause<<min(n-1, 20)))
	}
}

// runs takes in for how long a task has run by now.
func (t *task) runs(d time.Duration) {
	if d >= claimPause {
		t.shortages, t.displaced = 0, false
		t.letClaim()
	}
}

// letClaim forgets that others have left for a task in vain.
func (t *task) letClaim() { t.claimsAt, t.rec.InVain, t.rec.ClaimsMs = 0, 0, 0 }

const (
	// shortageRetry is after which time it is tried again to start a task for which the machine had too
	// little of something. It doubles each time, up to shortageRest.
	shortageRetry = 2 * time.Second
	shortageRest  = time.Minute
)

// awaitRoom has a task wait for which there was a shortage: that passes, and is not the task's fault.
func (l *life) awaitRoom(t *task, reason string) {
	now := l.clk.boot()
	t.retryAt = now + min(shortageRetry<<min(t.shortages, 6), shortageRest)
	t.shortages++
	t.setBack(l.clk)
	if t.rec.State != headrace.Pending {
		l.startOver(t, reason)
		return
	}
	t.rec.Reason = reason
	l.touch(t)
}
