package board

import (
	"time"

	"headrace"
)

// Node is the machine as shown to people. It is immutable.
type Node struct {
	Slots, SlotsUsed    float64
	Memory, MemoryUsed  int64
	SwapTotal, SwapFree int64
	SwapOut, SwapIn     float64
	Stores              []Store
	States              [headrace.Lost + 1]int
	// Waiting is how many tasks wait to run, held ones not counted.
	Waiting int
	// Held is how many tasks that have not ended are held.
	Held    int
	Policy  string
	Started time.Time
	Host    string
	// Alone are the tasks that were left alone when the daemon started, by their names.
	Alone []LeftAlone
}

// LeftAlone is a task that the records did not know and that could not be taken in, and why.
type LeftAlone struct {
	ID  headrace.TaskID
	Why string
}

// Store is a checkpoint store as shown to people.
type Store struct {
	headrace.StoreView
	Dir      string
	Compress bool
	Used     int64
	// Size is that of its file system, and Away whether it cannot be used now.
	Size int64
	Away bool
}
