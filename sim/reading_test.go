package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/policy/prefetch"
	"headrace/trace"
)

// reader is a job of one task that reads all of a file from an offset on.
type reader struct {
	submit, run float64 // seconds
	file        int32   // from 1 on
	from, input int64   // MB
	priority    headrace.Priority
}

func readers(jobs ...reader) *trace.Workload {
	w := &trace.Workload{Name: "readers"}
	for i, j := range jobs {
		w.Jobs = append(w.Jobs, fmt.Sprint("r", i))
		w.Tasks = append(w.Tasks, trace.Task{
			Job: int32(i), Submit: seconds(j.submit), Run: seconds(j.run), CPUs: 1, Memory: 100 * mb,
			File: j.file, Offset: j.from * mb, Input: j.input * mb, Priority: j.priority,
		})
		for int(j.file) > len(w.Files) {
			w.Files = append(w.Files, trace.File{Name: fmt.Sprint("f", len(w.Files))})
		}
	}
	return w
}

// easyDisks returns a cluster as easy, with disks of 100 MB/s, 80 MB/s when shared,
// blocks of 100 MB, and 1000 MB/s from memory.
func easyDisks(nodes int, p policy.Name) Config {
	c := easy(nodes, p)
	c.Node.Net = 50 * mb
	c.Reading = Reading{Disk: 100 * mb, Shared: 80 * mb, Memory: 1000 * mb, Block: 100 * mb, Replicas: 1, Lead: -1}
	return c
}

func TestReadingByHand(t *testing.T) {
	tests := []struct {
		name   string
		w      *trace.Workload
		change func(c *Config)
		want   ReadingResult
		ends   float64
	}{
		{"one block after the other",
			readers(reader{file: 1, input: 250, run: 10}), nil,
			ReadingResult{Bytes: 250 * mb, Disks: 250 * mb, Time: 2.5}, 1 + 2.5 + 10},
		{"two share the disk: 80 MB/s in all until the first has its 100 MB, then 100",
			readers(reader{file: 1, input: 100}, reader{file: 2, input: 200}),
			func(c *Config) { c.Node.CPUs = 2 },
			ReadingResult{Bytes: 300 * mb, Disks: 300 * mb, Time: (2.5 + 3.5) / 2}, 1 + 3.5},
		{"what was read is in memory",
			readers(reader{file: 1, input: 200}, reader{file: 1, input: 300}),
			func(c *Config) { c.Reading.Cache = 1000 * mb },
			ReadingResult{Bytes: 500 * mb, FromMemory: 200 * mb, Disks: 300 * mb, Time: (2 + 0.2 + 1) / 2}, 1 + 2 + 1 + 1.2},
		{"what one reads the other does not read again: at 2.6 s the first has 60 MB",
			readers(reader{file: 1, input: 100}, reader{submit: 0.6, file: 1, input: 100}),
			func(c *Config) { c.Node.CPUs = 2; c.Reading.Cache = 1000 * mb },
			ReadingResult{Bytes: 200 * mb, FromMemory: 60 * mb, Disks: 100 * mb, Time: (1 + 0.4) / 2}, 2},
		{"without a cache too",
			readers(reader{file: 1, input: 100}, reader{submit: 0.6, file: 1, input: 100}),
			func(c *Config) { c.Node.CPUs = 2 },
			ReadingResult{Bytes: 200 * mb, FromMemory: 60 * mb, Disks: 100 * mb, Time: (1 + 0.4) / 2}, 2},
		{"what ends together is in memory before anybody goes on",
			readers(reader{file: 1, input: 200}, reader{file: 1, from: 100, input: 100}),
			func(c *Config) { c.Node.CPUs = 2; c.Reading.Cache = 1000 * mb },
			ReadingResult{Bytes: 300 * mb, FromMemory: 100 * mb, Disks: 200 * mb, Time: (2.5 + 0.1 + 2.5) / 2}, 1 + 2.6},
		{"or has to be read again",
			readers(reader{file: 1, input: 200}, reader{file: 1, from: 100, input: 100}),
			func(c *Config) { c.Node.CPUs = 2 },
			ReadingResult{Bytes: 300 * mb, Disks: 300 * mb, Time: (2.5 + 1 + 2.5) / 2}, 1 + 3.5},
		{"warmed in time: announced at 0, there at 3, wanted at 5",
			readers(reader{submit: 4, file: 1, input: 300}),
			func(c *Config) {
				c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 1000*mb, 1000*mb, time.Minute
			},
			ReadingResult{Bytes: 300 * mb, FromMemory: 300 * mb, Warmed: 300 * mb, Disks: 300 * mb, Ahead: 300 * mb, Time: 0.3, PinnedMost: 300 * mb}, 5.3},
		{"a buffer of one block",
			readers(reader{submit: 4, file: 1, input: 300}),
			func(c *Config) {
				c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 1000*mb, 150*mb, time.Minute
			},
			ReadingResult{Bytes: 300 * mb, FromMemory: 100 * mb, Warmed: 100 * mb, Disks: 300 * mb, Ahead: 100 * mb, Time: 0.1 + 2, PinnedMost: 100 * mb}, 5 + 2.1},
		{"half a block is there when it is wanted: the rest is read for the task",
			readers(reader{submit: 0.5, file: 1, input: 100}),
			func(c *Config) {
				c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 1000*mb, 1000*mb, 0
				c.Costs.Start = 500 * time.Millisecond
			},
			ReadingResult{Bytes: 100 * mb, FromMemory: 50 * mb, Warmed: 50 * mb, Disks: 100 * mb, Time: 0.5, PinnedMost: 100 * mb}, 1.5},
		{"reading ahead stands still while somebody reads",
			readers(reader{submit: 1, run: 100, file: 1, input: 200}, reader{submit: 10, file: 2, input: 300}),
			func(c *Config) {
				c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 1000*mb, 1000*mb, 10*time.Second
				c.Reading.Warm.Order, c.Node.CPUs = prefetch.FIFO, 2
				c.Costs.Start = 0
			},
			// The first has 100 MB at 1. Until it has copied them at 1.1, 10 MB of the rest
			// are there. The second has all at 5.
			ReadingResult{Bytes: 500 * mb, FromMemory: 410 * mb, Warmed: 410 * mb, Disks: 500 * mb, Ahead: 400 * mb, Time: (1 + 0.3) / 2, PinnedMost: 300 * mb}, 102},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := easyDisks(1, policy.Wait)
			if tt.change != nil {
				tt.change(&c)
			}
			r := run(t, tt.w, c)
			got := *r.Reading
			near(t, "end", r.Makespan+tt.w.Tasks[0].Submit.Seconds(), tt.ends)
			near(t, "time", got.Time, tt.want.Time)
			got.Time, got.Pinned, got.DiskBusy, got.Jobs = tt.want.Time, 0, 0, nil
			if want := tt.want; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%+v, want\n%+v", got, want)
			}
			near(t, "reading", r.Work.Reading, tt.want.Time*float64(len(tt.w.Tasks)))
		})
	}
}

// TestReadingRemotely: a task on the first of two nodes reads what is on the second,
// which is busy, and the slower one of its disk and the network counts.
func TestReadingRemotely(t *testing.T) {
	elsewhere := func(c Config) (file int32) {
		for f := int32(1); ; f++ {
			w := readers(reader{file: f, input: 100})
			p, err := cut(w, c)
			if err != nil {
				t.Fatal(err)
			}
			if first, _ := p.of(&w.Tasks[0]); p.home(first) == 1 {
				return f
			}
		}
	}
	for _, tt := range []struct {
		net, buffer int64
		time        float64
		remote      int64
	}{
		{50, 0, 2, 100 * mb},
		{400, 0, 1, 100 * mb},
		{50, 100, 2, 0},
		{400, 100, 0.25, 0},
	} {
		c := easyDisks(2, policy.Wait)
		c.Node.Net = float64(tt.net * mb)
		c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 100*mb, tt.buffer*mb, 10*time.Second
		r := run(t, readers(reader{run: 5}, reader{run: 100}, reader{submit: 10, file: elsewhere(c), input: 100}), c)
		near(t, fmt.Sprintf("%+v: time", tt), r.Reading.Time, tt.time)
		if r.Reading.Remote != tt.remote || r.Reading.Network != 100*mb {
			t.Errorf("%+v: %d bytes from the other disk, %d over the network", tt, r.Reading.Remote, r.Reading.Network)
		}
	}
}

// TestPreemptedReading: a task that needs 10 s to read and 10 to run leaves at 6 s,
// when it has read half, for one of 10 s.
func TestPreemptedReading(t *testing.T) {
	w := readers(reader{file: 1, input: 1000, run: 10})
	w.Tasks[0].Memory = 600 * mb
	w.Jobs = append(w.Jobs, "urgent")
	w.Tasks = append(w.Tasks, trace.Task{Job: 1, Submit: 6 * time.Second, Run: 10 * time.Second, CPUs: 1, Memory: 600 * mb, Priority: 10})
	for _, tt := range []struct {
		policy policy.Name
		other  float64
		work   Work
		lost   int64
	}{
		{policy.Wait, 21, Work{Stop: 2, Reading: 10}, 0},
		{policy.Kill, 6 + 2 + 11 + 21, Work{Stop: 5, Killed: 5, Reading: 10}, 500 * mb},
		{policy.Suspend, 6 + 3 + 11 + 5 + 15, Work{Stop: 5, PageIn: 5, Reading: 10}, 0},
		// It dumps all that it holds, 600 MB.
		{policy.Checkpoint, 6 + 11 + 11 + 12 + 15, Work{Stop: 2, Dump: 11, Restore: 12, Reading: 10}, 0},
	} {
		r := run(t, w, easyDisks(1, tt.policy))
		near(t, string(tt.policy), r.Bands[0].Response.Mean, tt.other)
		tt.work.Useful = 20
		if r.Work != tt.work {
			t.Errorf("%s: work %+v, want %+v", tt.policy, r.Work, tt.work)
		}
		if r.Reading.Lost != tt.lost || r.Reading.Bytes != 1000*mb+tt.lost {
			t.Errorf("%s: read %d, %d in vain", tt.policy, r.Reading.Bytes, r.Reading.Lost)
		}
	}
}

// TestSharedDiskAgainstPlain: 201 tasks that read one disk, against the same by brute
// force. A spread of so many has all values.
func TestSharedDiskAgainstPlain(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 7))
		var jobs []reader
		at := 0.0
		for i := range 201 {
			at += r.ExpFloat64() * 0.6
			jobs = append(jobs, reader{submit: at, file: int32(i + 1), input: 1 + r.Int64N(100)})
		}
		c := easyDisks(1, policy.Wait)
		c.Node.CPUs, c.Node.Memory = 1000, 100000*mb
		got := run(t, readers(jobs...), c).Bands[0].TaskResponse.At

		p := &plainDisk{alone: c.Reading.Disk, shared: c.Reading.Shared, left: map[int]float64{}, behind: -1}
		var want []float64
		now, next := 0.0, 0
		for len(want) < len(jobs) {
			arrives, ends := math.Inf(1), now+p.next()
			if next < len(jobs) {
				arrives = jobs[next].submit + 1
			}
			if arrives <= ends {
				p.pass(arrives - now)
				now = arrives
				p.left[next] = float64(jobs[next].input * mb)
				next++
				continue
			}
			p.pass(ends - now)
			now = ends
			for i, left := range p.left {
				if left < 1e-3 {
					want = append(want, now-jobs[i].submit)
					delete(p.left, i)
				}
			}
		}
		slices.Sort(want)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-4*want[i] {
				t.Fatalf("seed %d: response %d of %d is %v s, by brute force %v", seed, i, len(want), got[i], want[i])
			}
		}
	}
}

// TestPageCacheAgainstPlain: tasks read blocks one after another, against a list.
func TestPageCacheAgainstPlain(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 8))
		room := 2 + r.IntN(8)
		var jobs []reader
		var list []int32
		var hits int64
		for range 300 {
			f := 1 + int32(r.IntN(4)*r.IntN(4))
			jobs = append(jobs, reader{file: f, input: 100})
			if i := slices.Index(list, f); i >= 0 {
				hits += 100 * mb
				list = slices.Delete(list, i, i+1)
			}
			list = append([]int32{f}, list[:min(len(list), room-1)]...)
		}
		c := easyDisks(1, policy.Wait)
		c.Reading.Cache = int64(room)*100*mb + 50*mb
		c.Policy.NoResidencyOrder = true
		if got := run(t, readers(jobs...), c).Reading.FromMemory; got != hits {
			t.Errorf("seed %d, room for %d: %d bytes from memory, want %d", seed, room, got, hits)
		}
	}
}

// TestReplicas: blocks lie on as many different nodes as they should, evenly.
func TestReplicas(t *testing.T) {
	for _, tt := range []struct{ nodes, replicas int }{{1, 3}, {3, 3}, {4, 3}, {20, 3}, {7, 6}} {
		c := easyDisks(tt.nodes, policy.Wait)
		c.Reading.Replicas = tt.replicas
		p, err := cut(readers(reader{file: 1, input: 100 * 4000}), c)
		if err != nil {
			t.Fatal(err)
		}
		count, homes := make([]int, tt.nodes), make([]int, tt.nodes)
		for i := range p.all {
			at := p.replicasOf(int32(i), nil)
			if len(at) != min(tt.nodes, tt.replicas) || at[0] != p.home(int32(i)) {
				t.Fatalf("%+v: block %d is on %v, at home on %d", tt, i, at, p.home(int32(i)))
			}
			homes[at[0]]++
			slices.Sort(at)
			if len(slices.Compact(at)) != min(tt.nodes, tt.replicas) {
				t.Fatalf("%+v: block %d is on %v", tt, i, at)
			}
			for _, n := range at {
				count[n]++
			}
		}
		for n := range count {
			fair, home := 4000*min(tt.nodes, tt.replicas)/tt.nodes, 4000/tt.nodes
			if math.Abs(float64(count[n]-fair)) > 0.15*float64(fair) || math.Abs(float64(homes[n]-home)) > 0.3*float64(home) {
				t.Errorf("%+v: node %d has %d blocks, %d at home; even were %d and %d", tt, n, count[n], homes[n], fair, home)
			}
		}
	}
}

// TestReadingRefused: what cannot be is said.
func TestReadingRefused(t *testing.T) {
	w := readers(reader{file: 1, input: 100})
	for want, change := range map[string]func(c *Config, w *trace.Workload){
		"no network":                      func(c *Config, _ *trace.Workload) { c.Node.Net = 0 },
		"from memory":                     func(c *Config, _ *trace.Workload) { c.Reading.Memory = 0 },
		"blocks of 0 bytes":               func(c *Config, _ *trace.Workload) { c.Reading.Block = 0 },
		"0 replicas":                      func(c *Config, _ *trace.Workload) { c.Reading.Replicas = 0 },
		"within the first":                func(c *Config, _ *trace.Workload) { c.Reading.Buffer = 1 },
		"unknown order":                   func(c *Config, _ *trace.Workload) { c.Reading.Warm.Order = "last" },
		"larger blocks":                   func(c *Config, w *trace.Workload) { c.Reading.Block = 1; w.Tasks[0].Input = 1 << 40 },
		"of file 2, of which there are 1": func(_ *Config, w *trace.Workload) { w.Tasks[0].File = 2 },
		"from -1 on":                      func(_ *Config, w *trace.Workload) { w.Tasks[0].Offset = -1 },
	} {
		c, v := easyDisks(2, policy.Wait), *w
		v.Tasks = slices.Clone(w.Tasks)
		change(&c, &v)
		if _, err := Run(t.Context(), &v, c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want something about %q", err, want)
		}
	}
}
