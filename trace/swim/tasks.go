package swim

import (
	"fmt"
	"math"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"

	"headrace"
)

func (s Options) withDefaults() Options {
	set := func(v *int64, to int64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&s.Block, 128<<20)
	set(&s.Reduce, 1<<30)
	set(&s.Memory, 1<<30)
	set(&s.SmallBytes, 1<<30)
	if s.Rate == 0 {
		s.Rate = 50e6
	}
	if s.Start == 0 {
		s.Start = time.Second
	}
	if s.CPUs == 0 {
		s.CPUs = 1
	}
	if s.Priority == nil {
		normal := headrace.Normal
		s.Priority = &normal
	}
	return s
}

func (s Options) check() error {
	if s.Block < 0 || s.Reduce < 0 || s.Memory < 0 || s.SmallBytes < 0 || !(s.Rate > 0) || s.Start < 0 || !(s.CPUs > 0) ||
		*s.Priority > headrace.MaxPriority || s.Small != nil && *s.Small > headrace.MaxPriority {
		return fmt.Errorf("trace: the options for SWIM's jobs: want positive numbers, and priorities of 0 to %d", headrace.MaxPriority)
	}
	return s.Assumed.Check()
}

// maker makes tasks of jobs.
//
// A map task reads one Block of the job's input; a job without input has one. There
// is a reduce task for each Reduce bytes of shuffle. What goes out of maps is the
// shuffle, or without one the output; what goes out of reduces is the output. A task
// runs for Start, and for what comes in and goes out at Rate. All are submitted with
// the job: reduces come after the maps in it.
type maker struct {
	o     Options
	to    workload.Sink
	files map[string]int32
}

func (s *maker) job(j *Job) error {
	maps, reduces := max(1, blocks(j.Input, s.o.Block)), blocks(j.Shuffle, s.o.Reduce)
	if maps > workload.MaxJobTasks || reduces > workload.MaxJobTasks {
		return fmt.Errorf("trace: %s: %d maps and %d reduces are too many: give larger blocks than %d and %d bytes", j.ID, maps, reduces, s.o.Block, s.o.Reduce)
	}
	t := workload.Task{Job: s.to.Job(j.ID), Submit: j.Submit, Priority: s.priority(j), CPUs: float32(s.o.CPUs),
		Memory: s.o.Memory, Grow: float32(s.o.Grow.Seconds()), Dirty: float32(s.o.DirtyBytes(s.o.Memory))}
	t.File = s.file(j)
	out := j.Shuffle
	if reduces == 0 {
		out = j.Output
	}
	for i := range maps {
		t.Index, t.Offset = int32(i), i*s.o.Block
		t.Input = min(s.o.Block, j.Input-t.Offset)
		t.Run = s.run(float64(t.Input) + float64(out)/float64(maps))
		if err := s.to.Task(t); err != nil {
			return err
		}
	}
	t.File, t.Offset, t.Input = 0, 0, 0
	t.Run = s.run((float64(j.Shuffle) + float64(j.Output)) / float64(max(1, reduces)))
	for i := range reduces {
		t.Index = int32(maps + i)
		if err := s.to.Task(t); err != nil {
			return err
		}
	}
	return nil
}

// blocks returns how many blocks some bytes are.
func blocks(bytes, block int64) int64 { return (bytes-1)/block + min(1, bytes) }

func (s *maker) run(bytes float64) time.Duration {
	return s.o.Start + time.Duration(min(bytes/s.o.Rate, math.MaxInt32)*float64(time.Second)).Round(time.Millisecond)
}

func (s *maker) priority(j *Job) headrace.Priority {
	if s.o.Small != nil && j.Input <= s.o.SmallBytes && j.Shuffle <= s.o.SmallBytes-j.Input && j.Output <= s.o.SmallBytes-j.Input-j.Shuffle {
		return *s.o.Small
	}
	return *s.o.Priority
}

// file returns what a job reads, 0 for nothing: jobs with equal paths read the same
// file, which is as large as the largest input of them.
func (s *maker) file(j *Job) int32 {
	if j.Input == 0 {
		return 0
	}
	f, ok := s.files[j.InputPath]
	if !ok {
		f = s.to.File(j.InputPath)
		s.files[j.InputPath] = f
	}
	s.to.Size(f, j.Input)
	return f
}

// Tasks reads jobs into a sink as tasks. Each of the jobs in a window is given to
// it; others are not looked at.
func Tasks(m *input.Meter, jobs Jobs, o Options, part workload.Part, to workload.Sink) (workload.About, error) {
	a := workload.About{}
	s := &maker{o: o.withDefaults(), to: to, files: map[string]int32{}}
	if err := s.o.check(); err != nil {
		return a, err
	}
	for j, err := range WithPaths(jobs) {
		if err != nil {
			return a, err
		}
		m.Record()
		if part.For > 0 && j.Submit-part.From >= part.For {
			break
		}
		if j.Submit < part.From {
			continue
		}
		if err := s.job(&j); err != nil {
			return a, err
		}
	}
	a.Note("tasks are made of jobs' bytes: blocks of %d bytes, reduces of %d, %v bytes a second, %v CPUs and %d bytes of memory each",
		s.o.Block, s.o.Reduce, s.o.Rate, s.o.CPUs, s.o.Memory)
	return a, nil
}
