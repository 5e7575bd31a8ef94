package workload

import (
	"strings"
	"testing"
	"time"
)

// TestCut: where time begins, and what is said of it.
func TestCut(t *testing.T) {
	type ran struct{ submit, began, run time.Duration }
	const day = 24 * time.Hour
	even := func(from time.Duration) (all []ran) {
		for i := range 200 {
			at := from + time.Duration(i)*time.Hour
			all = append(all, ran{at, at, 30 * time.Minute})
		}
		return all
	}
	for name, c := range map[string]struct {
		tasks []ran
		last  time.Duration
		says  string
	}{
		"a whole record":      {even(1), 199 * time.Hour, ""},
		"one of before":       {append(even(90*day), ran{day, 91 * day, day}), 199*time.Hour - 30*time.Minute, "the 2 tasks of then are submitted at 0"},
		"nothing ended early": {[]ran{{0, 0, 50 * day}, {day, day, 50 * day}, {60 * day, 60 * day, 1}}, 60 * day, ""},
		"a gap":               {append(even(90*day), ran{0, 0, 1}), 90*day + 199*time.Hour, "the first tenth of the time has 1 of the 201 tasks"},
		"together":            {[]ran{{0, 0, day}, {0, 0, 2 * day}, {0, 0, 3 * day}}, 0, ""},
		"none":                {},
	} {
		r := Rebased{Most: 1000}
		for _, k := range c.tasks {
			if err := r.Ran(Task{Submit: k.submit, Run: k.run}, k.began, true); err != nil {
				t.Fatal(err)
			}
		}
		var a About
		r.Cut(&a)
		to := &Collector{Most: 1000}
		to.Job("j")
		if err := r.Pour(to); err != nil {
			t.Fatal(err)
		}
		w, err := to.Workload(a)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(w.Notes, "\n")
		if !strings.Contains(notes, c.says) || c.says == "" && notes != "" {
			t.Errorf("%s: the notes are %q, want %q", name, notes, c.says)
		}
		if n := len(w.Tasks); n > 0 && w.Tasks[n-1].Submit != c.last {
			t.Errorf("%s: the last is submitted at %v, want %v", name, w.Tasks[n-1].Submit, c.last)
		}
	}
}
