package disk

import "time"

// At returns the device of a file by numbers, for tests without such a file.
func (d *Devices) At(id ID, mount int) (Device, bool) { return d.at(id, mount) }

// Impatient returns a scheduler with another Patience, for tests that cannot wait for that.
func Impatient(patience time.Duration) *Scheduler { return &Scheduler{patience: patience} }
