package solo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
)

// dieAt makes a connection that is cut just before or just after the first
// effect with a name, and a channel that is closed then.
func dieAt(w *world, op string, after bool) (*conn, <-chan struct{}) {
	c := &conn{world: w}
	died := make(chan struct{})
	var once sync.Once
	hook := func(have string, _ headrace.TaskID) error {
		if have != op {
			return nil
		}
		once.Do(func() {
			c.cut()
			close(died)
		})
		return errCut
	}
	if after {
		c.after = hook
	} else {
		c.before = hook
	}
	return c, died
}

// TestDeathDuringOperation kills the daemon around the effect of every operation
// and looks what the next one makes of it.
func TestDeathDuringOperation(t *testing.T) {
	ask := func(f func(ctx context.Context, b *bed, q *wire.VerbRequest)) func(*bed, headrace.TaskID) {
		return func(b *bed, id headrace.TaskID) {
			ctx, cancel := context.WithCancel(context.Background())
			b.t.Cleanup(cancel)
			go f(ctx, b, &wire.VerbRequest{Id: string(id)})
		}
	}
	suspend := ask(func(ctx context.Context, b *bed, q *wire.VerbRequest) { b.tasks.Suspend(ctx, q) })
	resume := ask(func(ctx context.Context, b *bed, q *wire.VerbRequest) { b.tasks.Resume(ctx, q) })
	checkpoint := ask(func(ctx context.Context, b *bed, q *wire.VerbRequest) { b.tasks.Checkpoint(ctx, q) })
	kill := ask(func(ctx context.Context, b *bed, q *wire.VerbRequest) { b.tasks.Kill(ctx, q) })
	type outcome struct {
		state headrace.TaskState
		held  bool
	}
	running, lost := outcome{headrace.Running, false}, outcome{headrace.Lost, false}
	for _, c := range []struct {
		effect string
		from   headrace.TaskState
		do     func(*bed, headrace.TaskID)
		// after the same boot; after another one for a task that may be restarted,
		// and for one that may not; before and after the effect.
		same, other, never [2]outcome
	}{
		{"start", headrace.Pending, resume,
			[2]outcome{running, running}, [2]outcome{running, running}, [2]outcome{lost, lost}},
		{"suspend", headrace.Running, suspend,
			[2]outcome{{headrace.Suspended, true}, {headrace.Suspended, true}}, [2]outcome{running, running}, [2]outcome{lost, lost}},
		{"resume", headrace.Suspended, resume,
			[2]outcome{running, running}, [2]outcome{running, running}, [2]outcome{lost, lost}},
		{"checkpoint", headrace.Running, checkpoint,
			[2]outcome{{headrace.Checkpointed, true}, {headrace.Checkpointed, true}},
			[2]outcome{running, {headrace.Checkpointed, true}}, [2]outcome{lost, {headrace.Checkpointed, true}}},
		{"restore", headrace.Checkpointed, resume,
			[2]outcome{running, running}, [2]outcome{running, running}, [2]outcome{running, lost}},
		{"kill", headrace.Running, kill,
			[2]outcome{{headrace.Killed, false}, {headrace.Killed, false}},
			[2]outcome{{headrace.Killed, false}, {headrace.Killed, false}}, [2]outcome{{headrace.Killed, false}, {headrace.Killed, false}}},
	} {
		for when, after := range []bool{false, true} {
			for _, v := range []struct {
				name   string
				boot   string
				change func(*wire.RunRequest)
				want   outcome
			}{
				{"same boot", "boot-1", never, c.same[when]},
				{"other boot, restart", "boot-2", func(*wire.RunRequest) {}, c.other[when]},
				{"other boot, no restart", "boot-2", never, c.never[when]},
			} {
				t.Run(fmt.Sprintf("%s/after=%v/%s", c.effect, after, v.name), func(t *testing.T) {
					b := newBed(t, policy.Wait)
					id := b.bringTo(c.from, v.change)
					b.shutdown()
					dying, died := dieAt(b.world, c.effect, after)
					if err := b.startWith(dying); err != nil {
						t.Fatal(err)
					}
					c.do(b, id)
					select {
					case <-died:
					case <-time.After(patience):
						t.Fatal("the operation never happened")
					}
					b.crash()
					if b.boot = v.boot; v.boot != "boot-1" {
						b.world.reboot()
					}
					b.start()
					got := b.awaitState(id, v.want.state)
					if got.Held != v.want.held {
						t.Errorf("held = %v, want %v", got.Held, v.want.held)
					}
					if want := (b.world.state(id) == headrace.Running); want != (v.want.state == headrace.Running) {
						t.Errorf("recorded %s, but the processes are %s", got.State, b.world.state(id))
					}
				})
			}
		}
	}
}

// TestStartIsNotMadeTwice: daemon and supervisor die in the middle of a start, and nobody is
// left who knows whether the command has begun. It runs again only if it may, and the
// history says so; one that had not begun is started.
func TestStartIsNotMadeTwice(t *testing.T) {
	for _, c := range []struct {
		name   string
		begun  bool
		again  bool // the daemon between dies as well, having asked for the start again
		change func(*wire.RunRequest)
		want   headrace.TaskState
	}{
		{"begun", true, false, never, headrace.Lost},
		{"begun, asked again", true, true, never, headrace.Lost},
		{"begun, may run again", true, false, func(*wire.RunRequest) {}, headrace.Running},
		{"not begun", false, false, never, headrace.Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			id := b.bringTo(headrace.Pending, c.change)
			b.shutdown()
			dying, died := dieAt(b.world, "start", c.begun)
			if err := b.startWith(dying); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go b.tasks.Resume(ctx, &wire.VerbRequest{Id: string(id)})
			<-died
			cancel()
			b.crash()
			if c.again {
				dying, died := dieAt(b.world, "stats", false)
				if err := b.startWith(dying); err != nil {
					t.Fatal(err)
				}
				<-died
				b.crash()
			}
			b.world.vanish(id)
			b.start()
			got := b.awaitState(id, c.want)
			said := slices.ContainsFunc(got.History, func(e *wire.Event) bool { return strings.Contains(e.Reason, "may have begun") })
			if said != c.begun {
				t.Errorf("the history says that it may have begun: %v, want %v: %v", said, c.begun, got.History)
			}
			want := 1
			if c.begun && c.want == headrace.Running {
				want = 2
			}
			b.world.with(id, func(th *thing) {
				if th.starts != want {
					t.Errorf("started %d times, want %d", th.starts, want)
				}
			})
		})
	}
}

// TestRestoresThatHadNotBegun: what waits for its turn to be restored when the daemon dies has not run, with no supervisor
// left to say so, or after another restart of the machine.
func TestRestoresThatHadNotBegun(t *testing.T) {
	for _, boot := range []string{"boot-2", "boot-3"} {
		t.Run(boot, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			b.cfg.Slots = 2
			b.start()
			ids := []headrace.TaskID{b.run(headrace.Normal, never), b.run(headrace.Normal, never)}
			for _, id := range ids {
				b.awaitState(id, headrace.Running)
				if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
					t.Fatal(err)
				}
			}
			b.crash()
			b.world.reboot()
			b.boot = "boot-2"
			stuck := &conn{world: b.world, restoring: func(headrace.TaskID) <-chan struct{} { return make(chan struct{}) }}
			if err := b.startWith(stuck); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			for _, id := range ids {
				go b.tasks.Resume(ctx, &wire.VerbRequest{Id: string(id)})
				b.await(id, "being restored", func(t *wire.Task) bool { return t.Doing == headrace.Restoring.String() })
			}
			cancel()
			b.crash()
			if b.boot != boot {
				b.world.reboot()
				b.boot = boot
			}
			b.start()
			for _, id := range ids {
				b.awaitState(id, headrace.Running)
			}
		})
	}
}

// TestEvictedWithItsSupervisor: a task that makes room, and whose supervisor has to be killed for that, as it does not
// answer, waits for its next turn.
func TestEvictedWithItsSupervisor(t *testing.T) {
	b := newBed(t, policy.Kill)
	silent := &conn{world: b.world}
	silent.before = func(op string, id headrace.TaskID) error {
		if op == "kill" {
			b.world.vanish(id)
		}
		return nil
	}
	if err := b.startWith(silent); err != nil {
		t.Fatal(err)
	}
	low := b.run(headrace.Normal, never)
	b.awaitState(low, headrace.Running)
	high := b.run(headrace.High, never)
	b.awaitState(high, headrace.Running)
	b.awaitState(low, headrace.Pending)
	b.finish(high, 0)
	b.awaitState(low, headrace.Running)
}

// A task whose start an earlier daemon had under way is killed while the next one
// still asks whether it runs, or for its supervisor: it runs, and is ended.
func TestKillWhileStartIsSettled(t *testing.T) {
	for _, silent := range []string{"stats", "attach"} {
		t.Run(silent, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			id := b.bringTo(headrace.Pending, func(*wire.RunRequest) {})
			b.shutdown()
			dying, died := dieAt(b.world, "start", true)
			if err := b.startWith(dying); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go b.tasks.Resume(ctx, &wire.VerbRequest{Id: string(id)})
			<-died
			cancel()
			b.crash()
			slow := &conn{world: b.world}
			slow.before = func(op string, _ headrace.TaskID) error {
				if op == silent {
					return errors.New("the supervisor does not answer")
				}
				return nil
			}
			if err := b.startWith(slow); err != nil {
				t.Fatal(err)
			}
			got, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)})
			if err != nil || got.State != "killed" {
				t.Errorf("kill: %v, %v", got, err)
			}
			if s := b.world.state(id); s == headrace.Running {
				t.Error("it is called killed, and runs")
			}
		})
	}
}

// bringTo starts a daemon and has a task in a state, held unless running.
func (b *bed) bringTo(s headrace.TaskState, change func(*wire.RunRequest)) headrace.TaskID {
	b.t.Helper()
	b.start()
	return b.bring(s, change)
}

// bring is bringTo with the daemon that there is.
func (b *bed) bring(s headrace.TaskState, change func(*wire.RunRequest)) headrace.TaskID {
	b.t.Helper()
	id := b.run(headrace.Normal, change, func(q *wire.RunRequest) { q.Held = s == headrace.Pending })
	if s == headrace.Pending {
		return id
	}
	b.awaitState(id, headrace.Running)
	var err error
	q := &wire.VerbRequest{Id: string(id)}
	switch s {
	case headrace.Suspended:
		_, err = b.tasks.Suspend(b.ctx(), q)
	case headrace.Checkpointed:
		_, err = b.tasks.Checkpoint(b.ctx(), q)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// TestRestart restarts the daemon, by kill -9, with a task in each state that
// nothing is being done to.
func TestRestart(t *testing.T) {
	for _, from := range []headrace.TaskState{headrace.Pending, headrace.Running, headrace.Suspended, headrace.Checkpointed} {
		for _, c := range []struct {
			name  string
			boot  string
			harm  func(b *bed, id headrace.TaskID)
			wants map[headrace.TaskState]headrace.TaskState
		}{
			{"same boot", "boot-1", func(*bed, headrace.TaskID) {}, nil},
			{"ended meanwhile", "boot-1", func(b *bed, id headrace.TaskID) {
				if from == headrace.Running {
					b.finish(id, 0)
				}
			}, map[headrace.TaskState]headrace.TaskState{headrace.Running: headrace.Done}},
			{"supervisor killed", "boot-1", func(b *bed, id headrace.TaskID) { b.world.vanish(id) },
				map[headrace.TaskState]headrace.TaskState{headrace.Running: headrace.Lost, headrace.Suspended: headrace.Lost}},
			{"other boot", "boot-2", func(b *bed, _ headrace.TaskID) { b.world.reboot() },
				map[headrace.TaskState]headrace.TaskState{headrace.Running: headrace.Lost, headrace.Suspended: headrace.Lost}},
		} {
			t.Run(from.String()+"/"+c.name, func(t *testing.T) {
				b := newBed(t, policy.Wait)
				id := b.bringTo(from, never)
				b.crash()
				c.harm(b, id)
				b.boot = c.boot
				b.start()
				want, ok := c.wants[from]
				if !ok {
					want = from
				}
				got := b.awaitState(id, want)
				if wantHeld := want == from && from != headrace.Running || want == headrace.Lost && from == headrace.Suspended; got.Held != wantHeld {
					t.Errorf("held = %v, want %v", got.Held, wantHeld)
				}
				if want.Final() {
					return
				}
				if _, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
					t.Fatal("resume:", err)
				}
				b.awaitState(id, headrace.Running)
				b.finish(id, 0)
				b.awaitState(id, headrace.Done)
				b.world.with(id, func(th *thing) {
					if th.starts != 1 {
						t.Errorf("started %d times", th.starts)
					}
				})
			})
		}
	}
}

func TestLostKeepsCheckpoint(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Checkpointed, never)
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := b.tasks.Restore(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
	b.crash()
	b.world.reboot()
	b.boot = "boot-2"
	b.start()
	got := b.awaitState(id, headrace.Lost)
	if got.Checkpoint == nil {
		t.Fatal("the checkpoint of a lost task is gone")
	}
	if hint := fmt.Sprintf("the machine was restarted; if its files are as they were then, it goes on from its last checkpoint with: headrace restore %s", id); got.Reason != hint {
		t.Errorf("it says %q", got.Reason)
	}
	if got, err := b.tasks.Restore(b.ctx(), q); err != nil || got.State != "running" {
		t.Fatalf("restore by hand: %v, %v", got, err)
	}
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
}

// TestWaitingSurvives: how long a task has waited is not forgotten by a restart
// of the daemon, and a jump of the wall clock does not change it.
func TestWaitingSurvives(t *testing.T) {
	b := newBed(t, policy.Wait)
	clk := &fakeClock{now: time.Hour, date: time.Unix(1e9, 0)}
	b.clock = clk
	b.start()
	first := b.run(headrace.Normal)
	b.awaitState(first, headrace.Running)
	waiter := b.run(headrace.Normal)
	b.crash()
	clk.advance(time.Minute, -365*24*time.Hour)
	var seen time.Duration
	var mu sync.Mutex
	b.watchView(func(v headrace.View) {
		for _, task := range v.Tasks {
			if task.ID == waiter {
				mu.Lock()
				seen = task.Waiting
				mu.Unlock()
			}
		}
	})
	b.start()
	b.get(waiter)
	b.run(headrace.Free) // a turn later the policy has seen the view
	mu.Lock()
	defer mu.Unlock()
	if seen < time.Minute || seen > 2*time.Minute {
		t.Errorf("the view says that it has waited %v, want a minute", seen)
	}
}

// watched is what the policy has been shown of one task, at each look.
type watched struct {
	mu   sync.Mutex
	seen []headrace.TaskView
}

// watch has the next daemon's policy show what it sees of a task.
func (b *bed) watch(id headrace.TaskID) *watched {
	w := &watched{}
	b.watchView(func(v headrace.View) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, task := range v.Tasks {
			if task.ID == id {
				w.seen = append(w.seen, task)
			}
		}
	})
	return w
}

// first waits for a view that is as is asked for, and returns the first such.
func (w *watched) first(t *testing.T, ok func(headrace.TaskView) bool) (v headrace.TaskView) {
	t.Helper()
	testkit.Await(t, "the policy", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.IndexFunc(w.seen, ok)
		if i >= 0 {
			v = w.seen[i]
		}
		return i >= 0
	})
	return v
}

func anyView(headrace.TaskView) bool { return true }

// TestWaitingSurvivesReboot: a wait goes on over a restart of the machine, by the wall clock; where that has
// jumped the wait grows by a day, or by nothing.
func TestWaitingSurvivesReboot(t *testing.T) {
	for _, c := range []struct {
		passes, want time.Duration
	}{{5 * time.Hour, 5 * time.Hour}, {-5 * time.Hour, 0}, {365 * 24 * time.Hour, mostOverBoot}} {
		b := newBed(t, policy.Wait)
		clk := &fakeClock{now: 100 * time.Hour, date: time.Unix(1e9, 0)}
		b.clock = clk
		b.start()
		b.awaitState(b.run(headrace.Normal), headrace.Running)
		waiter := b.run(headrace.Free)
		b.crash()
		b.world.reboot()
		b.boot = "boot-2"
		clk.advance(time.Minute-100*time.Hour, c.passes)
		w := b.watch(waiter)
		b.start()
		if got := w.first(t, anyView).Waiting; got != c.want {
			t.Errorf("after %v it has waited %v, want %v", c.passes, got, c.want)
		}
		b.shutdown()
	}
}

// TestPromisesSurvive: which end a task has told is not forgotten by a restart of the daemon, nor until
// it has been measured again.
func TestPromisesSurvive(t *testing.T) {
	b := newBed(t, policy.Wait)
	w := b.watch("t1")
	b.start()
	id := b.run(headrace.Low)
	b.awaitState(id, headrace.Running)
	b.world.with(id, func(t *thing) { t.share = 1 })
	told := w.first(t, func(v headrace.TaskView) bool { return v.Progress.Promised > 0 }).Progress.Promised
	w.first(t, func(v headrace.TaskView) bool { return v.Progress.TotalWall > 2*told })
	b.crash()
	w = b.watch(id)
	b.start()
	if got := w.first(t, anyView).Progress.Promised; got == 0 || got > told {
		t.Errorf("before it is measured again it has promised %v, want %v", got, told)
	}
	if got := w.first(t, func(v headrace.TaskView) bool { return v.Progress.Share == 1 }).Progress.Promised; got == 0 || got > told {
		t.Errorf("it has promised %v, want %v", got, told)
	}
}

// fakeClock stands still until it is told.
type fakeClock struct {
	mu   sync.Mutex
	now  time.Duration
	date time.Time
}

func (c *fakeClock) boot() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.date
}

func (c *fakeClock) advance(boot, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += boot
	c.date = c.date.Add(wall)
}
