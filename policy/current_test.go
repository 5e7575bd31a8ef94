package policy

import (
	"reflect"
	"testing"
	"time"

	"headrace"
)

func TestCurrent(t *testing.T) {
	progress := headrace.Progress{CPU: time.Second, Wall: 2 * time.Second, TotalWall: 5 * time.Second, Lost: 7 * time.Second, Share: 0.5}
	later := progress
	later.Wall, later.TotalWall = 5*time.Second, 8*time.Second
	silent := progress
	silent.Share = -1
	const age = 3 * time.Second
	promising := func(end time.Duration, p headrace.Progress) headrace.Progress { p.Promised = end; return p }
	is := func(s headrace.TaskState, p headrace.Progress) headrace.TaskView {
		return headrace.TaskView{ID: "t", State: s, Resident: 10, Swapped: 4, Dirty: 9, Progress: p}
	}
	running, suspended := is(headrace.Running, promising(10*time.Second, progress)), is(headrace.Suspended, promising(10*time.Second, progress))
	with := func(v headrace.TaskView, change func(*headrace.TaskView)) headrace.TaskView { change(&v); return v }
	leaving := func(by headrace.Mechanism) func(*headrace.TaskView) {
		return func(v *headrace.TaskView) { v.Leaving, v.LeavingBy = true, by }
	}
	paging := func(n int64) func(*headrace.TaskView) { return func(v *headrace.TaskView) { v.PagingOut = n } }
	starting := func(v *headrace.TaskView) { v.Starting = true }

	for _, c := range []struct {
		name  string
		is    headrace.TaskView
		age   time.Duration
		doing headrace.Operation
		outs  []PageOut
		want  headrace.TaskView
	}{
		{"work grows while it runs", running, age, headrace.Idle, nil, is(headrace.Running, promising(10*time.Second, later))},
		{"it promises an end", is(headrace.Running, progress), 0, headrace.Idle, nil, running},
		{"by what it has run till now", is(headrace.Running, progress), age, headrace.Idle, nil, is(headrace.Running, promising(16*time.Second, later))},
		{"what it promised first counts", is(headrace.Running, promising(6*time.Second, progress)), age, headrace.Idle, nil, is(headrace.Running, promising(6*time.Second, later))},
		{"it says nothing any more", is(headrace.Running, promising(6*time.Second, silent)), 0, headrace.Idle, nil, is(headrace.Running, promising(6*time.Second, silent))},
		{"a clock that was set back adds nothing", running, -age, headrace.Idle, nil, running},
		{"nothing grows while it is suspended", suspended, age, headrace.Idle, nil, suspended},
		{"it is brought back", suspended, 0, headrace.Resuming, nil, with(suspended, starting)},
		{"it is restored", suspended, 0, headrace.Restoring, nil, with(suspended, starting)},
		{"it leaves by a stop", running, 0, headrace.Suspending, nil, with(running, leaving(headrace.Suspend))},
		{"it leaves by a dump", suspended, 0, headrace.Checkpointing, nil, with(suspended, leaving(headrace.Checkpoint))},
		{"it leaves by a kill", running, 0, headrace.Killing, nil, with(running, leaving(headrace.Kill))},
		{"what moves nothing", suspended, 0, headrace.Archiving, nil, suspended},
		{"nothing is in swap yet", suspended, 0, headrace.PagingOut, []PageOut{{Bytes: 6, Swapped: 4}}, with(suspended, paging(6))},
		{"some of it is", suspended, 0, headrace.PagingOut, []PageOut{{Bytes: 6, Swapped: 1}}, with(suspended, paging(3))},
		{"all of it is", suspended, 0, headrace.PagingOut, []PageOut{{Bytes: 3, Swapped: 0}}, suspended},
		{"less is in swap than was", suspended, 0, headrace.PagingOut, []PageOut{{Bytes: 6, Swapped: 9}}, with(suspended, paging(6))},
		{"no more than is in memory", suspended, 0, headrace.Idle, []PageOut{{Bytes: 60, Swapped: 4}}, with(suspended, paging(10))},
		{"two orders add up", suspended, 0, headrace.Idle, []PageOut{{2, 4}, {3, 4}}, with(suspended, paging(5))},
		{"a dump is no larger than the memory", with(suspended, func(v *headrace.TaskView) { v.Dirty = 99 }), 0, headrace.Idle, nil,
			with(suspended, func(v *headrace.TaskView) { v.Dirty = 14 })},
		{"what it was before is over", with(running, leaving(headrace.Kill)), 0, headrace.Idle, nil, running},
	} {
		if got := Current(c.is, c.age, c.doing, c.outs...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// TestStoreFree: what was promised to a dump is not offered to the next one, and counts no more as far as it is written.
func TestStoreFree(t *testing.T) {
	for want, dumps := range map[int64][]Dump{
		100: nil,
		60:  {{Bytes: 30}, {Bytes: 10}},
		80:  {{Bytes: 30, Written: 20}, {Bytes: 10}},
		70:  {{Bytes: 30, Written: -5}},
		99:  {{Bytes: 30, Written: 40}, {Bytes: 1}},
		0:   {{Bytes: 80}, {Bytes: 80}},
	} {
		if got := StoreFree(100, dumps...); got != want {
			t.Errorf("%v of 100: %d are free, want %d", dumps, got, want)
		}
	}
}
