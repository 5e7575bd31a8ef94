package solo

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/wire"
)

// TestSlowDecision: somebody has to leave also when it takes long to decide that.
func TestSlowDecision(t *testing.T) {
	b := newBed(t, policy.Suspend)
	clk := &fakeClock{now: time.Hour, date: time.Unix(1e9, 0)}
	b.clock = clk
	b.watchView(func(headrace.View) { clk.advance(2*freshFor, 0) })
	b.start()
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	b.awaitState(b.run(headrace.High), headrace.Running)
	b.awaitState(low, headrace.Suspended)
}

// TestEachRoundServes: what was measured serves one decision, however late that comes, and those
// that follow while it is fresh.
func TestEachRoundServes(t *testing.T) {
	clk := &fakeClock{now: time.Hour}
	m := &measuring{core: &core{seldom: &seldom{clk: clk}, turn: newTurn(nil)}}
	if m.takeFresh() {
		t.Error("nothing was measured, and it is fresh")
	}
	m.roundOver()
	clk.advance(2*freshFor, 0)
	if !m.takeFresh() {
		t.Error("the first decision after a round has to measure again")
	}
	if m.takeFresh() {
		t.Error("the second one goes by what is old")
	}
	m.roundOver()
	for range 2 {
		if !m.takeFresh() {
			t.Error("what has just been measured is not fresh")
		}
	}
}

// TestStartsNothingUnmeasured: a daemon that begins starts nothing into memory that tasks have of which it does not know yet
// how much, however long it takes to measure them, and whatever an earlier daemon had begun to do to them.
func TestStartsNothingUnmeasured(t *testing.T) {
	const large = 700 << 20
	begin := func(t *testing.T) (b *bed, old headrace.TaskID) {
		b = newBed(t, policy.Suspend)
		b.cfg.Slots, b.cfg.Memory = 3, 1<<30
		b.start()
		old = b.run(headrace.Normal)
		b.awaitState(old, headrace.Running)
		b.world.with(old, func(x *thing) { x.resident = large })
		b.await(old, "measured", func(w *wire.Task) bool { return w.Usage.GetResident() == large })
		return b, old
	}
	next := func(t *testing.T, b *bed, old headrace.TaskID, daemon *conn) headrace.TaskID {
		t.Helper()
		id := b.run(headrace.Normal, func(q *wire.RunRequest) { q.Memory = large })
		b.await(id, "waiting for room", func(w *wire.Task) bool { return strings.Contains(w.Reason, "room") })
		b.crash()
		if err := b.startWith(daemon); err != nil {
			t.Fatal(err)
		}
		b.await(old, "measured", func(w *wire.Task) bool { return w.Usage.GetResident() == large })
		b.awaitState(b.run(headrace.Normal), headrace.Running)
		b.world.with(id, func(x *thing) {
			if x.starts > 0 {
				t.Errorf("%s was started", id)
			}
		})
		return id
	}
	t.Run("slowly", func(t *testing.T) {
		b, old := begin(t)
		slow := &conn{world: b.world}
		var once sync.Once
		slow.before = func(op string, id headrace.TaskID) error {
			if op == "stats" && id == old {
				once.Do(func() { time.Sleep(2 * roundTimeout) }) // as a look at all pages takes
			}
			return nil
		}
		next(t, b, old, slow)
	})
	t.Run("while it is dumped", func(t *testing.T) {
		b, old := begin(t)
		turn := make(chan struct{})
		dumping := func(headrace.TaskID) <-chan struct{} { return turn }
		b.shutdown()
		if err := b.startWith(&conn{world: b.world, dumping: dumping}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go b.tasks.Checkpoint(ctx, &wire.VerbRequest{Id: string(old)})
		b.await(old, "on its way", func(w *wire.Task) bool { return w.Doing == headrace.Checkpointing.String() })
		cancel()
		id := next(t, b, old, &conn{world: b.world, dumping: dumping})
		close(turn)
		b.awaitState(id, headrace.Running)
	})
}
