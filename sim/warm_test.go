package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/policy"
	"headrace/policy/prefetch"
	"headrace/trace"
	"headrace/trace/swim"
)

// TestReadingAheadGivesWay: 35 of 50 MB are read ahead when another task comes to the
// disk, whose blocks are too large for the buffer. Nothing more is read ahead until
// the 50 MB are wanted, at 22.15; the other has 10 MB to go then. Both get 40 MB/s
// for 0.25 s, and the last 5 MB take 0.05.
func TestReadingAheadGivesWay(t *testing.T) {
	c := easyDisks(1, policy.Wait)
	c.Node.CPUs, c.Costs.Start = 2, 250*time.Millisecond
	c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 1000*mb, 60*mb, 2*time.Second
	r := run(t, readers(
		reader{submit: 20, file: 1, input: 200},
		reader{submit: 21.9, file: 2, input: 50},
	), c).Reading
	near(t, "time", r.Time, (2.15+0.3)/2)
	if r.FromMemory != 35*mb || r.Warmed != 35*mb || r.Disks != 250*mb {
		t.Errorf("%+v", *r)
	}
}

// TestWarmsAgain: what a job counts on because somebody has read it is read ahead
// once more when it is evicted. The second job, whose blocks are too large for
// the buffer, needs all of the cache.
func TestWarmsAgain(t *testing.T) {
	c := easyDisks(1, policy.Wait)
	c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 200*mb, 60*mb, 50*time.Second
	r := run(t, readers(
		reader{file: 1, input: 50},
		reader{submit: 20, file: 2, input: 200},
		reader{submit: 60, file: 1, input: 50},
	), c).Reading
	if r.FromMemory != 100*mb || r.Warmed != 100*mb || r.Ahead != 100*mb || r.Disks != 300*mb {
		t.Errorf("%+v", *r)
	}
	c.Reading.Cache = 300 * mb // now it need not go
	r = run(t, readers(
		reader{file: 1, input: 50},
		reader{submit: 20, file: 2, input: 200},
		reader{submit: 60, file: 1, input: 50},
	), c).Reading
	if r.FromMemory != 100*mb || r.Warmed != 50*mb || r.Ahead != 50*mb || r.Disks != 250*mb {
		t.Errorf("%+v", *r)
	}
}

// TestWarmsForSeveral: a block that two jobs want is read once, and kept until both
// have read it.
func TestWarmsForSeveral(t *testing.T) {
	c := easyDisks(1, policy.Wait)
	c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 100*mb, 100*mb, time.Minute
	r := run(t, readers(
		reader{submit: 10, run: 5, file: 1, input: 100},
		reader{submit: 20, run: 5, file: 2, input: 100},
		reader{submit: 30, run: 5, file: 1, input: 100},
	), c).Reading
	// All are announced at 0. The block of the second does not fit beside that of the
	// others, and is not kept in the cache when it has been read.
	if r.Warmed != 200*mb || r.FromMemory != 200*mb || r.Disks != 200*mb || r.Ahead != 100*mb {
		t.Errorf("%+v", *r)
	}
}

// TestWarmsSmallestFirst: of two jobs announced together the smaller one is ready
// first, in order of submission it is not.
func TestWarmsSmallestFirst(t *testing.T) {
	for _, tt := range []struct {
		order        prefetch.Order
		large, small float64
		there        int64
	}{
		// The large one finds 100 MB, and 10 more when it has copied them.
		{prefetch.SmallestFirst, 0.1 + 0.9, 0.1, 210 * mb},
		{prefetch.FIFO, 0.2, 1, 200 * mb},
	} {
		c := easyDisks(1, policy.Wait)
		c.Node.CPUs, c.Costs.Start = 2, 2*time.Second
		c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 1000*mb, 1000*mb, 0
		c.Reading.Warm.Order = tt.order
		r := run(t, readers(reader{file: 1, input: 200}, reader{file: 2, input: 100}), c)
		near(t, string(tt.order), r.Reading.Time, (tt.large+tt.small)/2)
		near(t, string(tt.order)+": the last end", r.Makespan, 2+max(tt.large, tt.small))
		if r.Reading.FromMemory != tt.there {
			t.Errorf("%s: %+v", tt.order, *r.Reading)
		}
	}
}

// TestKilledIsWarmedAgain: what a killed task has read from memory is wanted again,
// and is there.
func TestKilledIsWarmedAgain(t *testing.T) {
	w := readers(reader{submit: 5, file: 1, input: 300, run: 100})
	w.Tasks[0].Memory = 600 * mb
	w.Jobs = append(w.Jobs, "urgent")
	w.Tasks = append(w.Tasks, trace.Task{Job: 1, Submit: 20 * time.Second, Run: 10 * time.Second, CPUs: 1, Memory: 600 * mb, Priority: 10})
	c := easyDisks(1, policy.Kill)
	c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 150*mb, 150*mb, 5*time.Second
	r := run(t, w, c)
	// In each life one block is there when it is wanted.
	if got := r.Reading; got.Lost != 300*mb || got.Warmed != 200*mb || got.Time != 2.1 {
		t.Errorf("%+v", *got)
	}
}

// TestFacebookDay: on the first three hours of a day of Facebook, on 60 nodes, more
// lead and more room for warming make reading shorter (ignem, sections IV.C and IV.E)
// and jobs no slower; how they come to wait for each other changes by chance.
func TestFacebookDay(t *testing.T) {
	w, err := trace.Open(t.Context(), "swim:facebook-day", trace.OpenOptions{For: 3 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	with := func(buffer int64, lead time.Duration) *Result {
		c := DefaultConfig()
		c.Nodes, c.Node.Net, c.Policy.Policy = 60, 1.25e9, policy.Wait
		c.Reading.Buffer, c.Reading.Lead = buffer, lead
		return run(t, w, c)
	}
	const gib = 1 << 30
	cold := with(0, -1)
	small, long := with(gib/2, 10*time.Second), with(4*gib, 30*time.Second)
	for _, pair := range [][2]*Result{{small, cold}, {long, small}} {
		a, b := pair[0], pair[1]
		if a.Reading.Time >= b.Reading.Time || a.Reading.FromMemory <= b.Reading.FromMemory || a.Work.Reading >= b.Work.Reading {
			t.Errorf("%+v\nis no better than\n%+v", *a.Reading, *b.Reading)
		}
		for i, x := range a.Reading.Jobs {
			if y := b.Reading.Jobs[i]; x.Jobs != y.Jobs || x.Response > 1.01*y.Response || x.Time > y.Time {
				t.Errorf("%+v is no better than %+v", x, y)
			}
		}
	}
	if r := long.Reading; r.Time > 0.6*cold.Reading.Time || r.Lost > 0 || float64(r.Disks) > 1.02*float64(r.Bytes) {
		t.Errorf("warmed: %+v\ncold: %+v", *r, *cold.Reading)
	}
}

// TestIgnemsWorkload is that of ignem, section IV.B: 200 jobs with 170 GB on 8 servers,
// that are known 10 s before they start. There jobs took 12 % less time with warming,
// 21 % with inputs in memory, and 60 % of the blocks came from memory.
func TestIgnemsWorkload(t *testing.T) {
	w := ignemsWorkload(t)
	with := func(buffer int64, lead time.Duration) (response float64, r *ReadingResult) {
		c := DefaultConfig()
		c.Nodes, c.Node.CPUs, c.Node.Net, c.Policy.Policy, c.Interval = 8, 12, 1.25e9, policy.Wait, time.Second
		c.Reading.Block, c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 64*mb, 64<<30, buffer, lead
		got := run(t, w, c)
		return got.Bands[1].Response.Mean, got.Reading
	}
	// All durations have the 10 s in them.
	cold, was := with(0, -1)
	warm, is := with(32<<30, 10*time.Second)
	if less := 1 - (warm+10)/(cold+10); less < 0.08 || less > 0.18 {
		t.Errorf("jobs take %.1f s, warmed %.1f: %.1f %% less", cold+10, warm+10, 100*less)
	}
	if share := float64(is.FromMemory) / float64(is.Bytes); share < 0.5 || share > 0.9 || is.Time > 0.6*was.Time {
		t.Errorf("warmed: %.2f from memory, %+v; cold: %+v", share, *is, *was)
	}
	before := was.Time
	for _, lead := range []time.Duration{0, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if _, r := with(32<<30, lead); r.Time >= before {
			t.Errorf("with %v a task reads for %.2f s, with less %.2f", lead, r.Time, before)
		} else {
			before = r.Time
		}
	}
	before = was.Time
	for _, buffer := range []int64{1 << 28, 1 << 29, 1 << 30, 1 << 31} {
		if _, r := with(buffer, 10*time.Second); r.Time >= before || r.PinnedMost > buffer {
			t.Errorf("with %d bytes a task reads for %.2f s, with less %.2f; %+v", buffer, r.Time, before, *r)
		} else {
			before = r.Time
		}
	}
}

func ignemsWorkload(t *testing.T) *trace.Workload {
	const jobs, input = 200, 170e9
	all, err := swim.Collect(swim.First(swim.FacebookDay(), jobs))
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, j := range all {
		sum += j.Input
	}
	var tsv strings.Builder
	for j := range swim.Scaled(swim.First(swim.FacebookDay(), jobs), swim.Scale{Bytes: input / float64(sum), Time: 0.5}) {
		fmt.Fprintf(&tsv, "%s\t%d\t0\t%d\t%d\t%d\n", j.ID, j.Submit/time.Second, j.Input, j.Shuffle, j.Output)
	}
	file := filepath.Join(t.TempDir(), "jobs.tsv")
	if err := os.WriteFile(file, []byte(tsv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := trace.Open(t.Context(), "swim:"+file, trace.OpenOptions{Swim: trace.SwimOptions{Block: 64 * mb, Rate: 400e6}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func BenchmarkFacebookDay(b *testing.B) {
	w, err := trace.Open(b.Context(), "swim:facebook-day", trace.OpenOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, buffer := range []int64{0, 4 << 30} {
		b.Run(fmt.Sprintf("buffer=%dGiB", buffer>>30), func(b *testing.B) {
			c := DefaultConfig()
			c.Nodes, c.Node.Net, c.Policy.Policy = 60, 1.25e9, policy.Wait
			c.Reading.Buffer = buffer
			for b.Loop() {
				if _, err := Run(b.Context(), w, c, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
