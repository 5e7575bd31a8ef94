package replica

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// patience is how long a volume may take to answer. A disk with a long queue takes
	// seconds to look up a name.
	patience = 10 * time.Second
	// maxAsked bounds the questions to a volume at a time, and so the threads that are
	// stuck in the kernel when it does not answer.
	maxAsked = 8
)

// Line is the way to a disk that may not answer.
type Line struct {
	patience time.Duration
	turns    chan struct{}

	mu    sync.Mutex
	n     uint64
	asked map[uint64]time.Time // when, of questions without an answer
}

func newLine(patience time.Duration) *Line {
	return &Line{patience: patience, turns: make(chan struct{}, maxAsked), asked: map[uint64]time.Time{}}
}

// NewLine returns one whose disk is given ten seconds for an answer.
func NewLine() *Line { return newLine(patience) }

// silence is the error of a disk that has not answered for a time.
type silence struct{ since time.Duration }

func (s *silence) Error() string {
	return fmt.Sprintf("it has not answered for %v: its disk hangs", s.since.Round(time.Second))
}

// silent says for how long there has been no answer to a question, if that is too long.
func (l *Line) silent() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.asked {
		if since := time.Since(at); since > l.patience {
			return &silence{since}
		}
	}
	return nil
}

// begin enters a question; end is called when there is an answer.
func (l *Line) begin() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	n := l.n
	l.asked[n] = time.Now()
	return func() {
		l.mu.Lock()
		delete(l.asked, n)
		l.mu.Unlock()
		<-l.turns
	}
}

// Ask asks and returns the answer, unless ctx ends, or the disk keeps silent for longer
// than patience: it fails at once then for as long as it does. An answer that comes later than that is given to drop.
func Ask[T any](ctx context.Context, l *Line, question func() (T, error), drop func(T)) (answer T, err error) {
	if err := l.silent(); err != nil {
		return answer, err
	}
	timer := time.NewTimer(l.patience)
	defer timer.Stop()
	select {
	case l.turns <- struct{}{}:
	case <-timer.C:
		return answer, &silence{l.patience}
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	end := l.begin()
	type result struct {
		answer T
		err    error
	}
	done, gone := make(chan result), make(chan struct{})
	go func() {
		var r result
		r.answer, r.err = question()
		end()
		select {
		case done <- r:
		case <-gone:
			if r.err == nil {
				drop(r.answer)
			}
		}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-timer.C:
		err = &silence{l.patience}
	case <-ctx.Done():
		err = ctx.Err()
	}
	close(gone)
	return answer, err
}
