package main

import (
	"strings"
	"testing"
	"time"

	"headrace/cli"
)

// TestStillness: it is the reader whom an answer was broken off for if it stood still just before, else the daemon.
func TestStillness(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		took, before time.Duration
		want         string
	}{
		{70 * time.Second, time.Second, "nobody read on for 1m10s"}, {6 * time.Second, 0, "nobody read on for 6s"},
		{70 * time.Second, time.Minute, ""}, {time.Second, 0, ""},
	} {
		var s stillness
		s.note(c.took, now.Add(-c.before))
		s.note(time.Millisecond, now)
		code, line := 0, ""
		if err := s.brokeOff(now); err != nil {
			code, line = cli.Outcome(err)
		}
		if !strings.HasPrefix(line, c.want) || (code != 0) != (c.want != "") {
			t.Errorf("after %v, %v ago: %d, %q; want %q", c.took, c.before, code, line, c.want)
		}
	}
}
