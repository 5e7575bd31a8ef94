package block

import (
	"errors"
	"fmt"
)

// Kinds of errors; test with errors.Is.
var (
	// ErrNotFound: there is no such replica here.
	ErrNotFound = errors.New("no replica of the block")
	// ErrExists: there is a replica already.
	ErrExists = errors.New("a replica of the block is here already")
	// ErrFenced: the generation stamp is older than one that was promised to somebody
	// else, or the writer was taken off by a later one.
	ErrFenced = errors.New("fenced by a newer generation")
	// ErrState: the replica is in a state, or has a length, to which that cannot be done.
	ErrState = errors.New("not in the state for that")
	// ErrFull: there is no room, or none that may be used for this.
	ErrFull = errors.New("no room on the disk")
	// ErrNoEnd: there is room, but only on a disk that cannot read where the file has its end. It is an ErrFull.
	ErrNoEnd = errors.New("the end of the file is not known")
	// ErrDamaged: what is on the disk is not what was written. The replica was reported.
	ErrDamaged = errors.New("the replica is damaged")
	// ErrChanged: the replica was cut or deleted while it was read.
	ErrChanged = errors.New("the replica was changed")
	// ErrOut: the disk was taken out.
	ErrOut = errors.New("the disk is out of use")
	// ErrClosed: the store, writer or reader was closed.
	ErrClosed = errors.New("closed")
)

// refused adds what was asked of which block to a kind of error.
func refused(kind error, id int64, format string, args ...any) error {
	return fmt.Errorf("block %d: %w: %w", id, kind, fmt.Errorf(format, args...))
}
