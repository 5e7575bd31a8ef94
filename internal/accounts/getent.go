package accounts

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

const (
	knownTime   = 5 * time.Minute
	unknownTime = time.Minute
	failedTime  = 10 * time.Second // between two tries
	staleTime   = time.Hour        // what was known, while it cannot be asked again
	// mostAtOnce is how many getents there are at a time, mostAnswers how many answers are
	// remembered, mostOutput what is read of one, in bytes.
	mostAtOnce  = 4
	mostAnswers = 10_000
	mostOutput  = 1 << 20
)

// question is what getent is asked: its arguments.
type question struct{ database, key string }

func (q question) what() string {
	if q.database == "group" {
		return "group"
	}
	return "user"
}

// answer is what is known of a question.
type answer struct {
	// entry and err, which is nil or ErrUnknown, were the answer at a time; zero: never.
	entry entry
	err   error
	at    time.Time
	// failure is why it could not be asked the last time, at failed; nil: it could.
	failure error
	failed  time.Time
	// asking is closed when getent, which is being asked, has answered; nil: it is not.
	asking chan struct{}
}

// fresh reports whether nothing need be asked.
func (a *answer) fresh(now time.Time) bool {
	keep := knownTime
	if a.err != nil {
		keep = unknownTime
	}
	return !a.at.IsZero() && now.Sub(a.at) < keep || a.failure != nil && now.Sub(a.failed) < failedTime
}

// known reports whether there is an answer that counts as long as there can be no other.
func (a *answer) known(now time.Time) bool {
	return !a.at.IsZero() && a.err == nil && now.Sub(a.at) < staleTime
}

// is returns what counts now.
func (a *answer) is(now time.Time) (entry, error) {
	switch {
	case a.known(now):
		return a.entry, nil
	case a.failure != nil:
		return entry{}, a.failure
	case !a.at.IsZero() && now.Sub(a.at) < unknownTime:
		return entry{}, a.err
	}
	return entry{}, fmt.Errorf("%w: no answer yet", ErrSilent)
}

// ask returns what getent says to a question, or has said lately. It waits no longer than
// patience; getent is then still asked, for the next who asks.
func (d *Database) ask(q question, patience time.Duration) (entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.answers[q]
	if a == nil {
		a = &answer{}
		for other := range d.answers { // any: names are whatever callers say
			if len(d.answers) < mostAnswers {
				break
			}
			delete(d.answers, other)
		}
		d.answers[q] = a
	}
	if a.fresh(d.now()) {
		return a.is(d.now())
	}
	if a.asking == nil {
		a.asking = make(chan struct{})
		go d.renew(q, a)
	}
	if d.now().Before(d.silent) && a.known(d.now()) {
		return a.is(d.now()) // others have waited in vain just now
	}
	asking := a.asking
	d.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-asking:
	case <-late.C:
	}
	d.mu.Lock()
	return a.is(d.now())
}

// renew asks getent, and takes in what it says.
func (d *Database) renew(q question, a *answer) {
	e, err := d.run(q)
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.failure = nil; err == nil || errors.Is(err, ErrUnknown) {
		a.entry, a.err, a.at = e, err, d.now()
	} else {
		a.failure, a.failed = err, d.now()
		d.silent = a.failed.Add(failedTime)
	}
	close(a.asking)
	a.asking = nil
}

// run asks getent.
func (d *Database) run(q question) (entry, error) {
	fail := func(err error) (entry, error) {
		return entry{}, fmt.Errorf("%w: getent %s %s: %w; see whether it answers at a shell", ErrSilent, q.database, q.key, err)
	}
	limit := d.patience * 9 / 10 // less than who asks waits, so that they hear why
	path, err := d.getent()
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return fail(fmt.Errorf("%d others are not answered", mostAtOnce))
	}
	var out head
	cmd := exec.CommandContext(ctx, path, q.database, q.key)
	cmd.Dir, cmd.Env, cmd.Stdout = "/", []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, &out
	cmd.WaitDelay = d.patience / 50
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fail(fmt.Errorf("no answer within %v", limit))
	case errors.As(err, &exit) && exit.ExitCode() == 2: // also of a service that is down
		return entry{}, ErrUnknown
	case err != nil:
		return fail(err)
	}
	e, err := parseAnswer(q, string(out.b), out.cut)
	if err != nil {
		return fail(err)
	}
	return e, nil
}

// head keeps the beginning of what is written.
type head struct {
	b   []byte
	cut bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), mostOutput-len(h.b))
	h.b, h.cut = append(h.b, p[:n]...), h.cut || n < len(p)
	return len(p), nil
}

// getent returns the path of the program.
func (d *Database) getent() (string, error) {
	if d.program != "" {
		return exec.LookPath(d.program)
	}
	path, err := exec.LookPath("getent")
	if err == nil {
		return path, nil
	}
	if path, other := exec.LookPath("/usr/bin/getent"); other == nil { // PATH may be short
		return path, nil
	}
	return "", err
}

// elsewhere returns what is remembered of a question, or else what getent says to it, if there is more of the database
// than files. It waits no longer than patience.
func (d *Database) elsewhere(q question, patience time.Duration) (entry, error) {
	d.mu.Lock()
	if a := d.answers[q]; a != nil && a.fresh(d.now()) {
		defer d.mu.Unlock()
		return a.is(d.now())
	}
	d.mu.Unlock()
	if !d.asksFor(q.database) {
		return entry{}, ErrUnknown
	}
	return d.ask(q, patience)
}

// asksFor reports whether there is more of a database than files, and getent to ask for it. Where
// that is missing Problem says so.
func (d *Database) asksFor(database string) bool {
	if len(d.beyond(database)) == 0 {
		return false
	}
	_, err := d.getent()
	return err == nil
}
