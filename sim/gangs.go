package sim

import (
	"fmt"

	"headrace/trace"
)

// gangs are the gangs of a workload: tasks that run only together.
type gangs struct {
	// of is each by its number in the workload, nil for none and where only one task is of it.
	of []*gang
	// held is how many tasks came that wait for others of their gang to come.
	held int
}

// gang is tasks that run only together. They come into the queue when the last of them was
// submitted, and get on with what they have to do while all that have not ended run.
type gang struct {
	number int32
	size   int
	come   []int32 // those that wait for others to come
	// members are those that have not ended, of which so many are ready to get on.
	members []*task
	ready   int
}

func newGangs(w *trace.Workload) *gangs {
	s := &gangs{}
	for i := range w.Tasks {
		n := w.Tasks[i].Gang
		if n == 0 {
			continue
		}
		for int(n) >= len(s.of) {
			s.of = append(s.of, nil)
		}
		if s.of[n] == nil {
			s.of[n] = &gang{number: n}
		}
		s.of[n].size++
	}
	for n, g := range s.of {
		if g != nil && g.size == 1 {
			s.of[n] = nil
		}
	}
	return s
}

// gang returns that of a task, or nil.
func (s *gangs) gang(spec *trace.Task) *gang {
	if int(spec.Gang) >= len(s.of) {
		return nil
	}
	return s.of[spec.Gang]
}

// come calls enter for task i, of spec, and for those that waited for it; it waits itself
// while others of its gang have not come.
func (s *gangs) come(i int32, spec *trace.Task, enter func(int32)) {
	g := s.gang(spec)
	if g == nil {
		enter(i)
		return
	}
	g.come = append(g.come, i)
	s.held++
	if len(g.come) < g.size {
		return
	}
	s.held -= g.size
	for _, i := range g.come {
		enter(i)
	}
	g.come = nil
}

// arrives notes that t is ready, and reports whether all of the gang are.
func (g *gang) arrives(t *task) bool {
	t.ready = true
	g.ready++
	return g.ready == len(g.members)
}

// leaves notes that t is not ready any more.
func (g *gang) leaves(t *task) {
	if t.ready {
		t.ready = false
		g.ready--
	}
}

// stall has all of g stand still, of which one leaves.
func (g *gang) stall(y *tally) {
	for _, m := range g.members {
		if m.phase == running {
			m.gen++
			y.turn(m, stalled)
		}
	}
}

// ended forgets t.
func (g *gang) ended(t *task) {
	g.leaves(t)
	for i, m := range g.members {
		if m == t {
			g.members = append(g.members[:i], g.members[i+1:]...)
			return
		}
	}
}

// verify checks that all of g hold their processors, or none, and that they get on together.
func (g *gang) verify() error {
	hold, run := 0, 0
	for _, t := range g.members {
		if t.phase != idle {
			hold++
		}
		if t.phase == running {
			run++
		}
	}
	if hold != 0 && hold != len(g.members) || run != 0 && run != len(g.members) {
		return fmt.Errorf("of the %d tasks of gang %d %d hold processors and %d run", len(g.members), g.number, hold, run)
	}
	return nil
}

// waits reports whether g is in the queue.
func (g *gang) waits() bool {
	return len(g.members) > 0 && g.members[0].phase == idle && !g.members[0].v.Leaving
}

// inQueue returns those that wait.
func (s *gangs) inQueue() (all []*gang) {
	for _, g := range s.of {
		if g != nil && g.waits() {
			all = append(all, g)
		}
	}
	return all
}
