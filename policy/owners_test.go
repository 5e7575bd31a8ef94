package policy

import (
	"fmt"
	"testing"
	"time"

	"headrace"
)

// TestQueueOfTheOwner: a dump is as dear as its user's would be, whatever others have asked for.
func TestQueueOfTheOwner(t *testing.T) {
	const ran = 10 * time.Minute
	victim := func(id headrace.TaskID, node headrace.NodeID) headrace.TaskView {
		return headrace.TaskView{
			ID: id, Node: node, Priority: headrace.Low, State: headrace.Running, CPUs: 1, MemoryRequest: 1 << 30, Resident: 1 << 30, Dirty: 1 << 30,
			Running: ran, NoSuspend: "it may not", Progress: headrace.Progress{Share: -1, Wall: ran, TotalWall: ran},
		}
	}
	urgent := func(id headrace.TaskID, user uint32) headrace.TaskView {
		return headrace.TaskView{ID: id, Owner: headrace.Owner{User: user}, Priority: headrace.High, State: headrace.Pending, CPUs: 1, MemoryRequest: 1 << 30}
	}
	node := func(id headrace.NodeID) headrace.NodeView {
		return headrace.NodeView{ID: id, CPUs: 1, Memory: 2 << 30, Stores: []headrace.StoreView{{
			Name: "disk", Write: 1e9, Read: 1e9, Free: 1 << 40, Queues: []headrace.UserQueue{{User: 1, Wait: time.Hour}},
		}}}
	}
	for name, c := range map[string]struct {
		nodes []headrace.NodeView
		tasks []headrace.TaskView
		want  map[headrace.TaskID]headrace.Mechanism // how somebody leaves for a task
	}{
		"who has asked for much": {
			[]headrace.NodeView{node("n1")}, []headrace.TaskView{victim("low", "n1"), urgent("a", 1)}, map[headrace.TaskID]headrace.Mechanism{"a": headrace.Kill},
		},
		"another": {
			[]headrace.NodeView{node("n1")}, []headrace.TaskView{victim("low", "n1"), urgent("b", 2)}, map[headrace.TaskID]headrace.Mechanism{"b": headrace.Checkpoint},
		},
		"both": {
			[]headrace.NodeView{node("n1"), node("n2")}, []headrace.TaskView{victim("l1", "n1"), victim("l2", "n2"), urgent("a", 1), urgent("b", 2)},
			map[headrace.TaskID]headrace.Mechanism{"a": headrace.Kill, "b": headrace.Checkpoint},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[headrace.TaskID]headrace.Mechanism{}
			for _, o := range Decide(headrace.View{Nodes: c.nodes, Tasks: c.tasks}, Config{Policy: Cost, MinRun: None}) {
				if o.Verb == headrace.OrderPreempt {
					got[o.For] = o.Mechanism
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("they leave so: %v, want %v", got, c.want)
			}
		})
	}
}
