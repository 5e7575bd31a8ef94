package policy

import (
	"cmp"

	"headrace"
)

// out is a page-out of some of a task's memory.
type out struct {
	t     *task
	bytes int64
}

// allot spreads bytes to be paged out over the suspended tasks of n and those
// that acts suspend, those first that return last. The result is valid until the
// next call.
func (n *node) allot(u *task, acts []act, bytes int64) []out {
	l := n.of
	l.outs = l.outs[:0]
	if bytes <= 0 {
		return nil
	}
	n.lineUp()
	fresh := l.suspending(acts)
	old := n.suspended
	for bytes > 0 && len(old)+len(fresh) > 0 {
		var t *task
		if len(fresh) == 0 || len(old) > 0 && lastToReturn(old[0], fresh[0]) < 0 {
			t, old = old[0], old[1:]
			if t == u || t.settled || checkpointed(acts, t) {
				continue
			}
		} else {
			t, fresh = fresh[0], fresh[1:]
		}
		if some := min(bytes, t.pageable()); some > 0 {
			l.outs = append(l.outs, out{t, some})
			bytes -= some
		}
	}
	return l.outs
}

// suspending lists the tasks that acts suspend, those first that return last.
func (l *ledger) suspending(acts []act) []*task {
	l.fresh = l.fresh[:0]
	for _, a := range acts {
		if a.mech != headrace.Suspend {
			continue
		}
		i := len(l.fresh)
		l.fresh = append(l.fresh, a.t)
		for ; i > 0 && lastToReturn(l.fresh[i], l.fresh[i-1]) < 0; i-- {
			l.fresh[i], l.fresh[i-1] = l.fresh[i-1], l.fresh[i]
		}
	}
	return l.fresh
}

func checkpointed(acts []act, t *task) bool {
	for _, a := range acts {
		if a.t == t {
			return true
		}
	}
	return false
}

// lastToReturn sorts suspended tasks so that those come first whose memory will
// be needed last.
func lastToReturn(a, b *task) int {
	if a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	return cmp.Compare(b.i, a.i)
}
