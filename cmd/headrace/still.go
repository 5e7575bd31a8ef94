package main

import (
	"fmt"
	"time"

	"headrace/cli"
)

// stillness notes when whoever reads what is written here takes nothing: the daemon waits for a minute, and then breaks
// off its answer.
type stillness struct {
	took time.Duration
	end  time.Time // zero: never
}

const (
	// stillAfter is how long a write takes that nobody takes in; others take far less.
	stillAfter = 5 * time.Second
	// stillSince is how long what pipes and sockets held may take to be written after it.
	stillSince = 30 * time.Second
)

// during notes how long do writes.
func (s *stillness) during(do func() error) error {
	began := time.Now()
	err := do()
	s.note(time.Since(began), time.Now())
	return err
}

func (s *stillness) note(took time.Duration, end time.Time) {
	if took >= stillAfter {
		s.took, s.end = took, end
	}
}

// brokeOff returns why an answer was broken off at a time, if that was because nobody read on; else nil.
func (s *stillness) brokeOff(at time.Time) error {
	if s.end.IsZero() || at.Sub(s.end) > stillSince {
		return nil
	}
	return cli.Exit(cli.ExitFailure, fmt.Errorf("nobody read on for %s, and the daemon has broken its answer off: the rest is missing; write it to a file first",
		s.took.Round(time.Second)))
}
