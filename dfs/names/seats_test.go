package names

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"headrace/quorum"
	"headrace/ring"
)

// TestReady: learners become voters all at once, those that lack little or only what is new; who is up and lacks more is waited for.
func TestReady(t *testing.T) {
	seat := func(i int) quorum.Replica { return quorum.NewReplica(uint32(i+1), 1) }
	for what, c := range map[string]struct {
		first, before, last, has uint64
		ready                    bool
	}{
		"it has nothing":                          {1, 0, 100, 0, false},
		"it has all":                              {1, 100, 100, 100, true},
		"it lacks little of what is old":          {1, 1000, 1000, 1000 - closeBy, true},
		"it lacks more of what is old":            {1, 1000, 1000, 1000 - closeBy - 1, false},
		"it lacks much, of what is new":           {1, 1000, 9000, 1000, true},
		"it lacks much, and something of old":     {1, 1000, 9000, 999, false},
		"it lacks what the log has no more":       {1500, 1000, 1600, 1499, false},
		"it lacks little, from where the log has": {1500, 1000, 1600, 1500, true},
	} {
		v := viewOf(t, 2, 1, 0, 1)
		s := quorum.Status{Replica: seat(0), Leading: true, Voters: []quorum.Replica{seat(0)}, Learners: []quorum.Replica{seat(1)},
			First: c.first, Before: c.before, Last: c.last, Has: map[quorum.Replica]uint64{seat(1): c.has}}
		do, ok := next(v, s)
		if want := []quorum.MemberStep{{Replica: seat(1)}}; ok != c.ready || ok && !slices.Equal(do.change, want) {
			t.Errorf("%s: %+v, %v", what, do, ok)
		}
	}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		v := viewOf(t, 5, 1, 0, 1, 2, 3, 4)
		s := quorum.Status{Replica: seat(0), Leading: true, Voters: []quorum.Replica{seat(0)}, First: 1 + r.Uint64N(500), Has: map[quorum.Replica]uint64{}}
		s.Before = s.First + r.Uint64N(1000)
		s.Last = s.Before + r.Uint64N(1000)
		var lost, want []quorum.Replica
		waits := false
		for i := 1; i < 5; i++ {
			s.Learners = append(s.Learners, seat(i))
			s.Has[seat(i)] = []uint64{0, r.Uint64N(s.Last + 1), s.Before, s.Last}[r.IntN(4)]
			down, isLost := r.IntN(4) == 0, r.IntN(4) == 0
			if down {
				table, _, err := v.Table.Apply(ring.Down{Node: fmt.Sprint("n", i)})
				if err != nil {
					t.Fatal(err)
				}
				v.Table = table
			}
			if isLost {
				lost = append(lost, seat(i))
			}
			lacks := max(s.First, s.Has[seat(i)]) - s.Has[seat(i)] // entries that the log has no more
			switch behind := s.Last - s.Has[seat(i)]; {
			case lacks == 0 && s.Has[seat(i)] > 0 && (behind <= closeBy || behind <= s.Last-s.Before):
				want = append(want, seat(i))
			case !down && !isLost:
				waits = true
			}
		}
		if waits {
			want = nil
		}
		var got []quorum.Replica
		do, _ := next(v, s, lost...)
		for _, c := range do.change {
			got = append(got, c.Replica)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v become voters, want %v: %+v, lost %v", seed, got, want, s, lost)
		}
	}
}

// quickClients ask the one that leads all the time, each again as soon as it is answered.
type quickClients struct {
	*world
	waiting           int
	answered, longest int // when the last answer was, and the longest time without one
	most              uint64
}

// pass lets time pass until something is so, or for so many steps, and reports whether it is.
func (q *quickClients) pass(steps int, is func(quorum.Status) bool) bool {
	const clients = 300
	for range steps {
		var lead *process
		for _, p := range q.processes {
			if q.leads(p) {
				lead = p
			}
		}
		if lead != nil {
			q.do(lead, func() {
				for range clients - q.waiting {
					q.waiting++
					lead.node.Propose(group, append([]byte{kindSeat}, "nobody"...), func(_ []byte, err error) {
						if q.waiting--; err == nil {
							q.answered = q.now
						}
					})
				}
			})
			s, _ := q.status(lead)
			for _, r := range s.Learners {
				if s.Has[r] > 0 {
					q.most = max(q.most, s.Last-s.Has[r])
				}
			}
			if is(s) {
				return true
			}
		}
		q.step()
		q.longest = max(q.longest, q.now-q.answered)
	}
	return false
}

// TestQuickClients: nodes become voters beside clients that keep them many entries behind for as long as they go on. Answers go on coming meanwhile, also while one of
// those who vote before is lost.
func TestQuickClients(t *testing.T) {
	withChance(t)
	worlds := 0
	for seed := uint64(0); worlds < 3; seed++ {
		q := &quickClients{world: newWorld(seed, fault{}, map[string]int{})}
		if len(q.processes) < 5 {
			continue
		}
		worlds++
		first := q.processes[0]
		q.calm, q.keep = true, 10_000
		q.do(first, func() { first.check(first.node.Close()); first.open() })
		vote := func(n int) func(quorum.Status) bool {
			return func(s quorum.Status) bool { return len(s.Voters) == n && len(s.Learners) == 0 && !s.Joint }
		}
		if !q.pass(100, vote(1)) {
			t.Fatalf("seed %d: nobody leads", seed)
		}
		q.answered, q.longest = q.now, 0
		q.admit(q.processes[1], first)
		q.admit(q.processes[2], first)
		if !q.pass(400, vote(3)) {
			s, err := q.status(first)
			t.Fatalf("seed %d: %v, %v do not vote after 400 steps: %+v", seed, s.Learners, err, s)
		}
		if q.most <= closeBy {
			t.Errorf("seed %d: the clients were too slow: no learner was more than %d entries behind", seed, q.most)
		}
		for _, p := range q.processes {
			q.cut[[2]*process{p, q.processes[2]}], q.cut[[2]*process{q.processes[2], p}] = true, true
		}
		q.admit(q.processes[3], first)
		q.admit(q.processes[4], first)
		if !q.pass(400, vote(5)) {
			s, err := q.status(first)
			t.Fatalf("seed %d: %v, %v do not vote after 400 steps with one of three lost: %+v", seed, s.Learners, err, s)
		}
		q.pass(50, func(quorum.Status) bool { return false })
		t.Logf("seed %d: learners were up to %d entries behind, answers came after %d steps at the latest", seed, q.most, q.longest)
		if q.longest > 30 {
			t.Errorf("seed %d: nobody was answered for %d steps", seed, q.longest)
		}
	}
}
