package solo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/proc"
	"headrace/wire"
)

// failing returns a connection on which an operation fails some times.
func failing(b *bed, what string, times int64, err error) (*conn, *atomic.Int64) {
	left := new(atomic.Int64)
	left.Store(times)
	return &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
		if op == what && left.Add(-1) >= 0 {
			return err
		}
		return nil
	}}, left
}

// TestLateKill: a kill that took longer than it may has done what it was for all the same: to make room, or because somebody asked for it.
func TestLateKill(t *testing.T) {
	slow := errors.New("not all processes end")
	for _, byUser := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("user=%v restarted=%v", byUser, restarted), func(t *testing.T) {
				b := newBed(t, policy.Kill)
				c, left := failing(b, "kill", 1000, slow)
				if err := b.startWith(c); err != nil {
					t.Fatal(err)
				}
				id := b.run(headrace.Low, never)
				b.awaitState(id, headrace.Running)
				if byUser {
					if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
						t.Fatal("no error")
					}
				} else {
					b.run(headrace.High)
				}
				b.await(id, "in trouble", func(t *wire.Task) bool { return strings.Contains(t.Reason, slow.Error()) })
				if restarted {
					b.crash()
				}
				b.world.with(id, func(x *thing) { b.world.end(x, proc.Exit{Code: 137, Signal: 9}) })
				left.Store(0)
				if restarted {
					b.start()
				}
				want := headrace.Pending
				if byUser {
					want = headrace.Killed
				}
				b.awaitState(id, want)
			})
		}
	}
}

// TestKillThatGaveUp: a kill has given up, and the processes are gone later without an end on record. The task does not stay as it
// was, with its slot and without processes.
func TestKillThatGaveUp(t *testing.T) {
	for name, c := range map[string]struct {
		killed bool
		want   headrace.TaskState
	}{
		"killed": {true, headrace.Killed}, "not killed": {false, headrace.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			k, _ := failing(b, "kill", 1, errors.New("not all processes end"))
			if err := b.startWith(k); err != nil {
				t.Fatal(err)
			}
			id := b.run(headrace.Normal, never)
			b.awaitState(id, headrace.Running)
			if c.killed {
				if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
					t.Fatal("no error")
				}
			}
			b.world.with(id, func(x *thing) { x.shim.state = headrace.Checkpointed })
			b.awaitState(id, c.want)
		})
	}
}

// TestUsersKillCountsMore: a task that a user has killed, which took too long, is not put into the queue again because the policy has
// killed it meanwhile.
func TestUsersKillCountsMore(t *testing.T) {
	for _, fails := range []int64{1, 2} { // with 2 the policy's first one as well
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			b := newBed(t, policy.Kill)
			b.clock = hasty{began: systemClock{}.boot()}
			c, _ := failing(b, "kill", fails, errors.New("not all processes end"))
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			id := b.run(headrace.Low)
			b.awaitState(id, headrace.Running)
			if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
				t.Fatal("no error")
			}
			b.run(headrace.High)
			got := b.await(id, "out of the way", func(t *wire.Task) bool { return t.Doing == "" && t.State != "running" })
			if got.State != "killed" {
				t.Errorf("it is %s: %s", got.State, got.Reason)
			}
		})
	}
}

// TestKillOfSilent: a kill that does not succeed, of a task whose supervisor does not answer, is not the last word.
func TestKillOfSilent(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	b.crash()
	var silent atomic.Bool
	silent.Store(true)
	c := &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
		if silent.Load() && (op == "attach" || op == "end") {
			return errors.New("the supervisor does not answer")
		}
		return nil
	}}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
		t.Error("no error")
	}
	b.world.with(id, func(x *thing) { b.world.end(x, proc.Exit{Code: 137, Signal: 9}) })
	silent.Store(false)
	b.awaitState(id, headrace.Killed)
}

// TestRestoreWithoutAnswer: that a supervisor could not be asked for a moment is no reason to give up its container.
func TestRestoreWithoutAnswer(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.crash()
	var broken atomic.Int64
	b.conn = &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
		if (op == "restore" || op == "attach") && broken.Add(-1) >= 0 {
			return fmt.Errorf("dial: %w", syscall.EMFILE)
		}
		return nil
	}}
	if err := b.startWith(b.conn); err != nil {
		t.Fatal(err)
	}
	b.is(id, headrace.Checkpointed)
	broken.Store(2)
	if err := b.order(id, "resume"); err == nil {
		t.Error("no error")
	}
	b.is(id, headrace.Checkpointed)
	b.mustOrder(id, "resume")
	b.is(id, headrace.Running)
}

// unanswered returns a connection on which requests of one kind are not answered from begin to end, whether they are carried
// out before that or after it.
func unanswered(b *bed, what string, done bool) (*conn, *mute) {
	m := &mute{what: what, done: done}
	return &conn{world: b.world, mute: m}, m
}

// tells reports whether something with that reason is in a task's history.
func tells(w *wire.Task, state, reason string) bool {
	return slices.ContainsFunc(w.History, func(e *wire.Event) bool { return e.State == state && strings.Contains(e.Reason, reason) })
}

// TestRoomWithoutAnswer: a task that is to make room, and whose supervisor does not answer, does not lose its work for that.
func TestRoomWithoutAnswer(t *testing.T) {
	b := newBed(t, policy.Cost)
	c, silent := unanswered(b, "suspend", false)
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Low)
	b.awaitState(id, headrace.Running)
	silent.begin()
	urgent := b.run(headrace.High)
	b.await(id, "being suspended, with the reason", func(w *wire.Task) bool {
		return w.State == "running" && w.Doing == "suspending" && strings.Contains(w.Reason, "does not answer")
	})
	silent.end()
	b.awaitState(urgent, headrace.Running)
	b.awaitState(id, headrace.Suspended)
	b.finish(urgent, 0)
	b.awaitState(id, headrace.Running)
	b.world.with(id, func(x *thing) {
		if x.starts != 1 {
			t.Errorf("it was started %d times", x.starts)
		}
	})
}

// silently are the operations that wait for a supervisor: what is asked of it, what the task is meanwhile, and shows, and
// what it is when the supervisor has answered.
var silently = map[string]struct {
	from, state headrace.TaskState
	doing       string
	ask         func(b *bed, q *wire.VerbRequest) error
	then        headrace.TaskState
}{
	"start": {headrace.Pending, headrace.Pending, "starting", (*bed).askResume, headrace.Running},
	"suspend": {headrace.Running, headrace.Running, "suspending", func(b *bed, q *wire.VerbRequest) error {
		_, err := b.tasks.Suspend(b.ctx(), q)
		return err
	}, headrace.Suspended},
	"resume": {headrace.Suspended, headrace.Suspended, "resuming", (*bed).askResume, headrace.Running},
	"checkpoint": {headrace.Running, headrace.Running, "checkpointing", func(b *bed, q *wire.VerbRequest) error {
		_, err := b.tasks.Checkpoint(b.ctx(), q)
		return err
	}, headrace.Checkpointed},
	"restore": {headrace.Checkpointed, headrace.Checkpointed, "restoring", (*bed).askResume, headrace.Running},
}

func (b *bed) askResume(q *wire.VerbRequest) error {
	_, err := b.tasks.Resume(b.ctx(), q)
	return err
}

// eachSilently has a supervisor be silent at each operation, and each of its tasks be there then, once.
func eachSilently(t *testing.T, then func(t *testing.T, b *bed, id headrace.TaskID, silent *mute, end headrace.TaskState)) {
	for what, op := range silently {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, done %v", what, done), func(t *testing.T) {
				b := newBed(t, policy.Wait)
				c, silent := unanswered(b, what, done)
				if err := b.startWith(c); err != nil {
					t.Fatal(err)
				}
				id := b.bring(op.from, never)
				silent.begin()
				q := &wire.VerbRequest{Id: string(id)}
				if err := op.ask(b, q); err == nil || !strings.Contains(err.Error(), "does not answer") {
					t.Errorf("it is said to be done: %v", err)
				}
				b.await(id, op.doing+", with the reason", func(w *wire.Task) bool {
					return w.State == op.state.String() && w.Doing == op.doing && strings.Contains(w.Reason, "does not answer")
				})
				if _, err := b.tasks.Suspend(b.ctx(), q); err == nil || !strings.Contains(err.Error(), "does not answer") {
					t.Errorf("who comes later: %v", err)
				}
				then(t, b, id, silent, op.then)
			})
		}
	}
}

// TestWithoutAnswer: who has asked for something is told when the supervisor does not answer. It is done when that answers, once, and
// before that nothing else becomes of the task: nobody knows whether it runs.
func TestWithoutAnswer(t *testing.T) {
	eachSilently(t, func(t *testing.T, b *bed, id headrace.TaskID, silent *mute, end headrace.TaskState) {
		silent.end()
		got := b.awaitState(id, end)
		if strings.Contains(got.Reason, "does not answer") || !tells(got, "trouble", "does not answer") {
			t.Errorf("it is %v", got)
		}
		if is := b.world.state(id); is != end {
			t.Errorf("it is %s", is)
		}
		if end != headrace.Running {
			if err := b.askResume(&wire.VerbRequest{Id: string(id)}); err != nil {
				t.Error(err)
			}
		}
		b.awaitState(id, headrace.Running)
		b.finish(id, 0)
		b.awaitState(id, headrace.Done)
		b.world.with(id, func(x *thing) {
			if x.starts != 1 || x.completed != 1 || x.seq > 1 {
				t.Errorf("%d starts, %d ends, %d checkpoints", x.starts, x.completed, x.seq)
			}
		})
	})
}

// TestKillWithoutAnswer: a kill does not wait for a supervisor that does not answer.
func TestKillWithoutAnswer(t *testing.T) {
	eachSilently(t, func(t *testing.T, b *bed, id headrace.TaskID, _ *mute, _ headrace.TaskState) {
		if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
			t.Error(err)
		}
		if got := b.awaitState(id, headrace.Killed); strings.Contains(got.Reason, "does not answer") {
			t.Errorf("it is %v", got)
		}
	})
}

// TestPageInWithoutAnswer: a task runs whose memory its supervisor was to read back, and says why that is not done.
func TestPageInWithoutAnswer(t *testing.T) {
	for _, kill := range []bool{false, true} {
		b := newBed(t, policy.Wait)
		c, silent := unanswered(b, "pagein", false)
		if err := b.startWith(c); err != nil {
			t.Fatal(err)
		}
		id := b.run(headrace.Normal)
		b.awaitState(id, headrace.Running)
		q := &wire.VerbRequest{Id: string(id)}
		if _, err := b.tasks.Suspend(b.ctx(), q); err != nil {
			t.Fatal(err)
		}
		b.world.with(id, func(x *thing) { x.resident, x.swapped = 10<<20, 90<<20 })
		b.await(id, "measured", func(w *wire.Task) bool { return w.Usage.GetSwapped() == 90<<20 })
		silent.begin()
		if err := b.askResume(q); err != nil {
			t.Error(err)
		}
		b.await(id, "running, with the reason", func(w *wire.Task) bool { return w.State == "running" && strings.Contains(w.Reason, "does not answer") })
		if kill {
			if _, err := b.tasks.Kill(b.ctx(), q); err != nil {
				t.Error(err)
			}
			b.awaitState(id, headrace.Killed)
			continue
		}
		silent.end()
		b.await(id, "running", func(w *wire.Task) bool { return w.State == "running" && !strings.Contains(w.Reason, "does not answer") })
	}
}

// TestHostedWithoutAnswer: the same of a container whose scheduler has given the order.
func TestHostedWithoutAnswer(t *testing.T) {
	b := newHostBed(t)
	b.shutdown()
	c, silent := unanswered(b.bed, "suspend", true)
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.launch(someContainer)
	silent.begin()
	if err := b.order(id, "suspend"); err == nil {
		t.Error("no error")
	}
	silent.end()
	b.awaitState(id, headrace.Suspended)
	b.mustOrder(id, "resume")
}

// TestHeldStartWithoutAnswer: a container is started once, or killed, whose supervisor does not answer when it is to be started
// or to restore what came from elsewhere.
func TestHeldStartWithoutAnswer(t *testing.T) {
	for _, what := range []string{"start held", "restore moved"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", what, kill), func(t *testing.T) {
				b, shelf := newShelfBed(t)
				if what == "restore moved" {
					id := b.launch(someContainer)
					b.mustOrder(id, "checkpoint")
					b.mustOrder(id, "archive")
				}
				b.shutdown()
				c, silent := unanswered(b.bed, what, false)
				if err := b.startWith(c); err != nil {
					t.Fatal(err)
				}
				b.host = hostClient(b.cfg.StateDir)
				silent.begin()
				b.prepare(otherContainer)
				conn := b.knock(otherContainer, false)
				defer conn.Close()
				testkit.Await(t, "the container", func() bool {
					_, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: otherContainer})
					return err == nil
				})
				b.await(otherContainer, "being started, with the reason", func(w *wire.Task) bool {
					return w.Doing == "starting" && strings.Contains(w.Reason, "does not answer")
				})
				if kill {
					if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: otherContainer}); err != nil {
						t.Error(err)
					}
					b.awaitState(otherContainer, headrace.Killed)
					shelf.mu.Lock()
					defer shelf.mu.Unlock()
					if n := len(shelf.ended); (n == 1) != (what == "restore moved") {
						t.Errorf("what was fetched is given up %d times", n)
					}
					return
				}
				silent.end()
				if r := b.answerTo(conn); r.Error != "" {
					t.Errorf("its process is told %q", r.Error)
				}
				b.awaitState(otherContainer, headrace.Running)
				b.world.with(otherContainer, func(x *thing) {
					if x.starts > 1 || (x.starts == 1) == (what == "restore moved") {
						t.Errorf("%d starts", x.starts)
					}
				})
			})
		}
	}
}

// TestKillBeforeAStart: a container is not called killed, and no more, whose process may have given up to wait for a supervisor.
func TestKillBeforeAStart(t *testing.T) {
	b := newHostBed(t)
	b.shutdown()
	c, silent := unanswered(b.bed, "start", false)
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	b.host = hostClient(b.cfg.StateDir)
	silent.begin()
	b.prepare(someContainer)
	defer b.knock(someContainer, false).Close()
	testkit.Await(t, "the container", func() bool {
		_, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: someContainer})
		return err == nil
	})
	got := b.await(someContainer, "killed", func(w *wire.Task) bool { return w.State == "killed" })
	if !strings.Contains(got.Reason, "may run the command") {
		t.Errorf("the reason is %q", got.Reason)
	}
}

// TestUnansweredBeforeARestart: the daemon that comes tells of the supervisor that does not answer too, and finds the truth
// when that answers.
func TestUnansweredBeforeARestart(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprintf("done %v", done), func(t *testing.T) {
			b := newBed(t, policy.Wait)
			dying, died := dieAt(b.world, "suspend", done)
			if err := b.startWith(dying); err != nil {
				t.Fatal(err)
			}
			id := b.run(headrace.Normal)
			b.awaitState(id, headrace.Running)
			go b.tasks.Suspend(b.ctx(), &wire.VerbRequest{Id: string(id)})
			<-died
			b.crash()
			c, silent := unanswered(b, "suspend", false)
			silent.begin()
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			b.await(id, "being suspended, with the reason", func(w *wire.Task) bool {
				return w.State == "running" && w.Doing == "suspending" && strings.Contains(w.Reason, "does not answer")
			})
			silent.end()
			b.awaitState(id, headrace.Suspended)
			if is := b.world.state(id); is != headrace.Suspended {
				t.Errorf("it is %s", is)
			}
		})
	}
}

// TestOrderWhileAttaching: a scheduler that wants something of a container whose supervisor does not answer to a daemon that comes is
// not told that it cannot be had, after which it would kill it: the orders are carried out when the supervisor answers. People are told after a while.
func TestOrderWhileAttaching(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) {
			b := newHostBed(t)
			id := b.launch(someContainer)
			b.crash()
			clk := &fakeClock{now: systemClock{}.boot(), date: time.Now()}
			b.clock = clk
			var silent atomic.Bool
			silent.Store(true)
			c := &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
				if op == "attach" && silent.Load() {
					return proc.ErrNoAnswer
				}
				return nil
			}}
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 2)
			queued := func(n int) {
				testkit.Await(t, "the order to wait, or to be refused", func() bool {
					have := make(chan int)
					b.loop.post(func() { have <- len(b.loop.tasks.all[id].queue) })
					return <-have == n || len(answered) > 0
				})
			}
			go func() { answered <- b.order(id, "suspend") }()
			queued(1)
			if late {
				b.pass(clk, attachPatience)
				b.await(id, "with the reason", func(w *wire.Task) bool { return strings.Contains(w.Reason, "does not answer") })
				if _, err := b.tasks.Suspend(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil || !strings.Contains(err.Error(), "does not answer") {
					t.Errorf("a user: %v", err)
				}
			}
			go func() { answered <- b.order(id, "checkpoint") }()
			queued(2)
			silent.Store(false)
			for range 2 {
				if err := <-answered; err != nil {
					t.Error(err)
				}
			}
			b.awaitState(id, headrace.Checkpointed)
		})
	}
}

// TestFoundLate: that a supervisor did not answer to a daemon that came is not shown any more when it has.
func TestFoundLate(t *testing.T) {
	for _, state := range []headrace.TaskState{headrace.Running, headrace.Checkpointed} {
		t.Run(state.String(), func(t *testing.T) {
			b := newBed(t, policy.Wait)
			id := b.bringTo(state, never)
			b.crash()
			b.clock = hasty{began: systemClock{}.boot()}
			var silent atomic.Bool
			silent.Store(true)
			c := &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
				if op == "attach" && silent.Load() {
					return proc.ErrNoAnswer
				}
				return nil
			}}
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			told := func(w *wire.Task) bool { return strings.Contains(w.Reason, proc.ErrNoAnswer.Error()) } // and not of its store
			b.await(id, "with the reason", told)
			silent.Store(false)
			b.await(id, "without the reason", func(w *wire.Task) bool { return w.State == state.String() && !told(w) })
		})
	}
}

// TestStartSeenLate: a start that an earlier daemon had under way, and that begins only when the supervisor is to go, is not made again.
func TestStartSeenLate(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Pending, never)
	b.shutdown()
	dying, died := dieAt(b.world, "start", true)
	if err := b.startWith(dying); err != nil {
		t.Fatal(err)
	}
	go b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(id)})
	<-died
	b.crash()
	b.world.with(id, func(x *thing) { x.shim.state = headrace.Checkpointed }) // it has not come to it yet
	c := &conn{world: b.world, before: func(op string, id headrace.TaskID) error {
		if op == "dismiss" {
			b.world.with(id, func(x *thing) { x.shim.state = headrace.Running })
		}
		return nil
	}}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
	b.world.with(id, func(x *thing) {
		if x.starts != 1 {
			t.Errorf("it was started %d times", x.starts)
		}
	})
}

// TestLongReasons: what a command that cannot be started says is not kept whole.
func TestLongReasons(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.start()
	id := b.run(headrace.Normal, never)
	b.awaitState(id, headrace.Running)
	b.world.with(id, func(x *thing) { b.world.end(x, proc.Exit{Code: 127, StartError: strings.Repeat("é", 1<<20)}) })
	got := b.awaitState(id, headrace.Failed)
	if n := len(got.String()); n > 20<<10 || !strings.HasPrefix(got.Reason, "éé") {
		t.Errorf("%d bytes of the task are kept", n)
	}
}

// TestForgetMakesRoom: what root may do while nothing can be recorded is to forget tasks that have ended: their logs go before that.
func TestForgetMakesRoom(t *testing.T) {
	b := newBed(t, policy.Wait)
	full := &fullDisk{}
	b.wrap = func(j recorder) recorder { full.recorder = j; return full }
	b.start()
	old := b.run(headrace.Normal)
	b.awaitState(old, headrace.Running)
	b.finish(old, 0)
	b.awaitState(old, headrace.Done)
	log, _ := b.conn.Logs(old)
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o711), os.WriteFile(log, []byte("much"), 0o600)); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	full.takenBy(log)
	b.finish(id, 0)
	testkit.Await(t, "the loop to wait", b.loop.ledger.stuck.Load)
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a kill: %v", err)
	}
	if _, err := b.tasks.Forget(b.ctx(), &wire.VerbRequest{Id: string(old)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Done)
	if _, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: string(old)}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("it is not forgotten: %v", err)
	}
}

// TestStuck: while nothing can be recorded the logs are cut, and who asks for something is told why it is not done.
func TestStuck(t *testing.T) {
	b := newBed(t, policy.Wait)
	full := &fullDisk{}
	b.wrap = func(j recorder) recorder { full.recorder = j; return full }
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	began, relieved := time.Now(), make(chan struct{}, 100)
	relieve := b.loop.ledger.relieve
	removed := filepath.Join(b.cfg.StateDir, proc.OpenLogs)
	b.loop.post(func() {
		b.loop.ledger.relieve = func() { relieve(); relieved <- struct{}{} }
		full.set(true)
		if err := errors.Join(os.MkdirAll(removed, 0o700), os.WriteFile(filepath.Join(removed, "t9"), nil, 0o600)); err != nil {
			t.Error(err)
		}
		b.loop.logs.keep() // as a tick does, and something is to be recorded in the same turn
		b.loop.touch(b.loop.tasks.all[id])
	})
	for b.world.finish(id, 0); ; {
		select {
		case <-relieved:
		case <-time.After(patience):
			t.Fatal("nothing makes room")
		}
		if _, err := os.Stat(filepath.Join(removed, "t9")); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Since(began) > patience {
			t.Fatal("logs keep the disk full")
		}
	}
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a kill: %v", err)
	}
	if _, err := b.tasks.List(b.ctx(), &wire.ListRequest{}); err != nil {
		t.Errorf("who looks: %v", err)
	}
	b.stop() // it ends, though nothing can be recorded
	select {
	case <-b.ended:
	case <-time.After(patience):
		t.Fatal("the daemon does not end")
	}
	b.stop = nil
}

// TestKillThatFailsIsTriedAgain: what a user has killed, and whose supervisor could not be ended, does not go on when that is gone.
func TestKillThatFailsIsTriedAgain(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Checkpointed, func(*wire.RunRequest) {})
	b.shutdown()
	var stuck atomic.Bool
	c := &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
		if stuck.Load() && (op == "end" || op == "attach") {
			return proc.ErrNoAnswer
		}
		return nil
	}}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	stuck.Store(true)
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
		t.Error("the kill says that it has succeeded")
	}
	stuck.Store(false)
	b.awaitState(id, headrace.Killed)
}
