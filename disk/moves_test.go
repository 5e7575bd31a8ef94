package disk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headrace"
)

// TestOneUsersMovesHoldUpNobody: one user asks again and again for dumps that hold the device and come to nothing, or for
// restores. Each of another user's waits for one of them.
func TestOneUsersMovesHoldUpNobody(t *testing.T) {
	for _, c := range []Class{Dump, Restore} {
		t.Run(c.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const held = 10 * time.Second
				var s Scheduler
				d := Device{ID: 1, Name: "sda"}
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				defer all.Wait()
				defer cancel()
				for range 100 {
					all.Go(func() {
						for {
							r := s.Move(1, d, c, "greedy", time.Second)
							turn, err := r.Begin(ctx)
							if err != nil {
								return
							}
							time.Sleep(held)
							turn.End(0)
							r.Close()
						}
					})
				}
				for i := range 20 {
					time.Sleep(held / 3)
					asked := time.Now()
					r := s.Move(2, d, Dump, "modest", time.Second)
					patience, done := context.WithTimeout(ctx, 5*held)
					turn, err := r.Begin(patience)
					done()
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(asked); took > held {
						t.Fatalf("dump %d had its turn after %v", i, took)
					}
					time.Sleep(time.Second)
					turn.End(1)
					r.Close()
				}
			})
		})
	}
}

// TestPassedMoveIsCharged: a user whose dump is not waited for any more does not have the next turn.
func TestPassedMoveIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Scheduler
		d := Device{ID: 1, Name: "sda"}
		if _, err := s.Move(1, d, Dump, "hangs", 0).Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		order := make(chan uint32, 2)
		for _, user := range []uint32{1, 2} {
			go func() {
				turn, err := s.Move(user, d, Dump, "waits", 0).Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				order <- user
				turn.End(1)
			}()
			synctest.Wait()
		}
		if first, second := <-order, <-order; first != 2 || second != 1 {
			t.Errorf("user %d goes before user %d", first, second)
		}
	})
}

// TestMovesAreDealt lets users come and go at random. Of one user restores go first, in the order of their asking; and
// over any time in which two users have some that wait all the time, what they have had differs by two turns at most.
func TestMovesAreDealt(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 30
	}
	for seed := range runs {
		if err := dealMoves(rand.New(rand.NewPCG(7, uint64(seed)))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func dealMoves(rnd *rand.Rand) error {
	type ask struct {
		user    uint32
		restore bool
		n       int
	}
	const longest = 40 * leastHeld
	var m Moves[ask]
	var all []ask
	users := 2 + rnd.IntN(4)
	had := make([]time.Duration, users)
	since := make([]int, users) // the step since which it has had some that wait; -1: it has none
	for u := range since {
		since[u] = -1
	}
	spans := map[[2]int]*struct {
		since     [2]int
		low, high time.Duration
	}{}
	for step := range 2000 {
		switch {
		case rnd.IntN(3) > 0:
			a := ask{uint32(rnd.IntN(users)), rnd.IntN(2) == 0, step}
			if slices.ContainsFunc(all, func(b ask) bool { return b.user == a.user }) && rnd.IntN(3) == 0 {
				break
			}
			m.Ask(a.user, a.restore, a)
			all = append(all, a)
		case len(all) > 0 && rnd.IntN(20) == 0:
			i := rnd.IntN(len(all))
			if !m.Withdraw(all[i]) {
				return fmt.Errorf("step %d: %v does not wait", step, all[i])
			}
			all = slices.Delete(all, i, i+1)
		default:
			got, ok := m.Next()
			if ok != (len(all) > 0) || m.Len() != max(0, len(all)-1) {
				return fmt.Errorf("step %d: %v, %v of %d", step, got, ok, len(all))
			}
			if !ok {
				break
			}
			for _, b := range all {
				if b.user == got.user && (b.restore && !got.restore || b.restore == got.restore && b.n < got.n) {
					return fmt.Errorf("step %d: %v goes before %v", step, got, b)
				}
			}
			all = slices.DeleteFunc(all, func(b ask) bool { return b == got })
			took := leastHeld + time.Duration(rnd.Int64N(int64(longest-leastHeld)))
			m.Held(got.user, took)
			had[got.user] += took
		}
		for u := range users {
			waits := slices.ContainsFunc(all, func(b ask) bool { return b.user == uint32(u) })
			if !waits {
				since[u] = -1
			} else if since[u] < 0 {
				since[u] = step
			}
		}
		for u := range users {
			for v := range u {
				key, d := [2]int{u, v}, had[u]-had[v]
				s := spans[key]
				switch {
				case since[u] < 0 || since[v] < 0:
					delete(spans, key)
				case s == nil || s.since != [2]int{since[u], since[v]}:
					spans[key] = &struct {
						since     [2]int
						low, high time.Duration
					}{[2]int{since[u], since[v]}, d, d}
				default:
					if s.low, s.high = min(s.low, d), max(s.high, d); s.high-s.low > 2*longest {
						return fmt.Errorf("step %d: users %d and %d differ by %v", step, u, v, s.high-s.low)
					}
				}
			}
		}
	}
	return nil
}

// TestWaitsAreWhatComes has a dump be asked for in any state: it has its turn after as long as was said.
func TestWaitsAreWhatComes(t *testing.T) {
	type ask struct {
		Move
		n int
	}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(11, seed))
		users := uint32(1 + rnd.IntN(4))
		var m Moves[ask]
		var doing ask
		has := time.Duration(0) // for how long
		for step := range 400 {
			switch {
			case rnd.IntN(2) == 0:
				a := ask{Move{rnd.Uint32N(users), rnd.IntN(2) == 0, time.Duration(rnd.Int64N(int64(40 * leastHeld)))}, step + 1}
				m.Ask(a.User, a.Restore, a)
			case doing.n == 0:
				doing, _ = m.Next()
				has = 0
			case rnd.IntN(2) == 0:
				has += time.Duration(rnd.Int64N(int64(doing.Took-has) + 1))
			default:
				m.Held(doing.User, doing.Took)
				doing = ask{}
			}
			if doing.n == 0 && m.Len() > 0 { // a device is not idle then
				doing, _ = m.Next()
				has = 0
			}
			var all []Move
			for w := range m.Waiting() {
				all = append(all, w.Move)
			}
			left := doing.Took - has
			named, others := m.Waits(nil, doing.Move, left, all)
			for user := range users + 1 {
				s := headrace.StoreView{Queue: others, Queues: named}
				got, want := s.QueueOf(user), left
				then := Moves[ask]{waiting: slices.Clone(m.waiting), shares: slices.Clone(m.shares), virtual: m.virtual}
				probe := ask{Move{User: user}, -1}
				then.Ask(user, false, probe)
				if doing.n != 0 {
					then.Held(doing.User, doing.Took)
				}
				for next, _ := then.Next(); next != probe; next, _ = then.Next() {
					want += next.Took
					then.Held(next.User, next.Took)
				}
				if got != want {
					t.Fatalf("seed %d, step %d: user %d is said to wait for %v, and does for %v", seed, step, user, got, want)
				}
			}
		}
	}
}
