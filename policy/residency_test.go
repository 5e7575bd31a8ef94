package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headrace"
)

func TestGoesToItsInput(t *testing.T) {
	at := func(node headrace.NodeID, resident, local int64) headrace.InputAt {
		return headrace.InputAt{Node: node, Resident: resident, Local: local}
	}
	for _, k := range []struct {
		name        string
		at          []headrace.InputAt
		full        []headrace.NodeID
		off         bool
		want, words string
	}{
		{"nothing is known", nil, nil, false, "n0", "there is room"},
		{"nothing is anywhere", []headrace.InputAt{at("n2", 0, 0)}, nil, false, "n0", "there is room"},
		{"most in memory", []headrace.InputAt{at("n1", 20, 100), at("n2", 50, 0)}, nil, false, "n2", "there is room, and 50 % of its input in memory"},
		{"as much in memory, more on disk", []headrace.InputAt{at("n1", 20, 30), at("n2", 20, 40)}, nil, false, "n2", "there is room, and 20 % of its input in memory"},
		{"as much of both: the first", []headrace.InputAt{at("n2", 20, 30), at("n1", 20, 30)}, nil, false, "n1", "there is room, and 20 % of its input in memory"},
		{"only on disk", []headrace.InputAt{at("n1", 0, 10), at("n2", 0, 100)}, nil, false, "n2", "there is room, and 100 % of its input on disk"},
		{"no room where it is", []headrace.InputAt{at("n1", 100, 100), at("n2", 0, 50)}, []headrace.NodeID{"n1"}, false, "n2", "there is room, and 50 % of its input on disk"},
		{"no room where any of it is", []headrace.InputAt{at("n1", 100, 100)}, []headrace.NodeID{"n1"}, false, "n0", "there is room"},
		{"a node that is not there", []headrace.InputAt{at("n9", 100, 100), at("n2", 1, 1)}, nil, false, "n2", "there is room, and 1 % of its input in memory"},
		{"more than there is counts as all", []headrace.InputAt{at("n2", 900, 0), at("n1", 100, 0)}, nil, false, "n1", "there is room, and 100 % of its input in memory"},
		{"memory does not count", []headrace.InputAt{at("n1", 100, 0), at("n2", 0, 1)}, nil, true, "n2", "there is room, and 1 % of its input on disk"},
		{"memory does not count, nor is any on disk", []headrace.InputAt{at("n1", 100, 0)}, nil, true, "n0", "there is room"},
	} {
		t.Run(k.name, func(t *testing.T) {
			var v headrace.View
			for i := range 3 {
				v.Nodes = append(v.Nodes, headrace.NodeView{ID: headrace.NodeID(fmt.Sprintf("n%d", i)), CPUs: 1})
			}
			for _, n := range k.full {
				v.Tasks = append(v.Tasks, headrace.TaskView{ID: headrace.TaskID("on " + n), Node: n, State: headrace.Running, CPUs: 1})
			}
			v.Tasks = append(v.Tasks, headrace.TaskView{ID: "u", CPUs: 1, Input: headrace.InputView{Bytes: 100, At: k.at}})
			for _, name := range Names() {
				orders := Decide(v, Config{Policy: name, NoResidencyOrder: k.off})
				if len(orders) != 1 || string(orders[0].Node) != k.want || orders[0].Reason != k.words {
					t.Errorf("%s: %s, want %s: %s", name, showAll(orders), k.want, k.words)
				}
			}
		})
	}
}

// TestWaitsWhereItsInputIs checks that a task which must wait for those that are
// leaving waits where its input is, if they leave there.
func TestWaitsWhereItsInputIs(t *testing.T) {
	var v headrace.View
	for i := range 3 {
		n := headrace.NodeID(fmt.Sprintf("n%d", i))
		v.Nodes = append(v.Nodes, headrace.NodeView{ID: n, CPUs: 1})
		v.Tasks = append(v.Tasks, headrace.TaskView{
			ID: headrace.TaskID("on " + n), Node: n, State: headrace.Running, CPUs: 1, Leaving: true, LeavingBy: headrace.Kill,
		})
	}
	v.Tasks = append(v.Tasks, headrace.TaskView{
		ID: "u", CPUs: 1, Input: headrace.InputView{Bytes: 100, At: []headrace.InputAt{{Node: "n2", Resident: 1}}},
	})
	orders, notes := Explain(v, Config{})
	if len(orders) != 0 || len(notes) != 1 || notes[0].Reason != "room is being made on n2" {
		t.Errorf("orders %v, notes %v", orders, notes)
	}
}

// inputsAnywhere is nodes with some room, and tasks with inputs on some of them.
func inputsAnywhere(r *rand.Rand) headrace.View {
	var v headrace.View
	for i := range 1 + r.IntN(8) {
		v.Nodes = append(v.Nodes, headrace.NodeView{
			ID: headrace.NodeID(fmt.Sprintf("n%d", i)), CPUs: float64(r.IntN(5)), Memory: int64(r.IntN(6)) * 1024 * mb,
		})
	}
	for i := range 1 + r.IntN(20) {
		t := headrace.TaskView{
			ID: headrace.TaskID(fmt.Sprintf("t%d", i)), Job: pick[headrace.JobID](r, "", "j", "k"),
			CPUs: pick(r, 0.5, 1, 2), MemoryRequest: int64(r.IntN(4)) * 512 * mb,
		}
		t.Input.Bytes = int64(r.IntN(4))
		for range r.IntN(4) {
			t.Input.At = append(t.Input.At, headrace.InputAt{
				Node:  headrace.NodeID(fmt.Sprintf("n%d", r.IntN(9))),
				Local: int64(r.IntN(6)) - 1, Resident: int64(r.IntN(6)) - 1,
			})
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v
}

// dumbPlaces puts tasks on nodes one after the other until one does not fit: the
// rule said a second time, by sorting all nodes.
func dumbPlaces(v headrace.View, queue []headrace.TaskView, off bool) map[headrace.TaskID]headrace.NodeID {
	free := slices.Clone(v.Nodes)
	places := map[headrace.TaskID]headrace.NodeID{}
	for _, t := range queue {
		type spot struct {
			i             int
			memory, local int64
		}
		var spots []spot
		for i, n := range free {
			if t.CPUs > n.CPUs || t.MemoryRequest > 0 && t.MemoryRequest > n.Memory {
				continue
			}
			spots = append(spots, spot{i, 0, 0})
			for _, at := range t.Input.At {
				if at.Node == n.ID {
					s := spot{i, min(at.Resident, t.Input.Bytes), min(at.Local, t.Input.Bytes)}
					if off {
						s.memory = 0
					}
					spots = append(spots, spot{i, max(0, s.memory), max(0, s.local)})
				}
			}
		}
		if len(spots) == 0 {
			return places
		}
		slices.SortFunc(spots, func(a, b spot) int {
			switch {
			case a.memory != b.memory:
				return int(b.memory - a.memory)
			case a.local != b.local:
				return int(b.local - a.local)
			}
			return a.i - b.i
		})
		n := &free[spots[0].i]
		n.CPUs, n.Memory = n.CPUs-t.CPUs, n.Memory-t.MemoryRequest
		places[t.ID] = n.ID
	}
	return places
}

func TestPlacesAgainstOracle(t *testing.T) {
	placed, elsewhere := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 31))
		v, c := inputsAnywhere(r), randomConfig(r)
		var queue []headrace.TaskView
		for _, u := range newDecision(&v, c).queue() {
			queue = append(queue, *u.TaskView)
		}
		want := dumbPlaces(v, queue, c.NoResidencyOrder)
		orders := Decide(v, c)
		if len(orders) < len(want) {
			t.Fatalf("seed %d: %d orders, want %d", seed, len(orders), len(want))
		}
		for i := range queue {
			queue[i].Input.At = nil
		}
		without := dumbPlaces(v, queue, false)
		for _, o := range orders[:len(want)] {
			if o.Verb != headrace.OrderStart || o.Node != want[o.Task] {
				t.Fatalf("seed %d, %+v: %s goes to %s, want %s", seed, c, o.Task, o.Node, want[o.Task])
			}
			if says := strings.Contains(o.Reason, "input in memory"); says && c.NoResidencyOrder {
				t.Fatalf("seed %d: %s", seed, o.Reason)
			}
			placed++
			if o.Node != without[o.Task] {
				elsewhere++
			}
		}
	}
	if placed < 8000 || elsewhere < 2000 {
		t.Errorf("the cases are too easy: %d tasks placed, %d of them not on the first node", placed, elsewhere)
	}
}

// TestResidentOnTheBestNode checks that the order within a job goes by the node that
// has the most of each input: it is the same as when that were the only one.
func TestResidentOnTheBestNode(t *testing.T) {
	moved := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 32))
		v := inputsAnywhere(r)
		flat := clone(v)
		for i := range flat.Tasks {
			in := &flat.Tasks[i].Input
			for _, at := range in.At {
				if slices.ContainsFunc(v.Nodes, func(n headrace.NodeView) bool { return n.ID == at.Node }) {
					in.Resident = max(in.Resident, at.Resident)
				}
			}
			in.At = nil
		}
		for i := range v.Tasks {
			if len(v.Tasks[i].Input.At) > 0 {
				v.Tasks[i].Input.Resident = r.Int64N(4) // does not count
			}
		}
		got, want := newDecision(&v, Config{}).queue(), newDecision(&flat, Config{}).queue()
		if idsOf(got) != idsOf(want) {
			t.Fatalf("seed %d: %s, want %s", seed, idsOf(got), idsOf(want))
		}
		if idsOf(got) != idsOf(newDecision(&v, Config{NoResidencyOrder: true}).queue()) {
			moved++
		}
	}
	if moved < 500 {
		t.Errorf("only %d of 2000 queues are in another order than that of submission", moved)
	}
}
