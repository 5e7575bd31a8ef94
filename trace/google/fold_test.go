package google

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"headrace/trace/workload"

	"headrace"
)

func ofEvents(list []Event) func(yield func(Event, error) bool) {
	return func(yield func(Event, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func fold(t *testing.T, f *Fold, list []Event) []workload.Task {
	t.Helper()
	var tasks []workload.Task
	for task, err := range f.Tasks(ofEvents(list)) {
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// at makes an event of task 0 of a job, on machine 1, of half the largest machine.
func at(seconds int, kind Kind, job int64, p headrace.Priority) Event {
	return Event{At: time.Duration(seconds) * time.Second, Job: job, Machine: 1, Kind: kind, Priority: p, CPUs: 0.5, Memory: 0.25}
}

func TestGoogleFold(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		events []Event
		run    time.Duration
		times  int32 // preempted
		lost   time.Duration
		counts Counts
	}{
		{"finished", []Event{at(1, Submit, 7, 0), at(3, Schedule, 7, 0), at(13, Finish, 7, 0)},
			10 * s, 0, 0, Counts{Finished: 1}},
		{"preempted", []Event{at(1, Submit, 7, 0), at(3, Schedule, 7, 0), at(13, Evict, 7, 0),
			at(13, Submit, 7, 0), at(18, Schedule, 8, 1), at(20, Schedule, 7, 0), at(24, Finish, 7, 0)},
			4 * s, 1, 10 * s, Counts{Finished: 1, Evictions: 1, Preemptions: 1, Odd: 1, StillRunning: 1}},
		{"evicted too long before", []Event{at(1, Submit, 7, 0), at(3, Schedule, 7, 0), at(13, Evict, 7, 0),
			at(19, Schedule, 8, 1), at(19, Finish, 8, 1)},
			10 * s, 0, 0, Counts{Evicted: 1, Evictions: 1, Odd: 1, Finished: 1}},
		{"evicted for an equal", []Event{at(1, Submit, 7, 4), at(3, Schedule, 7, 4), at(13, Evict, 7, 4),
			at(14, Schedule, 8, 4), at(15, Finish, 8, 1)},
			10 * s, 0, 0, Counts{Evicted: 1, Evictions: 1, Odd: 1, Finished: 1}},
		{"preempted, in the other order", []Event{at(1, Submit, 7, 0), at(3, Schedule, 7, 0), at(13, Schedule, 8, 9),
			at(13, Evict, 7, 0), at(15, Finish, 8, 9)},
			10 * s, 1, 10 * s, Counts{Evicted: 1, Evictions: 1, Preemptions: 1, Odd: 1, Finished: 1}},
		{"failed, then killed: the longest", []Event{at(1, Submit, 7, 0), at(2, Schedule, 7, 0), at(9, Fail, 7, 0),
			at(9, Submit, 7, 0), at(10, Schedule, 7, 0), at(12, Kill, 7, 0)},
			7 * s, 0, 0, Counts{Killed: 1}},
		{"the last success", []Event{at(1, Submit, 7, 0), at(2, Schedule, 7, 0), at(9, Finish, 7, 0),
			at(20, Submit, 7, 0), at(21, Schedule, 7, 0), at(24, Finish, 7, 0), at(25, Submit, 7, 0), at(25, Schedule, 7, 0), at(99, Lost, 7, 0)},
			3 * s, 0, 0, Counts{Finished: 1}},
		{"still running, from before", []Event{at(0, Submit, 7, 0), at(0, Schedule, 7, 0), at(50, UpdateRunning, 7, 0),
			{At: After, Job: 7, Kind: Finish}},
			50 * s, 0, 0, Counts{StillRunning: 1, Before: 1}},
	} {
		f := NewFold(Options{CPUs: 10, Memory: 1 << 20, Assumed: workload.Assumed{Dirty: 0.5}}, 0, 0)
		tasks := fold(t, f, c.events)
		i := slices.IndexFunc(tasks, func(k workload.Task) bool { return f.JobID(k.Job) == 7 })
		if i < 0 {
			t.Errorf("%s: no task", c.name)
			continue
		}
		k := tasks[i]
		if k.Run != c.run || k.Preempted != c.times || k.Lost != c.lost || k.Submit != c.events[0].At || k.CPUs != 5 || k.Memory != 1<<18 || k.Dirty != 1<<17 {
			t.Errorf("%s: %+v", c.name, k)
		}
		c.counts.Events = int64(len(c.events))
		if f.Counts != c.counts {
			t.Errorf("%s: %+v, want %+v", c.name, f.Counts, c.counts)
		}
	}
}

func TestGoogleFoldLeavesOut(t *testing.T) {
	f := NewFold(Options{}, 0, 0)
	if got := fold(t, f, []Event{at(1, Submit, 7, 0), at(2, Kill, 7, 0), at(3, Kill, 9, 0)}); len(got) > 0 || f.Counts.NeverRan != 1 || f.Counts.Odd != 1 {
		t.Errorf("%+v, %+v", got, f.Counts)
	}
	// It is not known what it asks for.
	f = NewFold(Options{}, 0, 0)
	if got := fold(t, f, []Event{{Kind: Submit}, {Kind: Schedule, Machine: 1}}); len(got) != 1 || f.Counts.AskNothing != 1 {
		t.Errorf("%+v, %+v", got, f.Counts)
	}
	// Again after more than an hour: another task.
	f = NewFold(Options{}, 0, 0)
	one := []Event{at(1, Submit, 7, 0), at(2, Schedule, 7, 0), at(4, Finish, 7, 0)}
	two := slices.Clone(one)
	for i := range two {
		two[i].At += 4*time.Second + foldLinger
	}
	if got := fold(t, f, append(one, two...)); len(got) != 2 || got[0].Job != got[1].Job {
		t.Errorf("%+v", got)
	}
	// The window, and no event after all of its tasks are done.
	f = NewFold(Options{}, time.Second, time.Hour)
	var list []Event
	for i := range 6 * 3600 {
		list = append(list, at(i, Submit, int64(i), 0), at(i, Schedule, int64(i), 0), at(i+1, Finish, int64(i), 0))
	}
	slices.SortStableFunc(list, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	if got := fold(t, f, list); len(got) != 3600 || f.Counts.Events > 3*(2*3600+10) || len(f.Outcome.Hourly) != 1 || f.Outcome.Hourly[0].Scheduled != 3600 {
		t.Errorf("%d tasks, %+v, %+v", len(got), f.Counts, f.Outcome.Hourly)
	}
}

// randomEvents returns the life of some tasks on few machines, with times that often
// are equal.
func randomEvents(r *rand.Rand) []Event {
	var list []Event
	for job := range int64(1 + r.IntN(4)) {
		for task := range int32(1 + r.IntN(3)) {
			now := time.Duration(r.IntN(20)) * time.Second
			step := func() { now += time.Duration(r.IntN(5)) * time.Second }
			e := Event{Job: job, Task: task, Priority: headrace.Priority(r.IntN(4)), Class: uint8(r.IntN(4)), CPUs: 0.5, Memory: 0.5}
			event := func(k Kind, machine int64) {
				e.At, e.Kind, e.Machine = now, k, machine
				list = append(list, e)
			}
			for again := true; again; {
				event(Submit, 0)
				step()
				if r.IntN(8) == 0 {
					event(Kill, 0)
					break
				}
				machine := 1 + r.Int64N(2)
				event(Schedule, machine)
				now += time.Duration(1+r.IntN(6)) * time.Second
				end := []Kind{Evict, Evict, Evict, Finish, Fail, Kill, Lost, UpdateRunning}[r.IntN(8)]
				event(end, machine)
				again = end == Evict || end == Fail || r.IntN(10) == 0 && end != UpdateRunning
				now += time.Duration(r.IntN(3)) * time.Second
				if r.IntN(30) == 0 {
					now += foldLinger - 10*time.Second
				}
			}
		}
	}
	// Events of one task at one time stay in order.
	slices.SortStableFunc(list, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return list
}

// oracleFold says what becomes of each task by looking at all events for each.
func oracleFold(list []Event) map[foldKey]workload.Task {
	tasks := map[foldKey]workload.Task{}
	end := list[len(list)-1].At
	for _, first := range list {
		key := foldKey{first.Job, first.Task}
		if _, ok := tasks[key]; ok {
			continue
		}
		k := workload.Task{Index: key.task, Submit: first.At, Run: -1, CPUs: 16, Memory: 64 << 30}
		from, longest, finished := time.Duration(-1), time.Duration(-1), time.Duration(-1)
		for _, e := range list {
			if (foldKey{e.Job, e.Task}) != key {
				continue
			}
			k.Priority, k.Class = e.Priority, e.Class
			switch e.Kind {
			case Submit, UpdateRunning:
			case Schedule:
				from = e.At
			default:
				if from < 0 {
					continue
				}
				ran := e.At - from
				from = -1
				longest = max(longest, ran)
				if e.Kind == Finish {
					finished = ran
				}
				if e.Kind == Evict && slices.ContainsFunc(list, func(s Event) bool {
					return s.Kind == Schedule && s.Machine == e.Machine && s.Priority > e.Priority && s.At >= e.At && s.At <= e.At+5*time.Second
				}) {
					k.Preempted++
					k.Lost += ran
				}
			}
		}
		if from >= 0 {
			longest = max(longest, end-from)
		}
		if k.Run = finished; finished < 0 {
			k.Run = longest
		}
		tasks[key] = k
	}
	for key, k := range tasks {
		if k.Run < 0 {
			delete(tasks, key)
		}
	}
	return tasks
}

func TestGoogleFoldRandom(t *testing.T) {
	preempted := 0
	for seed := range uint64(3000) {
		list := randomEvents(rand.New(rand.NewPCG(seed, 9)))
		want := oracleFold(list)
		f := NewFold(Options{Assumed: workload.Assumed{Dirty: -1}}, 0, 0)
		got := map[foldKey]workload.Task{}
		outcome := workload.NewOutcome()
		for _, k := range fold(t, f, list) {
			preempted += int(k.Preempted)
			outcome.Add(&k, 0)
			key := foldKey{f.JobID(k.Job), k.Index}
			k.Job = 0
			got[key] = k
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d:\ngot  %+v\nwant %+v\n%+v", seed, got, want, list)
		}
		scheduled, hourly := 0, workload.Hour{}
		for i := range f.Outcome.ByPriority {
			scheduled += f.Outcome.ByPriority[i].Scheduled
			f.Outcome.ByPriority[i].Scheduled = 0
		}
		for i := range f.Outcome.ByClass {
			f.Outcome.ByClass[i].Scheduled = 0
		}
		for _, h := range f.Outcome.Hourly {
			hourly.Scheduled += h.Scheduled
			hourly.Preemptions += h.Preemptions
		}
		if hourly.Scheduled != scheduled || hourly.Preemptions != int(f.Counts.Preemptions) {
			t.Fatalf("seed %d: %+v by the hour, scheduled %d, %+v", seed, hourly, scheduled, f.Counts)
		}
		f.Outcome.Hourly = nil
		if !reflect.DeepEqual(f.Outcome, outcome) {
			t.Fatalf("seed %d: %+v, want %+v", seed, f.Outcome, outcome)
		}
	}
	if preempted < 1000 {
		t.Errorf("only %d preemptions in all", preempted)
	}
}

// TestGoogleFoldNeedsLittleMemory folds many tasks of which few are there at a
// time.
func TestGoogleFoldNeedsLittleMemory(t *testing.T) {
	f := NewFold(Options{}, 0, 0)
	n, most := 0, uint64(0)
	var m runtime.MemStats
	events := func(yield func(Event, error) bool) {
		for i := range 100_000 {
			for k, kind := range []Kind{Submit, Schedule, Evict, Submit, Schedule, Finish} {
				e := at(i+k/2, kind, int64(i/1000), 0)
				e.Task, e.Machine = int32(i%1000), int64(i%1000)
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	for range f.Tasks(events) {
		if n++; n%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if n != 100_000 || most > 12<<20 {
		t.Errorf("%d tasks, up to %d bytes on the heap", n, most)
	}
}

// FuzzGoogleFold folds whatever events there are.
func FuzzGoogleFold(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 1, 0, 0, 2, 2, 0, 0}, uint8(0), uint8(0))
	f.Add([]byte{0, 0, 1, 0, 1, 1, 1, 9, 0, 2, 1, 0, 3, 1, 2, 7, 9, 4, 2, 7}, uint8(1), uint8(200))
	f.Fuzz(func(t *testing.T, b []byte, from, length uint8) {
		var list []Event
		now := time.Duration(0)
		for ; len(b) >= 4; b = b[4:] {
			now += time.Duration(b[0]) * time.Duration(b[0]) * 100 * time.Millisecond
			list = append(list, Event{At: now - time.Duration(b[3]>>4)*time.Second, Kind: Kind(b[1] % uint8(kinds)), Job: int64(b[2] & 3), Task: int32(b[2] >> 6),
				Machine: int64(b[2] >> 4 & 3), Priority: headrace.Priority(b[3] % 12), Class: b[3] & 3, CPUs: float64(b[1]) / 255})
			list[len(list)-1].At = max(0, list[len(list)-1].At)
		}
		fold := NewFold(Options{}, time.Duration(from)*time.Minute, time.Duration(length)*time.Minute)
		c := &workload.Collector{Most: len(list)}
		var lost int64
		jobs := int32(0)
		for k, err := range fold.Tasks(ofEvents(list)) {
			if err != nil {
				t.Fatal(err)
			}
			for ; jobs <= k.Job; jobs++ {
				c.Job("")
			}
			lost += int64(k.Preempted)
			if err := c.Task(k); err != nil {
				t.Fatal("more tasks than events")
			}
		}
		w, err := c.Workload(workload.About{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		if lost != fold.Counts.Preemptions || fold.Counts.Preemptions > fold.Counts.Evictions {
			t.Fatalf("%d preemptions in tasks, %+v", lost, fold.Counts)
		}
	})
}
