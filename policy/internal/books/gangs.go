package books

import (
	"cmp"
	"slices"

	"headrace"
)

// Gang is the tasks of a view that run only together (headrace.TaskView.Gang).
type Gang struct {
	// Waiting are those that wait to run, the largest first. They go together.
	Waiting []*Task
	// Alike: all that wait need the same.
	Alike bool
	// Unready: some are leaving, or are held, so that the others have to wait for them.
	Unready bool
	// Done: this decision has dealt with those that wait.
	Done bool
	// Parts are what makes room when the gang leaves: for each node that it runs on its
	// tasks there as one, none unless all of it runs, or all of it is suspended.
	Parts []*Task

	indexes []int32 // of all in the view
}

// gangs are those of a view. What is kept from one view to the next is memory.
type gangs struct {
	byNumber map[int32]*Gang
	all      []*Gang // used of them are of this view
	used     int
}

func (s *gangs) forget() {
	clear(s.byNumber)
	s.used = 0
}

// add enters task i of the view in its gang, and returns that.
func (s *gangs) add(number int32, i int) *Gang {
	g := s.byNumber[number]
	if g == nil {
		if s.byNumber == nil {
			s.byNumber = map[int32]*Gang{}
		}
		if s.used == len(s.all) {
			s.all = append(s.all, new(Gang))
		}
		g = s.all[s.used]
		s.used++
		*g = Gang{Waiting: g.Waiting[:0], indexes: g.indexes[:0]}
		s.byNumber[number] = g
	}
	g.indexes = append(g.indexes, int32(i))
	return g
}

// settleGangs completes what is known of gangs, once all tasks are entered.
func (l *Ledger) settleGangs() {
	for _, g := range l.gangs.all[:l.gangs.used] {
		running, suspended := 0, 0
		for _, i := range g.indexes {
			t := &l.view.Tasks[i]
			g.Unready = g.Unready || t.Leaving || t.Held || t.Barred
			if t.State == headrace.Running && !t.Leaving && !t.Held {
				running++
			}
			if t.State == headrace.Suspended && Waiting(t) {
				suspended++
			}
		}
		g.lineUp()
		switch len(g.indexes) {
		case running:
			l.makeParts(g, headrace.Running)
		case suspended:
			l.makeParts(g, headrace.Suspended)
		}
	}
}

// lineUp sorts those that wait.
func (g *Gang) lineUp() {
	size := func(a, b *Task) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(b.MemoryRequest, a.MemoryRequest), cmp.Compare(a.Need, b.Need))
	}
	g.Alike = true
	for _, t := range g.Waiting {
		g.Alike = g.Alike && size(t, g.Waiting[0]) == 0 && t.Priority == g.Waiting[0].Priority && !Begun(t.TaskView)
	}
	if !g.Alike {
		slices.SortStableFunc(g.Waiting, func(a, b *Task) int { return cmp.Or(size(a, b), cmp.Compare(a.Index, b.Index)) })
	}
}

// makeParts makes the parts of g, all of which runs, or is suspended.
func (l *Ledger) makeParts(g *Gang, state headrace.TaskState) {
	whole := headrace.TaskView{State: state, NoCheckpoint: "it is one of a gang", Progress: headrace.Progress{Share: 1}}
	for k, i := range g.indexes {
		t := &l.view.Tasks[i]
		p := &whole.Progress
		whole.Priority, whole.Waited, whole.Preemptions = max(whole.Priority, t.Priority), max(whole.Waited, t.Waited), max(whole.Preemptions, t.Preemptions)
		whole.NoSuspend, whole.NoKill = cmp.Or(whole.NoSuspend, t.NoSuspend), max(whole.NoKill, t.NoKill)
		whole.Input.FromDisk, whole.Input.Cold = whole.Input.FromDisk+t.Input.FromDisk, whole.Input.Cold+t.Input.Cold
		p.Wall, p.TotalWall, p.Lost = p.Wall+t.Progress.Wall, max(p.TotalWall, t.Progress.TotalWall), max(p.Lost, t.Progress.Lost)
		if at := t.Progress.Promised; at > 0 && (p.Promised == 0 || at < p.Promised) {
			p.Promised = at
		}
		if p.Share = min(p.Share, t.Progress.Share); k == 0 || t.Running < whole.Running {
			whole.Running = t.Running
		}
		n := l.NodeOf(t.Node)
		if n == nil {
			g.Parts = nil
			return // a part of it is nobody knows where
		}
		m := &l.Tasks[i]
		if state == headrace.Running {
			m = l.Enrol(int(i), n)
		}
		at := slices.IndexFunc(g.Parts, func(part *Task) bool { return part.Home == n })
		if at < 0 {
			at = len(g.Parts)
			g.Parts = append(g.Parts, &Task{TaskView: &headrace.TaskView{ID: t.ID, Job: t.Job, Node: t.Node, Gang: t.Gang}, Index: int(i), Home: n, Whole: g})
		}
		g.Parts[at].join(m)
	}
	for _, part := range g.Parts {
		v := *part.TaskView
		*part.TaskView = whole
		part.ID, part.Job, part.Node, part.Gang = v.ID, v.Job, v.Node, v.Gang
		part.CPUs, part.MemoryRequest, part.Resident, part.Swapped = v.CPUs, v.MemoryRequest, v.Resident, v.Swapped
		if state == headrace.Suspended {
			part.Home.Away = append(part.Home.Away, part)
			continue
		}
		part.Home.parts = append(part.Home.parts, part)
		part.Home.LowestRunning = min(part.Home.LowestRunning, whole.Priority)
		part.Home.Shares = part.Home.Shares || ShareKnown(part.TaskView)
	}
}

// join adds m, which runs on the same node, to a part.
func (t *Task) join(m *Task) {
	t.Members = append(t.Members, m)
	t.CPUs += m.CPUs
	t.MemoryRequest += Held(m.TaskView)
	t.Resident += m.Resident
	t.Swapped += m.Swapped
	if m.Counted != nil {
		if t.Counted == nil {
			t.Counted = make([]float64, len(m.Counted))
		}
		for r, n := range m.Counted {
			t.Counted[r] += n
		}
	}
}

// Heads returns how many tasks leave when t does.
func (t *Task) Heads() int {
	if t.Whole == nil || t.Members == nil {
		return 1
	}
	return len(t.Whole.indexes)
}

// Together returns how many tasks wait for t to run: itself, and those of its gang.
func (t *Task) Together() int {
	if t.Whole == nil {
		return 1
	}
	return max(1, len(t.Whole.Waiting))
}

// Abreast returns how many tasks must find as much room as t for it to run.
func (t *Task) Abreast() int {
	if t.Whole == nil || !t.Whole.Alike {
		return 1
	}
	return len(t.Whole.Waiting)
}
