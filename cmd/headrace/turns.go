package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"headrace/cli"
)

const shortestPause, longestPause = 20 * time.Millisecond, time.Second

// pauses are those between tries of the same call, each twice as long as the one before.
type pauses time.Duration

// wait waits for the next one, or fails when ctx ends.
func (p *pauses) wait(ctx context.Context) error {
	*p = pauses(min(max(2*time.Duration(*p), shortestPause), longestPause))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(*p)):
		return nil
	}
}

// notNow reports whether the daemon has refused a call because its user has too much under way there, and would
// not do so when some of that has ended.
func notNow(err error) bool {
	refused := new(connect.Error)
	return errors.As(err, &refused) && refused.Code() == connect.CodeResourceExhausted && refused.Meta().Get("Retry-After") != ""
}

// sayRefused tells whoever waits why.
func sayRefused(say func(format string, args ...any), err error) {
	_, line := cli.Outcome(err)
	say("%s; what is refused so waits for its turn", line)
}

// turnTime is how long the calls of a command wait for their turn while nothing of that command is under way.
const turnTime = 30 * time.Second

// turns makes the calls of one command that the daemon refuses for now wait for their turn. It is safe for
// concurrent use.
type turns struct {
	say  func(format string, args ...any)
	once sync.Once

	mu       sync.Mutex
	inside   int       // calls that are under way
	answered time.Time // when the last one was answered; the first one made, before
}

// take makes a call until it is not refused for now. The error is that refusal when others than this command have
// had all there is for turnTime, so that nobody waits for what may be waiting for him.
func (t *turns) take(ctx context.Context, call func() error) error {
	for pause := pauses(0); ; {
		t.begin()
		err := call()
		if !t.again(notNow(err)) {
			return err
		}
		t.once.Do(func() { sayRefused(t.say, err) })
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

func (t *turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inside++
	if t.answered.IsZero() {
		t.answered = time.Now()
	}
}

// again ends a call and tells whether to make it once more.
func (t *turns) again(refused bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inside--
	if !refused {
		t.answered = time.Now()
	}
	return refused && (t.inside > 0 || time.Since(t.answered) < turnTime)
}
