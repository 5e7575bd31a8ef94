package queue

import (
	"cmp"
	"math"
	"slices"
	"time"

	"headrace"
)

// residentFirst puts the tasks of each job in lane whose input is in memory
// before the others of the same job: it reuses what is there before it is
// dropped, and keeps the disk free for the rest (quartet, section 4.2). lane is
// tasks of one priority, none of them begun, in order of submission.
//
// Quartet schedules a task to node N if it is memory-local to N, else if it is
// memory-local to no other node. On one node (InputView.Resident) that is: what is
// memory-local goes first, then the others in their order. Here the share of the
// input that is resident counts, the largest first, equal ones in their order. Where
// there are several nodes (InputView.At), it depends on where there is room: then
// the tasks of a job take turns (group.turn).
//
// Only tasks of one job that have waited for the same number of steps of
// Config.Ageing change places, among themselves. So no job gains or loses by what
// is in memory, and whatever goes on arriving with its input in memory, a cold
// task is passed only by what came within such a step of it. Without ageing it is
// passed by all of its job. A task without an input, or without a job, stays where
// it is.
func (q *Queue) residentFirst(lane []*Waiter) {
	if q.BySubmission || len(lane) < 2 || !slices.ContainsFunc(lane, inputKnown) {
		return
	}
	from := q.groups.used
	for i, t := range lane {
		if t.Job == "" || t.Input.Bytes <= 0 || t.Gang != 0 {
			continue
		}
		g := q.groups.of(groupKey{t.Job, q.Ageing.steps(t.Waiting), t.Aged})
		g.tasks, g.places = append(g.tasks, t), append(g.places, i)
		g.resident = g.resident || t.Input.Resident > 0
		g.at = g.at || len(t.Input.At) > 0
	}
	for _, g := range q.groups.all[from:q.groups.used] {
		switch {
		case len(g.tasks) < 2:
		case g.at:
			for _, t := range g.tasks {
				t.group = g
			}
		case g.resident:
			g.mostLocalFirst(lane)
		}
	}
}

// inputKnown reports whether something is known of where the input of t is.
func inputKnown(t *Waiter) bool { return t.Input.Resident > 0 || len(t.Input.At) > 0 }

// group is the tasks of a job that may change places among themselves.
type group struct {
	tasks  []*Waiter // in order of submission
	places []int     // of them in their lane
	// resident and at: of one of them at least it is known how much is resident, or on
	// which nodes.
	resident, at bool
	turns        turns
}

// groupKey is what tasks that may change places have in common.
type groupKey struct {
	job   headrace.JobID
	steps time.Duration
	eff   headrace.Priority
}

// groups are the groups of one decision.
type groups struct {
	byKey map[groupKey]*group
	all   []*group // kept for their memory; used of them are in byKey
	used  int

	lastKey groupKey
	last    *group
}

func (s *groups) forget() {
	if s.byKey == nil {
		s.byKey = map[groupKey]*group{}
	}
	clear(s.byKey)
	s.used, s.last = 0, nil
}

func (s *groups) of(k groupKey) *group {
	if s.last != nil && s.lastKey == k {
		return s.last
	}
	g := s.byKey[k]
	if g == nil {
		if s.used == len(s.all) {
			s.all = append(s.all, new(group))
		}
		g = s.all[s.used]
		s.used++
		*g = group{tasks: g.tasks[:0], places: g.places[:0], turns: g.turns.emptied()}
		s.byKey[k] = g
	}
	s.lastKey, s.last = k, g
	return g
}

// mostLocalFirst sorts the tasks of g in their lane by InputView.Resident.
func (g *group) mostLocalFirst(lane []*Waiter) {
	tasks := g.tasks
	for _, t := range tasks {
		t.Local = Fraction(t.Input.Resident, t.Input.Bytes)
	}
	slices.SortStableFunc(tasks, func(a, b *Waiter) int { return cmp.Compare(b.Local, a.Local) })
	oldest := math.MaxInt // the first submitted of the tasks behind
	for k := len(tasks) - 1; k >= 0; k-- {
		t := tasks[k]
		t.Passes = oldest < t.Index
		oldest = min(oldest, t.Index)
		lane[g.places[k]] = t
	}
}

// Fraction returns the share of all that part is, 0 to 1.
func Fraction(part, all int64) float64 { return float64(max(0, min(part, all))) / float64(all) }
