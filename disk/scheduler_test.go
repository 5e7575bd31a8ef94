package disk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headrace/disk"
	"headrace/disk/disktest"
)

var sda = disk.Device{ID: 0x800, Name: "sda", Rotational: true}

const extent = 32 << 20

// begin expects a turn.
func begin(t *testing.T, r *disk.Reader) *disk.Turn {
	t.Helper()
	turn, err := r.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// later begins in the background and waits until that has its turn or must wait.
func later(t *testing.T, r *disk.Reader) <-chan *disk.Turn {
	t.Helper()
	got := make(chan *disk.Turn, 1)
	go func() {
		turn, err := r.Begin(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- turn
	}()
	synctest.Wait()
	return got
}

// granted returns the turn if it was granted, otherwise nil.
func granted(c <-chan *disk.Turn) *disk.Turn {
	synctest.Wait()
	select {
	case turn := <-c:
		return turn
	default:
		return nil
	}
}

func TestAloneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		r := s.Reader(sda, disk.Warming, "alone")
		defer r.Close()
		turn, start := begin(t, r), time.Now()
		for range 10 {
			var err error
			if turn, err = turn.Next(t.Context(), extent); err != nil {
				t.Fatal(err)
			}
			turn.End(extent)
			turn = begin(t, r)
		}
		turn.End(0)
		if d := time.Since(start); d != 0 {
			t.Errorf("waited %v for nobody", d)
		}
	})
}

func TestDemandBeforeWarming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		w1, w2 := s.Reader(sda, disk.Warming, "w1"), s.Reader(sda, disk.Warming, "w2")
		d1, d2 := s.Reader(sda, disk.Demand, "d1"), s.Reader(sda, disk.Demand, "d2")
		warming := begin(t, w1)
		second := later(t, w2)
		first, other := later(t, d1), later(t, d2)
		if granted(first) != nil || granted(other) != nil {
			t.Fatal("a turn of warming that has begun was interrupted")
		}
		warming.End(extent)
		turn := granted(first)
		if turn == nil || granted(second) != nil {
			t.Fatal("demand waits, and warming goes on")
		}
		again := later(t, w1)
		for range 20 { // the two demand readers in turn
			next := make(chan *disk.Turn, 1)
			go func() {
				turn, err := turn.Next(t.Context(), extent)
				if err != nil {
					t.Error(err)
				}
				next <- turn
			}()
			if turn = granted(other); turn == nil || granted(next) != nil {
				t.Fatal("not the other demand reader")
			}
			other = next
		}
		turn.End(extent)
		last := granted(other)
		if last == nil || granted(second) != nil || granted(again) != nil {
			t.Fatal("warming begins while demand waits")
		}
		last.End(extent)
		if granted(second) != nil {
			t.Fatal("warming begins as soon as demand has ended a turn")
		}
		time.Sleep(linger)
		turn = granted(second)
		if turn == nil || granted(again) != nil {
			t.Fatal("warming that has read nothing does not go first")
		}
		turn.End(extent)
		granted(again).End(0)
	})
}

// linger is as long as the scheduler's, or longer.
const linger = 10 * time.Millisecond

// A demand reader that goes on at once keeps warming away, also when it ends its
// turns by End; one that rests does not.
func TestWarmingStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		d, w := s.Reader(sda, disk.Demand, "d"), s.Reader(sda, disk.Warming, "w")
		turn := begin(t, d)
		warming := later(t, w)
		for i := range 100 {
			time.Sleep(200 * time.Millisecond)
			if i%2 == 0 {
				turn.End(extent)
				time.Sleep(time.Millisecond)
				if granted(warming) != nil {
					t.Fatal("warming came between")
				}
				turn = begin(t, d)
				continue
			}
			var err error
			if turn, err = turn.Next(t.Context(), extent); err != nil {
				t.Fatal(err)
			}
		}
		turn.End(extent)
		start := time.Now()
		if turn = <-warming; time.Since(start) > linger {
			t.Errorf("warming waits for %v though nobody reads", time.Since(start))
		}
		turn.End(extent)
		start = time.Now()
		begin(t, w).End(extent)
		if d := time.Since(start); d != 0 {
			t.Errorf("warming waits for %v after warming", d)
		}

		// What begins to wait in the time of calm is granted after it.
		begin(t, d).End(extent)
		time.Sleep(time.Millisecond)
		start = time.Now()
		begin(t, w).End(extent)
		if d := time.Since(start); d == 0 || d > linger {
			t.Errorf("warming began %v after demand", d)
		}
		begin(t, d).End(extent)
		warming = later(t, w)
		turn = begin(t, d)
		time.Sleep(time.Second)
		if granted(warming) != nil {
			t.Error("warming begins while demand reads")
		}
		turn.End(extent)
		(<-warming).End(0)
	})
}

// Readers of one class do not wait for one that has just ended its turn, but with
// Next it keeps its place.
func TestNextKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		short, long := s.Reader(sda, disk.Demand, "short"), s.Reader(sda, disk.Demand, "long")
		turn := begin(t, long)
		waiting := later(t, short)
		turn.End(extent)
		turn = granted(waiting)
		waiting = later(t, long)
		turn, err := turn.Next(t.Context(), extent/4) // it has read less so far
		if err != nil || granted(waiting) != nil {
			t.Fatalf("its place is lost, or %v", err)
		}
		turn.End(extent / 4)
		if turn = granted(waiting); turn == nil {
			t.Fatal("nobody has the turn")
		}
		turn.End(extent)
	})
}

func TestCancelLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		holder, r := s.Reader(sda, disk.Demand, "holder"), s.Reader(sda, disk.Demand, "r")
		turn := begin(t, holder)
		before := s.Uses()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Begin(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "sda") {
			t.Errorf("got %v", err)
		}
		if _, err := r.Begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("begun with a context that has ended: %v", err)
		}
		if after := s.Uses(); !reflect.DeepEqual(before, after) {
			t.Errorf("%+v became %+v", before, after)
		}
		turn.End(0)
		if turn, err := r.Begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the device is free, the context has ended: %v, %v", turn, err)
		}
		begin(t, r).End(0)
	})
}

// The turn has ended although Next could not get another one.
func TestNextThatIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		a, b := s.Reader(sda, disk.Demand, "a"), s.Reader(sda, disk.Demand, "b")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		turn := begin(t, a)
		waiting := later(t, b)
		if _, err := turn.Next(ended, extent); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		granted(waiting).End(0)
		if u := s.Uses()[sda.ID][0]; u.Bytes != extent || u.Reading || u.Waiting {
			t.Errorf("%+v", u)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		holder, r := s.Reader(sda, disk.Demand, "holder"), s.Reader(sda, disk.Demand, "r")
		turn := begin(t, holder)
		failed := make(chan error)
		go func() {
			_, err := r.Begin(t.Context())
			failed <- err
		}()
		synctest.Wait()
		r.Close()
		r.Close()
		if err := <-failed; !errors.Is(err, disk.ErrClosed) {
			t.Errorf("a reader closed while it waits: %v", err)
		}
		if _, err := r.Begin(t.Context()); !errors.Is(err, disk.ErrClosed) {
			t.Errorf("a closed reader: %v", err)
		}
		holder.Close() // with a turn
		third := s.Reader(sda, disk.Demand, "third")
		waiting := later(t, third)
		if granted(waiting) != nil {
			t.Fatal("two turns at once")
		}
		if _, err := turn.Next(t.Context(), 5); !errors.Is(err, disk.ErrClosed) {
			t.Errorf("the turn of a closed reader goes on: %v", err)
		}
		granted(waiting).End(7)
		turn.End(1000)
		third.Close()
		want := []disk.Use{{Name: "ended", Readers: 3, Bytes: 12, Turns: 2}}
		if got := s.Uses()[sda.ID]; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestOneTurnAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		memory := disk.Device{ID: 9, Name: "0:9", Memory: true}
		for _, dev := range []disk.Device{sda, memory} {
			r, other := s.Reader(dev, disk.Demand, "r"), s.Reader(dev, disk.Demand, "other")
			turn := begin(t, r)
			if _, err := r.Begin(t.Context()); !errors.Is(err, disk.ErrBusy) {
				t.Errorf("%s: begun with a turn in hand: %v", dev.Name, err)
			}
			waiting := later(t, other)
			if at := granted(waiting); (at != nil) != dev.Memory {
				t.Errorf("%s: a turn at once: %v", dev.Name, at != nil)
			} else if at != nil {
				at.End(1)
			} else if _, err := other.Begin(t.Context()); !errors.Is(err, disk.ErrBusy) {
				t.Errorf("%s: begun while it waits: %v", dev.Name, err)
			}
			turn.End(10)
			turn.End(10)
			turn.End(10)
			if u := s.Uses()[dev.ID][0]; u.Bytes != 10 || u.Turns != 1 {
				t.Errorf("%s: ended more than once: %+v", dev.Name, u)
			}
			if dev.Memory {
				continue
			}
			if next := granted(waiting); next == nil {
				t.Error("nobody has the turn")
			} else {
				turn.End(10) // of a turn that is somebody else's by now
				if again := later(t, r); granted(again) != nil {
					t.Error("a turn was ended twice")
				} else {
					next.End(0)
					granted(again).End(-5)
				}
			}
			if u := s.Uses()[dev.ID][0]; u.Bytes != 10 {
				t.Errorf("negative bytes count: %+v", u)
			}
		}
	})
}

// One checkpoint is moved at a time, restores before dumps and otherwise in the order
// of their asking, in memory as on a disk.
func TestMovesTakeTurns(t *testing.T) {
	for _, dev := range []disk.Device{sda, {ID: 9, Name: "0:9", Memory: true}} {
		synctest.Test(t, func(t *testing.T) {
			var s disk.Scheduler
			var order []string
			var wg sync.WaitGroup
			for i, c := range []disk.Class{disk.Dump, disk.Dump, disk.Restore, disk.Dump, disk.Restore} {
				wg.Go(func() {
					r := s.Move(0, dev, c, "", time.Minute)
					defer r.Close()
					turn, err := r.Begin(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					order = append(order, fmt.Sprint(c, " ", i))
					time.Sleep(time.Minute)
					turn.End(1 << 30)
				})
				synctest.Wait()
			}
			began := time.Now()
			wg.Wait()
			want := []string{"dump 0", "restore 2", "restore 4", "dump 1", "dump 3"}
			if took := time.Since(began); took != 5*time.Minute || !slices.Equal(order, want) {
				t.Errorf("%s: %q in %v, want %q in 5 minutes", dev.Name, order, took, want)
			}
		})
	}
}

// Demand goes on beside a dump or restore, warming waits until it is over.
func TestReadersBesideMoves(t *testing.T) {
	for _, c := range []disk.Class{disk.Restore, disk.Dump} {
		synctest.Test(t, func(t *testing.T) {
			var s disk.Scheduler
			demand, warming := s.Reader(sda, disk.Demand, "d"), s.Reader(sda, disk.Warming, "w")
			first := begin(t, warming)
			r := s.Move(0, sda, c, "", time.Minute)
			turn := begin(t, r) // although warming reads, and is not interrupted
			first.End(extent)
			waits := later(t, warming)
			for range 10 {
				begin(t, demand).End(extent)
				time.Sleep(time.Second)
			}
			if granted(waits) != nil {
				t.Errorf("warming begins beside a %v", c)
			}
			turn.End(1 << 30)
			if granted(waits) == nil {
				t.Errorf("warming does not go on after a %v", c)
			}
		})
	}
}

// Who does not wait any longer gives up its place.
func TestMoveIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		held := begin(t, s.Move(0, sda, disk.Dump, "held", time.Minute))
		given, last := s.Move(0, sda, disk.Restore, "given up", time.Minute), s.Move(0, sda, disk.Dump, "last", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := given.Begin(ctx)
			given.Close()
			done <- err
		}()
		waits := later(t, last)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it was given up: %v", err)
		}
		if users, others := s.Queue(sda.ID); len(users) != 1 || users[0].Wait != 2*time.Minute || others != time.Minute {
			t.Errorf("another one would wait for %v, one of another user for %v", users, others)
		}
		held.End(1)
		if granted(waits) == nil {
			t.Error("the turn is lost")
		}
	})
}

func TestQueueIsWhatIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		expect := func(when string, want time.Duration) {
			t.Helper()
			users, got := s.Queue(sda.ID)
			for _, u := range users { // one has asked for all of them
				got = u.Wait
			}
			if got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		expect("nothing known", 0)
		begin(t, s.Reader(sda, disk.Demand, "r"))
		expect("a reader", 0)
		dump, restore := s.Move(0, sda, disk.Dump, "d", time.Minute), s.Move(0, sda, disk.Restore, "r", 10*time.Second)
		expect("both are registered", 70*time.Second)
		turn := begin(t, dump)
		waits := later(t, restore)
		time.Sleep(20 * time.Second)
		expect("the dump has come far", 50*time.Second)
		time.Sleep(2 * time.Minute)
		expect("the dump takes longer", 10*time.Second)
		turn.End(1)
		dump.Close()
		expect("the dump is over", 10*time.Second)
		granted(waits).End(1)
		restore.Close()
		expect("both are over", 0)
	})
}

// A holder that never comes back holds up its own device only, and others there for Patience;
// one that gets on is waited for, however long it takes.
func TestDeadDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		sdb := disk.Device{ID: 0x810, Name: "sdb"}
		dead, behind := s.Reader(sda, disk.Demand, "dead"), s.Reader(sda, disk.Demand, "behind")
		stuck := begin(t, dead)
		waiting := later(t, behind)
		r := s.Reader(sdb, disk.Warming, "alive")
		for range 100 {
			begin(t, r).End(extent)
		}
		dead.Close()
		for range 10 {
			time.Sleep(disk.Patience - 1)
			stuck.Progress()
		}
		if granted(waiting) != nil {
			t.Error("a reader that gets on has lost its turn")
		}
		time.Sleep(disk.Patience + 1)
		next := granted(waiting)
		if next == nil {
			t.Fatal("everybody waits for a reader that hangs")
		}
		third := later(t, s.Reader(sda, disk.Demand, "third"))
		if granted(third) != nil {
			t.Error("two more have turns")
		}
		waited := 10*(disk.Patience-1) + disk.Patience
		want := map[disk.ID][]disk.Use{
			sda.ID: {{Name: "dead", Readers: 1, Reading: true, Hangs: disk.Patience + 1}, {Name: "behind", Readers: 1, Reading: true, Waited: waited},
				{Name: "third", Readers: 1, Waiting: true}},
			sdb.ID: {{Name: "alive", Class: disk.Warming, Readers: 1, Bytes: 100 * extent, Turns: 100}},
		}
		if got := s.Uses(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		stuck.End(0)
		if granted(third) != nil {
			t.Error("the end of a reader that hung has ended another's turn")
		}
		next.End(0)
		granted(third).End(0)
	})
}

// An old turn does not end the reader's next one.
func TestEndOfAnOldTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		r, other := s.Reader(sda, disk.Demand, "r"), s.Reader(sda, disk.Demand, "other")
		old := begin(t, r)
		turn, err := old.Next(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		waiting := later(t, other)
		old.End(1000)
		if _, err := old.Next(t.Context(), 1000); !errors.Is(err, disk.ErrBusy) {
			t.Errorf("two turns at once: %v", err)
		}
		if granted(waiting) != nil || s.Uses()[sda.ID][0].Bytes != 5 {
			t.Error("an old turn was ended again")
		}
		turn.End(5)
		granted(waiting).End(5)
	})
}

func TestUsesAreBounded(t *testing.T) {
	var s disk.Scheduler
	for i := range 5000 {
		d := disk.Device{ID: disk.ID(i % 500), Name: fmt.Sprint(i % 500)}
		r := s.Reader(d, disk.Class(i%4), fmt.Sprint("reader ", i))
		begin(t, r).End(1)
		r.Close()
	}
	keep := s.Reader(disk.Device{ID: 1 << 40, Name: "kept"}, disk.Demand, "open")
	uses := s.Uses()
	n := 0
	for _, u := range uses {
		n += len(u)
	}
	if n > 150 || len(uses) != len(s.Devices()) {
		t.Errorf("%d uses of %d devices are remembered, %d are known", n, len(uses), len(s.Devices()))
	}
	if _, ok := uses[499]; !ok {
		t.Error("the device used last is forgotten")
	}
	names := s.Devices()
	if !slices.IsSortedFunc(names, func(a, b disk.Device) int { return int(a.ID) - int(b.ID) }) || names[len(names)-1].Name != "kept" {
		t.Errorf("%v", names)
	}
	keep.Close()
}

// TestHardDisk reads with many readers from a modelled disk: in turns it is about
// as fast as one reader, and everybody gets the same.
func TestHardDisk(t *testing.T) {
	for _, n := range []int{1, 2, 8, 16} {
		synctest.Test(t, func(t *testing.T) {
			var s disk.Scheduler
			head, start := disktest.HardDisk(), time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					name := fmt.Sprint(i)
					r := s.Reader(sda, disk.Demand, name)
					turn, err := r.Begin(ctx)
					for off := int64(0); err == nil; off += extent {
						for p := int64(0); p < extent; p += 1 << 20 {
							head.Read(name, off+p, 1<<20)
						}
						turn, err = turn.Next(ctx, extent)
					}
				})
			}
			wg.Wait()
			bytes, seeks, overlaps := head.Counts()
			rate := float64(bytes) / time.Since(start).Seconds() / 1e6
			t.Logf("%2d readers: %.1f MB/s, %.2f seeks per 100 MB", n, rate, float64(seeks)/float64(bytes)*1e8)
			if rate < 142 || overlaps > 0 || n > 1 && float64(seeks) > float64(bytes)/extent+1 {
				t.Errorf("%d readers: %.1f MB/s, %d seeks in %d bytes, %d reads at the same time as another", n, rate, seeks, bytes, overlaps)
			}
			var least, most int64 = 1 << 62, 0
			for _, u := range s.Uses()[sda.ID] {
				least, most = min(least, u.Bytes), max(most, u.Bytes)
			}
			if most-least > 2*extent {
				t.Errorf("%d readers: from %d to %d bytes", n, least, most)
			}
		})
	}
}

// TestScheduledAtRandom lets goroutines loose on a few devices and checks that
// there is one turn at a time to read, and one to move a checkpoint, none of them is
// lost, and the counts add up.
func TestScheduledAtRandom(t *testing.T) {
	var s disk.Scheduler
	var readers, movers [3]atomic.Int32
	var bytes, turns atomic.Int64
	rounds := 400
	if testing.Short() {
		rounds = 40
	}
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(g)))
			d := g % 3
			dev := disk.Device{ID: disk.ID(d + 1), Name: fmt.Sprint(d), Memory: d == 2}
			for range rounds {
				class := disk.Class(rnd.IntN(4))
				moves := class == disk.Restore || class == disk.Dump
				holders := &readers[d]
				if moves {
					holders = &movers[d]
				}
				r := s.Reader(dev, class, "r")
				ctx, cancel := context.WithCancel(t.Context())
				switch rnd.IntN(4) {
				case 0:
					go cancel()
				case 1:
					go r.Close()
				}
				turn, err := r.Begin(ctx)
				for err == nil {
					if now := holders.Add(1); now > 1 && (moves || !dev.Memory) {
						t.Errorf("%d turns at once", now)
					}
					n := rnd.Int64N(extent)
					bytes.Add(n)
					turns.Add(1)
					s.Uses()
					holders.Add(-1)
					if rnd.IntN(3) == 0 {
						turn.End(n)
						break
					}
					turn, err = turn.Next(ctx, n)
				}
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, disk.ErrClosed) {
					t.Error(err)
				}
				cancel()
				r.Close()
			}
		})
	}
	wg.Wait()
	var got disk.Use
	for id, uses := range s.Uses() {
		for _, u := range uses {
			if u.Name != "ended" || u.Reading || u.Waiting {
				t.Errorf("left at %d: %+v", id, u)
			}
			got.Bytes += u.Bytes
			got.Turns += u.Turns
			got.Readers += u.Readers
		}
	}
	if got.Bytes != bytes.Load() || got.Turns != turns.Load() || got.Readers != int64(12*rounds) {
		t.Errorf("%d readers read %d bytes in %d turns, want %d, %d, %d", got.Readers, got.Bytes, got.Turns, 12*rounds, bytes.Load(), turns.Load())
	}
}
