package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"headrace/meta"
	"headrace/quorum"
)

const (
	// mostAhead is how much later than the proposer's clock it may be: ms.
	mostAhead = 60_000
	// flushBytes of writes in memory are reason to write them to the disk.
	flushBytes = 4 << 20
	// mostBytes in memory, and applying waits for the disk.
	mostBytes = 32 << 20
)

// errNoState: there is none, as another one is being received, or none was.
var errNoState = errors.New("names: this node has no state of the names now")

// generation is the state at some moment, for those who read: immutable writes above what is on the disk.
type generation struct {
	// freezes counts them. Between two of them what is on the disk may only get what is in frozen.
	freezes uint64
	over    []*writes // active, frozen
	index   uint64
	sum     uint64 // of all keys and values: see digestKey
	gone    bool
}

// machine is the state of the names on this node: quorum's machine. What is applied is in memory first, as
// the log has it until it is on the disk; a flush takes it there. Apply, Snapshot and Restore are called
// by one goroutine, freeze and commit by another one, and read by any.
type machine struct {
	store store
	// knows is the version that this program understands.
	knows uint32
	log   *slog.Logger
	// changed is told of each new roster; urge asks for a flush.
	changed func(*View)
	urge    func()
	// restored is told when a state was received.
	restored func()
	// damaged is told of damage of the store that was found.
	damaged func(error)
	// applied, if set, is told of each command and its answer: a test listens.
	applied func(index uint64, data, answer []byte)
	fault   fault

	now     atomic.Pointer[generation]
	durable atomic.Uint64

	// flushing is held from a freeze to the end of its commit, and by who replaces the state.
	flushing sync.Mutex
	mu       sync.Mutex // of what follows; never held while something becomes durable
	active   *writes
	frozen   *writes
	bytes    int
	freezes  uint64
	index    uint64
	sum      uint64
	time     int64
	roster   *roster
	err      error
	// marks are what the state was lately, and sparse what it was before: see mark.
	marks, sparse []mark
	every         uint64 // entries between two of them
	// marked, if set, is told of each: a test listens.
	marked func(mark)
}

// fault is a mistake made on purpose. Tests set it, to see that they would find it.
type fault struct {
	durableEarly, forgetsCalls, keepsWrites, sitsAgain, readsAlone, writesNewest, raisesBlindly bool
	does                                                                                        func(meta.View, meta.Command) (meta.Result, error) // in place of meta.Apply
}

// apply applies a command of package meta.
func (f fault) apply(v meta.View, c meta.Command) (meta.Result, error) {
	if f.does != nil {
		return f.does(v, c)
	}
	return meta.Apply(v, c)
}

// newMachine opens the state of a store.
func newMachine(s store, knows uint32, log *slog.Logger) (*machine, error) {
	m := &machine{store: s, knows: knows, log: log, changed: func(*View) {}, urge: func() {}, restored: func() {}, damaged: func(error) {}, active: &writes{}, every: markEvery}
	return m, m.load()
}

// load reads what the machine needs to know of the store's state. It may be none.
func (m *machine) load() error {
	r, done, err := m.store.read()
	if err != nil {
		return errStore(err)
	}
	defer done()
	if !m.fault.keepsWrites {
		m.active, m.bytes = &writes{}, 0
	}
	m.frozen, m.roster, m.marks, m.sparse = nil, nil, nil, nil
	m.index, m.time = number(r.Get(indexKey)), int64(number(r.Get(timeKey)))
	m.durable.Store(m.index)
	known := false
	if m.sum, known, err = decodeDigest(r.Get(digestKey), m.index); err == nil && !known { // of an older version, or new
		m.sum, err = count(context.Background(), r)
	}
	if err != nil {
		return errStore(err)
	}
	if b := r.Get(viewKey); b != nil {
		if m.roster, err = m.readable(b); err != nil {
			return errStore(err)
		}
	}
	m.freezes++
	m.publish()
	return nil
}

// readable returns a roster, if this program understands the version that is in force by it.
func (m *machine) readable(b []byte) (*roster, error) {
	r, err := decodeRoster(b)
	if err == nil {
		err = r.Old(m.knows)
	}
	return r, err
}

// publish shows what was applied to those who read.
func (m *machine) publish() {
	g := &generation{freezes: m.freezes, index: m.index, sum: m.sum, gone: m.roster == nil}
	if m.active.Len() > 0 {
		g.over = append(g.over, m.active.Copy())
	}
	if m.frozen != nil {
		g.over = append(g.over, m.frozen)
	}
	m.now.Store(g)
}

// Durable implements quorum.Machine.
func (m *machine) Durable() uint64 { return m.durable.Load() }

// Apply implements quorum.Machine.
func (m *machine) Apply(entries []quorum.Entry) ([][]byte, error) {
	answers, full, err := m.apply(entries)
	if full {
		m.wait()
	}
	return answers, err
}

// wait waits until what is being written is on the disk.
func (m *machine) wait() {
	m.flushing.Lock()
	defer m.flushing.Unlock()
}

func (m *machine) apply(entries []quorum.Entry) (answers [][]byte, full bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, false, m.err
	}
	if m.roster == nil {
		return nil, false, errNoState
	}
	disk, done, err := m.store.read()
	if err != nil {
		return nil, false, errStore(err)
	}
	defer done()
	v := &view{layers: layers{[]*writes{m.active}, disk}}
	if m.frozen != nil {
		v.over = append(v.over, m.frozen)
	}
	before := m.roster
	written := before
	for _, e := range entries {
		if e.Index/m.every > m.index/m.every {
			if err := m.settle(v, &written); err != nil {
				return nil, false, err
			}
			m.mark(e.Index/m.every*m.every - 1)
		}
		v.pending, v.err = v.pending[:0], nil
		answer, err := m.one(v, e)
		if err != nil {
			// What came before it stays to be applied again.
			m.err = fmt.Errorf("entry %d: %w", e.Index, err)
			return nil, false, m.err
		}
		if v.err != nil {
			answer = encodeError(v.err)
		} else if err := m.setAll(v); err != nil {
			m.err = fmt.Errorf("entry %d: %w", e.Index, err)
			return nil, false, m.err
		}
		m.index = e.Index
		answers = append(answers, answer)
		if m.applied != nil {
			m.applied(e.Index, e.Data, answer)
		}
	}
	if err := m.settle(v, &written); err != nil {
		return nil, false, err
	}
	m.active.Set(string(digestKey), encodeDigest(m.index, m.sum))
	m.publish()
	if m.roster != before {
		v := m.roster.View
		m.changed(&v)
	}
	if m.bytes >= flushBytes {
		m.urge()
	}
	return answers, m.bytes >= mostBytes, nil
}

// settle writes what commands change besides, so that the state is the same on all nodes that have applied as much, however they were given it.
func (m *machine) settle(v *view, written **roster) error {
	v.pending = v.pending[:0]
	v.Set(timeKey, ofNumber(uint64(m.time)))
	v.Set(indexKey, ofNumber(m.index))
	if m.roster != *written {
		v.Set(viewKey, m.roster.encode())
		*written = m.roster
	}
	if err := m.setAll(v); err != nil {
		m.err = fmt.Errorf("entry %d: %w", m.index, err)
		return m.err
	}
	return nil
}

// setAll takes over what a command has written.
func (m *machine) setAll(v *view) error {
	return Sound(func() error {
		for _, w := range v.pending {
			if key := []byte(w.key); counted(key) {
				if old := v.Get(key); old != nil {
					m.sum -= sumOf(key, old)
				}
				if w.value != nil {
					m.sum += sumOf(key, w.value)
				}
			}
			m.active.Set(w.key, w.value)
			m.bytes += len(w.key) + len(w.value)
		}
		return nil
	})
}

// one applies a command. One that cannot be, for a mistake in package meta, has written nothing, and
// is refused everywhere: else no replica could go on. When it is this node's state that makes no sense, the others have done what
// was to be done, and this one has to end; so it has when it could not read its state for a moment: after a start it applies the command. One that is not known
// here is known to others: errNewer.
func (m *machine) one(v *view, e quorum.Entry) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("a command has panicked", "entry", e.Index, "panic", p, "stack", string(debug.Stack()))
			v.pending = v.pending[:0]
			answer, err = encodeError(fmt.Errorf("internal error in entry %d", e.Index)), agrees(context.Background(), v.layers, m.sum)
			if err == nil && isMisread(p) {
				err = fmt.Errorf("names: the state on the disk could not be read once, and can be now: start the node again, and look whether its disk or memory fails: %v", p)
			}
		}
	}()
	if len(e.Data) == 0 {
		return encodeError(errors.New("names: a command of no bytes")), nil
	}
	if n := needs(e.Data); n > m.knows {
		return nil, newer(fmt.Errorf("it takes version %d, and this program understands %d", n, m.knows))
	}
	kind, data := e.Data[0], e.Data[1:]
	if kind == kindMeta {
		c, err := meta.DecodeCommand(data)
		if err != nil {
			return nil, newer(err)
		}
		// The clocks of those who lead one after the other differ. One that was wrong by far is not followed for good.
		if m.time-c.Time > mostAhead || c.Time > m.time {
			m.time = c.Time
		}
		c.Time = m.time
		if m.fault.forgetsCalls {
			c.Client = ""
		}
		r, err := m.fault.apply(v, c)
		if err != nil && !isMeta(err) {
			return encodeError(err), nil
		}
		return append([]byte{isAnswer}, meta.EncodeAnswer(r, err)...), nil
	}
	next, err := m.ring(kind, data, e.Index)
	switch {
	case errors.Is(err, errNewer):
		return nil, err
	case err != nil:
		return encodeError(err), nil
	}
	m.roster = next
	return []byte{isAnswer}, nil
}

func isMeta(err error) bool { _, is := errors.AsType[*meta.Error](err); return is }

// ring applies a command about the ring and its members.
func (m *machine) ring(kind byte, data []byte, index uint64) (*roster, error) {
	switch kind {
	case kindRing:
		e, err := decodeEvent(data)
		if err != nil {
			return nil, newer(err)
		}
		return m.roster.event(e, index)
	case kindAdmit:
		who, err := decodeMember(data)
		if err != nil {
			return nil, newer(err)
		}
		return m.roster.admit(who, index)
	case kindSeat:
		return m.roster.sit(string(data), index)
	case kindUnseat:
		return m.roster.stand(string(data), index)
	case kindRaise:
		c, err := decodeRaise(data)
		if err != nil {
			return nil, newer(err)
		}
		return m.roster.raise(c, index)
	}
	return nil, newer(fmt.Errorf("a command of kind %d", kind))
}

// view is the state as one command reads it, with what it writes aside.
type view struct {
	layers
	pending []struct {
		key   string
		value []byte
	}
	err error
}

func (v *view) Set(key, value []byte) {
	if len(key) > bolt.MaxKeySize || len(value) > bolt.MaxValueSize {
		v.err = fmt.Errorf("write the state: a key of %d bytes with %d is too large", len(key), len(value))
	}
	v.pending = append(v.pending, struct {
		key   string
		value []byte
	}{string(key), value})
}

func (v *view) Delete(key []byte) { v.Set(key, nil) }

// freeze sets aside what was applied, to be written by commit, which has to follow. It reports whether
// there is anything.
func (m *machine) freeze() bool {
	m.flushing.Lock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active.Len() == 0 || m.err != nil {
		m.flushing.Unlock()
		return false
	}
	m.frozen, m.active, m.bytes = m.active, &writes{}, 0
	if m.fault.durableEarly {
		m.durable.Store(m.index)
	}
	m.freezes++
	m.publish()
	return true
}

// commit writes to the disk what was frozen. After an error the machine applies nothing any more.
func (m *machine) commit() error {
	defer m.flushing.Unlock()
	b, _ := m.frozen.Get(string(indexKey)) // each batch sets it
	err := m.store.write(m.frozen)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.err = errStore(err)
		return m.err
	}
	m.frozen = nil
	m.durable.Store(number(b))
	m.publish()
	return nil
}

// flush is freeze and commit.
func (m *machine) flush() error {
	if !m.freeze() {
		return nil
	}
	return m.commit()
}

// read returns the state as everything that was answered has left it, the index of its last entry, and what
// is to be called when it is not needed any more.
func (m *machine) read() (meta.Reader, uint64, func(), error) {
	g, r, done, err := m.look()
	if err != nil {
		return nil, 0, nil, err
	}
	return r, g.index, done, nil
}

// look is read, with all that is known of the state.
func (m *machine) look() (*generation, meta.Reader, func(), error) {
	for {
		g := m.now.Load()
		if g.gone {
			return nil, nil, nil, errNoState
		}
		disk, done, err := m.store.read()
		if err != nil {
			return nil, nil, nil, errStore(err)
		}
		// What is on the disk must not be newer than what lies above it.
		if m.now.Load().freezes == g.freezes {
			return g, layers{g.over, disk}, done, nil
		}
		done()
	}
}

// agreed returns what this node has applied of the view, or nil.
func (m *machine) agreed() *View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.roster == nil {
		return nil
	}
	v := m.roster.View
	return &v
}
