package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headrace"
	"headrace/disk"
)

// asked is a dump or restore that is asked for at a time and takes some time.
type asked struct {
	at, took time.Duration
	class    disk.Class
	user     uint32
}

// TestStoreTakesTurnsAsDisksDo asks a simulated store and a live device for the same
// dumps and restores: each begins at the same time, and both say for how long its user's dumps wait when it is asked for.
func TestStoreTakesTurnsAsDisksDo(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(5, seed))
		var all []asked
		at := time.Duration(0)
		for i := range 30 {
			at += time.Duration(rnd.IntN(20)) * time.Second
			x := asked{at + time.Duration(i), time.Duration(rnd.IntN(25))*time.Second + 100, disk.Dump, uint32(rnd.Uint64N(1 + seed%4))}
			if rnd.IntN(2) == 0 {
				x.class = disk.Restore
			}
			all = append(all, x)
		}
		all[len(all)-1].class = disk.Dump
		got, gotWaits := simulatedTurns(all)
		want, wantWaits := liveTurns(t, all)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: they begin at\n%v, live at\n%v", seed, got, want)
		}
		if !slices.Equal(gotWaits, wantWaits) {
			t.Fatalf("seed %d: they are said to wait for\n%v, live for\n%v", seed, gotWaits, wantWaits)
		}
		last := len(all) - 1
		if waited := got[last] - all[last].at; waited != gotWaits[last] {
			t.Fatalf("seed %d: the last waits for %v, and was said to wait for %v", seed, waited, gotWaits[last])
		}
	}
}

// simulatedTurns returns when each dump or restore begins at a store, and what a dump was said to wait.
func simulatedTurns(all []asked) (begun, waits []time.Duration) {
	begun, waits = make([]time.Duration, len(all)), make([]time.Duration, len(all))
	at := &clock{}
	s := store{clock: at, dump: func(*move) bool { return true }}
	tasks := make([]task, len(all))
	for i, x := range all {
		at.in(x.at, event{who: int32(i), kind: evBegun})
	}
	for {
		when, ok := at.next()
		if !ok {
			return begun, waits
		}
		at.now = when
		if ev := at.take(); ev.kind == evStored {
			s.done()
			s.next()
		} else {
			users, others := s.waits(nil)
			waits[ev.who] = queueOf(all[ev.who].user, users, others)
			s.add(move{t: &tasks[ev.who], restore: all[ev.who].class == disk.Restore, user: int32(all[ev.who].user), took: all[ev.who].took})
		}
		for i := range tasks {
			if s.doing != nil && s.doing.t == &tasks[i] {
				begun[i] = s.began
			}
		}
	}
}

func queueOf(user uint32, users []headrace.UserQueue, others time.Duration) time.Duration {
	return (&headrace.StoreView{Queue: others, Queues: users}).QueueOf(user)
}

// liveTurns returns when each dump or restore gets its turn at a device, and what a dump was said to wait.
func liveTurns(t *testing.T, all []asked) (begun, waits []time.Duration) {
	begun, waits = make([]time.Duration, len(all)), make([]time.Duration, len(all))
	synctest.Test(t, func(t *testing.T) {
		var disks disk.Scheduler
		var wg sync.WaitGroup
		start := time.Now()
		for i, x := range all {
			wg.Go(func() {
				time.Sleep(x.at)
				users, others := disks.Queue(0)
				waits[i] = queueOf(x.user, users, others)
				r := disks.Move(x.user, disk.Device{Name: "store"}, x.class, "", x.took)
				defer r.Close()
				turn, err := r.Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				begun[i] = time.Since(start)
				time.Sleep(x.took)
				turn.End(1)
			})
		}
		wg.Wait()
	})
	return begun, waits
}
