package sim

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

const mb = 1 << 20

// easy returns a cluster whose times are easy to reckon with: 1 s to start, 2 s to
// kill, 3 s to stop, 4 s to resume; dumps 5 s and restores 6 s beside 100 MB in a
// second; decisions at any time.
func easy(nodes int, p policy.Name) Config {
	return Config{
		Nodes:    nodes,
		Node:     Node{CPUs: 1, Memory: 1000 * mb, Swap: 10000 * mb, SwapOut: 50 * mb, SwapIn: 200 * mb, Store: 100000 * mb},
		Medium:   Medium{Name: "m", Write: 100 * mb, Read: 100 * mb, DumpOverhead: 5 * time.Second, RestoreOverhead: 6 * time.Second},
		Costs:    Costs{Start: time.Second, Kill: 2 * time.Second, Stop: 3 * time.Second, Resume: 4 * time.Second},
		Power:    Power{Idle: 100, Peak: 200},
		Policy:   policy.Config{Policy: p, MinRun: policy.None, Ageing: policy.None},
		Check:    true,
		Interval: 0,
	}
}

// job is a workload's job of one task.
type job struct {
	submit, run float64 // seconds
	priority    headrace.Priority
	memory      int64
	grow, dirty float32
}

func workload(jobs ...job) *trace.Workload {
	w := &trace.Workload{Name: "test"}
	for i, j := range jobs {
		w.Jobs = append(w.Jobs, string(rune('a'+i)))
		w.Tasks = append(w.Tasks, trace.Task{
			Job: int32(i), Submit: seconds(j.submit), Run: seconds(j.run), Priority: j.priority, CPUs: 1,
			Memory: j.memory, Grow: j.grow, Dirty: j.dirty,
		})
	}
	return w
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func run(t *testing.T, w *trace.Workload, c Config) *Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := Run(ctx, w, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestMechanisms reckons by hand what becomes of a task of 100 s that has to leave
// at 51 s, when it has run 50 s, for one of 10 s. Both have 600 of 1000 MB.
func TestMechanisms(t *testing.T) {
	pair := workload(
		job{submit: 0, run: 100, priority: 0, memory: 600 * mb, dirty: 2 * mb},
		job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
	)
	tests := []struct {
		policy        policy.Name
		urgent, other float64 // responses
		work          Work
		counts        Counts
	}{
		// The urgent one starts when the other has ended, at 101.
		{policy.Wait, 50 + 11, 101, Work{Stop: 2}, Counts{Starts: 2}},
		// 2 s to kill, 1 to start; then the other begins anew at 64.
		{policy.Kill, 2 + 1 + 10, 64 + 101, Work{Killed: 50, Stop: 2 + 3}, Counts{Starts: 3, Kills: 1}},
		// 3 s to stop, 1 to start; 200 MB are paged out meanwhile, and take 1 s to come
		// back after 4 s to resume, at 65.
		{policy.Suspend, 3 + 1 + 10, 65 + 5 + 50, Work{Stop: 3 + 2, PageIn: 5}, Counts{Starts: 2, Suspends: 1, Resumes: 1}},
		// 5+6 s to dump, 1 to start; 6+6 s to restore, at 73.
		{policy.Checkpoint, 11 + 1 + 10, 73 + 12 + 50, Work{Stop: 2, Dump: 11, Restore: 12}, Counts{Starts: 2, Checkpoints: 1, Restores: 1}},
		// Progress of 50 s against an overhead of 12: as checkpoint.
		{policy.Adaptive, 11 + 1 + 10, 73 + 12 + 50, Work{Stop: 2, Dump: 11, Restore: 12}, Counts{Starts: 2, Checkpoints: 1, Restores: 1}},
	}
	for _, tt := range tests {
		t.Run(string(tt.policy), func(t *testing.T) {
			r := run(t, pair, easy(1, tt.policy))
			near(t, "urgent", r.Bands[2].Response.Mean, tt.urgent)
			near(t, "other", r.Bands[0].Response.Mean, tt.other)
			near(t, "makespan", r.Makespan, max(tt.other, 51+tt.urgent))
			tt.work.Useful = 110
			if r.Work != tt.work {
				t.Errorf("work %+v, want %+v", r.Work, tt.work)
			}
			tt.counts.Decisions = r.Counts.Decisions
			if r.Counts != tt.counts {
				t.Errorf("counts %+v, want %+v", r.Counts, tt.counts)
			}
		})
	}
}

// TestAdaptiveKillsWhatIsYoung: 10 s of progress do not pay for 12 s of overhead.
func TestAdaptiveKillsWhatIsYoung(t *testing.T) {
	r := run(t, workload(
		job{run: 100, memory: 600 * mb},
		job{submit: 11, run: 10, priority: 10, memory: 600 * mb},
	), easy(1, policy.Adaptive))
	if r.Counts.Kills != 1 || r.Counts.Checkpoints != 0 {
		t.Errorf("%+v, want a kill", r.Counts)
	}
}

// TestSecondCheckpoint writes what changed: 20 s at 2 MB/s.
func TestSecondCheckpoint(t *testing.T) {
	r := run(t, workload(
		job{run: 100, memory: 600 * mb, dirty: 2 * mb},
		job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
		// The other is back at 51+11+11+12 = 85.
		job{submit: 105, run: 10, priority: 10, memory: 600 * mb},
	), easy(1, policy.Checkpoint))
	if r.Counts.Checkpoints != 2 || r.Counts.Incremental != 1 {
		t.Errorf("%+v, want 2 checkpoints, one of them incremental", r.Counts)
	}
	near(t, "dumped", float64(r.IO.Dumped), 640*mb)
	near(t, "restored", float64(r.IO.Restored), (600+640)*mb)
	near(t, "peak", float64(r.IO.StorePeak), 640*mb)
}

// TestMuchChanges: however fast a task changes its memory, and however long it has run since
// its checkpoint, no more than all of it is written anew.
func TestMuchChanges(t *testing.T) {
	for _, dirty := range []float32{30 * mb, 1e15, math.MaxFloat32} {
		r := run(t, workload(
			job{run: 50000, memory: 600 * mb, dirty: dirty},
			job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
			job{submit: 20000, run: 10, priority: 10, memory: 600 * mb},
		), easy(1, policy.Checkpoint))
		if r.Counts.Checkpoints != 2 || r.Counts.Incremental != 1 {
			t.Errorf("%v bytes change in a second: %+v, want 2 checkpoints, one of them incremental", dirty, r.Counts)
		}
		near(t, "dumped", float64(r.IO.Dumped), 2*600*mb)
		near(t, "dumping", r.Work.Dump, 2*11)
	}
}

// TestOneDumpAtATime: of two victims on one node the second runs on until the first
// is on storage.
func TestOneDumpAtATime(t *testing.T) {
	c := easy(1, policy.Checkpoint)
	c.Node.CPUs, c.Node.Memory = 2, 2000*mb
	w := workload(
		job{run: 100, memory: 600 * mb},
		job{run: 100, memory: 600 * mb},
		job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
	)
	w.Tasks[2].CPUs = 2
	r := run(t, w, c)
	// 11 s for each dump; the second runs on for 11 s meanwhile; restores one after the
	// other: CPUs are held for 12 and for 24 s.
	near(t, "dumping", r.Work.Dump, 22)
	near(t, "restoring", r.Work.Restore, 12+24)
	near(t, "urgent", r.Bands[2].Response.Mean, 22+1+10)
}

// TestEndsBeforeItsDump: a task that ends while it waits for its turn at the store
// is done, and its place in the queue is free.
func TestEndsBeforeItsDump(t *testing.T) {
	c := easy(1, policy.Checkpoint)
	c.Node.CPUs, c.Node.Memory = 2, 2000*mb
	w := workload(
		job{run: 100, memory: 600 * mb},
		job{run: 52, memory: 700 * mb},
		job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
	)
	w.Tasks[2].CPUs = 2
	r := run(t, w, c)
	if r.Counts.Checkpoints != 1 || r.Counts.Withdrawn != 1 || r.Counts.Restores != 1 {
		t.Errorf("%+v, want a checkpoint, one that was withdrawn, and a restore", r.Counts)
	}
	if got := r.Outcome.ByPriority[0]; got.Preempted != 1 || got.Preemptions != 1 || r.Outcome.Times[0] != 2 {
		t.Errorf("%+v, %d never; want one preempted once, and two never", got, r.Outcome.Times[0])
	}
}

// TestQueuedDumpsAreNotFree: what a dump that waits will write is promised to nobody else.
func TestQueuedDumpsAreNotFree(t *testing.T) {
	c := easy(1, policy.Checkpoint)
	c.Node.CPUs, c.Node.Memory, c.Node.Swap, c.Node.Store = 3, 1200*mb, 0, 1000*mb
	r := run(t, workload(
		job{run: 1000, memory: 300 * mb},
		job{run: 1000, priority: 1, memory: 400 * mb},
		job{run: 1000, priority: 1, memory: 400 * mb},
		job{submit: 51, run: 100, priority: 4, memory: 300 * mb},
		job{submit: 52, run: 100, priority: 4, memory: 400 * mb},
		job{submit: 53, run: 100, priority: 4, memory: 400 * mb},
	), c)
	if r.Counts.Checkpoints != 2 || r.Counts.NoRoom != 0 {
		t.Errorf("%+v, want two checkpoints, and no third one that the store has no room for", r.Counts)
	}
}

// TestRightToRoomLapses: a dump is called off because its task has grown. Who was to have that
// room has no right to it any more, and does not go before a more urgent task that comes later.
func TestRightToRoomLapses(t *testing.T) {
	c := easy(1, policy.Checkpoint)
	c.Node.CPUs, c.Node.Memory, c.Node.Swap, c.Node.Store = 2, 1600*mb, 0, 1000*mb
	r := run(t, workload(
		job{run: 1000, memory: 600 * mb},
		// 358 MB when it is ordered to leave, at 52; 429 when it is its turn, at 62.
		job{run: 300, priority: 1, memory: 900 * mb, grow: 128},
		job{submit: 51, run: 1000, priority: 4, memory: 500 * mb},
		job{submit: 52, run: 10, priority: 4, memory: 1000 * mb},
		job{submit: 100, run: 10, priority: 10, memory: 600 * mb},
	), c)
	if r.Counts.Checkpoints != 1 || r.Counts.NoRoom != 1 || r.Outcome.Times[1] != 1 {
		t.Errorf("%+v, %d preempted once; want one checkpoint, and one that is called off and is no preemption", r.Counts, r.Outcome.Times[1])
	}
	near(t, "urgent", r.Bands[2].Response.Mean, 301+1+10-100)
}

// TestMoves: a checkpoint goes to another node when that is sooner.
func TestMoves(t *testing.T) {
	c := easy(2, policy.Checkpoint)
	c.Node.Net = 60 * mb
	r := run(t, workload(
		job{run: 100, memory: 600 * mb},
		job{run: 61, priority: 4, memory: 600 * mb},
		job{submit: 51, run: 1000, priority: 10, memory: 600 * mb},
	), c)
	if r.Counts.Remote != 1 {
		t.Fatalf("%+v, want a restore on the other node", r.Counts)
	}
	// On storage at 62 (50 s of 100 done), free on the other node as well: 10 s over the
	// network, 12 to restore, 50 to run.
	near(t, "moved", float64(r.IO.Moved), 600*mb)
	near(t, "response", r.Bands[0].Response.Mean, 62+10+12+50)
}

// TestSuspendedForLong: what was suspended for a service goes on where there is room, though its own
// node has none for a day.
func TestSuspendedForLong(t *testing.T) {
	for k, p := range []policy.Name{policy.Cost, policy.Suspend, policy.Cost} {
		c := easy(2, p)
		c.Node.Net = 60 * mb
		w := workload(
			job{run: 600, priority: 1, memory: 600 * mb},
			job{run: 660, priority: 4, memory: 600 * mb},
			job{submit: 300, run: 86400, priority: 9, memory: 600 * mb},
		)
		if k == 2 { // a small task beside a large service
			c.Node.CPUs, w.Tasks[1].CPUs, w.Tasks[2].CPUs = 4, 4, 4
		}
		r := run(t, w, c)
		// It has run 299 s when it is stopped for the service. The other node is free at 661: 11 s to
		// dump, 10 over the network, 12 to restore, and the rest.
		near(t, "low", r.Bands[0].Response.Mean, 661+11+10+12+301)
		near(t, "other", r.Bands[1].Response.Mean, 661)
		near(t, "service", r.Bands[2].Response.Mean, 3+1+86400)
		if r.Counts.Suspends != 1 || r.Counts.Remote != 1 {
			t.Errorf("%s: %+v, want one suspend and a restore on the other node", p, r.Counts)
		}
	}
}

// TestIdleWhileMemoryIsWritten: a node may be idle, and others wait, as long as the memory is
// written that the next one needs.
func TestIdleWhileMemoryIsWritten(t *testing.T) {
	c := easy(1, policy.Cost)
	c.Node.Swap, c.Medium.Write = 0, 5*mb
	r := run(t, workload(
		job{run: 1000, priority: 1, memory: 600 * mb},
		job{submit: 100, run: 250, priority: 9, memory: 300 * mb},
		job{submit: 110, run: 10, priority: 0, memory: 100 * mb},
		job{submit: 120, run: 10, priority: 4, memory: 500 * mb},
	), c)
	// Stopped at 100, the first is written from 354 on: 5 s and 120 s.
	near(t, "middle", r.Bands[1].Response.Mean, 354+125+1+10-120)
}

// TestGrows: a task that has not grown yet has less to write.
func TestGrows(t *testing.T) {
	r := run(t, workload(
		job{run: 100, memory: 600 * mb, grow: 100},
		job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
	), easy(1, policy.Checkpoint))
	near(t, "dumped", float64(r.IO.Dumped), 300*mb)
}

// TestGrowsForEver: a task that grows for longer than the clock counts has hardly grown.
func TestGrowsForEver(t *testing.T) {
	r := run(t, workload(
		job{run: 100, memory: 600 * mb, grow: 1e20},
		job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
	), easy(1, policy.Checkpoint))
	if r.Counts.Checkpoints != 1 || r.IO.Dumped != least {
		t.Errorf("%d checkpoints of %d bytes, want one of the least", r.Counts.Checkpoints, r.IO.Dumped)
	}
}

// TestBandOfJob: a job with tasks of two bands is of that of the first, whichever ends last.
func TestBandOfJob(t *testing.T) {
	for _, long := range []float64{5, 50} {
		w := workload(job{run: 20, priority: 10, memory: mb}, job{submit: 1, run: long, memory: mb})
		w.Jobs, w.Tasks[1].Job, w.Tasks[1].Index = w.Jobs[:1], 0, 1
		r := run(t, w, easy(2, policy.Wait))
		if r.Bands[0].Jobs != 0 || r.Bands[0].Tasks != 1 || r.Bands[2].Jobs != 1 || r.Bands[2].Tasks != 1 {
			t.Errorf("%v s: %d jobs with %d tasks are free, %d with %d production", long, r.Bands[0].Jobs, r.Bands[0].Tasks, r.Bands[2].Jobs, r.Bands[2].Tasks)
		}
		near(t, "response", r.Bands[2].Response.Mean, max(21, 1+1+long))
	}
}

// TestSlowdown: a task that runs for no time and waits for half a minute does not decide the
// mean.
func TestSlowdown(t *testing.T) {
	r := run(t, workload(job{run: 29, memory: mb}, job{run: 0, memory: mb}, job{submit: 100, run: 5, memory: mb}), easy(1, policy.Wait))
	near(t, "slowdown", r.Bands[0].Slowdown.Mean, (30.0/29+3.1+1)/3)
}

// TestEnergy is the model by hand: half of the time at work.
func TestEnergy(t *testing.T) {
	r := run(t, workload(job{run: 100}, job{submit: 100, run: 100, priority: 3}), easy(2, policy.Wait))
	// Two nodes for 202 s, 200 CPU-seconds.
	near(t, "makespan", r.Makespan, 201)
	near(t, "utilisation", r.Energy.Utilisation, 200.0/402)
	near(t, "energy", r.Energy.Joules, 2*201*100+100*200)
}

// TestAtMostOnceInAnInterval: decisions keep their distance.
func TestAtMostOnceInAnInterval(t *testing.T) {
	c := easy(1, policy.Wait)
	c.Interval = 7 * time.Second
	last := -c.Interval
	c.Observe = func(at time.Duration, _ *headrace.View, _ []headrace.Order) {
		if at < last+c.Interval {
			t.Errorf("decisions at %v and %v", last, at)
		}
		last = at
	}
	var jobs []job
	for i := range 50 {
		jobs = append(jobs, job{submit: float64(i), run: 1, memory: mb})
	}
	r := run(t, workload(jobs...), c)
	near(t, "tasks", float64(r.Bands[0].Tasks), 50)
}

func TestHangs(t *testing.T) {
	// Without swap or room for checkpoints nothing can leave, and Suspend never kills;
	// the urgent one waits. That is no hang.
	c := easy(1, policy.Suspend)
	c.Node.Swap, c.Node.Store = 0, 0
	r := run(t, workload(job{run: 100, memory: 600 * mb}, job{submit: 51, run: 10, priority: 10, memory: 600 * mb}), c)
	near(t, "urgent", r.Bands[2].Response.Mean, 50+11)
}

func TestRefuses(t *testing.T) {
	good := workload(job{run: 1, memory: mb})
	for what, tt := range map[string]struct {
		w      *trace.Workload
		change func(c *Config)
		want   string
	}{
		"no tasks":      {workload(), func(*Config) {}, "no tasks"},
		"no nodes":      {good, func(c *Config) { c.Nodes = 0 }, "0 nodes"},
		"no CPUs":       {good, func(c *Config) { c.Node.CPUs = math.NaN() }, "CPUs"},
		"no memory":     {good, func(c *Config) { c.Node.Memory = -1 }, "memory"},
		"no bandwidth":  {good, func(c *Config) { c.Medium.Write = 0 }, "bandwidths"},
		"policy":        {good, func(c *Config) { c.Policy.Policy = "magic" }, "magic"},
		"interval":      {good, func(c *Config) { c.Interval = -1 }, "interval"},
		"power":         {good, func(c *Config) { c.Power.Peak = 1 }, "power"},
		"too large":     {workload(job{run: 1, memory: 1001 * mb}), func(*Config) {}, "1 of 1 tasks fit on no node"},
		"out of order":  {workload(job{submit: 2}, job{submit: 1}), func(*Config) {}, "before the one before"},
		"too long":      {workload(job{submit: 3.2e9, run: 1}), func(*Config) {}, "years"},
		"negative time": {workload(job{run: -1}), func(*Config) {}, "cannot be"},
	} {
		c := easy(1, policy.Kill)
		tt.change(&c)
		if _, err := Run(t.Context(), tt.w, c, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, tt.want)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var jobs []job
	for range 200 {
		jobs = append(jobs, job{run: 1, memory: mb})
	}
	if _, err := Run(ctx, workload(jobs...), easy(1, policy.Wait), nil); err != context.Canceled {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

// TestSameBytes: the same again gives the same.
func TestSameBytes(t *testing.T) {
	w := random(3, 300)
	for _, p := range policy.Names() {
		c := easy(3, p)
		c.Node.Net = 100 * mb
		var last string
		for range 2 {
			b, err := json.Marshal(run(t, w, c))
			if err != nil {
				t.Fatal(err)
			}
			if last != "" && string(b) != last {
				t.Errorf("%s: another result for the same", p)
			}
			last = string(b)
		}
	}
}

func TestUsesMedium(t *testing.T) {
	w := workload(
		job{run: 100, memory: 600 * mb},
		job{submit: 51, run: 10, priority: 10, memory: 600 * mb},
	)
	roomy, onMedium := easy(1, policy.Suspend), easy(1, policy.Suspend)
	roomy.Node.Memory = 2000 * mb
	onMedium.Node.SwapOut, onMedium.Node.SwapIn = 0, 0
	for what, tt := range map[string]struct {
		c    Config
		want bool
	}{
		"kill":                         {easy(1, policy.Kill), false},
		"wait":                         {easy(1, policy.Wait), false},
		"cost":                         {easy(1, policy.Cost), true},
		"suspend, swap somewhere else": {easy(1, policy.Suspend), false},
		"suspend, swap on the medium":  {onMedium, true},
		"suspend, no need of swap":     {roomy, false},
	} {
		if r := run(t, w, tt.c); r.UsesMedium != tt.want {
			t.Errorf("%s: %v, want %v", what, r.UsesMedium, tt.want)
		}
	}
}

// TestMediumTooSlowToMove: the medium makes a difference also where nothing is moved because
// of it.
func TestMediumTooSlowToMove(t *testing.T) {
	for moved, write := range []float64{mb / 100, 100 * mb} {
		c := easy(2, policy.Suspend)
		c.Node.Net, c.Medium.Write = 60*mb, write
		r := run(t, workload(
			job{run: 600, priority: 1, memory: 600 * mb},
			job{run: 660, priority: 4, memory: 600 * mb},
			job{submit: 300, run: 5000, priority: 9, memory: 600 * mb},
		), c)
		if r.Counts.Suspends != 1 || r.Counts.Remote != moved || !r.UsesMedium {
			t.Errorf("%v bytes a second: %+v, uses the medium: %v; want one suspend, %d moves, and true", write, r.Counts, r.UsesMedium, moved)
		}
	}
}

// endOf returns when the last of job was seen under c.
func endOf(t *testing.T, w *trace.Workload, c Config, job headrace.JobID) (at time.Duration) {
	t.Helper()
	c.Observe = func(now time.Duration, v *headrace.View, _ []headrace.Order) {
		for i := range v.Tasks {
			if v.Tasks[i].Job == job && !v.Tasks[i].State.Final() {
				at = now
			}
		}
	}
	run(t, w, c)
	return at
}

// TestBesideService: a task that needs a whole node has room kept where those that run are expected to
// end, not where a service holds one CPU for ever.
func TestBesideService(t *testing.T) {
	w := &trace.Workload{Jobs: []string{"svc", "x", "big", "small"}, Tasks: []trace.Task{
		{Job: 0, Run: 100 * time.Hour, CPUs: 1, Memory: mb, Priority: 10},
		{Job: 1, Submit: 2 * time.Hour, Run: 30 * time.Minute, CPUs: 4, Memory: mb, Priority: 4},
		{Job: 1, Submit: 2 * time.Hour, Run: 40 * time.Minute, CPUs: 4, Memory: mb, Priority: 4},
		{Job: 2, Submit: 2*time.Hour + time.Minute, Run: time.Hour, CPUs: 8, Memory: mb, Priority: 4},
	}}
	for range 100 {
		w.Tasks = append(w.Tasks, trace.Task{Job: 3, Submit: 2*time.Hour + 2*time.Minute, Run: time.Hour, CPUs: 1, Memory: mb, Priority: 4})
	}
	c := easy(2, policy.Cost)
	c.Node.CPUs = 8
	c.Kinds = nil
	if ended := endOf(t, w, c, "big"); ended > 4*time.Hour {
		t.Errorf("it ends after %v", ended)
	}
}

// TestLargeInStream: a task that needs a whole node is passed by those that came soon after it, not by all
// that come for ever, of which there are twice, or eight times, as many as can run.
func TestLargeInStream(t *testing.T) {
	for times, most := range map[time.Duration]time.Duration{2: 4 * time.Hour, 8: 18 * time.Hour} {
		w := &trace.Workload{Jobs: []string{"small", "big"}}
		for at := time.Duration(0); at < 20*time.Hour; at += 75 * time.Second {
			if at == time.Hour {
				w.Tasks = append(w.Tasks, trace.Task{Job: 1, Submit: at, Run: time.Hour, CPUs: 2, Memory: mb, Priority: 4})
			}
			w.Tasks = append(w.Tasks, trace.Task{Submit: at, Run: 5 * times * time.Minute, CPUs: 1, Memory: mb, Priority: 4})
		}
		c := easy(2, policy.Cost)
		c.Node.CPUs, c.Kinds = 2, nil
		if ended := endOf(t, w, c, "big"); ended < 3*time.Hour || ended > most {
			t.Errorf("%d times as many: it ends after %v", times, ended)
		}
	}
}

// TestBesideMove: an urgent task that comes while a node is kept for one on its way there starts at once.
func TestBesideMove(t *testing.T) {
	w := workload(job{0, 5000, 1, 900 * mb, 0, 1}, job{0, 3100, 9, mb, 0, 0}, job{2000, 36000, 10, mb, 0, 0}, job{3106, 100, 9, mb, 0, 0})
	c := easy(2, policy.Cost)
	c.Node.Net = 1 * mb
	if ended := endOf(t, w, c, "d"); ended > 3210*time.Second {
		t.Errorf("it ends after %v", ended)
	}
}
