package sim

import (
	"time"

	"headrace/policy"
)

// Config is a cluster and how it is run. Use DefaultConfig and change it.
type Config struct {
	// Nodes is how many there are, all of them alike.
	Nodes int  `json:"nodes"`
	Node  Node `json:"node"`
	// Medium holds the checkpoints, on every node one.
	Medium Medium `json:"medium"`
	Costs  Costs  `json:"costs"`
	Power  Power  `json:"power"`
	// Reading is how inputs are read; tasks without an input do not care.
	Reading Reading `json:"reading"`

	Policy policy.Config `json:"policy"`
	// Interval is the least time from one decision to the next.
	Interval time.Duration `json:"interval"`
	// KnowShare: tasks say how much of them is done (headrace.Progress.Share).
	KnowShare bool `json:"know_share"`

	// Seed decides where files lie.
	Seed uint64 `json:"seed"`
	// Check verifies the invariants of the package comment as it runs; a violation
	// ends the run with an error.
	Check bool `json:"-"`
}

// Node is one machine. Bandwidths are in bytes per second.
type Node struct {
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"`
	Swap   int64   `json:"swap"`
	// SwapOut and SwapIn are the bandwidths of paging; where there is no Swap they
	// mean nothing.
	SwapOut float64 `json:"swap_out"`
	SwapIn  float64 `json:"swap_in"`
	// Net is the bandwidth to other nodes; 0: tasks never move.
	Net float64 `json:"net"`
	// Store is the room for checkpoints.
	Store int64 `json:"store"`
}

// Medium is what checkpoints are kept on, as it was measured.
type Medium struct {
	// Name is hdd, ssd, nvm or whatever the file of measurements calls it.
	Name string `json:"name"`
	// Write and Read are the bandwidths of whole dumps and restores, in bytes per
	// second.
	Write float64 `json:"write"`
	Read  float64 `json:"read"`
	// DumpOverhead and RestoreOverhead do not depend on the size.
	DumpOverhead    time.Duration `json:"dump_overhead"`
	RestoreOverhead time.Duration `json:"restore_overhead"`
}

// Costs are the times that mechanisms take apart from moving memory, and shares of
// processors, as measured.
type Costs struct {
	Start time.Duration `json:"start"`
	Kill  time.Duration `json:"kill"`
	Stop  time.Duration `json:"stop"`
	// Resume is from the order until the first instruction, without page-ins.
	Resume time.Duration `json:"resume"`
	// Moving is how many processors a dump or a restore keeps busy; for the energy.
	Moving float64 `json:"moving"`
}

// Power is what a node draws, in watts: Idle when nothing runs, Peak when all CPUs
// are busy, in proportion in between (checkpoint-preemption, section 3.3.2).
type Power struct {
	Idle float64 `json:"idle"`
	Peak float64 `json:"peak"`
}

// MaxChain is how many checkpoints of a task build on each other; the next one is
// complete.
const MaxChain = 5
