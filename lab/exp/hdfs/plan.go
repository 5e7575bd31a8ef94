package hdfs

import (
	"fmt"
	"time"

	"headrace/lab/slowdisk"
	"headrace/lab/yarn"
	"headrace/paper"
	"headrace/trace/swim"
)

// What everything is scaled by. A block of the paper's has 64 MB and here 1 MiB; it takes a
// disk as long as there, and three servers of the eight are left. So processors, of which
// there are few, have little to do for each block, and reading and the start of a job are
// to each other as in the paper.
const (
	shrink  = 64
	servers = 3

	paperBlock  = 64 << 20
	block       = paperBlock / shrink
	paperMedium = 512 << 20
	// delay is how much longer jobs are held back in figure 8.
	delay = 10 * time.Second
)

// diskHere is the usual modelled hard disk on that scale.
var diskHere = slowdisk.HardDisk().Slower(shrink)

// Plan is what `bench hdfs` runs. Sizes are bytes, times seconds.
type Plan struct {
	Servers int   `json:"servers"`
	Block   int64 `json:"block"`
	// Shrink divides the paper's sizes.
	Shrink float64 `json:"shrink"`
	// Jobs of the trace are submitted within Span; Input is that of all.
	Trace string  `json:"trace"`
	Jobs  int     `json:"jobs"`
	Span  float64 `json:"span"`
	Input int64   `json:"input"`
	Delay float64 `json:"delay"`
	// Scale of the tables that queries read (TPC-H's scale factor).
	Scale float64 `json:"scale,omitempty"`
}

// Size classes of jobs (figure 5).
const (
	classSmall  = "small"
	classMedium = "medium"
	classLarge  = "large"
)

var classes = []string{classSmall, classMedium, classLarge}

// A plannedJob is a job as it is submitted, in any mode.
type plannedJob struct {
	name    string
	kind    string // of the Submitter
	class   string
	submit  time.Duration
	inputs  []string
	input   int64
	reduces int
	// maps is how many map tasks share the input.
	maps       int
	properties map[string]string
	sql        string // of a query
}

const (
	// mostMaps is how many map tasks a job has at most: as many containers as the processors
	// can start in reasonable time. Each reads readersHere blocks at a time, so that a
	// server's disk serves as many readers as it would with a task for each block.
	mostMaps    = 6
	readersHere = 4
	// uberBlocks is up to which input a job runs in its application master.
	uberBlocks = 3
)

// planSwim takes the first jobs of the day, on the paper's scale (section IV.B). As in
// SWIM's own replay the input is a number of files, of a block each and at least one, which
// no other job reads, and what a job shuffles and writes is a part of it.
func planSwim(jobs int, span time.Duration) (Plan, []plannedJob, error) {
	p := Plan{Servers: servers, Block: block, Shrink: shrink, Trace: swim.FacebookDayName, Jobs: jobs,
		Span: span.Seconds(), Delay: delay.Seconds()}
	of := paper.OfIgnem()
	first, err := swim.Collect(swim.First(swim.FacebookDay(), of.Jobs))
	if err != nil {
		return p, nil, err
	}
	var input int64
	for _, j := range first {
		input += j.Input
	}
	all, err := swim.Collect(swim.Scaled(swim.First(swim.FacebookDay(), jobs), swim.Scale{Bytes: of.Input / float64(input)}))
	if err != nil {
		return p, nil, err
	}
	begin, last := all[0].Submit, all[len(all)-1].Submit
	var out []plannedJob
	for _, j := range all {
		there := max(1, (j.Input+paperBlock-1)/paperBlock)
		here := (there*servers + int64(of.Nodes) - 1) / int64(of.Nodes)
		r := planned(j.ID, kindRatios, here)
		r.class = classOf(j.Input)
		r.submit = time.Duration(float64(j.Submit-begin) / float64(last-begin) * float64(span))
		part := func(bytes int64) string {
			return fmt.Sprintf("%.6f", min(1, float64(bytes)/float64(there*paperBlock)))
		}
		r.properties["headrace.ratio.shuffle"], r.properties["headrace.ratio.output"] = part(j.Shuffle), part(j.Output)
		r.properties["headrace.ratio.readers"] = fmt.Sprint(readersHere)
		switch {
		case j.Shuffle == 0:
			r.reduces = 0
		case here > uberBlocks:
			r.reduces = 2
		}
		r.inputs = files("/swim/"+j.ID, here)
		p.Input += r.input
		out = append(out, r)
	}
	return p, out, nil
}

// planned returns a job with an input of so many blocks.
func planned(name, kind string, blocks int64) plannedJob {
	maps := min(mostMaps, blocks)
	if blocks <= uberBlocks {
		maps = 1
	}
	perMap := (blocks + maps - 1) / maps * block
	return plannedJob{name: name, kind: kind, input: blocks * block, maps: int(maps), reduces: 1, properties: map[string]string{
		"mapreduce.input.fileinputformat.split.maxsize": fmt.Sprint(perMap),
		"mapreduce.job.ubertask.enable":                 "true",
		"mapreduce.job.ubertask.maxbytes":               fmt.Sprint(uberBlocks * block),
		"mapreduce.map.speculative":                     "false",
		"mapreduce.reduce.speculative":                  "false",
		"mapreduce.client.submit.file.replication":      "1",
	}}
}

// Kinds of jobs, as the Submitter calls them.
const (
	kindRatios    = "ratios"
	kindWordcount = "wordcount"
	kindSort      = "sort"
)

func classOf(input int64) string {
	switch {
	case input <= paperBlock:
		return classSmall
	case input <= paperMedium:
		return classMedium
	}
	return classLarge
}

// files names those of an input, of a block each.
func files(dir string, blocks int64) []string {
	var out []string
	for i := range blocks {
		out = append(out, fmt.Sprintf("%s/%03d", dir, i))
	}
	return out
}

// onServers returns how many blocks three of the paper's servers have of an input of so
// many gigabytes.
func onServers(gigabytes float64) int64 {
	return int64(gigabytes * 1e9 / paperBlock * servers / float64(paper.OfIgnem().Nodes))
}

// planWordcounts has the sizes of figure 8; all are the beginning of the same text, as in
// the paper.
func planWordcounts(quick bool) (out []plannedJob) {
	sizes := []float64{1, 2, 4, 6, 8, 12}
	if quick {
		sizes = []float64{2}
	}
	for _, gb := range sizes {
		j := planned(fmt.Sprintf("wordcount%g", gb), kindWordcount, onServers(gb))
		j.inputs = files("/words", onServers(gb))
		out = append(out, j)
	}
	return out
}

// planSort is that of table III with a quarter of its 40 GB.
func planSort(quick bool) plannedJob {
	blocks := onServers(10)
	if quick {
		blocks = 12
	}
	j := planned("sort", kindSort, blocks)
	j.reduces = servers
	j.inputs = files("/sort", blocks)
	return j
}

// order returns the order to run a job, in a run with a number of its own.
func (j plannedJob) order(run int) yarn.SubmitterOrder {
	name := fmt.Sprintf("%s-%d", j.name, run)
	properties := map[string]string{"mapreduce.job.queuename": "low"}
	for k, v := range j.properties {
		properties[k] = v
	}
	return yarn.SubmitterOrder{Name: name, Kind: j.kind, Inputs: j.inputs, Output: "/out/" + name, Properties: properties, Reduces: j.reduces}
}
