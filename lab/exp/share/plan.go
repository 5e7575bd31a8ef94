package share

import (
	"fmt"
	"time"

	"headrace/lab/slowdisk"
)

// What everything is scaled by. Three machines are left of the paper's 24, with a page cache
// of 128 MiB each for its 16 GB. A block has 8 MiB for 128 MB, so that a machine's cache has
// 16 blocks for 128: fewer would be too coarse, and more would be more work for the few
// processors here. The disk transfers a sixteenth of what a usual one does, so that a block
// takes as long as there, and a job's time is the disks' and not the processors'.
const (
	servers = 3
	block   = 8 << 20
	slower  = 16

	// sendBuffer bounds what a DataNode sends that nobody has asked for yet. Who counts lines reads the first of them of
	// the block after its own, and then closes the connection; the buffers of the kernel would take a larger part of a
	// small block than of one of 128 MB.
	sendBuffer = 16 << 10

	// onePart is how many blocks a file of the data has: the smallest data set. Those of the
	// paper have one, two and four times as much.
	onePart = 32

	// timeScale is how much faster a job is than the paper's, as far as disks decide: 512 GB on
	// 24 disks of 150 MB/s take 142 s, and here 19 s.
	timeScale = 7.5
)

// smallest is the smallest data set as a part of all page caches: 256 GB with 384 GB.
const smallest = 256. / 384

// factors are the data sets of quartet, section 5.2, as parts of all page caches.
var factors = []float64{smallest, 2 * smallest, 4 * smallest}

// gaps are those between the starts of two jobs, in the paper's time. Its introduction has
// 0 and 4 minutes.
var gaps = []time.Duration{0, time.Minute, 4 * time.Minute}

// diskHere is the usual modelled hard disk on that scale.
var diskHere = slowdisk.HardDisk().Slower(slower)

// Plan is what `bench share` runs. Sizes are bytes, times seconds.
type Plan struct {
	Servers     int   `json:"servers"`
	Replication int   `json:"replication"`
	Block       int64 `json:"block"`
	// Cache is what each machine has of page cache for blocks, Part what each file has.
	Cache int64 `json:"cache"`
	// Locked is how much of it HDFS's own cache may hold. With more the kernel ends DataNodes, which cannot give it back.
	Locked int64 `json:"locked"`
	Part   int64 `json:"part"`
	// Executors of each application have Cores each.
	Executors int `json:"executors"`
	Cores     int `json:"cores"`
	// TimeScale divides the paper's times.
	TimeScale float64 `json:"time_scale"`
}

func planned() Plan {
	cache := int64(float64(onePart*block)/smallest) / servers
	return Plan{Servers: servers, Replication: servers, Block: block, Part: onePart * block,
		Cache: cache, Locked: cache * 5 / 8, Executors: servers, Cores: 2, TimeScale: timeScale}
}

// data returns the files of a data set.
func (p Plan) data(factor float64) (files []string) {
	for i := range int(factor/smallest + 0.5) {
		files = append(files, fmt.Sprint("/share/part", i))
	}
	return files
}

// practice is a file that every application counts the lines of before it is measured, two
// blocks in each place for a task.
const practice = "/share/practice"

func (p Plan) practice() int64 { return int64(2*p.Executors*p.Cores) * p.Block }

// gap is that between two jobs here.
func (p Plan) gap(there time.Duration) time.Duration {
	return time.Duration(float64(there) / p.TimeScale)
}

// entry is one run: a pair of jobs.
type entry struct {
	part   string
	mode   string
	factor float64
	gap    time.Duration // between their starts, in the paper's time
}

func (e entry) String() string {
	s := fmt.Sprintf("%.2f times the page cache, %s", e.factor, e.mode)
	if e.part == partApart {
		s = fmt.Sprintf("%v apart, %s", e.gap, s)
	}
	return s
}

// entries returns the runs of a part in every mode.
func entries(part string, modes []string, quick bool) (all []entry) {
	for _, mode := range modes {
		switch part {
		case partRow:
			here := factors
			if quick {
				here = factors[:1]
			}
			for _, f := range here {
				all = append(all, entry{part: part, mode: mode, factor: f})
			}
		case partApart:
			for _, gap := range gaps {
				all = append(all, entry{part, mode, factors[1], gap})
			}
		case partFrameworks:
			all = append(all, entry{part: part, mode: mode, factor: factors[0]})
		}
	}
	return all
}
