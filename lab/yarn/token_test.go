package yarn

import (
	"os"
	"path/filepath"
	"testing"
)

// A ResourceManager whose token is not the cluster's: the manager refuses it, and it
// preempts as it would without Headrace. It says so once.
func TestWrongToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startTest(t, Options{Mode: Headrace, Properties: map[string]string{"headrace.manager.token-file": file}})
	j := startJobs(t, c)
	low := j.start(t, ShellJob{Name: "low", Queue: "low", Containers: 4, Memory: 512}, 60)
	holdAfter(t, low.steps, 60)
	j.start(t, ShellJob{Name: "high", Queue: "high", Containers: 3, Memory: 512}, 10).finished(t)
	low.goOn(t)
	if e := must(j.Await(within(t, patience), "low", "finished"))(t); !e.Good {
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
