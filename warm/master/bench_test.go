package master

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"headrace"
)

// cpu is what this process has taken of processors, the collector of garbage included: the machine may be
// busy with other things.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func jobOf(r *rand.Rand, number, blocks, nodes int) Job {
	j := Job{Facts: Facts{Name: Name{fmt.Sprint("user", number%20), headrace.JobID(fmt.Sprintf("application_1700000000000_%04d", number))}, Submitted: t0.Add(time.Duration(number) * time.Second)}}
	for f := range 1 + blocks/100 {
		j.Files = append(j.Files, File{Name: fmt.Sprintf("/data/day%d/part-%05d", number, f)})
	}
	for i := range blocks {
		b := headrace.Block{ID: headrace.BlockID{Pool: "BP-1-127.0.0.1-1700000000000", Number: int64(number*blocks + i)}, Bytes: 128 << 20, Generation: 1001}
		for range 3 {
			b.Hosts = append(b.Hosts, fmt.Sprintf("dn%05d.example.org", r.IntN(nodes)))
		}
		file := &j.Files[i/100]
		file.Blocks = append(file.Blocks, b)
	}
	return j
}

// BenchmarkMaster takes 1000 nodes and 500 jobs of 2000 blocks each, all of which fit: what it costs to plan a
// job, tell its nodes, hear from them, and end it, with all others there; and what memory all of it takes.
func BenchmarkMaster(b *testing.B) {
	const nodes, jobs, blocks = 1000, 500, 2000
	r := rand.New(rand.NewPCG(1, 1))
	before := heap()
	m := New(Config{PerOwner: 1 << 40, All: 1 << 40}, t0)
	seqs := map[string]uint64{}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		name := fmt.Sprintf("node%05d", i)
		seqs[name] = 0
		check(m.Join(name, 1, []string{fmt.Sprintf("dn%05d.example.org", i)}, Load{Budget: 1 << 40, Speed: 100e6}, nil, nil, t0))
	}
	round := func() (told int) {
		for name := range seqs {
			var all []Report
			for {
				o, err := m.Orders(name, 1, seqs[name], 1000)
				check(err)
				if o.Seq == seqs[name] {
					break
				}
				seqs[name] = o.Seq
				told += len(o.Add) + len(o.Remove)
				for _, a := range o.Add {
					all = append(all, Report{Name: a.Name, Block: a.Block, Generation: a.Generation, State: Pinned})
				}
			}
			check(m.Report(name, 1, Load{Budget: 1 << 40, Speed: 100e6}, all, nil, t0))
		}
		m.Look(t0)
		return told
	}
	began := cpu()
	for i := range jobs {
		check(m.Migrate(jobOf(r, i, blocks, nodes), t0))
	}
	planned := cpu() - began
	round()
	if t := m.Totals(); t.Pinned != jobs*blocks*128<<20 {
		b.Fatalf("%+v", t)
	}
	after := heap()
	next := jobs
	began = cpu()
	told := 0
	for b.Loop() {
		j := jobOf(r, next, blocks, nodes)
		next++
		check(m.Migrate(j, t0))
		told += round()
		_, err := m.Evict(j.Name, t0)
		check(err)
		told += round()
	}
	b.ReportMetric((cpu()-began).Seconds()*1000/float64(b.N), "cpu-ms/job")
	b.ReportMetric(float64(told)/float64(b.N), "told/job")
	b.ReportMetric(float64(after-before)/1e6, "MB/all")
	b.ReportMetric(planned.Seconds()*1000/jobs, "cpu-ms/first-migrate")
}
