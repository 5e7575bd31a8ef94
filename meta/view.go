package meta

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"sort"
)

// A Reader is a state that can be read: keys and values of bytes, ordered by key.
// What it returns must not be changed, and is good until the state is written.
//
// A Reader that fails, for it lies on a disk, remembers that and answers with nothing;
// who made it asks it before an answer goes out or a write is kept.
type Reader interface {
	// Get returns the value of a key, or nil when there is none. No value is empty.
	Get(key []byte) []byte
	// Scan returns the keys from and after from, before to, in order.
	Scan(from, to []byte) iter.Seq2[[]byte, []byte]
}

// A View is a state that can be written. Writes are seen by the reads that follow.
type View interface {
	Reader
	Set(key, value []byte)
	Delete(key []byte)
}

// Memory is a View in memory. It is not for concurrent use.
type Memory struct {
	values map[string][]byte
	keys   []string // sorted
}

// NewMemory returns an empty state.
func NewMemory() *Memory { return &Memory{values: map[string][]byte{}} }

// Get implements Reader.
func (m *Memory) Get(key []byte) []byte { return m.values[string(key)] }

// Scan implements Reader.
func (m *Memory) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for i := sort.SearchStrings(m.keys, string(from)); i < len(m.keys) && m.keys[i] < string(to); i++ {
			if !yield([]byte(m.keys[i]), m.values[m.keys[i]]) {
				return
			}
		}
	}
}

// Set implements View.
func (m *Memory) Set(key, value []byte) {
	k := string(key)
	if _, ok := m.values[k]; !ok {
		i, _ := slices.BinarySearch(m.keys, k)
		m.keys = slices.Insert(m.keys, i, k)
	}
	m.values[k] = bytes.Clone(value)
}

// Delete implements View.
func (m *Memory) Delete(key []byte) {
	k := string(key)
	if _, ok := m.values[k]; ok {
		i, _ := slices.BinarySearch(m.keys, k)
		m.keys = slices.Delete(m.keys, i, i+1)
		delete(m.values, k)
	}
}

// draft is a View over a Reader: what a command writes, until it is known that it
// succeeds. A nil value is a deletion.
type draft struct {
	under  Reader
	writes map[string][]byte
}

func newDraft(under Reader) *draft { return &draft{under, map[string][]byte{}} }

func (d *draft) Get(key []byte) []byte {
	if v, ok := d.writes[string(key)]; ok {
		return v
	}
	return d.under.Get(key)
}

func (d *draft) Set(key, value []byte) { d.writes[string(key)] = value }
func (d *draft) Delete(key []byte)     { d.writes[string(key)] = nil }

// Scan sees the writes made before it began.
func (d *draft) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	var own []string
	for k := range d.writes { // sorted below
		if k >= string(from) && k < string(to) {
			own = append(own, k)
		}
	}
	slices.Sort(own)
	return func(yield func(k, v []byte) bool) {
		// emit yields the own keys before k, or all that are left.
		emit := func(k []byte) bool {
			for len(own) > 0 && (k == nil || own[0] < string(k)) {
				key := own[0]
				own = own[1:]
				if v := d.writes[key]; v != nil && !yield([]byte(key), v) {
					return false
				}
			}
			return true
		}
		for k, v := range d.under.Scan(from, to) {
			if !emit(k) {
				return
			}
			if len(own) > 0 && own[0] == string(k) {
				continue // written anew, or deleted: the next round emits it
			}
			if !yield(k, v) {
				return
			}
		}
		emit(nil)
	}
}

// keep writes the draft to a view, in the order of keys.
func (d *draft) keep(v View) {
	for _, k := range slices.Sorted(maps.Keys(d.writes)) {
		if value := d.writes[k]; value != nil {
			v.Set([]byte(k), value)
		} else {
			v.Delete([]byte(k))
		}
	}
}
