package policy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

// world runs tasks by the policy's orders in steps of a second.
type world struct {
	c    Config
	node headrace.NodeView
	all  []*worker
	now  time.Duration
}

// worker is a task in the world. Its view is what the policy sees.
type worker struct {
	view    headrace.TaskView
	work    time.Duration // running time that it needs
	did     time.Duration // of which it has done this
	saved   time.Duration // of which a checkpoint holds this
	left    time.Duration // of the transition in progress
	arrived time.Duration
	top     time.Duration // since then it has been at the top of its band
	ended   time.Duration
	made    bool // others have left for it
	passed  bool // by one that came when it was at the top
}

func (w *world) submit(p headrace.Priority, work time.Duration, mem int64) *worker {
	k := &worker{work: work, arrived: w.now}
	k.view = headrace.TaskView{
		ID: headrace.TaskID(fmt.Sprintf("t%d", len(w.all))), Priority: p, CPUs: 1, MemoryRequest: mem,
		Progress: headrace.Progress{Share: -1},
	}
	w.all = append(w.all, k)
	return k
}

// alive returns the tasks that have not ended, and the view of them.
func (w *world) alive() ([]*worker, headrace.View) {
	v := headrace.View{Nodes: []headrace.NodeView{w.node}}
	n := &v.Nodes[0]
	n.Stores = []headrace.StoreView{w.node.Stores[0]}
	var alive []*worker
	for _, k := range w.all {
		if k.ended > 0 {
			continue
		}
		n.SwapFree -= k.view.Swapped
		if k.view.Leaving && k.view.LeavingBy == headrace.Checkpoint {
			n.Stores[0].Queue += k.left
		}
		alive = append(alive, k)
		v.Tasks = append(v.Tasks, k.view)
	}
	return alive, v
}

// step decides, begins what was ordered, and lets a second pass.
func (w *world) step() error {
	alive, v := w.alive()
	byID := map[headrace.TaskID]*worker{}
	for _, k := range alive {
		byID[k.view.ID] = k
	}
	for _, o := range Decide(v, w.c) {
		if err := byID[o.Task].begin(o, &v.Nodes[0]); err != nil {
			return fmt.Errorf("at %v: %s: %w", w.now, show(o), err)
		}
		if u := byID[o.For]; u != nil {
			u.view.Room = o.Node
			u.made = true
		}
	}
	var cpus float64
	var mem, swapped int64
	for _, k := range alive {
		c, m := use(k.view, &w.node)
		cpus, mem, swapped = cpus+c, mem+m-k.view.PagingOut, swapped+k.view.Swapped+k.view.PagingOut
	}
	if cpus > w.node.CPUs || mem > w.node.Memory || swapped > w.node.SwapFree {
		return fmt.Errorf("at %v: %v CPUs, %d MB of memory, %d MB of swap in use", w.now, cpus, mem/mb, swapped/mb)
	}
	w.now += time.Second
	for _, k := range alive {
		k.pass(w.now)
	}
	return nil
}

func (k *worker) begin(o headrace.Order, n *headrace.NodeView) error {
	t := &k.view
	if t.Starting || t.Leaving {
		return fmt.Errorf("ordered while in transition")
	}
	k.left = time.Second
	switch o.Verb {
	case headrace.OrderPageOut:
		t.PagingOut += o.PageOut
	case headrace.OrderPreempt:
		t.Leaving, t.LeavingBy = true, o.Mechanism
		t.PagingOut += o.PageOut
		if o.Mechanism == headrace.Checkpoint {
			k.left = n.Stores[0].Queue + words.Seconds(float64(t.Dirty)/n.Stores[0].Write)
		}
	default:
		t.Starting, t.Node = true, o.Node
	}
	return nil
}

// pass lets a second pass for k.
func (k *worker) pass(now time.Duration) {
	t := &k.view
	k.left -= time.Second
	switch {
	case (t.Starting || t.Leaving) && k.left > 0:
	case t.Starting:
		k.come()
	case t.Leaving:
		k.leave()
	case t.State == headrace.Running:
		k.did += time.Second
		t.Running += time.Second
		t.Progress.Wall += time.Second
		t.Progress.TotalWall += time.Second
		if k.did >= k.work {
			k.ended = now
		}
	default:
		t.Waiting += time.Second
		out := min(t.PagingOut, 500*mb)
		t.PagingOut, t.Resident, t.Swapped = t.PagingOut-out, t.Resident-out, t.Swapped+out
	}
}

// come ends the transition of a task that starts or comes back.
func (k *worker) come() {
	t := &k.view
	t.Starting, t.State, t.Room = false, headrace.Running, ""
	t.Waited, t.Waiting, t.Running = t.Waiting, 0, 0
	t.Resident, t.Swapped, t.PagingOut = t.MemoryRequest, 0, 0
	t.Dirty = t.Resident
}

// leave ends the transition of a task that was preempted.
func (k *worker) leave() {
	t := &k.view
	t.Leaving = false
	if t.State == headrace.Running {
		t.Waiting = t.Waited // it keeps its age
		t.Preemptions++
	}
	switch t.LeavingBy {
	case headrace.Suspend:
		t.State = headrace.Suspended
		return
	case headrace.Checkpoint:
		k.saved = k.did
		t.Checkpoint = &headrace.CheckpointView{Store: "s", Bytes: t.Resident + t.Swapped}
	case headrace.Kill:
		t.Progress.Lost += k.did - k.saved
		k.did, k.made = k.saved, false
	}
	t.State = headrace.Pending
	if t.Checkpoint != nil {
		t.State = headrace.Checkpointed
	} else {
		t.Node = ""
	}
	t.Resident, t.Swapped, t.PagingOut, t.Dirty = 0, 0, 0, 0
	t.Progress.Wall, t.Progress.TotalWall = 0, k.did
}

// TestNobodyStarves floods two slots with more urgent work of the same band than they
// can do for hours. The tasks that were there before, the largest needs both slots'
// memory, must end all the same.
func TestNobodyStarves(t *testing.T) {
	for i, name := range Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			testStarving(t, Config{Policy: name, Ageing: time.Minute}, uint64(i))
		})
	}
}

func testStarving(t *testing.T, c Config, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	w := &world{c: c, node: headrace.NodeView{
		ID: "n", CPUs: 2, Memory: 4096 * mb, SwapFree: 8192 * mb, SwapOut: 500 * mb, SwapIn: 500 * mb,
		Stores: []headrace.StoreView{{Name: "s", Write: 200 * mb, Read: 200 * mb, Free: 1 << 40}},
	}}
	var early []*worker
	for range 4 {
		p := headrace.Priority(2 + r.IntN(6))
		early = append(early, w.submit(p, time.Duration(60+r.IntN(400))*time.Second, 1024*mb))
	}
	big := w.submit(2, 2*time.Minute, 3500*mb)
	early = append(early, big)
	const end = 5 * time.Hour
	unfinished := func() (n int) {
		for _, k := range early {
			if k.ended == 0 {
				n++
			}
		}
		return n
	}
	for w.now < end && unfinished() > 0 {
		if r.IntN(14) == 0 {
			w.submit(headrace.High, time.Duration(10+r.IntN(40))*time.Second, 1024*mb)
		}
		if err := w.step(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, k := range early {
		if k.ended == 0 {
			t.Errorf("seed %d: %s (priority %d, %v of work) has done %v, lost %v, been preempted %d times",
				seed, k.view.ID, k.view.Priority, k.work, k.did, k.view.Progress.Lost, k.view.Preemptions)
		}
	}
	t.Logf("seed %d: %d urgent tasks, all early ones done after %v", seed, len(w.all)-len(early), w.now)
}

// TestBandsAreStrict floods a slot with production, which takes all of it. Whatever a
// task of a lower band has waited, it does not hold up what is urgent for longer than a
// task that was preempted before is spared.
func TestBandsAreStrict(t *testing.T) {
	for i, name := range Names() {
		if name == Wait {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 4))
		w := &world{c: Config{Policy: name, Ageing: time.Minute}, node: headrace.NodeView{
			ID: "n", CPUs: 1, Memory: 4096 * mb, SwapFree: 8192 * mb, SwapOut: 500 * mb, SwapIn: 500 * mb,
			Stores: []headrace.StoreView{{Name: "s", Write: 200 * mb, Read: 200 * mb, Free: 1 << 40}},
		}}
		for _, p := range []headrace.Priority{headrace.Free, headrace.Low, headrace.High} {
			w.submit(p, time.Hour, 512*mb)
		}
		var held, most time.Duration // how long lower bands ran while production waited
		for w.now < 5*time.Hour {
			if r.IntN(25) == 0 {
				w.submit(headrace.Production, time.Duration(10+r.IntN(20))*time.Second, 512*mb)
			}
			if err := w.step(); err != nil {
				t.Fatal(err)
			}
			lower, waits := false, false
			for _, k := range w.all {
				if k.ended == 0 {
					lower = lower || k.view.Priority < headrace.Production && k.view.State == headrace.Running
					waits = waits || k.view.Priority == headrace.Production && k.view.State == headrace.Pending && k.view.Waiting > time.Second
				}
			}
			if held += time.Second; !lower || !waits {
				held = 0
			}
			most = max(most, held)
		}
		if most > 10*time.Second {
			t.Errorf("%s: production waited %v for a lower band", name, most)
		}
	}
}

// TestBoundOfWaiting submits tasks of one band at random, more of them than there is room
// for. Of those that come after a task has been at the top of the band none begins before it, but for who takes the place
// of another that leaves for it, and comes back to it.
func TestBoundOfWaiting(t *testing.T) {
	for _, name := range Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			all, passed, longest := 0, 0, time.Duration(0)
			for seed := range uint64(12) {
				w := crowded(t, name, seed)
				for _, k := range w.all {
					if all++; k.passed {
						passed++
					}
					if k.top > 0 {
						longest = max(longest, cmp.Or(k.ended, w.now)-k.top)
					}
				}
			}
			if name == Wait && passed > 0 {
				t.Errorf("%d are passed although nobody leaves", passed)
			}
			t.Logf("%d of %d were passed at the top by one in whose place another left; the longest from the top to the end is %v", passed, all, longest)
		})
	}
}

// crowded is the world of TestBoundOfWaiting after 25 minutes.
func crowded(t *testing.T, name Name, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 5))
	w := &world{c: Config{Policy: name, Ageing: time.Minute}, node: headrace.NodeView{
		ID: "n", CPUs: 3, Memory: 4096 * mb, SwapFree: 8192 * mb, SwapOut: 500 * mb, SwapIn: 500 * mb,
		Stores: []headrace.StoreView{{Name: "s", Write: 200 * mb, Read: 200 * mb, Free: 1 << 40}},
	}}
	for w.now < 25*time.Minute {
		if r.IntN(5+int(seed%2)*5) == 0 {
			k := w.submit(headrace.Priority(2+r.IntN(7)), time.Duration(1+r.IntN(60))*time.Second, 64*mb)
			if seed%2 == 1 {
				k.view.CPUs = float64(1 + r.IntN(3))
			}
		}
		if err := w.step(); err != nil {
			t.Fatal(err)
		}
		for _, o := range w.all {
			if o.top == 0 && max(o.view.Waiting, o.view.Waited) >= time.Duration(o.view.Priority.Top()-o.view.Priority)*w.c.Ageing {
				o.top = w.now
			}
		}
		for _, k := range w.all {
			if k.view.State != headrace.Running || k.view.Running > 0 { // it has not just come
				continue
			}
			for _, o := range w.all {
				if o.top == 0 || k.arrived <= o.top+2*time.Second || o.ended > 0 || o.view.State == headrace.Running || o.view.Starting {
					continue
				}
				if o.passed = true; !k.made {
					t.Errorf("seed %d: at %v %s (%d, of %v) begins, for which nobody has left; %s (%d) waits at the top since %v", seed, w.now,
						k.view.ID, k.view.Priority, k.arrived, o.view.ID, o.view.Priority, o.top)
				}
			}
		}
	}
	return w
}

// TestNobodyPassesWhoNeedsMemory floods processors with what is urgent, without swap and without a store, so that suspended tasks
// have their memory until they have run. None that came after a large task of their band was at its top begins before that.
func TestNobodyPassesWhoNeedsMemory(t *testing.T) {
	for _, name := range []Name{Suspend, Cost} {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 6))
			w := &world{c: Config{Policy: name, Ageing: time.Minute}, node: headrace.NodeView{
				ID: "n", CPUs: 3, Memory: 16000 * mb, Stores: []headrace.StoreView{{Name: "s"}},
			}}
			small := func() *worker { return w.submit(headrace.Low, time.Duration(100+r.IntN(200))*time.Second, 5000*mb) }
			small()
			small()
			big := w.submit(headrace.Low, time.Minute, 12000*mb)
			top := time.Duration(headrace.Low.Top()-headrace.Low) * time.Minute
			for big.view.State != headrace.Running {
				if r.IntN(60) == 0 {
					for range 1 + r.IntN(3) { // of which nobody knows what memory they need
						w.submit(headrace.High, time.Duration(10+r.IntN(60))*time.Second, 0)
					}
				}
				if r.IntN(60) == 0 {
					small()
				}
				if err := w.step(); err != nil {
					t.Fatal(err)
				}
				for _, k := range w.all {
					if k.arrived > top && k.view.Priority == headrace.Low && (k.view.Starting || k.view.State == headrace.Running) {
						t.Fatalf("%s, seed %d: at %v %s begins, which came at %v, and the large one waits", name, seed, w.now, k.view.ID, k.arrived)
					}
				}
			}
		}
	}
}

// TestWithoutAgeingTheyStarve shows that the flood is enough to starve somebody.
func TestWithoutAgeingTheyStarve(t *testing.T) {
	r := rand.New(rand.NewPCG(0, 3))
	w := &world{c: Config{Policy: Kill, Ageing: None}, node: headrace.NodeView{
		ID: "n", CPUs: 1, Memory: 4096 * mb, Stores: []headrace.StoreView{{Name: "s"}},
	}}
	low := w.submit(1, 5*time.Minute, 1024*mb)
	for w.now < 2*time.Hour {
		if r.IntN(14) == 0 {
			w.submit(8, 15*time.Second, 1024*mb)
		}
		if err := w.step(); err != nil {
			t.Fatal(err)
		}
	}
	if low.ended > 0 {
		t.Fatalf("the low task ended after %v: the flood is too weak for this test", low.ended)
	}
}
