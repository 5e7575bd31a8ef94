package dfs

import (
	"fmt"

	"headrace/lab/slowdisk"
)

const (
	// several is on how many machines a file system is where it has several: one more than a block
	// has copies, so that another node can take the place of one that is lost.
	several = 4
	copies  = 3
	// slower is how many times less than the usual one the disks of several machines transfer: all
	// bytes go through the few processors here, and are written three times.
	slower = 4
)

// Plan is what `bench dfs` runs. Sizes are bytes, times seconds.
type Plan struct {
	// Readers read a file of ReadBytes each, side by side, and have written them so.
	Readers   int   `json:"readers"`
	ReadBytes int64 `json:"read_bytes"`
	// Writers write WriteBytes together.
	Writers    []int `json:"writers"`
	WriteBytes int64 `json:"write_bytes"`
	// Threads make Names directories each, with a file in each.
	Threads int `json:"threads"`
	Names   int `json:"names"`
	// Nodes are how many of ours have names.
	Nodes []int `json:"nodes"`
	// A node is lost after Before of Loss, while LossReaders and LossWriters move a piece of 64 KB
	// every EveryMs.
	Loss        float64 `json:"loss"`
	Before      float64 `json:"before"`
	LossReaders int     `json:"loss_readers"`
	LossWriters int     `json:"loss_writers"`
	LossBytes   int64   `json:"loss_bytes"`
	EveryMs     int     `json:"every_ms"`
}

func planned(quick bool) Plan {
	p := Plan{Readers: 16, ReadBytes: 64 << 20, Writers: []int{4, 16}, WriteBytes: 512 << 20, Threads: 64, Names: 100, Nodes: []int{1, 3},
		Loss: 30, Before: 6, LossReaders: 8, LossWriters: 8, LossBytes: 8 << 20, EveryMs: 50}
	if quick {
		p.ReadBytes, p.Writers, p.WriteBytes, p.Names = 4<<20, []int{4}, 16<<20, 3
		p.Loss, p.Before, p.LossReaders, p.LossWriters, p.LossBytes, p.EveryMs = 6, 1, 2, 2, 1<<20, 100
	}
	return p
}

// shape is the cluster that a part wants.
type shape struct {
	machines int
	disk     slowdisk.Model // zero: none
}

// shapes are those of the parts. Readers have the usual disk, on which blocks that are read only
// are never written; where there are writers the page cache takes up what they write.
var shapes = map[string]shape{
	partRead:   {1, slowdisk.HardDisk()},
	partNames:  {several, writtenBack()},
	partWrite:  {several, writtenBack()},
	partLoss:   {several, writtenBack()},
	partDevice: {machines: 1},
}

func writtenBack() slowdisk.Model {
	m := slowdisk.HardDisk().Slower(slower)
	m.WriteBack = true
	return m
}

// A Point is what is compared between the systems, within a part.
type Point struct {
	// Nodes that serve names, Writers that write; 0: not varied.
	Nodes   int `json:"nodes,omitempty"`
	Writers int `json:"writers,omitempty"`
	// Lost is which node, in the part that has one.
	Lost string `json:"lost,omitempty"`
	// What is done, in the part of the device: read or write.
	What string `json:"what,omitempty"`
}

// Which node is lost. Of HDFS it is a DataNode always: without its NameNode nothing goes on.
const (
	lostLeader = "the one that leads"
	lostOther  = "another one"
)

const (
	whatRead  = "read"
	whatWrite = "write"
)

func (p Point) String() string {
	switch {
	case p.Nodes > 0:
		return fmt.Sprintf("%d nodes", p.Nodes)
	case p.Writers > 0:
		return fmt.Sprintf("%d writers", p.Writers)
	}
	return p.Lost + p.What
}

// entry is one run.
type entry struct {
	part   string
	system string
	Point
}

func (e entry) String() string {
	if s := e.Point.String(); s != "" {
		return s + ", " + e.system
	}
	return e.system
}

// points are those of a part in a system.
func (p Plan) points(part, system string) (all []Point) {
	switch part {
	case partNames:
		for _, n := range p.Nodes {
			if n == 1 || system == systemOurs {
				all = append(all, Point{Nodes: n})
			}
		}
	case partWrite:
		for _, n := range p.Writers {
			all = append(all, Point{Writers: n})
		}
	case partLoss:
		if system == systemOurs {
			all = append(all, Point{Lost: lostLeader})
		}
		all = append(all, Point{Lost: lostOther})
	case partDevice:
		all = []Point{{What: whatRead}, {What: whatWrite}}
	default:
		all = []Point{{}}
	}
	return all
}

// entries returns the runs of a part in every system.
func (p Plan) entries(part string, systems []string) (all []entry) {
	for _, s := range systems {
		for _, at := range p.points(part, s) {
			all = append(all, entry{part, s, at})
		}
	}
	return all
}
