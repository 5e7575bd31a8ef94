package policy

import (
	"fmt"
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
