package names

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"headrace/quorum"
)

// ErrStrays is ErrDamaged of a node whose state is as it was written, and another one than most others have.
var ErrStrays = fmt.Errorf("%w: most of the other nodes have come to other names from the same commands", ErrDamaged)

// A mark is the sum of a state that has all commands up to an entry, and no later ones.
type mark struct{ Index, Sum uint64 }

const (
	// markEvery is after how many entries there is a mark, at the same places on all nodes. mostMarks of them are known, and as many of each markSparse'th: where there is much
	// to do, others are to have heard of some of the same when they compare.
	markEvery  = 64
	markSparse = 64
	mostMarks  = 32
	// reportTicks is the time between two reports to others.
	reportTicks = 20
	// lostTold is the time between two complaints of a node that waits for a seat.
	lostTold = time.Minute
	// readTime is how long the node that leads asks others whether it does, before it takes a seat away.
	readTime = 10 * time.Second
)

// mark notes the sum of the state as it is now, settled.
func (m *machine) mark(index uint64) {
	k := mark{index, m.sum}
	if (index+1)%(markSparse*m.every) == 0 {
		m.sparse = keepMark(m.sparse, k)
	} else {
		m.marks = keepMark(m.marks, k)
	}
	if m.marked != nil {
		m.marked(k)
	}
}

func keepMark(all []mark, k mark) []mark { return append(all[max(0, len(all)+1-mostMarks):], k) }

// lately returns the marks that are known, and one of the state as it is, which has all entries up to one that was applied: those behind its own index have
// changed nothing. It is called by who applies.
func (m *machine) lately(applied uint64) []mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil || m.roster == nil {
		return nil
	}
	return append(slices.Concat(m.sparse, m.marks), mark{max(m.index, applied), m.sum})
}

// kindReport is of messages that are reports. Who does not know them drops them.
const kindReport = quorum.Others

// report is what a replica tells the others of its state, or that it is not there any more: what it had promised is set aside, and it never comes back.
type report struct {
	Marks []mark `json:",omitempty"`
	Lost  bool   `json:",omitempty"`
}

// messages returns a report to all who have a seat but the replica itself.
func (r report) messages(from quorum.Replica, seats map[string]quorum.Replica) (all []quorum.Message) {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // there are only numbers in it
	}
	for _, to := range slices.Sorted(maps.Values(seats)) {
		if to != from {
			all = append(all, quorum.Message{Kind: kindReport, Group: group, From: from, To: to, Payload: b})
		}
	}
	return all
}

// comparison is what a node knows of others' states. Its methods may be called from any goroutine.
type comparison struct {
	mu    sync.Mutex
	heard map[quorum.Replica]map[uint64]uint64 // sums, by their entries, of the last report
	lost  map[quorum.Replica]bool
}

// hear takes a report.
func (c *comparison) hear(m quorum.Message) {
	var r report
	if err := json.Unmarshal(m.Payload, &r); err != nil || len(r.Marks) > 2*mostMarks+1 {
		return
	}
	sums := map[uint64]uint64{}
	for _, k := range r.Marks {
		sums[k.Index] = k.Sum
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil || len(c.heard)+len(c.lost) > 1000 { // seats come and go
		c.heard, c.lost = map[quorum.Replica]map[uint64]uint64{}, map[quorum.Replica]bool{}
	}
	if r.Lost {
		c.lost[m.From] = true
		delete(c.heard, m.From)
	} else {
		c.heard[m.From] = sums
	}
}

// isLost reports whether a replica has said that it is not there any more.
func (c *comparison) isLost(r quorum.Replica) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost[r]
}

// lostOnes are those of whom isLost is true.
func (c *comparison) lostOnes() []quorum.Replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.lost))
}

// verdict is what comes of a comparison.
type verdict struct {
	// agree have the same state as this replica, which is among them, differ another one, as at entry index.
	agree, differ []quorum.Replica
	index         uint64
	// strays: more than half of all have one state, and this replica another.
	strays bool
}

// judge compares the marks of a replica with those that others have told, of whoever has a seat.
func (c *comparison) judge(own []mark, self quorum.Replica, seats map[string]quorum.Replica) (v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.agree = []quorum.Replica{self}
	for _, k := range own {
		agree, others := []quorum.Replica{self}, map[uint64]int{}
		for _, r := range slices.Sorted(maps.Values(seats)) {
			sum, told := c.heard[r][k.Index]
			switch {
			case r == self || !told:
			case sum == k.Sum:
				agree = append(agree, r)
			default:
				v.index = k.Index
				if !slices.Contains(v.differ, r) {
					v.differ = append(v.differ, r)
				}
				others[sum]++
				v.strays = v.strays || 2*others[sum] > len(seats)
			}
		}
		if len(agree) >= len(v.agree) {
			v.agree = agree
		}
	}
	v.agree = slices.DeleteFunc(v.agree, func(r quorum.Replica) bool { return slices.Contains(v.differ, r) })
	return v
}

// mayReseat reports whether the node that leads may give another seat to one whose replica is lost: more than half of those who vote have the state that it has,
// without the lost one.
func mayReseat(s quorum.Status, j verdict, lost quorum.Replica) bool {
	sound := 0
	for _, r := range s.Voters {
		if r != lost && slices.Contains(j.agree, r) {
			sound++
		}
	}
	return s.Leading && lost != s.Replica && 2*sound > len(s.Voters)
}

// compare tells others of this node's state from time to time, and finds out whose is another one.
func (g *Group) compare() {
	t := time.NewTicker(reportTicks * g.config.Tick)
	defer t.Stop()
	var told time.Time // when it was said that this node has no seat
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.C:
		}
		if err := g.compareNow(&told); err != nil {
			g.fail(err)
			return
		}
	}
}

func (g *Group) compareNow(told *time.Time) error {
	var s quorum.Status
	var lost quorum.Replica
	var own []mark
	v := g.View()
	if err := g.driver.Do(func(q *quorum.Node) error {
		var err error
		if s, err = q.Status(group); err != nil {
			lost = g.seats.lost(v)
		} else {
			own = g.machine.lately(s.Applied)
		}
		return nil
	}); err != nil {
		return nil // it has failed, or is being closed
	}
	agreed := g.machine.agreed()
	switch {
	case lost != 0:
		if time.Since(*told) > lostTold {
			*told = time.Now()
			g.config.Log.Warn("this node waits for the one that leads to give it the names again: its own are damaged and set aside", "leader", v.Leader)
		}
		g.tellAll(report{Lost: true}.messages(lost, v.Seats))
		return nil
	case s.Replica == 0 || agreed == nil || len(own) == 0:
		g.differing.Store(nil)
		return nil
	}
	g.tellAll(report{Marks: own}.messages(s.Replica, agreed.Seats))
	j := g.comparing.judge(own, s.Replica, agreed.Seats)
	if j.strays {
		return fmt.Errorf("%w, at entry %d", ErrStrays, j.index)
	}
	g.noteDiffering(v, j)
	return g.reseat(agreed, s, j)
}

func (g *Group) tellAll(all []quorum.Message) {
	for _, m := range all {
		g.config.Send(m)
	}
}

// noteDiffering says whose state is another one, once for each.
func (g *Group) noteDiffering(v *View, j verdict) {
	var all []string
	for _, r := range j.differ {
		m, _ := v.Number(r.Node())
		all = append(all, m.Name)
	}
	if was := g.Differing(); len(all) > 0 && !slices.Equal(was, all) {
		g.config.Log.Error("other nodes have come to other names than this one from the same commands; where more than half agree, the others end, and take theirs over at the next start",
			"nodes", all, "agree", len(j.agree), "seats", len(v.Seats), "entry", j.index)
	}
	g.differing.Store(&all)
}

// Differing returns the names of nodes that have come to other names than this one, from the same commands.
func (g *Group) Differing() []string {
	if all := g.differing.Load(); all != nil {
		return *all
	}
	return nil
}

// reseat has nodes whose replicas are lost get others, when this node leads, what it has is right, and most have the same. All that a lost one has
// acknowledged is on most of the others when its seat is taken away: that is agreed on without it.
func (g *Group) reseat(v *View, s quorum.Status, j verdict) error {
	for _, name := range slices.Sorted(maps.Keys(v.Seats)) {
		lost := v.Seats[name]
		if !g.comparing.isLost(lost) || !mayReseat(s, j, lost) {
			continue
		}
		if _, err := g.machine.check(g.ctx); errors.Is(err, ErrDamaged) {
			return err
		} else if err != nil {
			return nil
		}
		// With this all that earlier leaders have proposed is applied, and what this one proposes goes by seats, one after another.
		ctx, cancel := context.WithTimeout(g.ctx, readTime)
		err := g.driver.Read(ctx, group)
		cancel()
		if err != nil {
			return nil
		}
		g.driver.Do(func(q *quorum.Node) error {
			if g.seats.reseat(q, name, lost, s.Term) {
				g.config.Log.Warn("a node has set its damaged names aside, and gets another seat", "node", name)
			}
			return nil
		})
		return nil
	}
	return nil
}

// lost returns the replica that others take this node to have, which it has given up for good; zero when there is none.
func (s *seats) lost(v *View) quorum.Replica {
	if mine := v.Seats[s.self]; s.held.Replica == 0 && mine <= s.held.Last {
		return mine
	}
	return 0
}

// reseat takes the seat of a lost replica away, so that its node is given another, and reports whether it has begun to. The term is one in which all that was
// agreed on before is applied.
func (s *seats) reseat(q *quorum.Node, name string, lost quorum.Replica, term uint64) bool {
	status, err := q.Status(group)
	agreed := s.machine.agreed()
	if err != nil || !status.Leading || status.Term != term || s.waits || agreed == nil || agreed.Seats[name] != lost || lost == status.Replica {
		return false
	}
	s.begin(q, step{unseat: name})
	return true
}
