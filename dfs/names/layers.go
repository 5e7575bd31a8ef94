package names

import (
	"iter"

	"github.com/tidwall/btree"

	"headrace/meta"
)

// writes are keys and values that are in memory, above the ones on the disk. A nil value is a deletion.
type writes = btree.Map[string, []byte]

// layers are a state: writes above each other, the newest first, above what is on the disk.
type layers struct {
	over []*writes
	disk meta.Reader
}

func (l layers) Get(key []byte) []byte {
	for _, w := range l.over {
		if v, ok := w.Get(string(key)); ok {
			return v
		}
	}
	return l.disk.Get(key)
}

// Scan sees the writes made before it began, if who writes makes a copy first.
func (l layers) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	all := l.disk.Scan(from, to)
	for i := len(l.over) - 1; i >= 0; i-- {
		all = above(l.over[i], all, string(from), string(to))
	}
	return func(yield func(k, v []byte) bool) {
		for k, v := range all {
			if v != nil && !yield(k, v) {
				return
			}
		}
	}
}

// above merges writes into a sequence; what they delete comes with a nil value.
func above(w *writes, under iter.Seq2[[]byte, []byte], from, to string) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		it := w.Iter()
		more := it.Seek(from) && it.Key() < to
		next := func() (ok bool) {
			ok = yield([]byte(it.Key()), it.Value())
			more = it.Next() && it.Key() < to
			return ok
		}
		for k, v := range under {
			for more && it.Key() < string(k) {
				if !next() {
					return
				}
			}
			if more && it.Key() == string(k) {
				if !next() {
					return
				}
				continue
			}
			if !yield(k, v) {
				return
			}
		}
		for more {
			if !next() {
				return
			}
		}
	}
}
