package trace

import "headrace/trace/workload"

// Related is what tasks have in common beside jobs and files. Zero: the trace has no such
// thing.
type Related struct {
	// Users is how many users have submitted tasks.
	Users int `json:"users,omitempty"`
	// Counted are the counted resources.
	Counted []Counted `json:"counted,omitempty"`
	// Stages is how many groups of tasks there are that wait for others or are waited for;
	// Waiting is how many tasks wait.
	Stages  int `json:"stages,omitempty"`
	Waiting int `json:"waiting,omitempty"`
	// Gangs is how many groups of tasks run only together, Ganged how many tasks are in
	// them.
	Gangs  int `json:"gangs,omitempty"`
	Ganged int `json:"ganged,omitempty"`
}

// Counted is a counted resource, such as gpu: how many tasks ask for it, how much of it
// they ask for together, and that times their running time.
type Counted struct {
	Name      string  `json:"name"`
	Tasks     int     `json:"tasks"`
	Requested float64 `json:"requested"`
	Hours     float64 `json:"hours"`
}

// related counts what tasks refer to.
type related struct {
	users, stages []int // tasks of each
	gangs         map[int32]bool
	ganged        int
	needs         []needed
}

// needed is how many tasks have a need, and how long they run in sum.
type needed struct {
	tasks int
	hours float64
}

func (r *related) add(t *workload.Task) {
	if t.User > 0 {
		r.users = workload.Grown(r.users, int(t.User))
		r.users[t.User-1]++
	}
	if t.Stage > 0 {
		r.stages = workload.Grown(r.stages, int(t.Stage))
		r.stages[t.Stage-1]++
	}
	if t.Need > 0 {
		r.needs = workload.Grown(r.needs, int(t.Need))
		n := &r.needs[t.Need-1]
		n.tasks++
		n.hours += t.Run.Hours()
	}
	if t.Gang > 0 {
		if r.gangs == nil {
			r.gangs = map[int32]bool{}
		}
		r.gangs[t.Gang] = true
		r.ganged++
	}
}

// sums returns all of it; of is what the tasks refer to.
func (r *related) sums(of *workload.Relations) Related {
	all := Related{Gangs: len(r.gangs), Ganged: r.ganged}
	for _, n := range r.users {
		if n > 0 {
			all.Users++
		}
	}
	for s, n := range r.stages {
		if n == 0 {
			continue
		}
		all.Stages++
		for _, a := range of.Stages[s].After {
			if int(a) < len(r.stages) && r.stages[a] > 0 {
				all.Waiting += n
				break
			}
		}
	}
	for i, name := range of.Resources {
		c := Counted{Name: name}
		for n, need := range r.needs {
			if amounts := of.Needs[n]; i < len(amounts) && amounts[i] > 0 {
				c.Tasks += need.tasks
				c.Requested += float64(amounts[i]) * float64(need.tasks)
				c.Hours += float64(amounts[i]) * need.hours
			}
		}
		if c.Tasks > 0 {
			all.Counted = append(all.Counted, c)
		}
	}
	return all
}
