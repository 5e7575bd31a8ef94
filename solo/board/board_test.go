package board

import (
	"slices"
	"testing"

	"headrace"
	"headrace/serve"
)

// TestWatch: a reader who does not read has the last of each task that it may see, in order of submission, and hears once
// that there is something.
func TestWatch(t *testing.T) {
	b := New()
	task := func(id headrace.TaskID, order uint64, uid uint32, note string) *Task {
		t := &Task{Note: note}
		t.Record.ID, t.Record.Order, t.Record.UID = id, order, uid
		return t
	}
	w, stop := b.Watch(serve.Viewer{UID: 1}, "")
	one, stopOne := b.Watch(serve.Viewer{UID: 1}, "t2")
	b.Publish([]*Task{task("t2", 2, 1, "old"), task("t1", 1, 1, ""), task("t3", 3, 2, "another user's")}, nil, Node{})
	b.Publish([]*Task{task("t2", 2, 1, "new"), task("t4", 4, 1, "")}, nil, Node{})
	b.Publish(nil, []headrace.TaskID{"t4", "t3", "never"}, Node{})
	want := func(of *Watcher, ids []headrace.TaskID, gone []headrace.TaskID) {
		t.Helper()
		if (len(of.Wake) > 0) != (len(ids)+len(gone) > 0) {
			t.Errorf("%d signals", len(of.Wake))
		}
		changed, forgotten := of.Take()
		var got []headrace.TaskID
		for _, task := range changed {
			if got = append(got, task.Record.ID); task.Note == "old" {
				t.Error("an old state is shown")
			}
		}
		if !slices.Equal(got, ids) || !slices.Equal(forgotten, gone) {
			t.Errorf("%v changed, %v forgotten; want %v, %v", got, forgotten, ids, gone)
		}
	}
	want(w, []headrace.TaskID{"t1", "t2"}, []headrace.TaskID{"t4"})
	want(one, []headrace.TaskID{"t2"}, nil)
	<-w.Wake
	<-one.Wake
	want(w, nil, nil)
	stop()
	stopOne()
	b.Publish([]*Task{task("t1", 1, 1, "")}, nil, Node{})
	want(w, nil, nil)
	if all := b.List(serve.Viewer{UID: 2}, true); len(all) > 0 {
		t.Errorf("a user sees %v", all)
	}
}
