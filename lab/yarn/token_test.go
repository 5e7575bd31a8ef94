package yarn

import "testing"

// A ResourceManager whose token is not the cluster's: the manager refuses it, and it
// preempts as it would without Headrace. It says so once.
func wrongToken(t *testing.T, j *jobs) {
	c := j.c
	low := j.startHeld(t, ShellJob{Name: "low-stranger", Queue: "low", Containers: 4, Memory: 512}, 60, 15)
	low.standStill(t, 15)
	j.start(t, ShellJob{Name: "high-stranger", Queue: "high", Containers: 3, Memory: 512}, 10).finished(t)
	low.goOn(t)
	if e := must(j.Await(within(t, patience), low.name, "finished"))(t); !e.Good {
		t.Error("the low job has failed")
	}
	if lost := must(low.steps.Lost())(t); lost < 10 {
		t.Errorf("%d steps were lost; want at least 10, as with stock preemption", lost)
	}
	idle(t, c)
	warnings := ourWarnings(t, c.logFile("rm"))
	if len(warnings) == 0 {
		t.Error("the ResourceManager has not warned")
	}
	for class, n := range warnings {
		if n != 1 {
			t.Errorf("the ResourceManager has %d warnings of %s, want 1", n, class)
		}
	}
	if all := must(c.Decisions())(t); len(all) > 0 {
		t.Errorf("the manager has decided for a stranger: %v", all)
	}
}
