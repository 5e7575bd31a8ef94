package inspect

import (
	"testing"

	"headrace/internal/linux"
)

func TestLostSession(t *testing.T) {
	type p = linux.Stat
	root := p{PID: 2, PPID: 1, SID: 2}
	for name, c := range map[string]struct {
		tree []p
		lost int // the process; 0: none
	}{
		"one session":                  {[]p{root, {PID: 3, PPID: 2, SID: 2}, {PID: 4, PPID: 3, SID: 2}}, 0},
		"a session of its own":         {[]p{root, {PID: 3, PPID: 2, SID: 3}, {PID: 4, PPID: 3, SID: 3}}, 0},
		"a daemon":                     {[]p{root, {PID: 3, PPID: 2, SID: 2}, {PID: 5, PPID: 2, SID: 4}}, 0},
		"two daemons of one session":   {[]p{root, {PID: 5, PPID: 2, SID: 4}, {PID: 6, PPID: 2, SID: 4}, {PID: 7, PPID: 6, SID: 4}}, 0},
		"forked before setsid":         {[]p{root, {PID: 3, PPID: 2, SID: 3}, {PID: 4, PPID: 3, SID: 2}}, 0},
		"two levels before setsid":     {[]p{root, {PID: 3, PPID: 2, SID: 3}, {PID: 4, PPID: 3, SID: 4}, {PID: 5, PPID: 4, SID: 2}}, 0},
		"born in two sessions":         {[]p{root, {PID: 3, PPID: 2, SID: 3}, {PID: 4, PPID: 3, SID: 4}, {PID: 5, PPID: 4, SID: 2}, {PID: 6, PPID: 4, SID: 3}}, 6},
		"adopted by another subreaper": {[]p{root, {PID: 3, PPID: 2, SID: 2}, {PID: 5, PPID: 3, SID: 4}}, 5},
		"beside the root":              {[]p{root, {PID: 3, PPID: 2, SID: 2}, {PID: 5, PPID: 1, SID: 4}}, 5},
		"a session beside":             {[]p{root, {PID: 3, PPID: 2, SID: 3}, {PID: 4, PPID: 2, SID: 2}, {PID: 5, PPID: 4, SID: 3}}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			got := lostSession(c.tree, 2)
			if got == nil && c.lost != 0 || got != nil && got.PID != c.lost {
				t.Errorf("got %v, want process %d", got, c.lost)
			}
		})
	}
}
