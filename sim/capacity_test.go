package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/sim/capacity"
	"headrace/trace"
)

// yarned is easy under YARN: a heartbeat each second, a look at who gives way each two,
// five seconds of warning, and all that a queue has too much at once.
func yarned(nodes int, p policy.Name) Config {
	c := easy(nodes, p)
	q := capacity.DefaultConfig()
	q.Heartbeat, q.Monitor, q.Warning = time.Second, 2*time.Second, 5*time.Second
	q.PerRound, q.NaturalTermination, q.Ignored = 1, 1, 0.2
	q.Queues[1].Priority = 1
	c.Capacity = &q
	return c
}

// TestRandomCapacity is TestRandom under YARN's scheduler, with queues, preemption
// within them and moves elsewhere.
func TestRandomCapacity(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 6
	}
	var all Counts
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 9))
		mixed, alike := random(seed, 120), random(seed, 120)
		for i := range alike.Tasks {
			alike.Tasks[i].CPUs, alike.Tasks[i].Memory = 1, 450*mb
		}
		pick := func(of ...int64) int64 { return of[r.IntN(len(of))] }
		for _, p := range policy.Names() {
			c := yarned(1+r.IntN(4), p)
			c.Node.CPUs = float64(1 + r.IntN(3))
			c.Node.Memory = pick(900, 1500, 4000) * mb
			c.Node.Swap = pick(0, 500, 5000) * mb
			c.Node.Store = pick(0, 800, 100000) * mb
			c.Node.Net = float64(pick(0, 50, 500) * mb)
			c.Interval = time.Duration(pick(0, 1, 10)) * time.Second
			c.KnowShare = r.IntN(3) == 0
			c.Costs.Kill = time.Duration(pick(0, 2)) * time.Second
			c.Policy.MinRun = 0
			q := c.Capacity
			q.IntraQueue, q.Elsewhere = r.IntN(2) == 0, time.Duration(pick(0, 10))*time.Second
			q.PerRound, q.NaturalTermination = float64(pick(1, 5, 10))/10, float64(pick(2, 10))/10
			if r.IntN(2) == 0 {
				q.Queues, _ = capacity.ParseQueues([]string{"a=30:0-3:60", "b=30:4-7", "c=40:8-11:90:1"})
			}
			// A task that is larger than its queue may be never runs. And YARN kills without
			// end: one for the other where each is more than its queue is guaranteed; and two
			// in turn for one that needs the room of both.
			w := alike
			if p == policy.Wait || p == policy.Suspend || p == policy.Checkpoint {
				w = mixed
			}
			q.Ignored = 1.5
			for _, x := range w.Tasks {
				if float64(x.CPUs) > 0.6*c.Node.CPUs*float64(c.Nodes) || float64(x.Memory) > 0.6*float64(c.Node.Memory)*float64(c.Nodes) {
					q.Queues, q.Ignored = capacity.DefaultConfig().Queues, 0.2
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got, err := Run(ctx, w, c, nil)
			cancel()
			if err != nil {
				t.Fatalf("seed %d, %s, %+v, %+v: %v", seed, p, c.Node, q, err)
			}
			sum := 0
			for _, b := range got.Bands {
				sum += b.Tasks
			}
			if sum != len(w.Tasks) || got.Counts.Starts < len(w.Tasks) {
				t.Errorf("seed %d, %s: %d of %d tasks have ended after %d starts", seed, p, sum, len(w.Tasks), got.Counts.Starts)
			}
			if p == policy.Wait && got.Counts.Preemptions() > 0 || p == policy.Kill && got.Counts.Preemptions() != got.Counts.Kills ||
				(p == policy.Suspend || p == policy.Checkpoint) && got.Counts.Kills > 0 {
				t.Errorf("seed %d: %s did %+v", seed, p, got.Counts)
			}
			all.Kills += got.Counts.Kills
			all.Suspends += got.Counts.Suspends
			all.Checkpoints += got.Counts.Checkpoints
			all.Resumes += got.Counts.Resumes
			all.Restores += got.Counts.Restores
			all.Remote += got.Counts.Remote
		}
	}
	t.Logf("%+v", all)
	if all.Kills == 0 || all.Suspends == 0 || all.Checkpoints == 0 || all.Resumes == 0 || all.Restores == 0 || all.Remote == 0 {
		t.Errorf("something never happens: %+v", all)
	}
}

// TestSameBytesCapacity: the same again gives the same.
func TestSameBytesCapacity(t *testing.T) {
	w := random(3, 300)
	for _, p := range policy.Names() {
		c := yarned(3, p)
		c.Node.Net, c.Capacity.Elsewhere, c.Capacity.IntraQueue = 100*mb, 10*time.Second, true
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

// TestYARN reckons by hand what becomes of a task of 100 s that has to leave for one of
// 10 s, which is submitted at 51 s. YARN looks who gives way at 52 s, when the other has
// run 51 s. Both have 600 of 1000 MB.
func TestYARN(t *testing.T) {
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
		// A warning of 5 s is over at the look at 58; 2 s to kill, 1 to start; then the
		// other begins anew at 71.
		{policy.Kill, 7 + 2 + 11, 71 + 101, Work{Killed: 57, Stop: 2 + 3}, Counts{Starts: 3, Kills: 1}},
		// 3 s to stop, 1 to start; 200 MB are paged out meanwhile, and take 1 s to come
		// back after 4 s to resume, at 66.
		{policy.Suspend, 1 + 3 + 11, 66 + 5 + 49, Work{Stop: 3 + 2, PageIn: 5}, Counts{Starts: 2, Suspends: 1, Resumes: 1}},
		{policy.Cost, 1 + 3 + 11, 66 + 5 + 49, Work{Stop: 3 + 2, PageIn: 5}, Counts{Starts: 2, Suspends: 1, Resumes: 1}},
		// 5+6 s to dump, 1 to start; 6+6 s to restore, at 74.
		{policy.Checkpoint, 1 + 11 + 11, 74 + 12 + 49, Work{Stop: 2, Dump: 11, Restore: 12}, Counts{Starts: 2, Checkpoints: 1, Restores: 1}},
		{policy.Adaptive, 1 + 11 + 11, 74 + 12 + 49, Work{Stop: 2, Dump: 11, Restore: 12}, Counts{Starts: 2, Checkpoints: 1, Restores: 1}},
	}
	for _, tt := range tests {
		t.Run(string(tt.policy), func(t *testing.T) {
			r := run(t, pair, yarned(1, tt.policy))
			near(t, "urgent", r.Bands[2].Response.Mean, tt.urgent)
			near(t, "other", r.Bands[0].Response.Mean, tt.other)
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

// done returns when what was done to which task.
func done(t *testing.T, w *trace.Workload, c Config) string {
	t.Helper()
	var b strings.Builder
	c.Observe = func(at time.Duration, _ *headrace.View, orders []headrace.Order) {
		for _, o := range orders {
			what := o.Verb.String()
			if o.Verb == headrace.OrderPreempt {
				what = o.Mechanism.String()
			}
			fmt.Fprintf(&b, "%v %s %s %s\n", at, what, o.Task, o.Node)
		}
	}
	run(t, w, c)
	return b.String()
}

// TestCapacityOrders is what is given to whom, and taken from whom, in which order.
func TestCapacityOrders(t *testing.T) {
	wide := func(w *trace.Workload, cpus ...float32) *trace.Workload {
		for i := range cpus {
			w.Tasks[i].CPUs = cpus[i]
		}
		return w
	}
	tests := []struct {
		name   string
		w      *trace.Workload
		change func(*Config)
		want   string
	}{
		{"in a queue by priority, then as they came",
			workload(job{run: 10}, job{submit: 1, run: 10}, job{submit: 2, run: 10}, job{submit: 3, run: 10, priority: 8}),
			func(c *Config) { c.Policy.Policy = policy.Wait },
			"0s start a.1 n1\n11s start d.4 n1\n22s start b.2 n1\n33s start c.3 n1\n"},
		{"the queue with less of its guarantee first",
			workload(job{run: 10}, job{submit: 1, run: 10}, job{submit: 2, run: 10, priority: 9}, job{submit: 3, run: 10}),
			func(c *Config) { c.Policy.Policy = policy.Wait },
			"0s start a.1 n1\n11s start c.3 n1\n22s start b.2 n1\n33s start d.4 n1\n"},
		{"no more than its maximum",
			workload(job{run: 10}, job{run: 10}, job{submit: 1, run: 10, priority: 9}),
			func(c *Config) { c.Nodes, c.Capacity.Queues[0].Maximum, c.Policy.Policy = 2, 50, policy.Wait },
			"0s start a.1 n1\n1.5s start c.3 n2\n11s start b.2 n1\n"},
		// At 8 one CPU is free on each node. n2 is kept for f, which wants two, when g comes.
		{"a node is kept for what fits on none",
			wide(workload(job{run: 5}, job{submit: 0.1, run: 5}, job{submit: 0.3, run: 30}, job{submit: 6, run: 20}, job{submit: 6.1, run: 20},
				job{submit: 8, run: 10}, job{submit: 8.6, run: 40}), 2, 2, 1, 1, 1, 2, 1),
			func(c *Config) { c.Nodes, c.Node.CPUs, c.Capacity.Heartbeat = 3, 2, 1500*time.Millisecond },
			"0s start a.1 n1\n500ms start b.2 n2\n1s start c.3 n3\n6s start d.4 n1\n6.5s start e.5 n2\n9s start g.7 n1\n27.5s start f.6 n2\n"},
		// Of a, b and c, which all run, the last to have begun goes first.
		{"the newest container of the last application first",
			wide(workload(job{run: 100}, job{submit: 1, run: 100}, job{submit: 2, run: 100}, job{submit: 20, run: 5, priority: 10}), 1, 1, 1, 2),
			func(c *Config) { c.Node.CPUs, c.Node.Memory = 3, 4000*mb },
			"0s start a.1 n1\n1s start b.2 n1\n2s start c.3 n1\n20s suspend c.3 n1\n20s suspend b.2 n1\n23s start d.4 n1\n29s resume b.2 n1\n29s resume c.3 n1\n"},
		{"within a queue only if that is asked for",
			workload(job{run: 30}, job{submit: 9, run: 5, priority: 4}),
			func(c *Config) {},
			"0s start a.1 n1\n31s start b.2 n1\n"},
		{"within a queue for a higher priority",
			workload(job{run: 30}, job{submit: 9, run: 5, priority: 4}),
			func(c *Config) { c.Capacity.IntraQueue, c.Capacity.Queues = true, one() },
			"0s start a.1 n1\n10s suspend a.1 n1\n13s start b.2 n1\n19s resume a.1 n1\n"},
		// c waits for n1 until 16; b has come back at 16 and has to leave again: 2 s aside
		// become 4.
		{"what was soon put aside again stays aside for longer",
			workload(job{run: 60}, job{submit: 9, run: 0, priority: 10}, job{submit: 25, run: 0, priority: 10}),
			func(c *Config) { c.Costs.Stop, c.Costs.Resume = time.Second, time.Second },
			"0s start a.1 n1\n10s suspend a.1 n1\n11s start b.2 n1\n13s resume a.1 n1\n26s suspend a.1 n1\n27s start c.3 n1\n31s resume a.1 n1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := yarned(1, policy.Suspend)
			tt.change(&c)
			if got := done(t, tt.w, c); got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

// TestWarning is when a container is killed for one that is submitted at 51 s. It is marked at the first look then.
func TestWarning(t *testing.T) {
	for _, tt := range []struct {
		monitor, warning, interval time.Duration
		want                       string
	}{
		{2 * time.Second, 5 * time.Second, 0, "58s"},
		{2 * time.Second, 0, 0, "54s"},
		{2 * time.Second, 900 * time.Millisecond, 0, "54s"},
		{60 * time.Second, 15 * time.Second, 0, "2m0s"},
		{3 * time.Second, 3 * time.Second, 20 * time.Second, "1m11s"},
	} {
		c := yarned(1, policy.Kill)
		c.Capacity.Monitor, c.Capacity.Warning, c.Interval = tt.monitor, tt.warning, tt.interval
		if got := done(t, workload(job{run: 300}, job{submit: 51, run: 10, priority: 10}), c); !strings.Contains(got, "\n"+tt.want+" kill a.1 n1\n") {
			t.Errorf("%v of warning, a look each %v: want a kill at %v:\n%s", tt.warning, tt.monitor, tt.want, got)
		}
	}
	// b is marked at 52 and stays, since a has ended: for e it is warned anew.
	c := yarned(2, policy.Kill)
	got := done(t, workload(job{run: 53}, job{run: 1000}, job{submit: 51, run: 100, priority: 10}, job{submit: 500, run: 10, priority: 10}, job{submit: 500, run: 10, priority: 10}), c)
	if !strings.Contains(got, "\n8m26s kill b.2") {
		t.Errorf("marked long before:\n%s", got)
	}
}

// TestPerRound: a look takes back no more than its share of the cluster, and so never a container that is larger.
func TestPerRound(t *testing.T) {
	for _, intra := range []bool{false, true} {
		for cpus, want := range map[float32]string{1: "52s suspend b.2 n1\n56s suspend a.1 n1\n", 2: ""} {
			if intra { // which takes nothing of a queue that is half empty
				want, _, _ = strings.Cut(want, "56s")
			}
			c := yarned(1, policy.Suspend)
			c.Node.CPUs, c.Capacity.PerRound = 4, 0.4
			urgent := headrace.Priority(10)
			if c.Capacity.IntraQueue = intra; intra {
				c.Capacity.Queues, urgent = one(), 4
			}
			w := workload(job{run: 70}, job{submit: 1, run: 70}, job{submit: 51, run: 10, priority: urgent})
			w.Tasks[0].CPUs, w.Tasks[1].CPUs, w.Tasks[2].CPUs = cpus, cpus, 4
			got := ""
			for line := range strings.Lines(done(t, w, c)) {
				if strings.Contains(line, "suspend") {
					got += line
				}
			}
			if got != want {
				t.Errorf("containers of %v CPUs, within a queue %v:\n%swant:\n%s", cpus, intra, got, want)
			}
		}
	}
}

// TestEndless: a task that is killed for another for ever is an error, and not while a third gets on.
func TestEndless(t *testing.T) {
	c := yarned(1, policy.Kill)
	c.Capacity.Ignored = 0.1
	w := workload(job{run: 600, priority: 2}, job{submit: 60, run: 30, priority: 9})
	if _, err := Run(t.Context(), w, c, nil); err == nil || !strings.Contains(err.Error(), "killed again and again before their end, b.2 1000 times: ") {
		t.Errorf("%v", err)
	}
	c = yarned(2, policy.Kill)
	var bad error
	if c.Capacity.Queues, bad = capacity.ParseQueues([]string{"a=25:0-3", "b=25:4-7", "c=50:8-11"}); bad != nil {
		t.Fatal(bad)
	}
	r := run(t, workload(job{run: 50000, priority: 10}, job{submit: 10, run: 600}, job{submit: 10, run: 600, priority: 5}), c)
	if r.Counts.Kills < 2*mostKills {
		t.Errorf("%d kills beside a long task, want more than %d", r.Counts.Kills, 2*mostKills)
	}
}

// TestMoreThanItsQueue: a task that is more than its queue may have never runs.
func TestMoreThanItsQueue(t *testing.T) {
	c := yarned(1, policy.Wait)
	c.Capacity.Queues[0].Maximum = 50
	w := workload(job{run: 1}, job{run: 1, priority: 10})
	if _, err := Run(t.Context(), w, c, nil); err == nil || !strings.Contains(err.Error(), "1 of 2 tasks fit on no node, or ask for more than the maximum of their queue (low), the largest") {
		t.Errorf("%v", err)
	}
	c.Nodes = 2
	run(t, w, c)
}

// one returns a queue for all.
func one() []capacity.Queue {
	q, err := capacity.ParseQueues([]string{"all=100:0-11"})
	if err != nil {
		panic(err)
	}
	return q
}

// TestElsewhere: what waits for its own node goes on elsewhere, when that is sooner. It
// is dumped, crosses the network twice and is restored.
func TestElsewhere(t *testing.T) {
	w := workload(
		job{run: 100, memory: 600 * mb},
		job{run: 30, memory: 600 * mb},
		job{submit: 9, run: 200, priority: 10, memory: 600 * mb},
	)
	c := yarned(2, policy.Suspend)
	c.Node.Net, c.Capacity.Elsewhere = 60*mb, 20*time.Second
	if r := run(t, w, c); r.Counts.Remote != 1 || r.Counts.Checkpoints != 1 || r.IO.Moved != 600*mb {
		t.Errorf("%+v, moved %d: want one that is dumped and goes on elsewhere", r.Counts, r.IO.Moved)
	}
	c.Node.Net = mb / 100 // it would take a day
	if r := run(t, w, c); r.Counts.Remote != 0 || r.Counts.Resumes != 1 {
		t.Errorf("%+v, want one that goes on where it was", r.Counts)
	}
}

// TestDumpsInTheOrderOfYARN: what another scheduler orders is done for nobody in particular, so that users do not take turns.
func TestDumpsInTheOrderOfYARN(t *testing.T) {
	w := workload(job{run: 100}, job{submit: 1, run: 100}, job{submit: 2, run: 100}, job{submit: 20, run: 5, priority: 10})
	w.Users = []string{"x", "y"}
	for i, user := range []int32{2, 1, 1, 1} {
		w.Tasks[i].User = user
	}
	w.Tasks[3].CPUs = 3
	c := yarned(1, policy.Checkpoint)
	c.Node.CPUs, c.Node.Memory = 3, 4000*mb
	var ordered, written []headrace.TaskID
	c.Observe = func(_ time.Duration, v *headrace.View, orders []headrace.Order) {
		for _, x := range v.Tasks {
			if x.State == headrace.Checkpointed && !slices.Contains(written, x.ID) {
				written = append(written, x.ID)
			}
		}
		for _, o := range orders {
			if o.Verb == headrace.OrderPreempt {
				ordered = append(ordered, o.Task)
			}
		}
	}
	run(t, w, c)
	if want := []headrace.TaskID{"c.3", "b.2", "a.1"}; !slices.Equal(ordered, want) || !slices.Equal(written, want) {
		t.Errorf("ordered %v, written %v, want %v", ordered, written, want)
	}
}

// TestGivesWayAsLive: who has to make room does so as policy.GiveWay says of what is
// seen, which is what the manager asks.
func TestGivesWayAsLive(t *testing.T) {
	for _, p := range policy.Names() {
		c := yarned(2, p)
		c.Policy.MinRun = 0
		n := 0
		c.Observe = func(at time.Duration, v *headrace.View, orders []headrace.Order) {
			if len(orders) != 1 || orders[0].Verb != headrace.OrderPreempt || orders[0].Mechanism == headrace.Kill {
				return // a kill was decided about before its warning
			}
			o := orders[0]
			var victim headrace.TaskView
			var others []headrace.TaskView
			for _, x := range v.Tasks {
				if x.Node != o.Node || x.State.Final() {
					continue
				}
				others = append(others, x)
				if x.ID == o.Task {
					victim = x
				}
			}
			i := slices.IndexFunc(v.Nodes, func(n headrace.NodeView) bool { return n.ID == o.Node })
			want := policy.GiveWay(victim, v.Nodes[i], others, headrace.High, c.Policy)
			if want.Mechanism != o.Mechanism || want.Store != o.Store || want.Delay != o.Delay || want.Waste != o.Waste {
				t.Errorf("%s at %v: %+v, want %+v", p, at, o, want)
			}
			n++
		}
		w := random(5, 200)
		for i := range w.Tasks { // one on each node: nobody makes room for two
			w.Tasks[i].CPUs, w.Tasks[i].Memory = 1, 300*mb
		}
		run(t, w, c)
		if n == 0 && p != policy.Wait && p != policy.Kill {
			t.Errorf("%s: nobody gave way", p)
		}
	}
}
