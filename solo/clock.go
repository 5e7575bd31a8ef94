package solo

import (
	"time"

	"headrace/internal/linux"
)

// clock tells the time; tests replace it.
type clock interface {
	// boot returns the time since the machine was started (CLOCK_BOOTTIME): the same
	// scale for every daemon of one boot, without jumps.
	boot() time.Duration
	// wall is for people, and for what lasts longer than a boot.
	wall() time.Time
}

type systemClock struct{}

func (systemClock) boot() time.Duration { return linux.Clock() }
func (systemClock) wall() time.Time     { return time.Now() }
