package delta

import (
	"iter"
	"slices"
)

// Log remembers which keys have changed since its one reader was told. It takes memory for
// these only. A reader names the sequence number of the answer that it has applied last; the
// answer after it is kept until the reader names that one, so that one lost on the way is
// given again. Not safe for concurrent use; what Ready returns may be waited for anywhere.
type Log[K comparable] struct {
	// last is the number of the last answer, before that of the one it followed; 0: it
	// followed none.
	last, before uint64
	sent         []K // the keys of the last answer
	changed      map[K]struct{}
	queue        []K           // the same, in the order in which they changed first
	large        bool          // changed has had many keys, and maps do not shrink
	ready        chan struct{} // nil: nobody waits
}

// New makes a Log of which no answer has been given. Numbers begin above first, which must
// be larger than any that readers may still have from an earlier Log.
func New[K comparable](first uint64) *Log[K] {
	return &Log[K]{last: first + 1, changed: map[K]struct{}{}}
}

// Touch notes that k has changed.
func (l *Log[K]) Touch(k K) {
	l.add(k)
	if l.ready != nil {
		close(l.ready)
		l.ready = nil
	}
}

func (l *Log[K]) add(k K) {
	if _, known := l.changed[k]; !known {
		l.changed[k], l.queue = struct{}{}, append(l.queue, k)
	}
}

// Pending returns how many keys have changed that were not told.
func (l *Log[K]) Pending() int { return len(l.changed) }

// Next returns the number of the answer with which the reader has been told of all that has
// changed by now, unless that is too much for one answer.
func (l *Log[K]) Next() uint64 {
	if len(l.changed) > 0 {
		return l.last + 1
	}
	return l.last
}

// Ready returns what is closed as soon as there is something that was not told.
func (l *Log[K]) Ready() <-chan struct{} {
	if len(l.changed) > 0 {
		return closed
	}
	if l.ready == nil {
		l.ready = make(chan struct{})
	}
	return l.ready
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Since returns at most so many of the keys that have changed since the answer with number
// seq, what changed first before the rest, and the number of this answer. With full, the reader forgets all that it
// knew first; then keys are the first of all, and the rest comes with the next answers. If
// nothing has changed, next is seq.
func (l *Log[K]) Since(seq uint64, most int, all iter.Seq[K]) (next uint64, keys []K, full bool) {
	switch {
	case seq != 0 && seq == l.last && len(l.changed) == 0:
		l.sent = nil
		return seq, nil, false
	case seq != 0 && seq == l.last:
		l.before = seq
	case seq != 0 && seq == l.before:
		for _, k := range l.sent {
			l.add(k)
		}
	default:
		l.before, full = 0, true
		l.changed, l.queue = map[K]struct{}{}, nil
		for k := range all {
			l.add(k)
		}
	}
	l.last++
	l.large = l.large || len(l.changed) > worthKeeping
	n := min(max(1, most), len(l.queue))
	l.sent, l.queue = slices.Clone(l.queue[:n]), l.queue[n:]
	for _, k := range l.sent {
		delete(l.changed, k)
	}
	if len(l.changed) == 0 && l.large {
		l.changed, l.queue, l.large = map[K]struct{}{}, nil, false
	}
	return l.last, l.sent, full
}

const worthKeeping = 500
