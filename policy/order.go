package policy

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"headrace"
)

// residentFirst puts the tasks of each job in lane whose input is in memory
// before the others of the same job: it reuses what is there before it is
// dropped, and keeps the disk free for the rest (quartet, section 4.2). lane is
// tasks of one priority, none of them begun, in order of submission.
//
// Quartet schedules a task to node N if it is memory-local to N, else if it is
// memory-local to no other node. On one node that is: what is memory-local goes
// first, then the others in their order. Here the share of the input that is
// resident counts, the largest first, equal ones in their order.
//
// Only tasks of one job that have waited for the same number of steps of
// Config.Ageing change places, among themselves. So no job gains or loses by what
// is in memory, and whatever goes on arriving with its input in memory, a cold
// task is passed only by what came within such a step of it. Without ageing it is
// passed by all of its job. A task without an input, or without a job, stays where
// it is.
func (d *decision) residentFirst(lane []*task) {
	if d.c.NoResidencyOrder || len(lane) < 2 || !slices.ContainsFunc(lane, hasResident) {
		return
	}
	type group struct {
		job   headrace.JobID
		steps time.Duration
	}
	places := map[group][]int{}
	for i, t := range lane {
		if t.Job == "" || t.Input.Bytes <= 0 {
			continue
		}
		t.local = d.memoryLocal(t.TaskView)
		g := group{t.Job, d.c.steps(t.Waiting)}
		places[g] = append(places[g], i)
	}
	for _, at := range places {
		mostLocalFirst(lane, at)
	}
}

func hasResident(t *task) bool { return t.Input.Resident > 0 || len(t.Input.At) > 0 }

// mostLocalFirst sorts the tasks of lane that stand at the given places.
func mostLocalFirst(lane []*task, at []int) {
	tasks := make([]*task, len(at))
	for k, i := range at {
		tasks[k] = lane[i]
	}
	slices.SortStableFunc(tasks, func(a, b *task) int { return cmp.Compare(b.local, a.local) })
	oldest := math.MaxInt // the first submitted of the tasks behind
	for k := len(at) - 1; k >= 0; k-- {
		t := tasks[k]
		t.passes = oldest < t.i
		oldest = min(oldest, t.i)
		lane[at[k]] = t
	}
}

// memoryLocal is the share of the input of t that is resident on the node that it
// would run on, 0 to 1: where it has several to choose from, on the one that has
// the most.
func (d *decision) memoryLocal(t *headrace.TaskView) float64 {
	if len(t.Input.At) == 0 {
		return share(t.Input.Resident, t.Input.Bytes)
	}
	most := int64(0)
	for i := range t.Input.At {
		if at := &t.Input.At[i]; at.Resident > most && d.nodeOf(at.Node) != nil {
			most = at.Resident
		}
	}
	return share(most, t.Input.Bytes)
}

// share is the share of all that part is, 0 to 1.
func share(part, all int64) float64 { return float64(max(0, min(part, all))) / float64(all) }

// steps is how many whole steps of ageing a wait is long.
func (c Config) steps(waited time.Duration) time.Duration {
	if c.Ageing <= 0 {
		return 0
	}
	return max(0, waited) / c.Ageing
}

// inMemory says in words why t goes before others of its job; empty when it does
// not.
func (t *task) inMemory() string {
	if !t.passes {
		return ""
	}
	return "; " + percent(t.local) + " of its input is in memory, so it goes before others of its job"
}

// percent is a share in words; one that is not whole is never said to be.
func percent(share float64) string { return strconv.Itoa(int(math.Floor(share*100))) + " %" }
