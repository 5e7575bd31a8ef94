package books

import (
	"cmp"

	"headrace"
)

// Out is a page-out of some of a task's memory.
type Out struct {
	Task  *Task
	Bytes int64
}

// Allot spreads bytes to be paged out over the suspended tasks of n and those
// that acts suspend, those first that return last. The result is valid until the
// next call.
func (n *Node) Allot(u *Task, acts []Act, bytes int64) []Out {
	l := n.of
	l.outs = l.outs[:0]
	if bytes <= 0 {
		return nil
	}
	n.LineUp()
	fresh := l.suspending(acts)
	old := n.Suspended
	for bytes > 0 && len(old)+len(fresh) > 0 {
		var t *Task
		if len(fresh) == 0 || len(old) > 0 && lastToReturn(old[0], fresh[0]) < 0 {
			t, old = old[0], old[1:]
			if t == u || t.Settled || checkpointed(acts, t) {
				continue
			}
		} else {
			t, fresh = fresh[0], fresh[1:]
		}
		if some := min(bytes, t.Pageable()); some > 0 {
			l.outs = append(l.outs, Out{t, some})
			bytes -= some
		}
	}
	return l.outs
}

// suspending lists the tasks that acts suspend, those first that return last.
func (l *Ledger) suspending(acts []Act) []*Task {
	l.fresh = l.fresh[:0]
	for _, a := range acts {
		if a.By != headrace.Suspend {
			continue
		}
		i := len(l.fresh)
		l.fresh = append(l.fresh, a.Task)
		for ; i > 0 && lastToReturn(l.fresh[i], l.fresh[i-1]) < 0; i-- {
			l.fresh[i], l.fresh[i-1] = l.fresh[i-1], l.fresh[i]
		}
	}
	return l.fresh
}

func checkpointed(acts []Act, t *Task) bool {
	for _, a := range acts {
		if a.Task == t {
			return true
		}
	}
	return false
}

// lastToReturn sorts suspended tasks so that those come first whose memory will
// be needed last.
func lastToReturn(a, b *Task) int {
	if a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	return cmp.Compare(b.Index, a.Index)
}
