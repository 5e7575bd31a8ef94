package blocks

import "time"

// speed is how fast blocks have been read lately, in bytes per second.
type speed struct {
	migrated int64
	at       time.Time
	busy     bool
	value    float64
}

// of takes in how much had been read by now, and whether there was something to read all
// the time since; it returns the mean of the last times in which there was.
func (s *speed) of(migrated int64, busy bool, now time.Time) float64 {
	if elapsed := now.Sub(s.at).Seconds(); s.busy && elapsed > 0 && migrated > s.migrated {
		const newest = 0.3 // what the last time counts
		rate := float64(migrated-s.migrated) / elapsed
		if s.value == 0 {
			s.value = rate
		}
		s.value += newest * (rate - s.value)
	}
	s.migrated, s.at, s.busy = migrated, now, busy
	return s.value
}
