package solo

import (
	"testing"
	"time"

	"headrace/proc"
)

func TestReadSpeed(t *testing.T) {
	const mb = 1 << 20
	var s readSpeed
	for _, x := range []struct {
		bytes int64
		took  time.Duration
		want  readSpeed
	}{
		{3 * mb, time.Second, 0},          // too little
		{100 * mb, time.Millisecond, 0},   // too soon
		{-100 * mb, time.Second, 0},       // another supervisor
		{50 * mb, time.Second, 50 * mb},   // the first
		{200 * mb, time.Second, 200 * mb}, // a faster one
		{100 * mb, time.Second, 199 * mb}, // it did something else, too
		{99 * mb, time.Second, 198 * mb},  // and again
		{0, time.Hour, 198 * mb},          // it read nothing
		{600 * mb, 2 * time.Second, 300 * mb},
	} {
		before := proc.Usage{ReadBytes: 1000 * mb, Running: time.Minute}
		s.learn(before, proc.Usage{ReadBytes: before.ReadBytes + x.bytes, Running: before.Running + x.took})
		if d := s - x.want; d > 1 || d < -1 {
			t.Errorf("after %+v: %v", x, s)
		}
	}
}
