package solo

import (
	"log/slog"
	"sync"
	"time"
)

// seldom logs what may happen often. It is safe for concurrent use.
type seldom struct {
	log *slog.Logger
	clk clock

	mu   sync.Mutex
	said map[string]time.Duration
}

func newSeldom(log *slog.Logger, clk clock) *seldom {
	return &seldom{log: log, clk: clk, said: map[string]time.Duration{}}
}

// warn logs at most once a minute for each key.
func (s *seldom) warn(key, msg string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clk.boot()
	if last, ok := s.said[key]; ok && now-last < time.Minute {
		return
	}
	s.said[key] = now
	s.log.Warn(msg, args...)
}
