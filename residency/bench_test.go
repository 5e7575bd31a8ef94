package residency

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"headrace"
)

// load is a large cluster, and jobs that are interested in all of its blocks.
type load struct {
	m        *Map
	r        *rand.Rand
	nodes    []string
	seqs     []uint64
	watches  [][]headrace.BlockID // of each node, its replicas
	apps     []App
	versions []uint64
}

const blocksPerJob, repeated = 2000, 200

// newLoad registers jobs*blocksPerJob blocks with three replicas; some of them are registered by
// another job as well.
func newLoad(b *testing.B, nodes, jobs int) *load {
	l := &load{m: New(Config{PerOwner: 1 << 40, All: 1 << 40}, t0), r: rand.New(rand.NewPCG(1, 1))}
	l.watches = make([][]headrace.BlockID, nodes)
	l.seqs = make([]uint64, nodes)
	for i := range nodes {
		l.nodes = append(l.nodes, fmt.Sprintf("node%05d.example.org", i))
		if err := l.m.Join(l.nodes[i], 1, []string{fmt.Sprintf("dn%05d.example.org", i)}); err != nil {
			b.Fatal(err)
		}
	}
	var before []headrace.Block
	for j := range jobs {
		blocks := make([]headrace.Block, blocksPerJob)
		for i := range blocks {
			one := headrace.BlockID{Pool: "BP-1-127.0.0.1-1700000000000", Number: int64(j*blocksPerJob + i)}
			blocks[i] = headrace.Block{ID: one, Bytes: 128 << 20}
			for range 3 {
				n := l.r.IntN(nodes)
				blocks[i].Hosts = append(blocks[i].Hosts, fmt.Sprintf("dn%05d.example.org", n))
				l.watches[n] = append(l.watches[n], one)
			}
		}
		l.apps = append(l.apps, App{fmt.Sprint("user", j%20), fmt.Sprint("application_1700000000000_", j)})
		if err := l.m.Add(l.apps[j], blocks, t0); err != nil {
			b.Fatal(err)
		}
		if err := l.m.Add(l.apps[j], before, t0); err != nil {
			b.Fatal(err)
		}
		before = blocks[:repeated]
	}
	l.versions = make([]uint64, jobs)
	for i, name := range l.nodes {
		if err := l.m.Report(name, 1, true, nil); err != nil {
			b.Fatal(err)
		}
		l.watch(b, i)
	}
	return l
}

func (l *load) watch(b *testing.B, i int) {
	for {
		w, err := l.m.Watch(l.nodes[i], 1, l.seqs[i], 1000)
		if err != nil {
			b.Fatal(err)
		}
		if w.Seq == l.seqs[i] {
			return
		}
		l.seqs[i] = w.Seq
	}
}

// second is what happens in one: each node reports so many changes and asks what to watch, and
// each application asks what has changed. It returns how many blocks these were told of.
func (l *load) second(b *testing.B, changes int) (told int) {
	reports := make([]Resident, changes)
	for i, name := range l.nodes {
		for k := range reports {
			reports[k] = Resident{l.watches[i][l.r.IntN(len(l.watches[i]))], l.r.Int64N(2) << 26 * l.r.Int64N(3), 128 << 20}
		}
		if err := l.m.Report(name, 1, false, reports); err != nil {
			b.Fatal(err)
		}
		l.watch(b, i)
	}
	for i, app := range l.apps {
		for {
			u, err := l.m.Changes(app, l.versions[i], 10_000, t0)
			if err != nil {
				b.Fatal(err)
			}
			if u.Version == l.versions[i] {
				break
			}
			l.versions[i], told = u.Version, told+len(u.Changes)
		}
	}
	return told
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// cpu is what this process has taken of processors, the collector of garbage included: the machine may be
// busy with other things.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSecond is a second of a cluster, the unit of which half a core may go by: 1000 nodes
// that each report 100 changes, 1 million blocks with 3 replicas, 500 jobs. MB/map is the heap that the map
// takes with half of the replicas in memory; a process needs about twice that, unless the collector is told otherwise.
func BenchmarkSecond(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			before := heap()
			began := cpu()
			l := newLoad(b, nodes, nodes/2)
			setup := cpu() - began
			watches := heap()
			for i, name := range l.nodes { // half of all replicas
				var all []Resident
				for _, one := range l.watches[i] {
					if l.r.IntN(2) == 0 {
						all = append(all, Resident{one, 1 << 20, 128 << 20})
					}
				}
				if err := l.m.Report(name, 1, true, all); err != nil {
					b.Fatal(err)
				}
			}
			l.second(b, 100)
			after := heap()
			var lists uint64
			for _, w := range l.watches {
				lists += uint64(cap(w)) * 24
			}
			told := 0
			began = cpu()
			for b.Loop() {
				told += l.second(b, 100)
			}
			b.ReportMetric((cpu()-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(after-before-lists)/1e6, "MB/map")
			b.ReportMetric(float64(watches-before-lists)/1e6, "MB/map-cold")
			b.ReportMetric(float64(told)/float64(b.N), "told/op")
			b.ReportMetric(setup.Seconds(), "cpu-s/setup")
		})
	}
}
