package google

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"headrace/trace/workload"
)

// Fold makes tasks of events, in one pass. What it holds is bounded by the
// tasks that are pending or running at one time, those that ended within the last
// hour, and some tens of bytes for each job and each machine.
//
// # What becomes a task
//
// Submit is the first submission. Run is the running time, from schedule to finish,
// of the last execution that finished; where none did (the task was killed by its
// user, failed, was lost, or was running when the trace ended), the longest one. Tasks
// that never came to run are left out. So are those submitted outside the window.
// A task that was there before the trace begins has Submit 0 and the running time that
// the trace saw. CPUs, memory, priority and class are those last asked for.
//
// A task that is submitted again within an hour of its end is the same task: evicted
// and failed tasks are, at once. Later it is another one.
//
// Preempted are the evictions after which a task of higher priority came to run on the
// same machine within five seconds (checkpoint-preemption, section 2), and Lost is the
// running time before them.
type Fold struct {
	// Counts and Outcome are complete when Tasks has ended.
	Counts  Counts
	Outcome *workload.Outcome

	from, length time.Duration
	o            Options
	tasks        map[foldKey]*foldTask
	jobs         map[int64]int32
	names        []int64
	ended        []foldEnd
	evictions    evictions
	now          time.Duration
	yield        func(workload.Task) bool
}

// Counts says what was found, and what was left out. Tasks are counted once,
// by how they ended; those of other windows not at all.
type Counts struct {
	Events int64 `json:"events"`
	// Finished ran to their end; Failed, Killed, Evicted and Lost ended that way at
	// last, and StillRunning had not ended: the Run of these is a guess.
	Finished     int64 `json:"finished"`
	Failed       int64 `json:"failed"`
	Killed       int64 `json:"killed"`
	Evicted      int64 `json:"evicted"`
	Lost         int64 `json:"lost"`
	StillRunning int64 `json:"still_running"`
	// NeverRan were left out.
	NeverRan int64 `json:"never_ran"`
	// AskNothing ask for no CPUs or no memory, or did so in a part of the trace that
	// is missing.
	AskNothing int64 `json:"ask_nothing"`
	// Before were there before the trace began.
	Before int64 `json:"before"`
	// Evictions and Preemptions: all evictions, and those that were preemptions.
	Evictions   int64 `json:"evictions"`
	Preemptions int64 `json:"preemptions"`
	// Odd are events that do not fit to what was there: of tasks that were not
	// submitted, or not running, or earlier than the event before.
	Odd int64 `json:"odd"`
}

type foldKey struct {
	job  int64
	task int32
}

// foldTask is a task that may have more events.
type foldTask struct {
	key  foldKey
	task workload.Task
	// machine is where it runs.
	machine   int64
	scheduled time.Duration
	ended     time.Duration
	finished  time.Duration // -1: never
	longest   time.Duration
	times     int // that it came to run
	kind      Kind
	running   bool
	gone      bool // it is not pending or running
	before    bool
}

type foldEnd struct {
	task *foldTask
	at   time.Duration
}

// foldLinger is how long a task that has ended may be submitted again.
const foldLinger = time.Hour

// NewFold makes a fold for the tasks that are submitted in the window
// [from, from+length); length 0: from from on.
func NewFold(o Options, from, length time.Duration) *Fold {
	f := &Fold{from: from, length: length, o: o.withDefaults(), tasks: map[foldKey]*foldTask{}, jobs: map[int64]int32{}, Outcome: workload.NewOutcome()}
	f.evictions = evictions{machines: map[int64]*machineEvictions{}, preempted: f.preempted}
	return f
}

// JobID returns the published number of a task's job.
func (f *Fold) JobID(job int32) int64 { return f.names[job] }

// Tasks returns the tasks, each as soon as it is certain what became of it: not in
// order of submission. Jobs are numbered from 0 in the order in which they come. An
// error of events is the last element. It can be used once.
func (f *Fold) Tasks(events iter.Seq2[Event, error]) iter.Seq2[workload.Task, error] {
	return func(yield func(workload.Task, error) bool) {
		f.yield = func(t workload.Task) bool { return yield(t, nil) }
		for e, err := range events {
			if err != nil {
				yield(workload.Task{}, err)
				return
			}
			f.Counts.Events++
			if !f.event(&e) {
				return
			}
			if f.length > 0 && f.now-f.from >= f.length && len(f.tasks) == 0 {
				return
			}
		}
		f.end()
	}
}

// event reports whether to go on.
func (f *Fold) event(e *Event) bool {
	if e.At == After {
		return true
	}
	if e.At < f.now {
		f.Counts.Odd++
		e.At = f.now
	}
	f.now = e.At
	if !f.release() {
		return false
	}
	t := f.find(e)
	if t != nil {
		f.ask(t, e)
	}
	switch e.Kind {
	case Submit:
		if t != nil && t.gone {
			t.gone = false
		}
	case Schedule:
		if t != nil {
			f.schedule(t, e)
		}
		if e.Machine != 0 {
			f.evictions.scheduled(e.Machine, e.At, e.rank())
		}
	case Evict, Fail, Finish, Kill, Lost:
		if t != nil {
			f.stop(t, e)
		}
	}
	return true
}

// find returns the task of an event, a new one if it is its first, or nil if it is not
// in the window.
func (f *Fold) find(e *Event) *foldTask {
	key := foldKey{e.Job, e.Task}
	if t := f.tasks[key]; t != nil {
		return t
	}
	if e.Kind != Submit && e.Kind != Schedule {
		// Its beginning was in another window, or is missing.
		if f.from == 0 {
			f.Counts.Odd++
		}
		return nil
	}
	if !workload.InWindow(e.At, f.from, f.length) {
		return nil
	}
	if e.Kind == Schedule && f.from > 0 {
		return nil // it was submitted before the window
	}
	if e.Kind == Schedule {
		f.Counts.Odd++
	}
	t := &foldTask{key: key, finished: -1, before: e.At == 0}
	t.task = workload.Task{Index: e.Task, Submit: e.At, Grow: float32(f.o.Grow.Seconds())}
	f.tasks[key] = t
	return t
}

// ask takes over what an event asks for.
func (f *Fold) ask(t *foldTask, e *Event) {
	t.task.Priority, t.task.Class = e.Priority, e.Class
	if e.CPUs > 0 {
		t.task.CPUs = float32(e.CPUs * f.o.CPUs)
	}
	if e.Memory > 0 {
		t.task.Memory = int64(e.Memory * float64(f.o.Memory))
	}
}

func (f *Fold) schedule(t *foldTask, e *Event) {
	if t.running {
		f.Counts.Odd++
		return
	}
	t.running, t.gone = true, false
	t.machine, t.scheduled = e.Machine, e.At
	t.times++
	f.hour(e.At).Scheduled++
}

func (f *Fold) hour(at time.Duration) *workload.Hour {
	h := workload.HourOf(at - f.from)
	f.Outcome.Hourly = workload.Grown(f.Outcome.Hourly, h+1)
	return &f.Outcome.Hourly[h]
}

// stop is when a task leaves its machine, or the queue.
func (f *Fold) stop(t *foldTask, e *Event) {
	if t.gone {
		f.Counts.Odd++
		return
	}
	if t.running {
		ran := e.At - t.scheduled
		t.longest = max(t.longest, ran)
		machine := e.Machine
		if machine == 0 {
			machine = t.machine
		}
		switch {
		case e.Kind == Finish:
			t.finished = ran
		case e.Kind == Evict:
			f.Counts.Evictions++
			f.evictions.evicted(machine, eviction{task: t, at: e.At, ran: ran, rank: e.rank()})
		}
	}
	t.running, t.gone, t.kind, t.ended = false, true, e.Kind, e.At
	f.ended = append(f.ended, foldEnd{t, e.At})
}

// preempted says that an eviction was a preemption.
func (f *Fold) preempted(e eviction) {
	f.Counts.Preemptions++
	e.task.task.Preempted++
	e.task.task.Lost += e.ran
	f.hour(e.at).Preemptions++
}

// release gives away the tasks that ended long ago. It reports whether to go on.
func (f *Fold) release() bool {
	n := 0
	for ; n < len(f.ended) && f.now-f.ended[n].at > foldLinger; n++ {
		if t := f.ended[n].task; t.gone && t.ended == f.ended[n].at && f.tasks[t.key] == t {
			if !f.give(t) {
				return false
			}
		}
	}
	clear(f.ended[:n])
	f.ended = f.ended[n:]
	return true
}

// end gives away all that is left when the trace has ended.
func (f *Fold) end() {
	left := slices.SortedFunc(maps.Values(f.tasks), func(a, b *foldTask) int {
		return cmp.Or(cmp.Compare(a.key.job, b.key.job), cmp.Compare(a.key.task, b.key.task))
	})
	for _, t := range left {
		if t.running {
			t.longest = max(t.longest, f.now-t.scheduled)
		}
		if !f.give(t) {
			return
		}
	}
}

// give hands a task over, or counts why not.
func (f *Fold) give(t *foldTask) bool {
	delete(f.tasks, t.key)
	if t.times == 0 {
		f.Counts.NeverRan++
		return true
	}
	f.count(t)
	t.task.Run = t.longest
	if t.finished >= 0 {
		t.task.Run = t.finished
	}
	t.task.Dirty = float32(f.o.DirtyBytes(t.task.Memory))
	t.task.Job = f.jobNumber(t.key.job)
	f.Outcome.Add(&t.task, t.times)
	return f.yield(t.task)
}

func (f *Fold) jobNumber(id int64) int32 {
	n, ok := f.jobs[id]
	if !ok {
		n = int32(len(f.names))
		f.jobs[id] = n
		f.names = append(f.names, id)
	}
	return n
}

func (f *Fold) count(t *foldTask) {
	c := &f.Counts
	if t.before {
		c.Before++
	}
	if t.task.CPUs == 0 || t.task.Memory == 0 {
		c.AskNothing++
	}
	switch {
	case t.finished >= 0:
		c.Finished++
	case !t.gone:
		c.StillRunning++
	case t.kind == Fail:
		c.Failed++
	case t.kind == Kill:
		c.Killed++
	case t.kind == Evict:
		c.Evicted++
	default:
		c.Lost++
	}
}
