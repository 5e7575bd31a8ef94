package prefetch

import (
	"fmt"

	"headrace"
	"headrace/policy/internal/words"
)

// Ref is the reference of one job to one block: it is expected to read it. A
// block stays in memory as long as it has a reference, and is released when it
// has none (ignem, section III.A.4).
type Ref struct {
	// Ended: the job has ended, or whoever asked does not want it any more.
	Ended bool
	// Implicit: the job has asked for its references to go as it reads.
	Implicit bool
	// Read: the job has read all of the block that it wanted.
	Read bool
}

// DropRef reports whether a reference goes, and why. Nothing else makes one go
// but CleanUp: room that is wanted for other blocks does not (ignem, section
// III.A.3).
func DropRef(r Ref) (reason string, drop bool) {
	switch {
	case r.Ended:
		return "the job has ended", true
	case r.Implicit && r.Read:
		return "the job has read it", true
	}
	return "", false
}

// Holder is a job that has references, or wants to have.
type Holder struct {
	Job headrace.JobID
	// Alive: whoever runs the jobs confirms that it has not ended. Only asked when
	// NeedsCleanUp says so.
	Alive bool
	// Keep: a user asked for the blocks without a job; they stay until a user lets
	// them go.
	Keep bool
	// Pinned is how many bytes it has references to.
	Pinned int64
}

// Drop says that a holder loses all of its references.
type Drop struct {
	// Holder is an index into what CleanUp was given.
	Holder int
	// Reason is for people.
	Reason string
}

// cleanUpAt is the share of the room from which on it is asked whether the jobs that
// hold memory are still there.
const cleanUpAt = 0.8

// NeedsCleanUp reports whether so much of the room is taken, or a block waits for
// some, that it is worth asking which holders are still alive.
func NeedsCleanUp(r Room) bool {
	if r.Blocks == 0 {
		return false
	}
	return r.Waiting || float64(r.Pinned) >= cleanUpAt*float64(r.Budget) ||
		r.MaxBlocks > 0 && float64(r.Blocks) >= cleanUpAt*float64(r.MaxBlocks)
}

// CleanUp returns which holders lose their references because they ended without
// saying so (ignem, section III.A.4). It is nobody while there is room enough.
func CleanUp(r Room, holders []Holder) []Drop {
	if !NeedsCleanUp(r) {
		return nil
	}
	var drops []Drop
	for i, h := range holders {
		if !h.Alive && !h.Keep {
			drops = append(drops, Drop{i, fmt.Sprintf("job %s has ended without saying so; it held %s", h.Job, words.Size(h.Pinned))})
		}
	}
	return drops
}
