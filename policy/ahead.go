package policy

import (
	"headrace"
	"headrace/policy/internal/books"
)

// Ahead names the checkpointed tasks whose images are worth reading into memory before the
// tasks come back: those that are next in the queue, for which the machine has memory for the
// image and the task at once, beside what is there, what orders bring and what stands before them
// in the queue. So they wait for processors, and not for the memory that their images would
// take. v is of one machine with all of its tasks, orders and notes are what Explain said of it.
// v is not changed.
func Ahead(v *headrace.View, orders []headrace.Order, notes []Note) []headrace.TaskID {
	if len(notes) == 0 {
		return nil // nobody waits, or there are too many to be explained
	}
	node := &v.Nodes[0]
	tasks := make(map[headrace.TaskID]*headrace.TaskView, len(v.Tasks))
	free := node.Memory
	for i := range v.Tasks {
		t := &v.Tasks[i]
		tasks[t.ID] = t
		free -= heldNow(t, node)
	}
	for _, o := range orders {
		switch o.Verb {
		case headrace.OrderStart, headrace.OrderResume, headrace.OrderRestore:
			t := tasks[o.Task]
			free -= max(0, books.Demand(t, node)-heldNow(t, node))
		}
	}
	var ahead []headrace.TaskID
	for _, n := range notes {
		t := tasks[n.Task]
		free -= max(0, books.Demand(t, node)-heldNow(t, node))
		image := t.State == headrace.Checkpointed && t.Checkpoint != nil
		if image {
			free -= t.Checkpoint.Bytes
		}
		if free < 0 {
			break
		}
		if image {
			ahead = append(ahead, t.ID)
		}
	}
	return ahead
}

// heldNow says what memory of its node t holds now.
func heldNow(t *headrace.TaskView, node *headrace.NodeView) int64 {
	switch {
	case t.State.Final():
		return 0
	case t.Starting:
		return books.Demand(t, node)
	case t.State == headrace.Running:
		return books.Held(t)
	case t.State == headrace.Suspended:
		return t.Resident
	}
	return 0
}
