package solo

import (
	"testing"
	"time"

	"headrace"
	"headrace/policy"
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
