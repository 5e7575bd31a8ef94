package sim

import (
	"time"

	"headrace/policy"
)

// Reading is how inputs are read. Bandwidths are in bytes per second.
type Reading struct {
	// Disk is the bandwidth of a node's disk to one reader at a time, Shared that to
	// several together when nobody puts them in order. Memory is that of what is in
	// memory, to each reader.
	Disk   float64 `json:"disk"`
	Shared float64 `json:"shared"`
	Memory float64 `json:"memory"`
	// Block is the size of a file's blocks, Replicas on how many nodes each lies.
	Block    int64 `json:"block"`
	Replicas int   `json:"replicas"`
	// Cache is the page cache of a node, Buffer the part of it that warming may pin;
	// 0: no warming.
	Cache  int64             `json:"cache"`
	Buffer int64             `json:"buffer"`
	Warm   policy.WarmConfig `json:"warm"`
	// Lead is how long before its tasks a job is announced, so that its input can be
	// warmed.
	Lead time.Duration `json:"lead"`
	// ByResidency: tasks go where their input is in memory, those first for which it
	// is (quartet, section 4.2).
	ByResidency bool `json:"by_residency"`
}

// ReadingResult is how inputs were read.
type ReadingResult struct {
	Bytes int64 `json:"bytes"`
	// FromMemory was there when it was wanted, Warmed by warming, the rest because
	// somebody had read it before.
	FromMemory int64 `json:"from_memory"`
	Warmed     int64 `json:"warmed"`
	// Remote came from the disk of another node.
	Remote int64 `json:"remote"`
	// Time is the mean of the tasks' reading, in seconds.
	Time float64 `json:"time"`
}
