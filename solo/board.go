package solo

import (
	"sort"
	"sync"

	"headrace"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/journal"
)

// snapshot is a task as it was after some turn of the loop. It is immutable.
type snapshot struct {
	rec  journal.Record
	note string
	// trouble is what went wrong and still holds.
	trouble string
	argv    []string
	output  string
	stats   *proc.Stats // of its processes; nil without any
	// doingReason is why what is being done to it is done.
	doingReason string
	// resident is how much of its input was in memory while it waited.
	resident int64
}

// board holds what readers may see, so that they need nothing from the loop.
// Only the loop publishes.
type board struct {
	mu       sync.RWMutex
	tasks    map[headrace.TaskID]*snapshot
	node     nodeStatus
	watchers map[*watcher]struct{}
}

func newBoard() *board {
	return &board{tasks: map[headrace.TaskID]*snapshot{}, watchers: map[*watcher]struct{}{}}
}

// publish replaces what has changed and wakes the watchers. It never waits for
// a reader.
func (b *board) publish(changed []*snapshot, forgotten []headrace.TaskID, node nodeStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.node = node
	for _, s := range changed {
		b.tasks[s.rec.ID] = s
		for w := range b.watchers {
			w.noteChanged(s)
		}
	}
	for _, id := range forgotten {
		s := b.tasks[id]
		if s == nil {
			continue
		}
		delete(b.tasks, id)
		for w := range b.watchers {
			w.noteForgotten(s)
		}
	}
}

// get returns the task if the viewer may see it.
func (b *board) get(id headrace.TaskID, v serve.Viewer) (*snapshot, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s, ok := b.tasks[id]
	if !ok || !v.Sees(s.rec.UID) {
		return nil, false
	}
	return s, true
}

// list returns what the viewer may see, in order of submission.
func (b *board) list(v serve.Viewer, ended bool) []*snapshot {
	b.mu.RLock()
	out := make([]*snapshot, 0, len(b.tasks))
	for _, s := range b.tasks {
		if v.Sees(s.rec.UID) && (ended || !s.rec.State.Final()) {
			out = append(out, s)
		}
	}
	b.mu.RUnlock()
	sort.Slice(out, func(i, k int) bool { return out[i].rec.Order < out[k].rec.Order })
	return out
}

func (b *board) nodeStatus() nodeStatus {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.node
}

// watch begins to collect changes for one reader; stop must be called. What is
// published after watch returned is collected.
func (b *board) watch(v serve.Viewer, id headrace.TaskID) (w *watcher, stop func()) {
	w = &watcher{Viewer: v, id: id, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	b.watchers[w] = struct{}{}
	b.mu.Unlock()
	return w, func() {
		b.mu.Lock()
		delete(b.watchers, w)
		b.mu.Unlock()
	}
}

// watcher collects the changes that one reader has not seen yet. Several
// changes of one task become one, so a slow reader costs bounded memory.
type watcher struct {
	serve.Viewer
	id   headrace.TaskID // empty: all tasks
	wake chan struct{}   // has one element when there is something to take

	mu        sync.Mutex
	changed   map[headrace.TaskID]*snapshot
	forgotten map[headrace.TaskID]struct{}
}

func (w *watcher) concerns(s *snapshot) bool {
	return w.Sees(s.rec.UID) && (w.id == "" || w.id == s.rec.ID)
}

func (w *watcher) noteChanged(s *snapshot) {
	if !w.concerns(s) {
		return
	}
	w.mu.Lock()
	if w.changed == nil {
		w.changed = map[headrace.TaskID]*snapshot{}
	}
	w.changed[s.rec.ID] = s
	w.mu.Unlock()
	w.signal()
}

func (w *watcher) noteForgotten(s *snapshot) {
	if !w.concerns(s) {
		return
	}
	w.mu.Lock()
	if w.forgotten == nil {
		w.forgotten = map[headrace.TaskID]struct{}{}
	}
	delete(w.changed, s.rec.ID)
	w.forgotten[s.rec.ID] = struct{}{}
	w.mu.Unlock()
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take hands over what has been collected, tasks in order of submission.
func (w *watcher) take() (changed []*snapshot, forgotten []headrace.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.changed {
		changed = append(changed, s)
	}
	for id := range w.forgotten {
		forgotten = append(forgotten, id)
	}
	w.changed, w.forgotten = nil, nil
	sort.Slice(changed, func(i, k int) bool { return changed[i].rec.Order < changed[k].rec.Order })
	return changed, forgotten
}
