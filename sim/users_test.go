package sim

import (
	"math"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// TestUsers: the users whose tasks took longest, by what those ran, come first.
func TestUsers(t *testing.T) {
	one := func(user int32, submit, run time.Duration) trace.Task {
		return trace.Task{User: user, Submit: submit, Run: run, CPUs: 1, Memory: mb}
	}
	w := &trace.Workload{Name: "users", Jobs: []string{"j"}, Users: []string{"ann", "bob", "eve", "nobody"}, Tasks: []trace.Task{
		one(1, 0, 100*time.Second), one(2, 0, 10*time.Second), one(3, 0, 40*time.Second), one(0, 0, time.Second), one(2, time.Second, 10*time.Second),
	}}
	c := easy(1, policy.Wait)
	c.Node.CPUs = 1
	r, err := Run(t.Context(), w, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range r.Users {
		names = append(names, u.Name)
	}
	if len(names) != 3 || names[0] != "bob" || names[1] != "eve" || names[2] != "ann" {
		t.Fatalf("the users are %q", names)
	}
	// One processor, in order of submission: 100, 110, 150, 151, 161 s.
	if bob := r.Users[0]; bob.Tasks != 2 || bob.Run != 20 || math.Abs(bob.Response-(110+160)) > 10 || bob.Slowdown() != bob.Response/20 {
		t.Errorf("bob: %+v", bob)
	}
	w.Users = w.Users[:1]
	for i := range w.Tasks {
		w.Tasks[i].User = min(w.Tasks[i].User, 1)
	}
	if r, err = Run(t.Context(), w, c, nil); err != nil || r.Users != nil {
		t.Errorf("one user is compared with others: %+v, %v", r.Users, err)
	}
}

// TestUsersOfNothing: whose tasks hardly ran is not worse off than who waited for hours.
func TestUsersOfNothing(t *testing.T) {
	u := newUsers([]string{"idle", "patient"})
	ended := func(user int32, run, response time.Duration) {
		u.complete(&task{spec: &trace.Task{User: user, Run: run}, v: &headrace.TaskView{}}, response.Seconds())
	}
	ended(1, 0, 1200*time.Millisecond)
	ended(2, time.Hour, 40*time.Hour)
	if worst := u.worst(); worst[0].Name != "patient" || worst[0].Slowdown() != 40 || worst[1].Slowdown() >= 1 {
		t.Errorf("the worst-off users are %+v", worst)
	}
}
