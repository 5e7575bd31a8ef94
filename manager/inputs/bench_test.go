package inputs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"headrace/wire"
)

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCluster is ten seconds of a large cluster for each iteration, as they pass: 1000
// nodes that each report 100 changes a second, a million blocks with three replicas, 500
// applications that follow 2000 each. Calls are direct, so that what HTTP takes is not in it;
// what those who call take is. delay-ms is from the beginning of a node's report until an
// application has heard of it; a node reports once a second, which comes before that.
func BenchmarkCluster(b *testing.B) {
	const nodes, apps, each, changes = 1000, 500, 2000, 100
	in := newInputs(b, Config{timing: timing{away: time.Hour, look: 500 * time.Millisecond, settle: time.Millisecond}})
	r := rand.New(rand.NewPCG(1, 1))
	ctx := b.Context()
	made := make([]*wire.ExchangeRequest, nodes)
	watching := make([][]int64, nodes)
	for i := range nodes {
		made[i] = &wire.ExchangeRequest{Node: fmt.Sprint("n", i), Session: 1, Full: true, Budget: 1 << 40}
	}
	versions := make([]uint64, apps)
	ask := func(ctx context.Context, a int, q *wire.FollowRequest) (*wire.FollowResponse, error) {
		q.User, q.Application, q.Version = fmt.Sprint("u", a%20), fmt.Sprint("application_", a), versions[a]
		res, err := in.Follow(ctx, q)
		if err == nil {
			versions[a] = res.Version
		}
		return res, err
	}
	for a := range apps {
		q := &wire.FollowRequest{}
		for k := range each {
			n := int64(a*each + k)
			f := &wire.FollowedBlocks{Blocks: &wire.BlockList{Pool: testPool, Numbers: []int64{n}}}
			for range 3 {
				on := r.IntN(nodes)
				f.Hosts, watching[on] = append(f.Hosts, fmt.Sprint("n", on)), append(watching[on], n)
			}
			q.Add = append(q.Add, f)
		}
		if _, err := ask(ctx, a, q); err != nil {
			b.Fatal(err)
		}
	}
	report := func(i int) error {
		res, err := in.Exchange(ctx, made[i])
		if err == nil {
			made[i].Full = false
			made[i].Watched, made[i].Ordered = max(made[i].Watched, res.Watch.GetNumber()), max(made[i].Ordered, res.Read.GetNumber())
		}
		return err
	}
	for i := range nodes {
		if err := report(i); err != nil {
			b.Fatal(err)
		}
	}
	changed := make([]atomic.Int64, apps*each) // when, in nanoseconds; 0: it has been heard of
	var delays []time.Duration
	var mu sync.Mutex
	second := func(ctx context.Context, i int, r *rand.Rand) error {
		m := &wire.BlocksInMemory{Blocks: &wire.BlockList{Pool: testPool}}
		now := time.Now().UnixNano()
		for range changes {
			n := watching[i][r.IntN(len(watching[i]))]
			changed[n].CompareAndSwap(0, now)
			m.Blocks.Numbers, m.Resident, m.Bytes = append(m.Blocks.Numbers, n), append(m.Resident, 1+r.Int64N(1<<26)), append(m.Bytes, 128<<20)
		}
		made[i].Resident = []*wire.BlocksInMemory{m}
		return report(i)
	}
	seconds := 0
	began := cpu(b)
	for b.Loop() {
		seconds += 10
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		var work sync.WaitGroup
		for a := range apps {
			work.Go(func() {
				for ctx.Err() == nil {
					res, err := ask(ctx, a, &wire.FollowRequest{Wait: 30})
					if err != nil {
						continue
					}
					now, heard := time.Now().UnixNano(), []time.Duration{}
					for _, m := range res.Blocks {
						if at := changed[m.Number].Swap(0); at != 0 {
							heard = append(heard, time.Duration(now-at))
						}
					}
					mu.Lock()
					delays = append(delays, heard...)
					mu.Unlock()
				}
			})
		}
		for i := range nodes {
			work.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 2))
				next := time.NewTimer(time.Duration(i) * time.Second / nodes)
				defer next.Stop()
				for {
					select {
					case <-next.C:
						next.Reset(time.Second)
						if err := second(ctx, i, r); err != nil {
							b.Error(err)
						}
					case <-ctx.Done():
						return
					}
				}
			})
		}
		work.Wait()
		cancel()
	}
	b.ReportMetric((cpu(b)-began).Seconds()/float64(seconds), "cores")
	slices.Sort(delays)
	if len(delays) > 0 {
		b.ReportMetric(delays[len(delays)/2].Seconds()*1000, "delay-ms")
		b.ReportMetric(delays[len(delays)*99/100].Seconds()*1000, "delay-p99-ms")
		b.ReportMetric(float64(len(delays))/float64(seconds), "heard/s")
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
	b.ReportMetric(float64(m.Sys)/1e6, "sys-MB")
	runtime.KeepAlive(in)
}
