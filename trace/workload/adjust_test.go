package workload

import (
	"math"
	"testing"
	"time"
)

func TestLoadAndStretch(t *testing.T) {
	w := &Workload{Jobs: []string{"a", "b"}, Tasks: []Task{
		{Submit: 10 * time.Second, Run: 100 * time.Second, CPUs: 2},
		{Job: 1, Submit: 60 * time.Second, Run: 50 * time.Second, CPUs: 1},
		{Job: 1, Index: 1, Submit: 110 * time.Second, Run: 50 * time.Second, CPUs: 1},
	}}
	if got := w.Load(); got != 3 {
		t.Errorf("load %v, want 300 s of CPUs in 100 s", got)
	}
	w.Stretch(0.5)
	if got := w.Load(); math.Abs(got-6) > 1e-9 || w.Tasks[0].Submit != 10*time.Second || w.Tasks[1].Submit != 35*time.Second {
		t.Errorf("in half the time: load %v, %+v", got, w.Tasks)
	}
	if err := w.Drop(func(t *Task) bool { return t.Job == 0 }); err != nil {
		t.Fatal(err)
	}
	if len(w.Tasks) != 2 || len(w.Jobs) != 1 || w.Jobs[w.Tasks[0].Job] != "b" {
		t.Errorf("of b are left %+v of %q", w.Tasks, w.Jobs)
	}
	for _, w := range []*Workload{{}, {Tasks: []Task{{Run: time.Second, CPUs: 1}}}} {
		if got := w.Load(); got != 0 {
			t.Errorf("load %v of %+v", got, w.Tasks)
		}
		w.Stretch(2)
	}
}

func TestRules(t *testing.T) {
	rules := Rules{{true, "al*", 10}, {false, "etl-*", 8}, {true, "*", 1}, {false, "never", 3}}
	if err := rules.Check(); err != nil {
		t.Fatal(err)
	}
	c := &Collector{Most: 10}
	r := rules.Over(c)
	alice, bob := r.User("alice"), r.User("bob")
	etl, other := r.Job("etl-1"), r.Job("other")
	for _, x := range []struct {
		user, job int32
	}{{alice, etl}, {bob, etl}, {bob, other}, {0, etl}, {0, other}} {
		if err := r.Task(Task{User: x.user, Job: x.job, Priority: 5}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := c.Workload(About{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[[2]string]uint8{}
	for _, k := range w.Tasks {
		user := ""
		if k.User > 0 {
			user = w.Users[k.User-1]
		}
		got[[2]string{user, w.Jobs[k.Job]}] = uint8(k.Priority)
	}
	for k, want := range map[[2]string]uint8{{"alice", "etl-1"}: 10, {"bob", "etl-1"}: 8, {"bob", "other"}: 1, {"", "etl-1"}: 8, {"", "other"}: 5} {
		if got[k] != want {
			t.Errorf("%q has priority %d, want %d", k, got[k], want)
		}
	}
	if u := r.Unused(); len(u) != 1 || u[0].Pattern != "never" {
		t.Errorf("unused: %v", u)
	}
	for _, bad := range []Rule{{true, "[a", 1}, {false, "a", 12}} {
		if err := (Rules{bad}).Check(); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
}

// A * is any characters: names of Kubernetes have a slash, users may have a domain.
func TestRulesAnyCharacter(t *testing.T) {
	for _, x := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "a/b", true}, {"*etl*", "prod/Job/etl-1", true}, {"prod/*", "prod/Job/etl-1", true}, {"*run.sh", "12:/home/x/run.sh", true},
		{"a?b", "a/b", true}, {"*", `DOMAIN\bob`, true}, {`DOMAIN\bob`, `DOMAIN\bob`, true}, {`DOMAIN\bob`, "DOMAINbob", false},
		{"[a-c]/x", "b/x", true}, {"a/b", "a/bc", false}, {"*/b", "a/c", false},
	} {
		c := &Collector{Most: 10}
		r := Rules{{ByUser: true, Pattern: x.pattern, Priority: 9}}.Over(c)
		if err := r.Task(Task{Job: r.Job("j"), User: r.User(x.name)}); err != nil {
			t.Fatal(err)
		}
		if got := len(r.Unused()) == 0; got != x.want {
			t.Errorf("%s is under %s: %v", x.name, x.pattern, got)
		}
	}
}
