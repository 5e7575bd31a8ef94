package names

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"headrace/internal/crash"
	"headrace/meta"
	"headrace/quorum"
)

// A store is where the state lies durably. Whatever changes it takes place wholly or not at all.
// One goroutine changes it at a time; others read beside that.
type store interface {
	// read returns the state as it is now, and what is to be called when it is not needed any more.
	read() (meta.Reader, func(), error)
	// write adds writes; it takes no copies of them.
	write(*writes) error
	// replace puts a state in the place of the one that is there. Keys come in order but for the
	// last one; after an error of fill all is as it was.
	replace(fill func(put func(k, v []byte) error) error) error
	// seat and setSeat are about this node, and not part of the state.
	seat() (seat, error)
	setSeat(seat) error
	// keepView keeps what a node without a seat knows, and keptView returns it, or nil.
	keepView(*View) error
	keptView() (*View, error)
}

// A seat is the replica that a node has, or is to have.
type seat struct {
	// Replica is zero when there is none.
	Replica quorum.Replica
	// Last is the newest that the node has had: it is never made again, as it would have forgotten what it
	// promised. Epoch and Index are of the view that gave it.
	Last         quorum.Replica
	Epoch, Index uint64
	// Alone: the replica is the first one, and all of the group.
	Alone bool `json:",omitempty"`
	// Made: the log has it.
	Made bool `json:",omitempty"`
	// Leaving: it is being dropped.
	Leaving bool `json:",omitempty"`
}

// Keys of the state that are not package meta's, which begin with letters.
var (
	indexKey = []byte("\x00index") // of the last entry in the state
	timeKey  = []byte("\x00time")  // of the last command, ms
	viewKey  = []byte("\x00view")
)

// end is behind all keys.
var end = []byte{0xff}

// In the database: what the node knows of itself, and the state in one of two buckets. The other one
// is there only while a state is being received.
var (
	nodeBucket   = []byte("node")
	stateBuckets = [2]string{"state", "state2"}
	currentKey   = []byte("current")
	seatKey      = []byte("seat")
	keptKey      = []byte("view")
)

// pieceBytes is how much of a state that is received one transaction takes.
const pieceBytes = 4 << 20

// A bolted store is a bbolt database.
type bolted struct{ db *bolt.DB }

// current returns the bucket of the state.
func current(tx *bolt.Tx) *bolt.Bucket { return tx.Bucket([]byte(currentName(tx))) }

func currentName(tx *bolt.Tx) string {
	if name := tx.Bucket(nodeBucket).Get(currentKey); name != nil {
		return string(name)
	}
	return stateBuckets[0]
}

// bucket reads what is in a bucket. A page that is damaged may lead to where there is nothing, or the disk may not give it: whoever reads panics
// then, where the process would end else.
type bucket struct{ b *bolt.Bucket }

func (r bucket) Get(key []byte) []byte {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer misreads()
	return r.b.Get(key)
}

// misread is what who reads panics with: a page could not be read, or makes no sense. Who uses what was read may also meet a page that cannot be read.
type misread struct{ cause any }

func (m misread) Error() string {
	return fmt.Sprintf("a page of the names cannot be read, or makes no sense: %v", m.cause)
}

// misreads is deferred by who reads.
func misreads() {
	if p := recover(); p != nil {
		panic(misread{p})
	}
}

// isMisread reports whether a panic comes from reading.
func isMisread(p any) bool {
	_, fault := p.(interface{ Addr() uintptr }) // the runtime's error of an address
	_, is := p.(misread)
	return is || fault
}

func (r bucket) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		c := r.b.Cursor()
		step := func(first bool) (k, v []byte) {
			defer misreads()
			if first {
				return c.Seek(from)
			}
			return c.Next()
		}
		for k, v := step(true); k != nil && bytes.Compare(k, to) < 0; k, v = step(false) {
			if !yield(k, v) {
				return
			}
		}
	}
}

func (s bolted) read() (meta.Reader, func(), error) {
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, nil, err
	}
	var r bucket
	if err := Sound(func() error { r.b = current(tx); return nil }); err != nil {
		tx.Rollback()
		return nil, nil, err
	}
	return r, func() { tx.Rollback() }, nil
}

func (s bolted) write(w *writes) error { return Sound(func() error { return s.put(w) }) }

func (s bolted) put(w *writes) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	b := current(tx)
	w.Scan(func(k string, v []byte) bool {
		if v == nil {
			err = b.Delete([]byte(k))
		} else {
			err = b.Put([]byte(k), v)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	crash.Here("names.flush.before")
	if err := tx.Commit(); err != nil {
		return err
	}
	crash.Here("names.flush.after")
	return nil
}

func (s bolted) replace(fill func(put func(k, v []byte) error) error) error {
	return Sound(func() error { return s.putAll(fill) })
}

func (s bolted) putAll(fill func(put func(k, v []byte) error) error) error {
	var old, name string
	err := s.db.Update(func(tx *bolt.Tx) error {
		old = currentName(tx)
		name = stateBuckets[0]
		if old == name {
			name = stateBuckets[1]
		}
		if tx.Bucket([]byte(name)) != nil { // of one that was not received to its end
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		_, err := tx.CreateBucket([]byte(name))
		return err
	})
	if err != nil {
		return err
	}
	var piece [][2][]byte
	size := 0
	flush := func() error {
		err := s.db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(name))
			for _, p := range piece {
				if err := b.Put(p[0], p[1]); err != nil {
					return err
				}
			}
			return nil
		})
		piece, size = nil, 0
		crash.Here("names.replace.piece")
		return err
	}
	err = fill(func(k, v []byte) error {
		piece, size = append(piece, [2][]byte{bytes.Clone(k), bytes.Clone(v)}), size+len(k)+len(v)
		if size < pieceBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	return s.db.Update(func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket(nodeBucket).Put(currentKey, []byte(name)), tx.DeleteBucket([]byte(old)))
	})
}

func (s bolted) seat() (v seat, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(nodeBucket).Get(seatKey); b != nil {
			return json.Unmarshal(b, &v)
		}
		return nil
	})
	return v, err
}

func (s bolted) setSeat(v seat) error {
	return s.db.Update(func(tx *bolt.Tx) error { return putSeat(tx, v) })
}

func putSeat(tx *bolt.Tx, v seat) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return tx.Bucket(nodeBucket).Put(seatKey, b)
}

func (s bolted) keepView(v *View) error {
	return Sound(func() error {
		return s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(nodeBucket).Put(keptKey, v.Encode()) })
	})
}

func (s bolted) keptView() (v *View, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		v, err = keptIn(tx.Bucket(nodeBucket))
		return err
	})
	return v, err
}

// keptIn returns the view that was kept in the bucket of the node; nil: none.
func keptIn(node *bolt.Bucket) (*View, error) {
	b := node.Get(keptKey)
	if b == nil {
		return nil, nil
	}
	return DecodeView(b)
}

// Stored returns the view that a database has, of which a node may have learnt more since; nil: it has none.
func Stored(db *bolt.DB) (v *View, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		return Sound(func() (err error) {
			node := tx.Bucket(nodeBucket)
			if node == nil {
				return nil
			}
			if b := current(tx); b != nil && b.Get(viewKey) != nil {
				r, err := decodeRoster(b.Get(viewKey))
				if err == nil {
					v = &r.View
				}
				return err
			}
			v, err = keptIn(node)
			return err
		})
	})
	return v, err
}

// Found prepares a database, in the transaction in which package meta's state is made or was found, for a
// group that this node founds alone. Its seat is another one than in any other group: a message that goes astray between groups means
// nobody there.
func Found(tx *bolt.Tx, self Member, segments, replicas int) error {
	v, err := firstView(self, Understands(), 1+rand.Uint32N(1<<31), segments, replicas)
	if err != nil {
		return err
	}
	return errors.Join(current(tx).Put(viewKey, v.encode()), putSeat(tx, seat{Replica: v.Seats[self.Name], Last: v.Seats[self.Name], Alone: true}))
}

// Follow prepares a database for a node that has no seat yet, and knows a view.
func Follow(tx *bolt.Tx, v *View) error { return tx.Bucket(nodeBucket).Put(keptKey, v.Encode()) }

// State returns where package meta's state lies in a database, in a bucket that is made if need be.
func State(tx *bolt.Tx) (*bolt.Bucket, error) {
	return tx.CreateBucketIfNotExists([]byte(currentName(tx)))
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func ofNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func errStore(err error) error { return fmt.Errorf("names: the state on the disk: %w", err) }
