package warm

import (
	"fmt"
	"path/filepath"
	"time"

	"headrace/lab/rig"
	"headrace/lab/work"
	"headrace/trace/swim"
)

// The workload of ignem, section IV.B: the first 200 jobs of the trace, scaled to
// 170 GB of input and half the time between arrivals, on a cluster of 8 servers
// with blocks of 64 MB.
const (
	paperJobs    = 200
	paperInput   = 170e9
	paperTime    = 0.5
	paperServers = 8
	paperBlock   = 64 << 20
	// Jobs are small up to a block and medium-sized up to 512 MB (figure 5).
	paperMedium = 512 << 20
	// A job starts reading 10 s after it was submitted at the earliest (section
	// IV.F): the scheduler's heartbeats, containers, virtual machines. Here it is
	// held back for so long.
	paperLead = 10 * time.Second
	// A job reads so many blocks at a time, on a server with 12 hardware threads.
	readersHere, slotsHere = 4, 12
	// What a job shuffles and writes goes at this rate on each server. With it jobs
	// take 1.1 s on average beyond waiting and reading, as in table I they do
	// with inputs in memory.
	paperRest = 400e6
)

// shrink is how much shorter everything takes here than in the paper, and how
// much less a server reads: a block has 4 MiB.
const shrink = 16

// leadHere is how long a job is held back.
const leadHere = paperLead / shrink

// Plan is what `bench warm` replays. Sizes are bytes, times seconds.
type Plan struct {
	Trace string `json:"trace"`
	Jobs  int    `json:"jobs"`
	// Shrink divides the sizes and times of the paper; Span is the time from the
	// first submission to the last.
	Shrink float64 `json:"shrink"`
	Span   float64 `json:"span"`
	// Input is that of all jobs, Largest that of one.
	Input   int64 `json:"input"`
	Largest int64 `json:"largest"`
	Block   int64 `json:"block"`
	// Readers is how many blocks a job reads at a time, Slots how many jobs run at
	// a time, Lead how long a job waits at least before it runs.
	Readers int     `json:"readers"`
	Slots   int     `json:"slots"`
	Lead    float64 `json:"lead"`
	// Disk is what the inputs lie on, where that is a model.
	Disk warmDisk `json:"disk"`
}

// Size classes of jobs.
const (
	classSmall  = "small"
	classMedium = "medium"
	classLarge  = "large"
)

var classes = []string{classSmall, classMedium, classLarge}

// replayJob is a job of the trace as it is replayed.
type replayJob struct {
	name   string
	class  string
	submit time.Duration
	rest   time.Duration
	input  int64
	path   string // of its input; empty when it reads nothing
	answer string
}

// planWarm takes the first jobs of the day and makes of each what one of the
// paper's servers sees of it. All are submitted within span.
func planWarm(jobs int, span time.Duration) (Plan, []replayJob, error) {
	p := Plan{Trace: swim.FacebookDayName, Jobs: jobs, Shrink: shrink, Block: paperBlock / shrink,
		Readers: readersHere, Slots: slotsHere, Lead: leadHere.Seconds()}
	first, err := swim.Collect(swim.First(swim.FacebookDay(), paperJobs))
	if err != nil {
		return p, nil, err
	}
	var input int64
	for _, j := range first {
		input += j.Input
	}
	scale := swim.Scale{Bytes: paperInput / float64(input), Time: paperTime}
	all, err := swim.Collect(swim.WithPaths(swim.Scaled(swim.First(swim.FacebookDay(), jobs), scale)))
	if err != nil {
		return p, nil, err
	}
	begin, last := all[0].Submit, all[len(all)-1].Submit
	var out []replayJob
	for _, j := range all {
		r := replayJob{name: j.ID, class: classOf(j.Input), path: j.InputPath,
			submit: time.Duration(float64(j.Submit-begin) / float64(last-begin) * float64(span)),
			input:  share(j.Input) / shrink,
			rest:   time.Duration(float64(j.Shuffle+j.Output) / paperServers / paperRest / shrink * float64(time.Second)),
		}
		if r.input == 0 {
			r.path = ""
		}
		p.Input += r.input
		p.Largest = max(p.Largest, r.input)
		out = append(out, r)
	}
	p.Span = span.Seconds()
	return p, out, nil
}

func classOf(input int64) string {
	switch {
	case input <= paperBlock:
		return classSmall
	case input <= paperMedium:
		return classMedium
	}
	return classLarge
}

// share returns what the server that has most of a job's blocks reads of it: they are
// spread evenly, and the job takes as long as that server does.
func share(input int64) int64 {
	blocks := (input + paperBlock - 1) / paperBlock
	return min(input, (blocks+paperServers-1)/paperServers*paperBlock)
}

// makeInputs makes a file for each job that reads, and finds out the answers.
func makeInputs(d *rig.Disk, jobs []replayJob, like work.Mapper, tell func(share float64)) error {
	for i := range jobs {
		j := &jobs[i]
		tell(float64(i) / float64(len(jobs)))
		if j.path == "" {
			j.answer = work.Answer("map", 0)
			continue
		}
		var err error
		if j.path, err = d.MakeFile(filepath.Base(j.path), j.input, uint64(i)+1); err != nil {
			return fmt.Errorf("make the input of %s: %w", j.name, err)
		}
		if j.answer, err = d.AnswerOf(j.path, like); err != nil {
			return fmt.Errorf("read the input of %s: %w", j.name, err)
		}
	}
	return nil
}

// mapper returns the workload of a job.
func (p *Plan) mapper(j replayJob) work.Mapper {
	return work.Mapper{File: j.path, Block: work.Size(p.Block), Readers: p.Readers, End: j.rest}
}

// inputs returns the paths of all that is read.
func inputs(jobs []replayJob) []string {
	var paths []string
	for _, j := range jobs {
		if j.path != "" {
			paths = append(paths, j.path)
		}
	}
	return paths
}
