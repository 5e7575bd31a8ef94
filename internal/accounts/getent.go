package accounts

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	knownTime   = 5 * time.Minute
	unknownTime = time.Minute
	failedTime  = 10 * time.Second // between two tries
	staleTime   = time.Hour        // what was known, while it cannot be asked again
	// mostAtOnce is how many getents there are at a time, mostStrange how many of these for names that may be made up. mostAnswers is
	// how many answers of either kind are remembered, mostOutput what is read of one, in bytes.
	mostAtOnce  = 4
	mostStrange = 2
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
	a := d.remembered(q)
	if a == nil {
		a = &answer{}
		remember(d.others, q, a)
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

// remembered returns the answer to a question; nil: there is none. mu is held.
func (d *Database) remembered(q question) *answer {
	if a := d.answers[q]; a != nil {
		return a
	}
	return d.others[q]
}

// remember adds an answer, in place of any where there are too many.
func remember(answers map[question]*answer, q question, a *answer) {
	for other := range answers {
		if len(answers) < mostAnswers || answers[q] != nil {
			break
		}
		delete(answers, other)
	}
	answers[q] = a
}

// renew asks getent, and takes in what it says.
func (d *Database) renew(q question, a *answer) {
	e, err := d.run(q)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch a.failure = nil; {
	case err == nil:
		a.entry, a.err, a.at = e, nil, d.now()
		delete(d.others, q)
		remember(d.answers, q, a)
		if named := (question{q.database, e.name}); q.database != "initgroups" && d.answers[named] == nil { // found by number, it is not made up
			remember(d.answers, named, &answer{entry: e, at: a.at})
		}
	case errors.Is(err, ErrUnknown):
		a.entry, a.err, a.at = e, err, d.now()
	default:
		a.failure, a.failed = err, d.now()
		if !errors.Is(err, errBusy) {
			d.silent = a.failed.Add(failedTime)
		}
	}
	close(a.asking)
	a.asking = nil
}

// errBusy: getent was not asked, for others wait for it.
var errBusy = errors.New("others are not answered")

// enter waits until getent may be asked a question; leave lets the next one in. Anybody may make up names, who reaches a server that
// looks callers up: they wait for each other, and neither numbers, which the kernel tells, nor groups of accounts that there are, nor
// names that were known wait for them.
func (d *Database) enter(ctx context.Context, q question) (leave func(), err error) {
	d.mu.Lock()
	strange := q.database != "initgroups" && strings.Trim(q.key, "0123456789") != "" && d.answers[q] == nil
	d.mu.Unlock()
	ways := []chan struct{}{d.slots}
	if strange {
		ways = []chan struct{}{d.strange, d.slots}
	}
	for i, way := range ways {
		select {
		case way <- struct{}{}:
		case <-ctx.Done():
			for _, had := range ways[:i] {
				<-had
			}
			return nil, fmt.Errorf("%d %w", cap(way), errBusy)
		}
	}
	return func() {
		for _, way := range ways {
			<-way
		}
	}, nil
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
	leave, err := d.enter(ctx, q)
	if err != nil {
		return fail(err)
	}
	defer leave()
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
	if a := d.remembered(q); a != nil && a.fresh(d.now()) {
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
