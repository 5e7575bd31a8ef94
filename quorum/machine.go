package quorum

import "io"

// Entry is a command that a group has agreed on.
type Entry struct {
	Index uint64
	Data  []byte
}

// Machine is the state of one group on this node. Methods but Snapshot's reader are called
// by one goroutine at a time. An error stops the node.
type Machine interface {
	// Durable returns the index of the last entry in the state that would survive a power
	// failure; zero for a state that nothing was applied to. The machine stores it with the
	// state, atomically. After a start, entries behind it are applied again; all of them are
	// kept until then. It may lag behind Apply, but must never be ahead of what is durable.
	Durable() uint64
	// Apply applies entries in order and returns an answer for each. Indexes grow, not always
	// by one. It is deterministic: all replicas come to the same state. Data is not to be
	// changed, and answers are not looked at.
	Apply([]Entry) (answers [][]byte, err error)
	// Snapshot returns the state as it is now as bytes, to be read beside later calls.
	Snapshot() (io.ReadCloser, error)
	// Restore replaces the state by that of a snapshot, with the index that Durable
	// returns from then on: durably, and either wholly or not at all.
	Restore(index uint64, r io.Reader) error
}
