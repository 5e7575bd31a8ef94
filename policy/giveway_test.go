package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

func (s *scenario) giveWay(id, urgent string) (string, error) {
	p, err := headrace.ParsePriority(urgent)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(s.view.Tasks, func(t headrace.TaskView) bool { return string(t.ID) == id })
	if i < 0 || len(s.view.Nodes) != 1 {
		return "", fmt.Errorf("no task %s, or not one node", id)
	}
	var b strings.Builder
	v := GiveWay(s.view.Tasks[i], s.view.Nodes[0], s.view.Tasks, p, s.config)
	fmt.Fprint(&b, v.Mechanism)
	if v.Store != "" {
		fmt.Fprintf(&b, " to %s", v.Store)
	}
	if v.PageOut > 0 {
		fmt.Fprintf(&b, " paging out %s", showSize(v.PageOut))
	}
	fmt.Fprintf(&b, " (delay %s, waste %s): %s\n", words.Short(v.Delay.Seconds()), words.Short(v.Waste.Seconds()), v.Reason)
	for _, o := range v.PageOuts {
		fmt.Fprintln(&b, show(o))
	}
	return b.String(), nil
}

// TestGiveWayAgainstChoose makes up nodes and victims, lists what could be done to the
// victim with Choose, for a task that is really there, and checks that GiveWay takes
// of it what the policy prefers.
func TestGiveWayAgainstChoose(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(12000) {
		r := rand.New(rand.NewPCG(seed, 7))
		victim, n, others := randomVictim(r)
		c := randomConfig(r)
		urgent := headrace.Priority(r.IntN(int(headrace.MaxPriority) + 1))
		before := slices.Clone(others)
		got := GiveWay(victim, n, others, urgent, c)
		if !reflect.DeepEqual(before, others) {
			t.Fatalf("seed %d: the tasks were changed", seed)
		}
		want, why := preferred(t, victim, n, others, urgent, c)
		if got.Mechanism != want.Mechanism || got.Store != want.Store {
			t.Fatalf("seed %d, %s: %s %s, want %s %s (%s)\n%+v", seed, c.resolved().Policy, got.Mechanism, got.Store, want.Mechanism, want.Store, why, got)
		}
		if got.Reason == "" {
			t.Fatalf("seed %d: no reason", seed)
		}
		pages := got.PageOut
		for _, o := range got.PageOuts {
			if o.Verb != headrace.OrderPageOut || o.Task == victim.ID {
				t.Fatalf("seed %d: %s", seed, show(o))
			}
			pages += o.PageOut
		}
		if got.Mechanism != headrace.Wait && pages != want.PageOut {
			t.Fatalf("seed %d: %d bytes paged out, want %d", seed, pages, want.PageOut)
		}
		if d := got.Delay - want.Delay; d.Abs() > time.Millisecond {
			t.Fatalf("seed %d: delay %v, want %v", seed, got.Delay, want.Delay)
		}
		if dump := got.Delay - storeOf(n, got.Store).Queue - got.Dump; got.Mechanism == headrace.Checkpoint && got.Dump > 0 && pages == 0 && dump.Abs() > time.Millisecond {
			t.Fatalf("seed %d: the dump takes %v, of a delay of %v", seed, got.Dump, got.Delay)
		}
		seen[fmt.Sprint(c.resolved().Policy, " ", got.Mechanism)]++
		if pages > 0 {
			seen["page-outs"]++
		}
		if len(got.PageOuts) > 0 {
			seen["page-outs of others"]++
		}
	}
	for _, what := range []string{"wait wait", "kill kill", "kill wait", "suspend suspend", "suspend checkpoint", "suspend wait", "checkpoint checkpoint",
		"checkpoint suspend", "checkpoint wait", "adaptive checkpoint", "adaptive kill", "cost suspend", "cost checkpoint", "cost kill", "cost wait",
		"page-outs", "page-outs of others"} {
		if seen[what] < 10 {
			t.Errorf("only %d cases of %s", seen[what], what)
		}
	}
	for _, never := range []string{"wait suspend", "wait checkpoint", "wait kill", "kill suspend", "kill checkpoint", "suspend kill", "checkpoint kill", "adaptive suspend"} {
		if seen[never] > 0 {
			t.Errorf("%d cases of %s", seen[never], never)
		}
	}
}

// randomVictim returns a task that runs on a node with others, none of which is
// leaving.
func randomVictim(r *rand.Rand) (victim headrace.TaskView, n headrace.NodeView, others []headrace.TaskView) {
	n = randomNode(r, 0)
	for i := range n.Stores {
		n.Stores[i].Read = 150 * mb
	}
	v := headrace.View{Nodes: []headrace.NodeView{n}}
	for len(others) < 1+r.IntN(6) {
		task := randomTask(r, len(others), &v)
		task.Leaving, task.Starting = false, false
		if task.State != headrace.Pending {
			task.Node = n.ID
		}
		others = append(others, task)
	}
	victim = others[r.IntN(len(others))]
	if victim.State != headrace.Running {
		victim.State, victim.Node, victim.Held, victim.PagingOut, victim.Waiting = headrace.Running, n.ID, false, 0, 0
		victim.Running = time.Duration(r.IntN(60)) * time.Second
	}
	return victim, n, others
}

// preferred says what c does to the victim, from the options that Choose lists.
func preferred(t *testing.T, victim headrace.TaskView, n headrace.NodeView, others []headrace.TaskView, urgent headrace.Priority, c Config) (Option, string) {
	t.Helper()
	options := optionsFor(victim, n, others, urgent, c)
	get := func(m headrace.Mechanism, by func(Option) float64) (best Option, ok bool) {
		least := math.Inf(1)
		for _, o := range options {
			if o.Mechanism == m && o.Refused == "" && by(o) < least {
				best, ok, least = o, true, by(o)
			}
		}
		return best, ok
	}
	total := func(o Option) float64 { return o.Total }
	took := func(o Option) float64 { return (storeOf(n, o.Store).Queue + o.Waste).Seconds() }
	suspend, suspends := get(headrace.Suspend, total)
	dump, dumps := get(headrace.Checkpoint, took)
	kill, kills := get(headrace.Kill, total)
	switch c.resolved().Policy {
	case Kill:
		if kills {
			return kill, "only kill"
		}
	case Suspend:
		if suspends {
			return suspend, "suspend first"
		}
		if dumps {
			return dump, "checkpoint second"
		}
	case Checkpoint:
		if dumps {
			return dump, "checkpoint first"
		}
		if suspends {
			return suspend, "suspend second"
		}
	case Adaptive:
		if o, ok := get(headrace.Checkpoint, func(o Option) float64 { return algorithmOne(victim, storeOf(n, o.Store)) }); ok &&
			victim.Progress.Wall.Seconds() > algorithmOne(victim, storeOf(n, o.Store)) {
			return o, "algorithm 1"
		}
		if kills {
			return kill, "algorithm 1"
		}
	case Cost:
		best, least := Option{}, math.Inf(1)
		for _, o := range options {
			if o.Refused == "" && o.Total < least-1e-9 {
				best, least = o, o.Total
			}
		}
		return best, "cheapest"
	}
	return Option{}, "nothing is possible"
}

// optionsFor returns the options for the victim alone: nobody else can be preempted,
// because all are held, and all CPUs are taken.
func optionsFor(victim headrace.TaskView, n headrace.NodeView, others []headrace.TaskView, urgent headrace.Priority, c Config) []Option {
	u := headrace.TaskView{ID: "urgent", CPUs: victim.CPUs, MemoryRequest: victim.MemoryRequest, Priority: urgent}
	if u.MemoryRequest == 0 {
		u.MemoryRequest = victim.Resident
	}
	victim.Priority = min(victim.Priority, headrace.MaxPriority-1)
	u.Priority = max(u.Priority, victim.Priority+1)
	n.CPUs = victim.CPUs
	used := max(victim.Resident, victim.MemoryRequest)
	tasks := []headrace.TaskView{victim}
	for _, o := range others {
		if o.ID == victim.ID {
			continue
		}
		switch o.State {
		case headrace.Running:
			n.CPUs += o.CPUs
			used += max(o.Resident, o.MemoryRequest)
		case headrace.Suspended:
			used += o.Resident - o.PagingOut
		}
		o.Held = true
		tasks = append(tasks, o)
	}
	n.Memory = max(n.Memory, used)
	ch := Choose(u, n, tasks, c)
	return slices.DeleteFunc(ch.Options, func(o Option) bool { return o.Task != victim.ID })
}

func storeOf(n headrace.NodeView, name string) headrace.StoreView {
	for _, s := range n.Stores {
		if s.Name == name {
			return s
		}
	}
	return headrace.StoreView{}
}

// algorithmOne is size/bw_write + size/bw_read + queue, in seconds.
func algorithmOne(t headrace.TaskView, s headrace.StoreView) float64 {
	size := t.Dirty
	if t.Checkpoint != nil && t.Checkpoint.Store != s.Name {
		size = max(t.Dirty, t.Resident+t.Swapped)
	}
	return float64(size)/s.Write + float64(size)/s.Read + s.Queue.Seconds()
}
