package manager

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

// bigSite returns a manager with so many nodes, each with so many containers.
func bigSite(nodes, each int, p policy.Name) (*cluster, []*wire.NodeReport) {
	cfg := &Config{Policy: policy.Config{Policy: p}, timing: quick}
	cfg.Log = slog.New(slog.DiscardHandler)
	c := newCluster(cfg, newCounters())
	var reports []*wire.NodeReport
	for i := range nodes {
		r := &wire.NodeReport{Node: fmt.Sprint("n", i), Info: &wire.NodeInfo{
			Memory: 256 * gb, SwapFree: 256 * gb, SwapOut: 1e9, SwapIn: 1e9, Stores: []*wire.Store{{Name: "disk", Write: 1e9, Read: 1e9, Free: 1000 * gb}},
		}}
		for j := range each {
			r.Tasks = append(r.Tasks, task(fmt.Sprintf("container_e01_1700000000000_0001_01_%03d%05d", i, j)))
		}
		if _, err := c.join(&wire.JoinRequest{Node: r.Node, Version: "v1"}); err != nil {
			panic(err)
		}
		if _, err := c.report(r); err != nil {
			panic(err)
		}
		reports = append(reports, r)
	}
	return c, reports
}

// BenchmarkReport is one report of one of 200 nodes with 50 containers each.
func BenchmarkReport(b *testing.B) {
	c, reports := bigSite(200, 50, policy.Cost)
	for i := 0; b.Loop(); i++ {
		if _, err := c.report(reports[i%len(reports)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkContainers is what one poll of 10,000 containers takes when something has
// changed, without the network.
func BenchmarkContainers(b *testing.B) {
	c, _ := bigSite(200, 50, policy.Cost)
	for b.Loop() {
		c.mu.Lock()
		c.board.shown = nil
		c.mu.Unlock()
		if res, _ := c.tell("", false); len(res.Containers) != 10_000 {
			b.Fatal(len(res.Containers))
		}
	}
}

// TestOneApplicationOfMany: what somebody asks about an application of a large cluster takes as little as the application has,
// although something has changed since: everybody else waits for it.
func TestOneApplicationOfMany(t *testing.T) {
	c, reports := bigSite(100, 100, policy.Suspend)
	own := reports[7].Tasks[:3]
	for _, k := range own {
		k.Hosting = &wire.Hosting{Scheduler: "yarn", Application: "application_2"}
	}
	if _, err := c.report(reports[7]); err != nil {
		t.Fatal(err)
	}
	const times = 50
	var before, after runtime.MemStats
	for _, q := range []struct {
		application string
		want        int
	}{{"application_2", len(own)}, {"application_3", 0}} {
		runtime.ReadMemStats(&before)
		for range times {
			unlock := c.lock()
			c.board.stale = true
			unlock()
			res, _ := c.tell(q.application, false)
			if len(res.Containers) != q.want || !slices.IsSortedFunc(res.Containers, func(a, b *wire.Container) int { return strings.Compare(a.Id, b.Id) }) {
				t.Fatalf("%s has %v", q.application, res.Containers)
			}
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 10_000 {
			t.Errorf("what is told of %s takes %d bytes", q.application, each)
		}
	}
	if res, _ := c.tell("", false); len(res.Containers) != 10_000 {
		t.Errorf("%d containers of all", len(res.Containers))
	}
}

// BenchmarkPreempt decides about 100 containers, one on each of 100 nodes.
func BenchmarkPreempt(b *testing.B) {
	for _, each := range []int{1, 10} {
		for _, p := range []policy.Name{policy.Suspend, policy.Cost} {
			b.Run(fmt.Sprintf("%s/%d each", p, each), func(b *testing.B) {
				c, reports := bigSite(200, 50, p)
				var victims []*wire.Victim
				for i := range 100 / each {
					for j := range each {
						victims = append(victims, &wire.Victim{Container: reports[i].Tasks[j].Id})
					}
				}
				for b.Loop() {
					if d := c.preempt(victims, true); convert.MechanismName(d[0]) != "suspend" {
						b.Fatal(d[0])
					}
				}
			})
		}
	}
}

// TestBig: 10,000 containers are no trouble, over a real connection.
func TestBig(t *testing.T) {
	s := start(t, nil)
	const nodes, each = 100, 100
	c := s.cluster
	_, reports := bigSite(nodes, each, policy.Suspend)
	for _, r := range reports {
		if _, err := c.join(&wire.JoinRequest{Node: r.Node, Version: "v1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.report(r); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	res := s.containers(0, 0)
	poll := time.Since(began)
	if len(res.Containers) != nodes*each || res.Nodes != nodes {
		t.Fatalf("%d containers on %d nodes", len(res.Containers), res.Nodes)
	}
	began = time.Now()
	if _, err := s.api.Report(context.Background(), reports[0]); err != nil {
		t.Fatal(err)
	}
	report := time.Since(began)
	began = time.Now()
	_, text := s.post(t, "Containers", `{}`)
	t.Logf("one poll in JSON: %v, %d bytes", time.Since(began), len(text))
	t.Logf("one poll of %d containers: %v, one report of %d: %v", nodes*each, poll, each, report)
	if poll > 30*time.Second || report > 10*time.Second { // far less where nothing else runs
		t.Error("that is too long")
	}
}
