package workload

import (
	"fmt"
	"path"
	"strings"

	"headrace"
)

// Rule gives a priority to the tasks of users, or of jobs, whose names match a pattern:
// * is any characters, ? is one, [a-z] is one of some; no other character has a meaning.
type Rule struct {
	ByUser   bool
	Pattern  string
	Priority headrace.Priority
}

// unslashed has path.Match take / and \ for characters like all others: it stops at the one, which Kubernetes has in all names, and
// takes the other, which users have behind their domain, for an escape.
var unslashed = strings.NewReplacer("/", "\x01", `\`, "\x02")

// match reports whether a name is under it.
func (r Rule) match(name string) (bool, error) {
	return path.Match(unslashed.Replace(r.Pattern), unslashed.Replace(name))
}

func (r Rule) String() string {
	by := "name"
	if r.ByUser {
		by = "user"
	}
	return fmt.Sprintf("%s:%s=%s", by, r.Pattern, r.Priority)
}

// Rules go before what a trace says of priorities; of several that match the first does.
type Rules []Rule

// Check returns what is wrong with them.
func (r Rules) Check() error {
	for _, one := range r {
		if _, err := one.match(""); err != nil || one.Priority > headrace.MaxPriority {
			return fmt.Errorf("trace: %v: want a pattern, in which * is any characters, and a priority from 0 to %d", one, headrace.MaxPriority)
		}
	}
	return nil
}

// Over returns a sink that gives tasks their priorities by the rules, and then to to.
func (r Rules) Over(to Sink) *Ruled { return &Ruled{Sink: to, rules: r, used: make([]bool, len(r))} }

// Ruled is a sink with rules for priorities.
type Ruled struct {
	Sink
	rules Rules
	// users and jobs are, by their numbers, one more than the first rule that matches them;
	// used are the rules that some task is under.
	users, jobs []int32
	used        []bool
}

// User implements Sink.User.
func (r *Ruled) User(name string) int32 {
	n := r.Sink.User(name)
	if n > 0 {
		r.users = r.match(r.users, n, true, name)
	}
	return n
}

// Job implements Sink.Job.
func (r *Ruled) Job(name string) int32 {
	n := r.Sink.Job(name)
	r.jobs = r.match(r.jobs, n, false, name)
	return n
}

func (r *Ruled) match(of []int32, n int32, byUser bool, name string) []int32 {
	for int(n) >= len(of) {
		of = append(of, 0)
	}
	for i, rule := range r.rules {
		if of[n] == 0 && rule.ByUser == byUser {
			if ok, _ := rule.match(name); ok {
				of[n] = int32(i + 1)
			}
		}
	}
	return of
}

// Task implements Sink.Task.
func (r *Ruled) Task(t Task) error {
	first := r.jobs[t.Job]
	if t.User > 0 {
		if u := r.users[t.User]; u > 0 && (first == 0 || u < first) {
			first = u
		}
	}
	if first > 0 {
		t.Priority, r.used[first-1] = r.rules[first-1].Priority, true
	}
	return r.Sink.Task(t)
}

// Unused returns the rules that no task was under.
func (r *Ruled) Unused() (rules Rules) {
	for i, used := range r.used {
		if !used {
			rules = append(rules, r.rules[i])
		}
	}
	return rules
}
