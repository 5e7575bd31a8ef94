package sim

import (
	"fmt"
	"time"

	"headrace/policy/prefetch"
	"headrace/trace"
)

// Reading is how inputs are read. Bandwidths are in bytes per second; without Disk
// inputs take no time, and nothing of the rest matters.
//
// Files are made of blocks that lie on the disks of several nodes chosen at random
// (Config.Seed), as in HDFS. A task reads one block of its input after the other, and
// then runs. It reads from the memory or the disk of its own node or from one that
// has a replica, whose network Node.Net all share who read from there. What a disk
// has read whole is in the page cache of its node.
//
// A task that has to leave keeps what it has read, unless it is killed: then the time
// since its last checkpoint is waste, and it reads again.
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
	Cache  int64           `json:"cache"`
	Buffer int64           `json:"buffer"`
	Warm   prefetch.Config `json:"warm"`
	// Lead is how long before its tasks a job is announced, so that its input can be
	// warmed.
	Lead time.Duration `json:"lead"`
	// ByResidency: tasks go where their input is in memory, those first for which it
	// is (quartet, section 4.2), and what is in memory counts in what it costs to make room.
	ByResidency bool `json:"by_residency"`
}

// defaultReading returns what was measured of a hard disk that is modelled
// (`headrace-lab bench read` and `bench warm`, 2026-11-21): Disk is one reader of its
// own regions, Shared four and more, Memory 869 MB of inputs that were locked in memory
// over the 298 ms that their readers took together. The rest was not measured: blocks
// are those of HDFS, sizes are examples.
func defaultReading() Reading {
	const mib, gib = 1 << 20, 1 << 30
	return Reading{
		Disk: 148e6, Shared: 80e6, Memory: 2.9e9,
		Block: 128 * mib, Replicas: 3,
		Cache: 16 * gib, Buffer: 4 * gib,
		ByResidency: true,
	}
}

func (r Reading) validate(need func(ok bool, format string, args ...any)) {
	if r.Disk == 0 {
		return
	}
	finite := func(v float64) bool { return v > 0 && v <= 1e15 }
	need(finite(r.Disk) && finite(r.Shared) && finite(r.Memory), "reading: bandwidths of %v, %v shared and %v from memory: want more than 0, or a disk of 0 for inputs that take no time", r.Disk, r.Shared, r.Memory)
	need(r.Block > 0, "reading: blocks of %d bytes: want more than 0", r.Block)
	need(r.Replicas > 0, "reading: %d replicas: want at least 1", r.Replicas)
	need(r.Cache >= 0 && r.Buffer >= 0 && r.Buffer <= r.Cache, "reading: %d bytes of page cache, %d of them for warming: want 0 or more, and the second within the first", r.Cache, r.Buffer)
	need(r.Warm.Order == "" || r.Warm.Order == prefetch.SmallestFirst || r.Warm.Order == prefetch.FIFO, "reading: unknown order of warming %q: want %s or %s", r.Warm.Order, prefetch.SmallestFirst, prefetch.FIFO)
}

// checkReading says why the inputs of w cannot be read.
func (c Config) checkReading(w *trace.Workload) error {
	if c.Reading.Disk == 0 || c.Node.Net > 0 || c.Reading.Replicas >= c.Nodes {
		return nil
	}
	for i := range w.Tasks {
		if w.Tasks[i].Input > 0 {
			return fmt.Errorf("sim: the workload has inputs, blocks lie on %d of %d nodes, and there is no network: give nodes one, or each node a replica", c.Reading.Replicas, c.Nodes)
		}
	}
	return nil
}

// ReadingResult is how inputs were read. Of what tasks read, FromMemory was there when
// it was wanted; the rest was read from disks for them.
type ReadingResult struct {
	// Bytes is what tasks have read, Lost the part that they read in vain because they
	// were killed.
	Bytes int64 `json:"bytes"`
	Lost  int64 `json:"lost"`
	// FromMemory was there when it was wanted, Warmed by warming, the rest because
	// somebody had read it before.
	FromMemory int64 `json:"from_memory"`
	Warmed     int64 `json:"warmed"`
	// Remote came from the disk of another node, Network from its disk or memory.
	Remote  int64 `json:"remote"`
	Network int64 `json:"network"`
	// Disks is what disks have read, Ahead the part that warming has.
	Disks int64 `json:"disks"`
	Ahead int64 `json:"ahead"`
	// DiskBusy is the share of the makespan in which the average disk was busy.
	DiskBusy float64 `json:"disk_busy"`
	// Pinned is how much warming kept in memory on the average node over the makespan,
	// PinnedMost the most on one node.
	Pinned     float64 `json:"pinned"`
	PinnedMost int64   `json:"pinned_most"`
	// Time is the mean of the tasks' reading, in seconds.
	Time float64 `json:"time"`
	// Jobs are those with inputs, by size: small, medium, large.
	Jobs []JobSize `json:"jobs"`
}

// JobSize is the jobs whose inputs are of one size: small ones up to 64 MB, medium
// ones up to 512 MB, and large ones (ignem, figure 5). Times are means in seconds.
type JobSize struct {
	Name  string `json:"name"`
	Jobs  int    `json:"jobs"`
	Tasks int    `json:"tasks"` // that read
	// Response is that of jobs, Time how long a task reads.
	Response float64 `json:"response"`
	Time     float64 `json:"time"`
}

var sizeNames = [...]string{"small", "medium", "large"}

// sizeOf returns the index of the size of a job that reads so many bytes.
func sizeOf(input int64) int {
	switch {
	case input <= 64<<20:
		return 0
	case input <= 512<<20:
		return 1
	}
	return 2
}
