package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headrace/disk"
)

// asked is a dump or restore that is asked for at a time and takes some time.
type asked struct {
	at, took time.Duration
	class    disk.Class
	user     uint32
}

// TestStoreTakesTurnsAsDisksDo asks a simulated store and a live device for the same
// dumps and restores: each begins at the same time.
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
		if got, want := simulatedTurns(all), liveTurns(t, all); !slices.Equal(got, want) {
			t.Fatalf("seed %d: they begin at\n%v, live at\n%v", seed, got, want)
		}
	}
}

// simulatedTurns returns when each dump or restore begins at a store.
func simulatedTurns(all []asked) []time.Duration {
	begun := make([]time.Duration, len(all))
	at := &clock{}
	s := store{clock: at, dump: func(*move) bool { return true }}
	tasks := make([]task, len(all))
	for i, x := range all {
		at.in(x.at, event{who: int32(i), kind: evBegun})
	}
	for {
		when, ok := at.next()
		if !ok {
			return begun
		}
		at.now = when
		if ev := at.take(); ev.kind == evStored {
			s.done()
			s.next()
		} else {
			s.add(move{t: &tasks[ev.who], restore: all[ev.who].class == disk.Restore, user: int32(all[ev.who].user), took: all[ev.who].took})
		}
		for i := range tasks {
			if s.doing != nil && s.doing.t == &tasks[i] {
				begun[i] = s.began
			}
		}
	}
}

// liveTurns returns when each dump or restore gets its turn at a device.
func liveTurns(t *testing.T, all []asked) []time.Duration {
	begun := make([]time.Duration, len(all))
	synctest.Test(t, func(t *testing.T) {
		var disks disk.Scheduler
		var wg sync.WaitGroup
		start := time.Now()
		for i, x := range all {
			wg.Go(func() {
				time.Sleep(x.at)
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
	return begun
}
