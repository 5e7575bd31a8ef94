package blocks

import (
	"fmt"
	"os"
	"testing"

	"headrace/warm"
	"headrace/wire"
)

// TestReads: what is read of a block counts for the job that wants it, if that is one alone,
// once, as from memory if it was kept there; and it is told when it has changed.
func TestReads(t *testing.T) {
	r := newRig(t)
	for n := range int64(5) {
		r.disk.add(0, n)
	}
	read := func(n int64, parts ...uint64) { t.Helper(); r.cache.readBy(t, r.disk.paths(0, n)[0], parts...) }
	tells := func(what string, all bool, want map[string]string) {
		t.Helper()
		r.again()
		got := map[string]string{}
		for _, m := range r.Report(t.Context(), all).Reads {
			got[m.Job.Job] = fmt.Sprint(m.Memory, "+", m.Disk)
		}
		wantEqual(t, what, got, want)
	}
	type told = map[string]string
	r.watch(true, []int64{0, 1, 2, 3, 4}, nil)
	r.report(false)
	read(1, 1) // before somebody wanted it
	r.report(false)
	r.order(true, "j", []int64{0, 1, 2}, nil)
	r.order(false, "other", []int64{2, 3}, nil)
	tells("nothing was read", false, nil)
	read(0, 1)
	tells("while it is read ahead", false, told{"j": "0+5"})
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	r.report(false)
	read(1, 1<<63) // a part that it does not have
	read(2, 1)     // by whom?
	read(4, 1)     // for nobody
	tells("that did not arrive", false, told{"j": "0+5"})
	r.arrived()
	tells("that has", false, nil)
	read(1, 1)
	tells("from memory", false, told{"j": "5+5"})
	r.arrived()
	read(1, 1)
	tells("once more", false, nil)
	tells("all there is", true, told{"j": "5+5"})
	r.order(false, "j", nil, []int64{2})
	read(2, 1)
	tells("one that is the other's alone by now", false, told{"other": "5+0"})
	if _, kept := r.report(true); kept["j 1"] != "pinned" {
		t.Errorf("what is not to be let go: %v", kept)
	}
	r.order(false, "other", nil, []int64{2, 3})
	tells("a job's last, which arrived with that", false, nil)
	r.arrived()
	tells("all there is of those that go on", true, told{"j": "5+5"})
	wantEqual(t, "remembered jobs", len(r.reads), 1)
}

// TestImplicit: what a job has read all of is let go, if it asked for that.
func TestImplicit(t *testing.T) {
	r := newRig(t)
	r.disk.add(0, 1)
	r.disk.add(0, 2)
	r.watch(true, []int64{1, 2}, nil)
	blocks := jobBlocks("j", []int64{1, 2})
	blocks.Job.Implicit = true
	r.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: 1, Keep: []*wire.JobBlocks{blocks}}})
	r.report(false)
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	r.tells("both are there", false, nil, stands{"j 1": "pinned", "j 2": "pinned"})
	r.arrived()
	r.cache.readBy(t, r.disk.paths(0, 1)[0], 1)
	q := r.Report(t.Context(), false) // at once, not when it is looked after next
	if len(q.Kept) != 1 || q.Kept[0].State != wire.KeptState_KEPT_STATE_READ || q.Kept[0].Blocks.Blocks.Numbers[0] != 1 || len(q.Reads) != 1 || q.Reads[0].Memory != 5 {
		t.Errorf("after it was read: %v, %v", q.Kept, q.Reads)
	}
	r.arrived()
	r.order(false, "j", nil, []int64{1})
	r.tells("the other stays", true, nil, stands{"j 2": "pinned"})
}

// TestImplicitReadBeforeItIsFound: what a job has read all of before the engine was given it is not read ahead for it.
func TestImplicitReadBeforeItIsFound(t *testing.T) {
	r := newRig(t)
	r.disk.add(0, 1)
	r.watch(true, []int64{1}, nil)
	r.report(false)
	r.arrived()
	meta := r.disk.paths(0, 1)[1]
	if err := os.Rename(meta, meta+".away"); err != nil { // it cannot be read ahead yet
		t.Fatal(err)
	}
	blocks := jobBlocks("j", []int64{1})
	blocks.Job.Implicit = true
	r.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: 1, Keep: []*wire.JobBlocks{blocks}}})
	r.report(false)
	r.cache.readBy(t, r.disk.paths(0, 1)[0], 1)
	r.report(false)
	if err := os.Rename(meta+".away", meta); err != nil {
		t.Fatal(err)
	}
	r.tells("it was read", true, nil, stands{"j 1": "read"})
	wantEqual(t, "what the engine is to keep", r.requests(), nil)
}

// TestImplicitOfSeveral: a block that several jobs want, each of which lets go of what it has read, is let go by one after each time that all
// of it was read, and counts as read by none.
func TestImplicitOfSeveral(t *testing.T) {
	r := newRig(t)
	r.disk.add(0, 1)
	r.watch(true, []int64{1}, nil)
	for i, job := range []string{"late", "early"} {
		blocks := jobBlocks(job, []int64{1})
		blocks.Job.Implicit, blocks.Job.SubmittedMs = true, int64(100-i)
		r.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: uint64(i + 1), Keep: []*wire.JobBlocks{blocks}}})
	}
	r.report(false)
	r.engine.set(warm.FileStatus{Done: true, Pinned: 5})
	r.tells("it is there", false, nil, stands{"late 1": "pinned", "early 1": "pinned"})
	r.arrived()
	for _, want := range []stands{{"early 1": "read"}, {"late 1": "read"}, nil} {
		r.cache.readBy(t, r.disk.paths(0, 1)[0], 1)
		r.tells("it was read", false, nil, want)
		if q := r.Report(t.Context(), true); len(q.Reads) > 0 {
			t.Errorf("it counts: %v", q.Reads)
		}
		r.arrived()
	}
}
