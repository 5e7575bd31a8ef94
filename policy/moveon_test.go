package policy

import (
	"testing"
	"time"

	"headrace"
)

func TestMoveOn(t *testing.T) {
	node := headrace.NodeView{
		ID: "n", Net: 100e6, SwapIn: 50e6,
		Stores: []headrace.StoreView{
			{Name: "slow", Write: 10e6, Read: 10e6, Free: 1 << 40},
			{Name: "disk", Write: 100e6, Read: 200e6, DumpOverhead: time.Second, RestoreOverhead: time.Second, Queue: 2 * time.Second, Free: 1 << 40},
			{Name: "full", Write: 1e12, Read: 1e12},
		},
	}
	checkpointed := headrace.TaskView{State: headrace.Checkpointed, Checkpoint: &headrace.CheckpointView{Store: "disk", Bytes: 400e6}}
	suspended := headrace.TaskView{State: headrace.Suspended, Resident: 300e6, Swapped: 100e6, Dirty: 400e6}
	never := suspended
	never.NoCheckpoint = "a socket"
	lost := checkpointed
	lost.Checkpoint = &headrace.CheckpointView{Store: "gone", Bytes: 1}
	noNet := node
	noNet.Net = 0
	for _, c := range []struct {
		name string
		task headrace.TaskView
		node headrace.NodeView
		want Ways
		ok   bool
	}{
		{"checkpointed", checkpointed, node, Ways{Here: 13 * time.Second, Elsewhere: 11 * time.Second}, true},
		{"suspended", suspended, node, Ways{Here: 12 * time.Second, Elsewhere: 18 * time.Second}, true},
		{"cannot be checkpointed", never, node, Ways{}, false},
		{"store not known", lost, node, Ways{}, false},
		{"no network", checkpointed, noNet, Ways{}, false},
		{"running", headrace.TaskView{State: headrace.Running}, node, Ways{}, false},
	} {
		got, ok := MoveOn(c.task, c.node, 10*time.Second)
		if ok != c.ok || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
