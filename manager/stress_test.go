package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
)

// TestStress has nodes come, report, carry out orders or not, and go, while schedulers
// ask for everything at once; then it checks that all accounts agree.
func TestStress(t *testing.T) {
	testkit.NoLeaks(t)
	s := start(t, func(c *Config) {
		c.Policy = policy.Config{Policy: policy.Cost, MinRun: policy.None}
		c.timing.away, c.timing.silent, c.timing.spare, c.timing.claim = 20*time.Millisecond, 100*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond
		c.timing.patience = 50 * time.Millisecond
	})
	over, stop := context.WithCancel(context.Background())
	defer stop()
	ordered := func() uint64 {
		s.cluster.mu.Lock()
		defer s.cluster.mu.Unlock()
		return s.cluster.orders.last - uint64(s.cluster.began.UnixMicro())
	}
	var work sync.WaitGroup
	names := func(r *rand.Rand) string { return fmt.Sprintf("c%d.%d", r.IntN(6), r.IntN(8)) }
	for i := range 4 {
		work.Go(func() { shakyNode(over, s, i) })
	}
	for i := range uint64(4) {
		work.Go(func() {
			r := rand.New(rand.NewPCG(i, 5))
			var version uint64
			for over.Err() == nil {
				switch r.IntN(4) {
				case 0:
					s.api.Preempt(over, &wire.PreemptRequest{Observe: r.IntN(4) == 0, Victims: []*wire.Victim{
						{Container: names(r), ForPriority: r.Uint32N(12)}, {Container: names(r)}, {Container: names(r)},
					}})
				case 1, 2:
					s.api.Resume(over, &wire.ResumeRequest{Container: names(r)})
				case 3:
					if res, err := s.api.Containers(over, &wire.ContainersRequest{Version: version, Wait: 0.05}); err == nil {
						if res.Version < version {
							t.Errorf("version %d after %d", res.Version, version)
						}
						version = res.Version
					}
				}
				s.consistent(t)
			}
		})
	}
	enough := time.Now().Add(2 * time.Second)
	testkit.Await(t, "twenty orders, and more in the first two seconds", func() bool {
		n := ordered()
		return n >= 100 || n >= 20 && time.Now().After(enough)
	})
	stop()
	work.Wait()
	s.consistent(t)
}

// shakyNode joins again and again, and does some of what it is told.
func shakyNode(over context.Context, s *site, i int) {
	r := rand.New(rand.NewPCG(uint64(i), 6))
	api := s.client(testToken)
	var tasks []*wire.Task
	for j := range 8 {
		tasks = append(tasks, task(fmt.Sprintf("c%d.%d", i, j)))
	}
	for over.Err() == nil {
		ctx, leave := context.WithTimeout(over, time.Duration(10+r.IntN(2000))*time.Millisecond)
		stream, err := api.Join(ctx, &wire.JoinRequest{Node: fmt.Sprint("n", i)})
		if err != nil {
			leave()
			continue
		}
		orders := make(chan *wire.NodeOrder, 100)
		var reading sync.WaitGroup
		reading.Go(func() {
			for stream.Receive() {
				if stream.Msg().Number != 0 {
					orders <- stream.Msg()
				}
			}
		})
		for ctx.Err() == nil {
			rep := &wire.NodeReport{Node: fmt.Sprint("n", i), Info: &wire.NodeInfo{Memory: 32 * gb, SwapFree: gb, SwapOut: 1e9, SwapIn: 1e9,
				Stores: []*wire.Store{{Name: "disk", Write: 1e9, Read: 1e9, Free: 100 * gb}}}}
			select {
			case o := <-orders:
				rep.Results = append(rep.Results, carryOut(r, o, tasks))
			case <-time.After(time.Duration(r.IntN(5)) * time.Millisecond):
			}
			for _, t := range tasks {
				if r.IntN(10) > 0 { // now and then one ends, and another of its name begins
					c := task(t.Id)
					c.State, c.SinceMs = t.State, t.SinceMs
					rep.Tasks = append(rep.Tasks, c)
				}
			}
			api.Report(ctx, rep)
		}
		leave()
		for drained := false; !drained; {
			done := make(chan struct{})
			go func() { reading.Wait(); close(done) }()
			for waiting := true; waiting; {
				select {
				case <-orders:
				case <-done:
					waiting, drained = false, true
				}
			}
		}
		stream.Close()
	}
}

func carryOut(r *rand.Rand, o *wire.NodeOrder, tasks []*wire.Task) *wire.OrderResult {
	res := &wire.OrderResult{Number: o.Number}
	if r.IntN(4) == 0 {
		res.Error = "not today"
		return res
	}
	for _, t := range tasks {
		if t.Id == o.Container {
			t.State = map[string]string{"suspend": "suspended", "checkpoint": "checkpointed", "resume": "running"}[verb(o)]
			t.SinceMs++
		}
	}
	return res
}

// consistent checks that orders, containers and nodes agree.
func (s *site) consistent(t *testing.T) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	outstanding, holds := 0, 0
	for name, n := range c.members.all {
		for k := range c.containers.of(n) {
			holds++
			id := k.id
			if _, grouped := c.containers.byApplication[k.task.Hosting.Application][k]; !grouped || k.node != n || c.containers.on[n].containers[id] != k || c.containers.all[id] != k {
				t.Errorf("%s holds %s, which is elsewhere", name, id)
			}
			for _, o := range []*order{k.order, k.paging} {
				if o == nil {
					continue
				}
				outstanding++
				if o.of != k || c.orders.all[o.wire.Number] != o || n.away {
					t.Errorf("order %d of %s is in disorder", o.wire.Number, id)
				}
			}
			ordered := ""
			if k.order != nil {
				ordered = verb(k.order.wire)
			}
			if k.public.Ordered != ordered || k.public.State != k.state.String() || k.public.Away != n.away || k.state > headrace.Checkpointed {
				t.Errorf("%s is shown as %v", id, k.public)
			}
		}
	}
	grouped := 0
	for _, of := range c.containers.byApplication {
		grouped += len(of)
	}
	if grouped != len(c.containers.all) {
		t.Errorf("%d containers are of applications, there are %d", grouped, len(c.containers.all))
	}
	if outstanding != len(c.orders.all) || holds != len(c.containers.all) {
		t.Errorf("%d orders of %d, %d containers of %d", outstanding, len(c.orders.all), holds, len(c.containers.all))
	}
	var there uint32
	for _, n := range c.members.all {
		if !n.away {
			there++
		}
	}
	if there != c.members.here {
		t.Errorf("%d nodes are there, %d are counted", there, c.members.here)
	}
}
