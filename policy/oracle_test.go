package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"headrace"
)

// oracle finds the cheapest way to make room for u on n by trying everything that
// could be done to every task, with the model written down a second time.
type oracle struct {
	c      Config
	u      headrace.TaskView
	n      headrace.NodeView
	tasks  []headrace.TaskView
	chosen []choice
	best   float64
}

// choice is what is done to a task; nothing when mech is absent.
type choice struct {
	any   bool
	mech  headrace.Mechanism
	store int
}

func (o *oracle) search(i int) {
	if i == len(o.tasks) {
		if cost, ok := o.cost(); ok {
			o.best = min(o.best, cost)
		}
		return
	}
	o.chosen[i] = choice{}
	o.search(i + 1)
	for _, ch := range o.possible(o.tasks[i]) {
		o.chosen[i] = ch
		o.search(i + 1)
	}
	o.chosen[i] = choice{}
}

func (o *oracle) possible(t headrace.TaskView) []choice {
	var all []choice
	if t.Priority < o.u.Priority && t.NoCheckpoint == "" {
		for s := range o.n.Stores {
			all = append(all, choice{true, headrace.Checkpoint, s})
		}
	}
	if t.State != headrace.Running {
		return all
	}
	if t.Priority < o.u.Priority {
		if o.u.Priority > t.NoKill {
			all = append(all, choice{true, headrace.Kill, 0})
		}
		if t.NoSuspend == "" {
			all = append(all, choice{true, headrace.Suspend, 0})
		}
	}
	if t.Priority < o.u.Priority || t.Progress.Share > 0 && t.Progress.TotalWall > 0 {
		all = append(all, choice{true, headrace.Wait, 0})
	}
	return all
}

func (o *oracle) cost() (float64, bool) {
	page, ok := o.pageOut()
	if !ok {
		return 0, false
	}
	weight := func(p headrace.Priority) float64 { return math.Pow(2, float64(p)/6) }
	var delay, stop, weighted float64
	busy := make([]float64, len(o.n.Stores))
	room := make([]int64, len(o.n.Stores))
	for i, t := range o.tasks {
		ch := o.chosen[i]
		switch {
		case !ch.any:
		case ch.mech == headrace.Kill:
			delay = max(delay, 0.2)
			lost := t.Progress.Wall.Seconds()
			if o.n.Disk > 0 {
				lost = max(0, lost+float64(t.Input.Cold)/o.n.Disk-float64(t.Input.FromDisk)/o.n.Disk)
			}
			if t.Checkpoint != nil {
				for _, s := range o.n.Stores {
					if s.Name == t.Checkpoint.Store {
						lost += s.RestoreOverhead.Seconds() + float64(t.Checkpoint.Bytes)/s.Read
					}
				}
			}
			weighted += lost * weight(t.Priority)
		case ch.mech == headrace.Suspend:
			stop = 0.1
		case ch.mech == headrace.Wait:
			delay = max(delay, o.rest(t))
		default:
			s := o.n.Stores[ch.store]
			bytes, old := t.Dirty, int64(0)
			if t.Checkpoint != nil && t.Checkpoint.Store == s.Name {
				old = t.Checkpoint.Bytes
			} else if t.Checkpoint != nil {
				bytes = t.Resident + t.Swapped
			}
			took := s.DumpOverhead.Seconds() + float64(bytes)/s.Write
			if busy[ch.store] == 0 {
				busy[ch.store] = s.Queue.Seconds()
			}
			busy[ch.store] += took
			room[ch.store] += bytes
			weighted += (took + s.RestoreOverhead.Seconds() + float64(old+bytes)/s.Read) * weight(t.Priority)
		}
	}
	for s, b := range busy {
		delay = max(delay, b)
		if room[s] > o.n.Stores[s].Free {
			return 0, false
		}
	}
	var all float64
	for p, bytes := range page {
		if bytes == 0 {
			continue
		}
		all += float64(bytes)
		weighted += (float64(bytes)/o.n.SwapOut + float64(bytes)/o.n.SwapIn) * weight(headrace.Priority(p))
	}
	if all > 0 {
		stop += 0.5 * all / o.n.SwapOut
	}
	return max(delay, stop)*weight(o.u.Priority) + weighted, true
}

func (o *oracle) rest(t headrace.TaskView) float64 {
	if s := t.Progress.Share; s > 0 && t.Progress.TotalWall > 0 {
		left := t.Progress.TotalWall.Seconds() * (1 - s) / s
		if p := t.Progress.Promised; p > 0 {
			left = max(left, (t.Progress.TotalWall - p).Seconds())
		}
		return left
	}
	return max(1, t.Running.Seconds(), t.Progress.TotalWall.Seconds())
}

// pageOut returns how much is paged out of tasks of each priority, or false when the
// urgent task does not fit.
func (o *oracle) pageOut() (by [headrace.MaxPriority + 1]int64, ok bool) {
	cpus, mem := o.u.CPUs, o.u.MemoryRequest
	fresh := false
	swap := o.n.SwapFree
	total := o.n.SwapFree
	var suspended []int
	for i, t := range o.tasks {
		total += t.Swapped
		ch := o.chosen[i]
		switch {
		case ch.any && ch.mech == headrace.Suspend:
			fresh = true
			mem += t.Resident
			suspended = append(suspended, i)
		case ch.any:
		case t.State == headrace.Running:
			cpus += t.CPUs
			mem += max(t.MemoryRequest, t.Resident)
		default:
			mem += t.Resident
			suspended = append(suspended, i)
		}
	}
	if cpus > o.n.CPUs {
		return by, false
	}
	excess := mem - o.n.Memory
	if excess <= 0 || o.u.MemoryRequest == 0 && !fresh {
		return by, true
	}
	if o.n.SwapOut <= 0 {
		return by, false
	}
	if excess > swap-int64(math.Ceil(0.1*float64(total))) {
		return by, false
	}
	sort.Slice(suspended, func(a, b int) bool {
		p, q := o.tasks[suspended[a]], o.tasks[suspended[b]]
		if p.Priority != q.Priority {
			return p.Priority < q.Priority
		}
		return suspended[a] > suspended[b]
	})
	for _, i := range suspended {
		some := min(excess, o.tasks[i].Resident)
		by[o.tasks[i].Priority] += some
		excess -= some
	}
	return by, excess == 0
}

// TestCostAgainstOracle compares what Cost finds with the exhaustive search: where
// all sets are tried, the best; by greedy choice, which is for many victims, never
// cheaper than possible, the best in 85 cases of 100, never more than 31 times as much,
// and a way in nearly every case in which there is one.
func TestCostAgainstOracle(t *testing.T) {
	t.Run("all sets", func(t *testing.T) { testOracle(t, 1<<30, 1, 1+1e-6, 0, func(*oracle) {}) })
	t.Run("late and spared", func(t *testing.T) { testOracle(t, 1<<30, 1, 1+1e-6, 0, lateAndSpared) })
	t.Run("greedy", func(t *testing.T) { testOracle(t, 0, 0.85, 31, 0.001, func(*oracle) {}) })
}

// lateAndSpared has some tasks outlive what they promised, and some be killed only for who
// is very urgent.
func lateAndSpared(o *oracle) {
	for i := range o.tasks {
		t := &o.tasks[i]
		t.NoKill = headrace.Priority(i % 3 * 4)
		t.Progress.Promised = time.Duration(i%4) * t.Progress.TotalWall / 4
	}
}

func testOracle(t *testing.T, allSets int, equalShare, worstRatio, missedShare float64, change func(*oracle)) {
	r := rand.New(rand.NewPCG(1, 2))
	const rounds = 2000
	equal, cases, sets, missed, worst := 0, 0, 0, 0, 1.0
	for i := range rounds {
		o := randomInstance(r)
		change(o)
		ch := o.choose(allSets)
		if ch.Fits {
			continue
		}
		o.search(0)
		if math.IsInf(o.best, 1) {
			if len(ch.Orders) > 0 || ch.Wait {
				t.Fatalf("instance %d: makes room where there is no way", i)
			}
			continue
		}
		cases++
		if len(ch.Orders) == 0 && !ch.Wait {
			missed++
			continue
		}
		ratio := ch.Total / o.best
		if ratio < 1-1e-6 || ratio > worstRatio {
			t.Errorf("instance %d: cost %v, best %v", i, ch.Total, o.best)
		}
		if len(ch.Orders) > 1 {
			sets++
		}
		if ratio < 1+1e-6 {
			equal++
		}
		worst = max(worst, ratio)
	}
	t.Logf("%d cases, %d by several orders, %d as cheap as possible, worst %.3f times the best, %d not found", cases, sets, equal, worst, missed)
	if float64(equal) < equalShare*float64(cases) || float64(missed) > missedShare*float64(cases) {
		t.Errorf("of %d cases only %d as cheap as possible, %d not found", cases, equal, missed)
	}
	if cases < rounds/3 || sets < rounds/20 {
		t.Errorf("the instances are too easy: %d cases, %d by several orders", cases, sets)
	}
}

// choose is Choose with another bound on how many sets are all tried.
func (o *oracle) choose(allSets int) Choice {
	v := headrace.View{Nodes: []headrace.NodeView{o.n}, Tasks: append(slices.Clone(o.tasks), o.u)}
	p := newPlanner(&v, o.c)
	p.chooser.Most = allSets
	u := &p.fleet.Tasks[len(o.tasks)]
	u.Aged = u.Priority
	return p.choose(u, &p.fleet.Nodes[0])
}

func randomInstance(r *rand.Rand) *oracle {
	n := randomNode(r, 0)
	n.CPUs = float64(2 + r.IntN(4))
	for i := range n.Stores {
		n.Stores[i].Read = 150 * mb
	}
	o := &oracle{n: n, best: math.Inf(1)}
	free, mem := n.CPUs, n.Memory
	for i := range 6 {
		t := headrace.TaskView{
			ID: headrace.TaskID(fmt.Sprintf("t%d", i)), Node: n.ID, State: headrace.Running,
			Priority: headrace.Priority(r.IntN(8)), CPUs: pick(r, 0.5, 1, 2), Resident: int64(r.IntN(9)) * 256 * mb,
			MemoryRequest: int64(r.IntN(3)) * 512 * mb,
			NoSuspend:     pick(r, "", "", "no"), NoCheckpoint: pick(r, "", "", "no"),
		}
		wall := time.Duration(r.IntN(300)) * time.Second
		t.Running = wall
		t.Progress = headrace.Progress{Wall: wall, TotalWall: wall, Share: pick(r, -1, r.Float64())}
		t.Dirty = t.Resident
		if r.IntN(3) == 0 {
			t.Checkpoint = &headrace.CheckpointView{Store: pick(r, "s0", "s1"), Bytes: t.Resident}
			t.Dirty /= 4
		}
		if r.IntN(4) == 0 {
			t.State, t.Swapped = headrace.Suspended, int64(r.IntN(2))*256*mb
		}
		c, m := use(t, &n)
		if c <= free && m <= mem {
			free, mem = free-c, mem-m
			o.tasks = append(o.tasks, t)
		}
	}
	o.chosen = make([]choice, len(o.tasks))
	o.u = headrace.TaskView{
		ID: "u", Priority: headrace.Priority(4 + r.IntN(8)), CPUs: float64(1 + r.IntN(int(n.CPUs))),
		MemoryRequest: min(n.Memory, int64(r.IntN(9))*512*mb),
	}
	return o
}
