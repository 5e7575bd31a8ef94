package sim

import (
	"fmt"
	"testing"
	"time"

	"headrace/policy"
	"headrace/policy/prefetch"
	"headrace/trace"
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
