package proc

import (
	"errors"
	"fmt"
)

// Kinds of errors that callers act on; test with errors.Is.
var (
	// ErrGone: the task has ended, or its supervisor has vanished.
	ErrGone = errors.New("the task has no processes any more")
	// ErrNotCheckpointable: the task holds something that cannot be dumped; it
	// runs on unharmed. The error text says what.
	ErrNotCheckpointable = errors.New("cannot be checkpointed")
	// ErrCheckpointLater: the task holds something that cannot be dumped and that may pass
	// while it runs, such as events that it has not read yet. The error text says
	// what.
	ErrCheckpointLater = errors.New("cannot be checkpointed at the moment")
	// ErrUnsupported: this machine or user cannot do it at all.
	ErrUnsupported = errors.New("not possible here")
	// ErrNotStopped: some process could not be stopped in time; the task goes on.
	ErrNotStopped = errors.New("could not be stopped")
	// ErrNotNow: nothing is wrong with the task or its checkpoint, but the machine
	// cannot do it at the moment; try again later. The error text says why.
	ErrNotNow = errors.New("not possible now")
	// ErrNoAnswer: the supervisor of the task has not answered in time, and may do what was
	// asked of it all the same.
	ErrNoAnswer = fmt.Errorf("%w: its supervisor does not answer", ErrNotNow)
	// ErrNoImage: no usable checkpoint was found, and there will be none.
	ErrNoImage = errors.New("no usable checkpoint")
	// ErrNotRestorable: what the task had open is not what it was; the checkpoint stays, and can be used once that is put back. The
	// error text says what.
	ErrNotRestorable = errors.New("cannot be restored as things are")
	// ErrNoSpace: the checkpoint store or the swap area is full.
	ErrNoSpace = errors.New("no space left")
	// ErrState: the operation makes no sense in the task's state.
	ErrState = errors.New("wrong state")
	// ErrStalled: CRIU made no progress and was ended.
	ErrStalled = errors.New("CRIU made no progress")
	// ErrAbandoned: the process that the task was to run for went away; nothing runs.
	ErrAbandoned = errors.New("whoever it was started for has gone")
)

// kindNames are the kinds as they travel between the daemon, the shim and its
// helpers.
var kindNames = map[string]error{
	"gone": ErrGone, "not-checkpointable": ErrNotCheckpointable, "checkpoint-later": ErrCheckpointLater, "unsupported": ErrUnsupported,
	"not-stopped": ErrNotStopped, "no-image": ErrNoImage, "not-restorable": ErrNotRestorable, "no-space": ErrNoSpace, "state": ErrState,
	"abandoned": ErrAbandoned, "not-now": ErrNotNow, "stalled": ErrStalled,
}

// KindName returns the name under which the kind of an error travels; empty for
// an error of no kind.
func KindName(err error) string {
	for name, kind := range kindNames {
		if errors.Is(err, kind) {
			return name
		}
	}
	return ""
}

// Remote makes an error again of a text and the name of its kind.
func Remote(kindName, text string) error {
	if kind := kindNames[kindName]; kind != nil {
		return &kindError{text, kind}
	}
	return errors.New(text)
}

type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }
