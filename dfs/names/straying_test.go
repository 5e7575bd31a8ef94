package names

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"headrace/quorum"
)

// plantSomewhere tries several.
func (w *world) plantSomewhere() {
	for range 8 {
		if !w.planted {
			w.plant(w.any())
		}
	}
}

// plant has the state of a process decay, or become another one than that of the others, where no client looks.
func (w *world) plant(p *process) {
	s, err := w.status(p)
	if err != nil || len(s.Voters) < 3 || s.Joint || p.machine.agreed() == nil || p.frozen {
		return
	}
	w.planted = true
	key, value := []byte("\x00stray"), []byte{byte(w.rand.IntN(256))}
	if w.rand.IntN(2) == 0 {
		w.counts["decayed"]++
		w.note("%s: its state decays", p.name)
		p.store.state.Set(string(key), value)
		return
	}
	w.counts["strayed"]++
	w.note("%s: it strays", p.name)
	m := p.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum += sumOf(key, value)
	m.active.Set(string(key), value)
	m.active.Set(string(indexKey), ofNumber(m.index))
	m.active.Set(string(digestKey), encodeDigest(m.index, m.sum))
	m.publish()
}

// take takes a message.
func (p *process) take(m quorum.Message) {
	if m.Kind == kindReport {
		p.comparing.hear(m)
		return
	}
	p.node.Step(m)
}

// compare does what the goroutines of a Group do that check the state and compare it with those of others.
func (p *process) compare() {
	for _, f := range p.reseats {
		f()
	}
	p.reseats = nil
	if _, err := p.machine.check(context.Background()); err != nil && !errors.Is(err, errNoState) {
		p.check(err)
	}
	v := p.known.View()
	s, err := p.node.Status(group)
	if err != nil {
		if lost := p.seats.lost(v); lost != 0 {
			p.sendAll(report{Lost: true}.messages(lost, v.Seats))
		}
		return
	}
	own, agreed := p.machine.lately(s.Applied), p.machine.agreed()
	if agreed == nil || own == nil {
		return
	}
	p.sendAll(report{Marks: own}.messages(s.Replica, agreed.Seats))
	j := p.comparing.judge(own, s.Replica, agreed.Seats)
	if j.strays {
		p.falls(ErrStrays)
	}
	for _, name := range seated(agreed) {
		lost := agreed.Seats[name]
		if !p.comparing.isLost(lost) || !mayReseat(s, j, lost) {
			continue
		}
		life := p.life
		p.node.Read(group, func(err error) {
			if err == nil {
				p.reseats = append(p.reseats, func() {
					if p.life == life && p.seats.reseat(p.node, name, lost, s.Term) {
						p.w.counts["seat given anew"]++
					}
				})
			}
		})
		return
	}
}

func seated(v *View) (names []string) {
	for name := range v.Seats {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p *process) sendAll(all []quorum.Message) {
	for _, m := range all {
		p.send(m)
	}
}

// heal does what a start does that finds a state ill: sets it aside when there are others enough, or else has somebody mend it.
func (p *process) heal() {
	s := p.store
	was := s.ill
	s.ill = nil
	if s.held.Replica == 0 || !s.held.Made || s.held.Leaving {
		return
	}
	left, err := quorum.Look(p.mem, p.logDir(), group)
	if err != nil || left.Replica != s.held.Replica {
		p.w.failf("%s: its replica is %x, and that of the log %x; %v", p.name, s.held.Replica, left.Replica, err)
	}
	if left.Voters < leastVoters {
		s.mend(p.w)
		return
	}
	s.aside = &memory{state: s.state, held: s.held, logs: s.logs}
	p.w.counts["set aside"]++
	p.w.note("%s sets its state aside: %v", p.name, was)
	s.state, s.kept, s.held = &writes{}, p.known.View().Encode(), seat{Last: s.held.Replica}
	s.logs++
}

// mend takes off by hand what is wrong.
func (s *memory) mend(w *world) {
	w.counts["mended by hand"]++
	s.state = s.state.Copy()
	s.state.Delete("\x00stray")
	s.state.Delete(string(digestKey))
}

// putBack has those who wait in vain for a seat take theirs again, by hand, which is right as long as nobody has agreed on giving them another: those who vote
// became fewer just when they were set aside.
func (w *world) putBack() {
	for _, p := range w.processes {
		if p.node == nil || p.seats.lost(p.known.View()) == 0 || p.store.aside == nil {
			continue
		}
		lost := p.seats.lost(p.known.View())
		for _, q := range w.processes {
			if q.node != nil && q.known.View().Seats[p.name] != lost {
				lost = 0
			}
		}
		if s := p.store; lost != 0 {
			w.counts["put back by hand"]++
			s.state, s.held, s.logs, s.kept, s.aside = s.aside.state, s.aside.held, s.aside.logs, nil, nil
			s.mend(w)
			w.do(p, func() { p.die("to take back what was set aside") })
		}
	}
}

// TestWorldsThatStray: worlds in which a state decays, or strays from those of others. That is found, the node sets its state aside, is
// given another seat and the state of the others; what was answered is there, as ever.
func TestWorldsThatStray(t *testing.T) {
	n, counts := runWorlds(t, 100, true, newest, func(*world) {})
	if n < 50 {
		return
	}
	for _, k := range []string{"decayed", "strayed", "fell", "set aside", "seat given anew"} {
		if counts[k] == 0 {
			t.Errorf("no %s", k)
		}
	}
}

// TestSetAsideTakenAgain: a node that takes the seat again that it had set aside has forgotten what it promised. That is found.
func TestSetAsideTakenAgain(t *testing.T) {
	withChance(t)
	for i := range uint64(1000) {
		w := newWorld(i, fault{sitsAgain: true}, map[string]int{})
		w.plants = true
		if problem := w.run(simSteps); problem != "" {
			t.Logf("seed %d: %.300s", i, problem)
			return
		}
	}
	t.Error("not found")
}

// TestJudge: who has a state that most do not have strays; where there are no most, nobody does, but the difference is known.
func TestJudge(t *testing.T) {
	r := func(i int) quorum.Replica { return quorum.NewReplica(uint32(i), 1) }
	for name, c := range map[string]struct {
		own    []mark
		others [][]mark // of replicas 2, 3, ...
		want   verdict
	}{
		"all alike":            {[]mark{{7, 1}}, [][]mark{{{7, 1}}, {{7, 1}}}, verdict{agree: []quorum.Replica{r(1), r(2), r(3)}}},
		"nobody was heard":     {[]mark{{7, 1}}, [][]mark{nil, nil}, verdict{agree: []quorum.Replica{r(1)}}},
		"at other entries":     {[]mark{{7, 1}}, [][]mark{{{8, 2}}, {{6, 2}}}, verdict{agree: []quorum.Replica{r(1)}}},
		"one strays":           {[]mark{{7, 1}}, [][]mark{{{7, 2}}, {{7, 1}}}, verdict{agree: []quorum.Replica{r(1), r(3)}, differ: []quorum.Replica{r(2)}, index: 7}},
		"this one strays":      {[]mark{{7, 1}}, [][]mark{{{7, 2}}, {{7, 2}}}, verdict{agree: []quorum.Replica{r(1)}, differ: []quorum.Replica{r(2), r(3)}, index: 7, strays: true}},
		"of two nobody knows":  {[]mark{{7, 1}}, [][]mark{{{7, 2}}}, verdict{agree: []quorum.Replica{r(1)}, differ: []quorum.Replica{r(2)}, index: 7}},
		"three different":      {[]mark{{7, 1}}, [][]mark{{{7, 2}}, {{7, 3}}}, verdict{agree: []quorum.Replica{r(1)}, differ: []quorum.Replica{r(2), r(3)}, index: 7}},
		"alike before":         {[]mark{{7, 1}, {9, 3}}, [][]mark{{{7, 1}, {9, 4}}, {{9, 3}}}, verdict{agree: []quorum.Replica{r(1), r(3)}, differ: []quorum.Replica{r(2)}, index: 9}},
		"one of five is alone": {[]mark{{7, 1}}, [][]mark{{{7, 2}}, {{7, 2}}, {{7, 1}}, nil}, verdict{agree: []quorum.Replica{r(1), r(4)}, differ: []quorum.Replica{r(2), r(3)}, index: 7}},
	} {
		var all comparison
		seats := map[string]quorum.Replica{"n1": r(1)}
		for i, marks := range c.others {
			seats[fmt.Sprint("n", i+2)] = r(i + 2)
			for _, m := range (report{Marks: marks}).messages(r(i+2), map[string]quorum.Replica{"n1": r(1)}) {
				all.hear(m)
			}
		}
		if got := all.judge(c.own, r(1), seats); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestMayReseat: a seat is taken away only when more than half of those who vote agree without it, and never that of who leads.
func TestMayReseat(t *testing.T) {
	r := func(i int) quorum.Replica { return quorum.NewReplica(uint32(i), 1) }
	s := quorum.Status{Replica: r(1), Leading: true, Voters: []quorum.Replica{r(1), r(2), r(3)}}
	agree := func(all ...int) (v verdict) {
		for _, i := range all {
			v.agree = append(v.agree, r(i))
		}
		return v
	}
	if !mayReseat(s, agree(1, 2), r(3)) {
		t.Error("two of three are not enough")
	}
	for name, may := range map[string]bool{"nobody agrees": mayReseat(s, agree(1), r(3)), "the lost one agrees": mayReseat(s, agree(1, 3), r(3)), "its own": mayReseat(s, agree(1, 2), r(1)),
		"it does not lead":    mayReseat(quorum.Status{Replica: r(1), Voters: s.Voters}, agree(1, 2), r(3)),
		"of two":              mayReseat(quorum.Status{Replica: r(1), Leading: true, Voters: s.Voters[:2]}, agree(1), r(2)),
		"one is no voter yet": mayReseat(s, agree(1, 4), r(3))} {
		if may {
			t.Error(name)
		}
	}
}
