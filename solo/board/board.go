package board

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"headrace"
	"headrace/serve"
)

// Board holds what readers may see, so that they need nothing from the loop.
// Only the loop publishes.
type Board struct {
	mu       sync.RWMutex
	tasks    map[headrace.TaskID]*Task
	node     Node
	watchers map[*Watcher]struct{}
}

// New returns a board with nothing on it.
func New() *Board {
	return &Board{tasks: map[headrace.TaskID]*Task{}, watchers: map[*Watcher]struct{}{}}
}

// Publish replaces what has changed and wakes the watchers. It never waits for
// a reader.
func (b *Board) Publish(changed []*Task, forgotten []headrace.TaskID, node Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.node = node
	for _, s := range changed {
		b.tasks[s.Record.ID] = s
		for w := range b.watchers {
			w.note(s, false)
		}
	}
	for _, id := range forgotten {
		if s := b.tasks[id]; s != nil {
			delete(b.tasks, id)
			for w := range b.watchers {
				w.note(s, true)
			}
		}
	}
}

// Unended returns a function that tells whether a task has not ended; it may be
// called from any goroutine.
func (b *Board) Unended(id headrace.TaskID) func() bool {
	return func() bool {
		t, found := b.Get(id, serve.Everything)
		return found && !t.Record.State.Final()
	}
}

// UnendedOf is Unended for any task of a stream.
func (b *Board) UnendedOf(stream string) func() bool {
	return func() bool {
		b.mu.RLock()
		defer b.mu.RUnlock()
		for _, t := range b.tasks {
			if in := t.Record.Input; in != nil && in.Stream == stream && !t.Record.State.Final() {
				return true
			}
		}
		return false
	}
}

// Get returns the task if the viewer may see it.
func (b *Board) Get(id headrace.TaskID, v serve.Viewer) (*Task, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s, ok := b.tasks[id]
	if !ok || !v.Sees(s.Record.UID) {
		return nil, false
	}
	return s, true
}

// List returns what the viewer may see, in order of submission.
func (b *Board) List(v serve.Viewer, ended bool) []*Task {
	b.mu.RLock()
	out := make([]*Task, 0, len(b.tasks))
	for _, s := range b.tasks {
		if v.Sees(s.Record.UID) && (ended || !s.Record.State.Final()) {
			out = append(out, s)
		}
	}
	b.mu.RUnlock()
	slices.SortFunc(out, bySubmission)
	return out
}

// Node returns the machine as it was published last.
func (b *Board) Node() Node {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.node
}

// Watch begins to collect changes for one reader; stop must be called. What is
// published after Watch returned is collected.
func (b *Board) Watch(v serve.Viewer, id headrace.TaskID) (w *Watcher, stop func()) {
	w = &Watcher{Viewer: v, id: id, Wake: make(chan struct{}, 1), changed: map[headrace.TaskID]*Task{}, forgotten: map[headrace.TaskID]struct{}{}}
	b.mu.Lock()
	b.watchers[w] = struct{}{}
	b.mu.Unlock()
	return w, func() {
		b.mu.Lock()
		delete(b.watchers, w)
		b.mu.Unlock()
	}
}

// Watcher collects the changes that one reader has not seen yet. Several
// changes of one task become one, so a slow reader costs bounded memory.
type Watcher struct {
	serve.Viewer
	id headrace.TaskID // empty: all tasks
	// Wake has one element when there is something to take.
	Wake chan struct{}

	mu        sync.Mutex
	changed   map[headrace.TaskID]*Task
	forgotten map[headrace.TaskID]struct{}
}

// note takes in that a task has changed, or is forgotten.
func (w *Watcher) note(t *Task, forgotten bool) {
	id := t.Record.ID
	if !w.Sees(t.Record.UID) || w.id != "" && w.id != id {
		return
	}
	w.mu.Lock()
	if forgotten {
		delete(w.changed, id)
		w.forgotten[id] = struct{}{}
	} else {
		w.changed[id] = t
	}
	w.mu.Unlock()
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// Take hands over what has been collected, tasks in order of submission.
func (w *Watcher) Take() (changed []*Task, forgotten []headrace.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, forgotten = slices.SortedFunc(maps.Values(w.changed), bySubmission), slices.Collect(maps.Keys(w.forgotten))
	clear(w.changed)
	clear(w.forgotten)
	return changed, forgotten
}

func bySubmission(a, b *Task) int { return cmp.Compare(a.Record.Order, b.Record.Order) }
