package policy

import (
	"time"

	"headrace"
)

// Scene is a node on which another scheduler has chosen victims, while they are decided
// about: what is decided about one counts for the next.
type Scene struct {
	Node headrace.NodeView
	// Tasks are those of which it is known that they are on the node, in order of
	// submission.
	Tasks []headrace.TaskView
	// at is where in Tasks a task is.
	at map[headrace.TaskID]int
}

// NewScene makes a picture of n with the tasks that are on it. It becomes the owner of
// both.
func NewScene(n headrace.NodeView, tasks []headrace.TaskView) *Scene {
	s := &Scene{Node: n, Tasks: tasks, at: make(map[headrace.TaskID]int, len(tasks))}
	for i := range tasks {
		s.at[tasks[i].ID] = i
	}
	return s
}

// Task returns what is known of a task that is on the node, and what was decided about it.
func (s *Scene) Task(id headrace.TaskID) *headrace.TaskView { return &s.Tasks[s.at[id]] }

// GiveWay decides as the function of that name about a task that is on the node, and
// enters what that changes. urgent is 0 when it is not known who needs the room: then it
// is somebody of high priority.
func (s *Scene) GiveWay(id headrace.TaskID, urgent headrace.Priority, c Config) Verdict {
	t, v := s.Task(id), s.Would(id, urgent, c)
	if v.Mechanism == headrace.Wait {
		return v
	}
	t.Leaving, t.LeavingBy, t.PagingOut = true, v.Mechanism, v.PageOut
	s.Dump(v.Store, v.Bytes, v.Dump)
	for _, o := range v.PageOuts {
		s.Task(o.Task).PagingOut += o.PageOut
	}
	return v
}

// Would says what GiveWay would decide now, and enters nothing.
func (s *Scene) Would(id headrace.TaskID, urgent headrace.Priority, c Config) Verdict {
	if urgent == 0 {
		urgent = headrace.High
	}
	return GiveWay(*s.Task(id), s.Node, s.Tasks, urgent, c)
}

// Dump enters a dump that the node does not know of yet.
func (s *Scene) Dump(store string, bytes int64, took time.Duration) {
	for i := range s.Node.Stores {
		if st := &s.Node.Stores[i]; st.Name == store {
			st.Queue += took
			st.Free = max(0, st.Free-bytes)
		}
	}
}

// Claims is memory of a node that was made free for those who cannot be seen yet. It
// is not there for others until they come, or for a while.
type Claims []Claim

// Claim is the room that one victim has made.
type Claim struct {
	Bytes int64
	Until time.Time
}

// Held returns what is not there for others.
func (c Claims) Held(now time.Time) (bytes int64) {
	for _, k := range c {
		if now.Before(k.Until) {
			bytes += k.Bytes
		}
	}
	return bytes
}

// Come takes back what was kept for somebody who has come.
func (c Claims) Come(memory int64) {
	for i := range c {
		some := min(memory, c[i].Bytes)
		c[i].Bytes -= some
		memory -= some
	}
}
