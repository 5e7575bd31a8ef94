package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/queue"
)

// crowdOfJobs is waiting tasks in which everything that the order looks at is
// often equal.
func crowdOfJobs(r *rand.Rand) headrace.View {
	v := headrace.View{Nodes: []headrace.NodeView{{ID: "n", CPUs: 1}}}
	for i := range r.IntN(30) {
		t := headrace.TaskView{
			ID:       headrace.TaskID(fmt.Sprintf("t%d", i)),
			Job:      pick[headrace.JobID](r, "", "j", "j", "k"),
			Priority: pick[headrace.Priority](r, 4, 4, 5, headrace.MaxPriority),
			Waiting:  time.Duration(r.IntN(240)) * time.Second,
			State:    pick(r, headrace.Pending, headrace.Pending, headrace.Pending, headrace.Pending, headrace.Suspended),
			Held:     r.IntN(12) == 0,
		}
		if t.Input.Bytes = int64(r.IntN(4)); t.Input.Bytes > 0 {
			t.Input.Resident = int64(r.IntN(7)) - 1 // less and more than there is, too
		}
		if t.State == headrace.Suspended {
			t.Node = "n"
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v
}

// hotter is the rule said a second time: whether b goes before a, which stands
// before it, because of what is in memory.
func hotter(a, b *queue.Waiter) bool {
	in := func(t *queue.Waiter) int64 { return min(max(t.Input.Resident, 0), t.Input.Bytes) }
	return in(b)*a.Input.Bytes > in(a)*b.Input.Bytes // the larger share, without rounding
}

// changeable reports whether a and b may change places.
func changeable(c Config, a, b *queue.Waiter) bool {
	if a.Job == "" || a.Job != b.Job || a.Input.Bytes == 0 || b.Input.Bytes == 0 || a.Aged != b.Aged || books.Begun(a.TaskView) || books.Begun(b.TaskView) {
		return false
	}
	step := c.resolved().Ageing
	return step == 0 || int64(a.Waiting)/int64(step) == int64(b.Waiting)/int64(step)
}

// dumbOrder exchanges neighbours of a group until there are none left to exchange.
func dumbOrder(c Config, submitted []*queue.Waiter) []*queue.Waiter {
	q := slices.Clone(submitted)
	for exchangeOne(c, q) {
	}
	return q
}

func exchangeOne(c Config, q []*queue.Waiter) bool {
	for i, a := range q {
		next := slices.IndexFunc(q[i+1:], func(b *queue.Waiter) bool { return changeable(c, a, b) })
		if next < 0 {
			continue
		}
		if j := i + 1 + next; hotter(a, q[j]) {
			q[i], q[j] = q[j], a
			return true
		}
	}
	return false
}

// lined returns the tasks of v that wait, in their order.
func lined(v *headrace.View, c Config) []*queue.Waiter {
	p := newPlanner(v, c)
	return p.queue.Order(p.fleet.Waiting)
}

func idsOf(tasks []*queue.Waiter) string {
	var b strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&b, " %s", t.ID)
	}
	return b.String()
}

func TestResidentFirst(t *testing.T) {
	moved, kept := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 11))
		v := crowdOfJobs(r)
		c := Config{Ageing: pick(r, 0, None, time.Minute)}
		without := c
		without.NoResidencyOrder = true
		plain := lined(&v, without)
		got := lined(&v, c)
		if want := dumbOrder(c, plain); idsOf(got) != idsOf(want) {
			t.Fatalf("seed %d, %+v:\n got%s\nwant%s\nfrom%s", seed, v.Tasks, idsOf(got), idsOf(want), idsOf(plain))
		}
		if err := checkPlaces(plain, got); err != nil {
			t.Fatalf("seed %d:%s became%s: %v", seed, idsOf(plain), idsOf(got), err)
		}
		if idsOf(plain) == idsOf(got) {
			kept++
		} else {
			moved++
		}
	}
	if moved < 1000 || kept < 100 {
		t.Errorf("the cases are lopsided: %d queues in another order, %d in the same", moved, kept)
	}
}

// checkPlaces checks that only tasks of one job have changed places among
// themselves, none of them begun, all of one priority.
func checkPlaces(before, after []*queue.Waiter) error {
	if len(before) != len(after) {
		return fmt.Errorf("%d tasks became %d", len(before), len(after))
	}
	seen := map[headrace.TaskID]bool{}
	for i, a := range after {
		b := before[i]
		switch {
		case seen[a.ID]:
			return fmt.Errorf("%s twice", a.ID)
		case a.Job != b.Job || a.Aged != b.Aged || books.Begun(a.TaskView) != books.Begun(b.TaskView):
			return fmt.Errorf("%s took the place of %s", a.ID, b.ID)
		case a.ID != b.ID && (a.Job == "" || a.Input.Bytes == 0 || b.Input.Bytes == 0 || books.Begun(a.TaskView)):
			return fmt.Errorf("%s moved", a.ID)
		}
		seen[a.ID] = true
	}
	return nil
}

// TestReasonSaysWhoWasPassed checks that exactly those tasks say that they go
// before others that do.
func TestReasonSaysWhoWasPassed(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 12))
		v := crowdOfJobs(r)
		v.Nodes[0].CPUs = 1000
		place := map[headrace.TaskID]int{}
		for i, u := range v.Tasks {
			place[u.ID] = i
		}
		orders := Decide(v, Config{Ageing: None})
		for i, o := range orders {
			if o.Verb != headrace.OrderStart {
				continue
			}
			u := v.Tasks[place[o.Task]]
			passes := slices.ContainsFunc(orders[i+1:], func(p headrace.Order) bool {
				w := v.Tasks[place[p.Task]]
				return p.Verb == headrace.OrderStart && place[p.Task] < place[o.Task] && w.Job == u.Job &&
					w.Priority == u.Priority && u.Job != "" && w.Input.Bytes > 0 && u.Input.Bytes > 0
			})
			if said := strings.Contains(o.Reason, "of its input is in memory"); said != passes {
				t.Fatalf("seed %d: %s passes others: %v, but says %q", seed, o.Task, passes, o.Reason)
			}
		}
	}
}

// flood lets a cold task wait while its job goes on submitting tasks whose input
// is in memory, more than one slot can do, all with the highest priority, so that
// no priority can rise. It returns how long the cold task waited, and false when
// it never ran.
func flood(t *testing.T, c Config, p headrace.Priority) (time.Duration, bool) {
	t.Helper()
	w := &world{c: c, node: headrace.NodeView{ID: "n", CPUs: 1, Memory: 4096 * mb, Stores: []headrace.StoreView{{Name: "s"}}}}
	add := func(resident int64) *worker {
		k := w.submit(p, 20*time.Second, 1024*mb)
		k.view.Job, k.view.Input = "j", headrace.InputView{Bytes: 100, Resident: resident}
		return k
	}
	add(100)
	cold := add(0)
	for w.now < 45*time.Minute {
		if w.now%(15*time.Second) == 0 {
			add(100)
		}
		if err := w.step(); err != nil {
			t.Fatal(err)
		}
		if cold.view.State == headrace.Running {
			return w.now, true
		}
	}
	return 0, false
}

func TestColdTaskDoesNotStarve(t *testing.T) {
	for _, p := range []headrace.Priority{headrace.Low, headrace.MaxPriority} {
		waited, ran := flood(t, Config{Policy: Wait, Ageing: 2 * time.Minute}, p)
		// It is passed by what came within a step, 8 tasks of 20 s beside those before.
		if !ran || waited > 8*time.Minute {
			t.Errorf("priority %s: ran %v, after %v", p, ran, waited)
		}
		if waited < time.Minute {
			t.Errorf("priority %s: it ran after %v: nobody has passed it", p, waited)
		}
		if waited, ran := flood(t, Config{Policy: Wait, Ageing: None}, p); ran {
			t.Errorf("priority %s: without ageing it ran after %v: the flood is too weak for this test", p, waited)
		}
		if waited, ran := flood(t, Config{Policy: Wait, Ageing: None, NoResidencyOrder: true}, p); !ran || waited > time.Minute {
			t.Errorf("priority %s: with the order turned off: ran %v, after %v", p, ran, waited)
		}
	}
}

// TestOrderFollowsTheCache shows that a task that others have passed goes first
// once its input is in memory, and those that have lost theirs go back.
func TestOrderFollowsTheCache(t *testing.T) {
	v := headrace.View{Nodes: []headrace.NodeView{{ID: "n", CPUs: 1}}}
	for i := range 4 {
		v.Tasks = append(v.Tasks, headrace.TaskView{ID: headrace.TaskID(fmt.Sprint(i)), Job: "j", CPUs: 1, Input: headrace.InputView{Bytes: 10}})
	}
	r := rand.New(rand.NewPCG(1, 13))
	for range 200 {
		best := 0
		for i := range v.Tasks {
			v.Tasks[i].Input.Resident = int64(r.IntN(11))
			if v.Tasks[i].Input.Resident > v.Tasks[best].Input.Resident {
				best = i
			}
		}
		orders := Decide(v, Config{})
		if len(orders) != 1 || orders[0].Task != v.Tasks[best].ID {
			t.Fatalf("%+v: want a start of %d, got %v", v.Tasks, best, orders)
		}
	}
}

func BenchmarkDecideResidentFirst(b *testing.B) {
	v := crowd(10000, 0)
	r := rand.New(rand.NewPCG(1, 14))
	for i := range v.Tasks {
		v.Tasks[i].Job = headrace.JobID(fmt.Sprint(i / 100))
		v.Tasks[i].Input = headrace.InputView{Bytes: 100, Resident: int64(r.IntN(101))}
	}
	for _, off := range []bool{true, false} {
		b.Run(fmt.Sprintf("off=%v", off), func(b *testing.B) {
			for b.Loop() {
				Decide(v, Config{NoResidencyOrder: off})
			}
		})
	}
}
