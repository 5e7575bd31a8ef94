package dfs

import (
	"math"
	"strings"
	"time"

	"headrace/lab/sample"
	"headrace/lab/slowdisk"
	"headrace/lab/trial"
	"headrace/lab/yarn"
)

// Results is everything that `bench dfs` has measured.
type Results struct {
	trial.Circumstances
	Plan Plan `json:"plan"`
	// Idle is what the daemon of a system that has most has in memory before anybody has used it, in bytes.
	Idle map[string]int64 `json:"idle,omitempty"`
	Runs []Run            `json:"runs,omitempty"`
}

// Any reports whether anything has been measured.
func (r *Results) Any() bool { return len(r.Runs) > 0 }

// Run is what the clients of one system did once. Times are seconds, sizes bytes.
type Run struct {
	Part   string `json:"part"`
	System string `json:"system"`
	Point
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int `json:"repeat"`
	Order  int `json:"order"`

	// Bytes were read or written, by clients, within Took; Durable is until what was written was on
	// the disks.
	Bytes   int64   `json:"bytes,omitempty"`
	Took    float64 `json:"took"`
	Durable float64 `json:"durable,omitempty"`
	Disk    Count   `json:"disk"`
	Use     Use     `json:"use"`
	Names   []Names `json:"names,omitempty"`
	// Reader and Writer are how long one had to wait, and Errors what they were told, where a node
	// was lost.
	Reader Stalls   `json:"reader"`
	Writer Stalls   `json:"writer"`
	Errors []string `json:"errors,omitempty"`

	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (x Run) In() (repeat int, failure string) { return x.Repeat, x.Failure }

// Count is what all disks have done.
type Count struct {
	Read    int64   `json:"read"`
	Written int64   `json:"written"`
	Seeks   int64   `json:"seeks"`
	Busy    float64 `json:"busy"`
}

func countOf(s slowdisk.Stats) Count { return Count{s.Read, s.Written, s.Seeks, s.Busy.Seconds()} }

// Use is what daemons used: processor time, and the most memory of one of them and of all, before
// and in the run.
type Use struct {
	Names     float64 `json:"names"`
	Data      float64 `json:"data"`
	Idle      int64   `json:"idle"`
	IdleAll   int64   `json:"idle_all"`
	Memory    int64   `json:"memory"`
	MemoryAll int64   `json:"memory_all"`
}

// Names is one kind of operation on names.
type Names yarn.Phase

// Stalls are the longest operation of a client before a node was lost, and from then on.
type Stalls struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	What   string  `json:"what,omitempty"`
}

// stallsOf returns those of readers or of writers. What took less than a tenth of a second is
// nothing. What was not over when the node was lost came of that.
func stallsOf(held []yarn.Held, writer bool, lost time.Time) (s Stalls) {
	at := lost.UnixMilli()
	for _, h := range held {
		switch {
		case h.Writer != writer:
		case h.AtMs+int64(h.Took*1000) < at:
			s.Before = max(s.Before, h.Took)
		case h.Took > s.After:
			s.After, s.What = h.Took, h.What
		}
	}
	return s
}

// at returns the runs of a part at a point in a system that have numbers.
func (r *Results) at(part, system string, p Point) []Run {
	return sample.Good(sample.Where(r.Runs, func(x Run) bool { return x.Part == part && x.System == system && x.Point == p }))
}

// points returns those of a part that occur in a system.
func (r *Results) points(part, system string) []Point {
	return sample.Where(r.Plan.points(part, system), func(p Point) bool { return len(r.at(part, system, p)) > 0 })
}

// ran reports whether a part has numbers.
func (r *Results) ran(part string) bool {
	return len(r.points(part, systemHDFS))+len(r.points(part, systemOurs)) > 0
}

// A measure is a figure of a run; NaN: it has none.
type measure func(Run) float64

// over returns a measure of ours over that of HDFS, which has one node with names.
func (r *Results) over(part string, p Point, f measure) sample.Spread {
	theirs := p
	if p.Nodes > 0 {
		theirs.Nodes = 1
	}
	return sample.Over(r.at(part, systemOurs, p), r.at(part, systemHDFS, theirs), f)
}

// speed is in bytes a second; of what was written until it was on the disks.
func speed(x Run) float64 { return float64(x.Bytes) / math.Max(x.Took, x.Durable) }

// clientSpeed is as clients see it.
func clientSpeed(x Run) float64 { return float64(x.Bytes) / x.Took }

// seeks are in a second, of one disk. Without a model nobody counts.
func seeks(x Run) float64 {
	if x.Disk.Busy == 0 {
		return math.NaN()
	}
	return float64(x.Disk.Seeks) / math.Max(x.Took, x.Durable) / float64(shapes[x.Part].machines)
}

// diskShare is how long a disk was busy, of the time.
func diskShare(x Run) float64 {
	if x.Disk.Busy == 0 {
		return math.NaN()
	}
	return x.Disk.Busy / math.Max(x.Took, x.Durable) / float64(shapes[x.Part].machines)
}

// moved is how many bytes the daemons have moved: each copy counts.
func (x Run) moved() float64 {
	if x.Part == partWrite {
		return copies * float64(x.Bytes)
	}
	return float64(x.Bytes)
}

func dataCPU(x Run) float64  { return x.Use.Data / (x.moved() / 1e9) }
func namesCPU(x Run) float64 { return x.Use.Names / (x.moved() / 1e9) }
func allCPU(x Run) float64   { return dataCPU(x) + namesCPU(x) }

func readerStall(x Run) float64 { return x.Reader.After }
func writerStall(x Run) float64 { return x.Writer.After }
func errorsOf(x Run) float64    { return float64(len(x.Errors)) }

// kinds are the operations on names that occur.
func (r *Results) kinds() (all []string) {
	for _, x := range r.Runs {
		if len(x.Names) > 0 {
			for _, n := range x.Names {
				all = append(all, n.What)
			}
			return all
		}
	}
	return nil
}

// ofKind takes a figure of one kind of operation.
func ofKind(kind string, f func(Names) float64) measure {
	return func(x Run) float64 {
		for _, n := range x.Names {
			if n.What == kind {
				return f(n)
			}
		}
		return math.NaN()
	}
}

func rate(n Names) float64 { return float64(n.Count) / n.Took }
func half(n Names) float64 { return n.Half }
func most(n Names) float64 { return n.Most }

// changes reports whether an operation has to be durable.
func changes(kind string) bool { return !strings.Contains("stat open list", kind) }
