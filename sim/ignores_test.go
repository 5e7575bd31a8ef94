package sim

import (
	"strings"
	"testing"

	"headrace/sim/capacity"
	"headrace/trace"
)

func TestIgnores(t *testing.T) {
	w := &trace.Workload{Stages: []trace.Stage{{}, {After: []int32{0}}}, Resources: []string{"gpu"}, Needs: [][]float32{{1}}, Tasks: []trace.Task{
		{Gang: 1, Stage: 1}, {Gang: 1, Stage: 2}, {Gang: 2, Stage: 2, Need: 1}, {},
	}}
	said := strings.Join(Ignores(w, &Config{Capacity: &capacity.Config{}}), "\n")
	for _, want := range []string{"2 gangs", "what 1 tasks need of gpu"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
	if said := strings.Join(Ignores(w, &Config{}), "\n"); !strings.Contains(said, "what 1 tasks need of gpu is not counted") || strings.Contains(said, "gang") {
		t.Errorf("without queues: %q", said)
	}
	cluster := Config{Nodes: 10, Node: Node{CPUs: 2, Memory: 100}, Capacity: &capacity.Config{PerRound: 0.1}}
	if said := Ignores(&trace.Workload{Tasks: []trace.Task{{CPUs: 2, Memory: 100}, {CPUs: 2, Memory: 101}, {CPUs: 2.5}}}, &cluster); len(said) != 1 || !strings.HasPrefix(said[0], "2 tasks ask for more than the 10 % of the cluster") {
		t.Errorf("large for a look: %q", said)
	}
	if said := Ignores(&trace.Workload{Tasks: []trace.Task{{}}}, &Config{}); said != nil {
		t.Errorf("of nothing: %q", said)
	}
}
