package proc

import "errors"

// Kinds of errors that callers act on; test with errors.Is.
var (
	// ErrGone: the task has ended, or its supervisor has vanished.
	ErrGone = errors.New("the task has no processes any more")
	// ErrNotCheckpointable: the task holds something that cannot be dumped; it
	// runs on unharmed. The error text says what.
	ErrNotCheckpointable = errors.New("cannot be checkpointed")
	// ErrUnsupported: this machine or user cannot do it at all.
	ErrUnsupported = errors.New("not possible here")
	// ErrNotStopped: some process could not be stopped in time; the task goes on.
	ErrNotStopped = errors.New("could not be stopped")
	// ErrNoImage: no usable checkpoint was found.
	ErrNoImage = errors.New("no usable checkpoint")
	// ErrNoSpace: the checkpoint store or the swap area is full.
	ErrNoSpace = errors.New("no space left")
	// ErrState: the operation makes no sense in the task's state.
	ErrState = errors.New("wrong state")
)
