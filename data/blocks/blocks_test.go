package blocks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/warm"
	"headrace/wire"
)

type told = map[int64]int64
type stands = map[string]string

func (r *rig) tells(what string, all bool, resident told, kept stands) {
	r.t.Helper()
	gotResident, gotKept := r.report(all)
	wantEqual(r.t, what+": in memory", gotResident, resident)
	wantEqual(r.t, what+": kept", gotKept, kept)
}

// arrived takes in an answer without news.
func (r *rig) arrived() { r.Answered(&wire.ExchangeResponse{}) }

// TestWatch: of what is watched changes are told, until they have arrived.
func TestWatch(t *testing.T) {
	r := newRig(t)
	for n := range int64(4) {
		r.disk.add(0, n)
	}
	r.tells("nothing", true, nil, nil)
	r.watch(true, []int64{0, 1, 2, 77}, nil)
	r.tells("none in memory", false, nil, nil)
	wantEqual(t, "watched files", len(r.cache.open), 3)
	r.cache.set(t, r.disk.paths(0, 1)[0], 4)
	r.cache.set(t, r.disk.paths(0, 2)[0], 4096) // the last page counts in full
	r.tells("they come", false, told{1: 4, 2: 5}, nil)
	r.tells("that did not arrive", false, told{1: 4, 2: 5}, nil)
	r.arrived()
	r.tells("that has", false, nil, nil)
	r.cache.set(t, r.disk.paths(0, 1)[0], 0)
	r.tells("one goes", false, told{1: 0}, nil)
	r.arrived()
	r.tells("all there is", true, told{2: 5}, nil)
	r.arrived()
	r.watch(false, []int64{0, 1, 2}, nil)
	r.tells("named once more", false, told{2: 5}, nil)
	r.arrived()
	r.watch(false, nil, []int64{2, 55})
	r.tells("not watched any more", false, nil, nil)
	wantEqual(t, "watched files", len(r.cache.open), 2)
	r.watch(true, []int64{3}, nil)
	r.tells("others instead", false, nil, nil)
	wantEqual(t, "watched files", len(r.cache.open), 1)
	r.cache.err = errors.New("the kernel does not say")
	r.cache.set(t, r.disk.paths(0, 3)[0], 1)
	r.tells("what is known still", false, told{3: 1}, nil)
}

// TestReplicas come, move, grow and go.
func TestReplicas(t *testing.T) {
	r := newRig(t)
	r.watch(true, []int64{1}, nil)
	r.order(true, "j", []int64{1}, nil)
	r.tells("it is not here", false, nil, stands{"j 1": "failed: " + reasonOf(t, r)})
	r.arrived()
	r.tells("nor now", false, nil, nil)
	r.disk.add(0, 1)
	r.tells("it comes", false, nil, stands{"j 1": "planned"})
	r.arrived()
	r.cache.set(t, r.disk.paths(0, 1)[0], 5)
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	r.tells("it is read", false, told{1: 5}, stands{"j 1": "pinned"})
	r.arrived()
	added := r.engine.added
	r.tells("looked at again", false, nil, nil)
	wantEqual(t, "requests", r.engine.added, added)

	r.disk.add(1, 1)
	r.disk.remove(0, 1)
	r.tells("it moves", false, told{1: 0}, stands{"j 1": "planned"})
	r.arrived()
	wantEqual(t, "requests", r.engine.added, added+1)
	var q warm.Request
	for _, one := range r.engine.requests {
		q = *one
	}
	if len(r.engine.requests) != 1 || len(q.Files) != 2 || q.Files[0].Path != r.disk.paths(1, 1)[0] || q.Files[0].Size != 5 || q.Files[1].Path != r.disk.paths(1, 1)[1] || q.Files[1].Size != 11 || q.Bytes != 77 || q.Seq != 88 {
		t.Errorf("asked for %+v", q)
	}
	if !IsJob(q.Job) || IsJob("j") {
		t.Errorf("job %q", q.Job)
	}
	r.disk.remove(1, 1)
	r.tells("it goes", false, nil, stands{"j 1": "failed: " + reasonOf(t, r)})
	wantEqual(t, "watched files", len(r.cache.open), 0)
	wantEqual(t, "requests", r.requests(), nil)
}

// reasonOf returns what is said of a replica that is not there.
func reasonOf(t *testing.T, r *rig) string {
	t.Helper()
	f, err := r.disk.Data(t.Context(), id(1<<40))
	if err == nil {
		f.Close()
		t.Fatal("there is a replica of a block that nobody made")
	}
	return reason(err)
}

// TestOrders: what is ordered is read, told again when named again, and let go.
func TestOrders(t *testing.T) {
	r := newRig(t)
	for n := range int64(6) {
		r.disk.add(0, n)
	}
	r.order(true, "j", []int64{0, 1}, nil)
	r.tells("two", false, nil, stands{"j 0": "planned", "j 1": "planned"})
	r.order(false, "k", []int64{1}, nil)
	r.engine.set(warm.FileStatus{Done: true, Resident: 5})
	r.tells("another job", false, nil, stands{"j 0": "resident", "j 1": "resident", "k 1": "planned"})
	r.arrived()
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	r.report(false)
	r.order(false, "j", []int64{0}, nil)
	r.tells("named again", false, nil, stands{"j 0": "pinned"})
	r.order(false, "j", nil, []int64{1, 44})
	wantEqual(t, "requests", r.requests(), []string{"cluster:u/j blk_0", "cluster:u/k blk_1"})
	q := r.Report(t.Context(), true)
	wantEqual(t, "jobs", len(q.Jobs), 2)
	wantEqual(t, "hosts", q.Hosts, []string{"h1"})

	// Everything, in parts: what is in none of them is let go at the end.
	r.order(true, "j", []int64{2}, nil)
	wantEqual(t, "after a part", len(r.wanted), 3)
	r.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: 50, Keep: []*wire.JobBlocks{jobBlocks("k", []int64{1}), {}, nil, {Job: &wire.JobFacts{}, Blocks: jobBlocks("j", []int64{3}).Blocks}}}})
	wantEqual(t, "after two", len(r.wanted), 3)
	r.Answered(&wire.ExchangeResponse{Watch: &wire.BlocksToWatch{Number: 1}})
	r.tells("at the end", true, nil, stands{"j 2": "planned", "k 1": "pinned"})
	r.order(true, "", nil, nil)
	r.arrived()
	r.tells("nothing any more", true, nil, nil)
	wantEqual(t, "requests", r.requests(), nil)
}

// TestLastFirst: the blocks of a job are read from its end on, where it will come last, and what is dropped again is not read on its own.
func TestLastFirst(t *testing.T) {
	r := newRig(t)
	for n := range int64(4) {
		r.disk.add(0, n)
	}
	r.order(true, "j", []int64{2, 0, 3, 1}, nil)
	r.report(false)
	for _, q := range r.engine.requests {
		var got []string
		for _, f := range q.Files {
			if name := filepath.Base(f.Path); !strings.HasSuffix(name, ".meta") {
				got = append(got, name)
			}
		}
		wantEqual(t, "files", got, []string{"blk_1", "blk_3", "blk_0", "blk_2"})
		wantEqual(t, "left to the manager", q.Leave, true)
	}
	wantEqual(t, "requests", len(r.engine.requests), 1)
}

// TestFacts: what is said of a job with one block counts for all of them.
func TestFacts(t *testing.T) {
	r := newRig(t)
	for n := range int64(3) {
		r.disk.add(0, n)
	}
	r.order(true, "j", []int64{0, 1, 2}, nil)
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	r.report(false)
	again := jobBlocks("j", []int64{2})
	again.Job.Input, again.Job.SubmittedMs, again.Job.Implicit = 7, 8, true
	r.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: 9, Keep: []*wire.JobBlocks{again}}})
	for _, q := range r.engine.requests {
		if q.Bytes != 7 || q.Seq != 8 || !q.Implicit || len(q.Files) != 6 {
			t.Errorf("%+v", q)
		}
	}
	wantEqual(t, "requests", len(r.engine.requests), 1)
	wantEqual(t, "added", r.engine.added, 3)
	if q := r.Report(t.Context(), true); len(q.Jobs) != 1 || !q.Jobs[0].Implicit {
		t.Errorf("%v", q.Jobs)
	}
}

// TestAbandoned: what is kept for jobs is let go when no manager is heard of for long, of those with a lease when that is over; what users hold stays.
func TestAbandoned(t *testing.T) {
	r := newRig(t)
	for n := range int64(4) {
		r.disk.add(0, n)
	}
	keep := func(name string, block int64, facts *wire.JobFacts) {
		j := jobBlocks(name, []int64{block})
		facts.Job = j.Job.Job
		j.Job = facts
		r.number++
		r.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: r.number, Keep: []*wire.JobBlocks{j}}})
	}
	keep("j", 0, &wire.JobFacts{})
	keep("k", 0, &wire.JobFacts{})
	keep("held", 1, &wire.JobFacts{Hold: true})
	keep("leased", 2, &wire.JobFacts{Lease: 3600})
	r.report(false)
	wantEqual(t, "with a manager", r.requests(), []string{"cluster:u/held blk_1", "cluster:u/j blk_0", "cluster:u/k blk_0", "cluster:u/leased blk_2"})
	for _, c := range []struct {
		silent time.Duration
		some   bool
		stay   []string
	}{
		{10 * time.Minute, true, []string{"cluster:u/held blk_1", "cluster:u/leased blk_2"}},
		{20 * time.Minute, false, []string{"cluster:u/held blk_1", "cluster:u/leased blk_2"}},
		{time.Hour, true, []string{"cluster:u/held blk_1"}},
		{1000 * time.Hour, false, []string{"cluster:u/held blk_1"}},
	} {
		wantEqual(t, fmt.Sprint("some go after ", c.silent), r.Abandoned(c.silent), c.some)
		wantEqual(t, fmt.Sprint("after ", c.silent), r.requests(), c.stay)
	}
	r.tells("to a manager that comes back", true, nil, stands{"held 1": "planned"})
	if q := r.Report(t.Context(), true); len(q.Jobs) != 1 || !q.Jobs[0].Hold {
		t.Errorf("jobs: %v", q.Jobs)
	}
}

// TestOutcomes: each is told, what failed is tried again, and so is what is named again.
func TestOutcomes(t *testing.T) {
	r := newRig(t)
	r.disk.add(0, 1)
	r.order(true, "j", []int64{1}, nil)
	for _, c := range []struct {
		st   warm.FileStatus
		want string
	}{
		{warm.FileStatus{}, "planned"},
		{warm.FileStatus{Done: true, NotFit: 5, Reason: "too large"}, "not fit: too large"},
		{warm.FileStatus{Done: true, Pinned: 5}, "pinned"},
		{warm.FileStatus{Done: true, Resident: 9, Pinned: 5}, "resident"},
		{warm.FileStatus{Done: true, Read: 5}, "read"},
	} {
		r.report(false)
		r.engine.set(c.st)
		r.tells(c.want, false, nil, stands{"j 1": c.want})
		r.arrived()
		r.tells(c.want, false, nil, nil)
	}
	added := r.engine.added
	r.order(false, "j", []int64{1}, nil)
	r.tells("named again", false, nil, stands{"j 1": "planned"})
	wantEqual(t, "requests", r.engine.added, added+1)
	r.arrived()
	r.engine.set(warm.FileStatus{Failed: true, Reason: "a broken disk \xff"})
	r.tells("it fails", false, nil, stands{"j 1": "failed: a broken disk ?"})
	wantEqual(t, "requests", r.requests(), nil)
	r.arrived()
	r.tells("it is tried again", false, nil, stands{"j 1": "planned"})
	wantEqual(t, "requests", r.engine.added, added+2)

	r.engine.refuses = warm.ErrClosed
	r.order(false, "k", []int64{1}, nil)
	if _, kept := r.report(false); !strings.HasPrefix(kept["k 1"], "failed: ") {
		t.Errorf("an engine that refuses: %v", kept)
	}
	r.engine.refuses = nil
	r.tells("it refuses no more", false, nil, stands{"k 1": "planned"})
}

// TestLetGoByHand: a request that was ended on the machine keeps nothing any more, and that is told, so that another node does.
func TestLetGoByHand(t *testing.T) {
	r := newRig(t)
	for n := range int64(2) {
		r.disk.add(0, n)
	}
	r.order(true, "j", []int64{0, 1}, nil)
	r.report(false)
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	r.tells("in memory", false, nil, stands{"j 0": "pinned", "j 1": "pinned"})
	r.arrived()
	r.engine.end()
	failed := "failed: " + errLetGo.Error()
	r.tells("ended", false, nil, stands{"j 0": failed, "j 1": failed})
	wantEqual(t, "wanted of the engine", len(r.jobs[want{user: "u", job: "j"}].requests), 0)
	r.order(false, "j", nil, []int64{0, 1})
	r.tells("another node has it", true, nil, nil)
}

// TestNoEngine: where nothing is read ahead the reason is told.
func TestNoEngine(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Engine, c.Refusal = nil, "not here" })
	r.disk.add(0, 1)
	r.watch(true, []int64{1}, nil)
	r.order(true, "j", []int64{1}, nil)
	r.tells("no engine", false, nil, stands{"j 1": "failed: not here"})
	q := r.Report(t.Context(), true)
	if q.Refusal != "not here" || q.Budget != 0 || len(r.cache.open) != 1 {
		t.Errorf("%v, %d watched", q, len(r.cache.open))
	}
	r.order(false, "j", nil, []int64{1})
	r.Close()
}

// TestBudget: what files of this machine have pinned there is no room for, what jobs of the
// cluster have is theirs, once for all jobs that want it.
func TestBudget(t *testing.T) {
	r := newRig(t)
	for n := range int64(3) {
		r.disk.add(0, n)
	}
	r.order(true, "j", []int64{0, 1}, nil)
	r.order(false, "k", []int64{0, 1}, nil)
	r.report(false)
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	for _, c := range []struct{ budget, pinned, want int64 }{{1000, 320, 690}, {1000, 20, 990}, {1000, 10, 1000}, {10, 500, 0}} {
		r.engine.counters = warm.Counters{Budget: c.budget, Pinned: c.pinned}
		r.report(false)
		wantEqual(t, fmt.Sprintf("budget %d, pinned %d", c.budget, c.pinned), r.Report(t.Context(), false).Budget, c.want)
	}
}

// TestTooMany: what cannot be watched is said once, and is tried again.
func TestTooMany(t *testing.T) {
	r := newRig(t)
	r.disk.add(0, 1)
	r.disk.add(0, 2)
	r.cache.most = 1
	r.watch(true, []int64{1, 2}, nil)
	r.report(false)
	if len(r.cache.open) != 1 || !r.saidUnwatchable {
		t.Errorf("%d are watched", len(r.cache.open))
	}
	r.cache.most = 0
	r.report(false)
	wantEqual(t, "watched", len(r.cache.open), 2)
}

// TestManyWatched do not keep what is to be read waiting, nor blocks that nobody has those that are new.
func TestManyWatched(t *testing.T) {
	r := newRig(t)
	absent := make([]int64, 2*newAtOnce)
	for i := range absent {
		absent[i] = int64(100 + i)
	}
	var there []int64
	for n := range int64(20) {
		r.disk.add(0, n)
		there = append(there, n)
	}
	r.watch(true, absent, nil)
	r.order(true, "j", []int64{1}, nil)
	r.watch(false, there, nil)
	if q := r.Report(t.Context(), false); q.Unseen != newAtOnce+20 {
		t.Errorf("%d were not looked at", q.Unseen)
	}
	wantEqual(t, "requests", len(r.requests()), 1)
	wantEqual(t, "watched files", len(r.cache.open), 20)
	r.report(false)
	r.report(false)
	r.watch(false, nil, there)
	r.watch(false, there, nil)
	r.report(false)
	wantEqual(t, "watched files again", len(r.cache.open), 20)
}

// TestClose lets everything go, also while a report is made, and nothing stays open.
func TestClose(t *testing.T) {
	r := newRig(t)
	var all []int64
	for n := range int64(50) {
		r.disk.add(int(n)%2, n)
		all = append(all, n)
	}
	before := descriptors(t)
	r.watch(true, all, nil)
	r.order(true, "j", all, nil)
	for range 5 {
		r.report(false)
	}
	wantEqual(t, "open files", descriptors(t), before)
	var work sync.WaitGroup
	work.Go(func() {
		for range 20 {
			r.Report(context.WithoutCancel(t.Context()), false)
			r.watch(false, all, nil)
			r.order(false, "j", all, nil)
		}
	})
	r.Close()
	work.Wait()
	r.Close()
	if len(r.cache.open) != 0 || len(r.requests()) != 0 || len(r.watched)+len(r.wanted) != 0 {
		t.Errorf("%d files and %v stay", len(r.cache.open), r.requests())
	}
	wantEqual(t, "open files", descriptors(t), before)
	if q := r.Report(t.Context(), true); len(q.Resident)+len(q.Kept) != 0 {
		t.Errorf("%v", q)
	}
}

// TestSpeed is the mean of the times in which there was something to read.
func TestSpeed(t *testing.T) {
	var s speed
	at := time.Unix(1000, 0)
	for i, c := range []struct {
		migrated int64
		busy     bool
		want     float64
	}{{500, true, 0}, {600, true, 100}, {700, false, 100}, {9000, true, 100}, {9200, true, 130}, {9200, true, 130}, {100, true, 130}} {
		if got := s.of(c.migrated, c.busy, at.Add(time.Duration(i)*time.Second)); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("time %d: %v, want %v", i, got, c.want)
		}
	}
}

// TestReason is short for what is usual, and can be sent.
func TestReason(t *testing.T) {
	if got := reason(&os.PathError{Op: "open", Path: filepath.Join("/x", "\xff"), Err: os.ErrPermission}); got != "open /x/?: permission denied" {
		t.Errorf("%q", got)
	}
}
