package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"headrace"
	"headrace/policy/internal/books"
)

// TestDataAgainstOracle compares what Cost finds on several nodes, where victims have read and
// the newcomer will, with the exhaustive search on each: the cheapest sum of both prices.
func TestDataAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	cases, turned := 0, 0
	for i := range 1500 {
		nodes, v := make([]*oracle, 3), headrace.View{}
		var u headrace.TaskView
		for k := range nodes {
			o := randomInstance(r)
			o.n.ID, o.n.Disk = headrace.NodeID(fmt.Sprintf("n%d", k)), pick(r, 50.0, 100, 150)*mb
			for j := range o.tasks {
				w := &o.tasks[j]
				w.ID, w.Node = headrace.TaskID(fmt.Sprintf("t%d.%d", k, j)), o.n.ID
				w.Input.FromDisk, w.Input.Cold = int64(r.IntN(8))*512*mb, int64(r.IntN(8))*512*mb
			}
			if k == 0 {
				u = o.u
				u.Input.Bytes = int64(r.IntN(10)) * 1024 * mb
			}
			if r.IntN(3) > 0 {
				u.Input.At = append(u.Input.At, headrace.InputAt{Node: o.n.ID, Resident: r.Int64N(u.Input.Bytes + 1)})
			}
			nodes[k] = o
			v.Nodes, v.Tasks = append(v.Nodes, o.n), append(v.Tasks, o.tasks...)
		}
		v.Tasks = append(v.Tasks, u)
		p := newPlanner(&v, Config{})
		p.chooser.Most = 1 << 30
		me := &p.fleet.Tasks[len(v.Tasks)-1]
		me.Aged = me.Priority
		if now, _ := p.fleet.Find(me); now != nil {
			continue
		}
		slots := make([]float64, len(nodes))
		best, least, alone, without := -1, math.Inf(1), -1, math.Inf(1)
		for k, o := range nodes {
			o.u = u
			o.search(0)
			cold := u.Input.Bytes
			for _, at := range u.Input.At {
				if at.Node == o.n.ID {
					cold -= at.Resident
				}
			}
			if len(u.Input.At) > 0 { // else nobody knows where it is
				slots[k] = float64(cold) / o.n.Disk * math.Pow(2, float64(u.Priority)/6)
			}
			if o.best+slots[k] < least {
				best, least = k, o.best+slots[k]
			}
			if o.best < without {
				alone, without = k, o.best
			}
		}
		_, s := p.fleet.Find(me)
		way := p.search(me, s)
		if way == nil {
			if !math.IsInf(least, 1) {
				t.Fatalf("instance %d: no way, and there is one on n%d", i, best)
			}
			continue
		}
		cases++
		if best != alone {
			turned++
		}
		got := way.Cost.Total + slots[way.Node.Index]
		if math.Abs(got-least) > 1e-6*max(1, least) {
			t.Errorf("instance %d: %v on %s, where it costs %v; best is %v on n%d", i, way.Acts, way.Node.ID, got, least, best)
		}
	}
	if cases < 300 || turned < 30 {
		t.Errorf("the instances are too easy: %d cases, in %d of which the input decides", cases, turned)
	}
}

// What is said of inputs changes nothing where no bandwidth is known.
func TestNoBandwidthNoPrice(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		n := randomNode(r, 0)
		n.Disk = 0
		v := headrace.View{Nodes: []headrace.NodeView{n}}
		p := newPlanner(&v, Config{})
		task := &books.Task{TaskView: &headrace.TaskView{Input: headrace.InputView{Bytes: r.Int64(), Cold: r.Int64()}}}
		if got := p.model.Slot(task, &p.fleet.Nodes[0], 0); got != 0 {
			t.Fatalf("%v", got)
		}
		if got := p.model.Of(&p.fleet.Nodes[0], books.By(task, headrace.Kill)).Waste; got != 0 {
			t.Fatalf("%v", got)
		}
	}
}
