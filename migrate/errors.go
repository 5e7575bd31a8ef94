package migrate

import "errors"

var (
	// ErrNone: no entry of this key is there for the claimant. The error says of each
	// entry that was looked at why it was not taken. Start the command afresh.
	ErrNone = errors.New("no archived checkpoint can be used")
	// ErrLost: the claim is no longer the claimant's, because it was not renewed in
	// time. Restore nothing of it, and undo what was unpacked.
	ErrLost = errors.New("the claim was given to another, or its entry was removed")
	// ErrUnclear: it is open whether an entry was put. See Archive.Put.
	ErrUnclear = errors.New("it is not known whether the checkpoint can be claimed by others")
	// ErrTaken: somebody has claimed the entry.
	ErrTaken = errors.New("the checkpoint was claimed")
	// ErrForged: a manifest was not made by a holder of the cluster's token.
	ErrForged = errors.New("the manifest does not carry the mark of the cluster's token: it was made with another one, or by nobody who has it")
	// ErrCorrupt: an entry is not what was put.
	ErrCorrupt = errors.New("archived checkpoint is damaged")
	// ErrVersion: an entry was made by a newer Headrace.
	ErrVersion = errors.New("archived checkpoint was made by a newer version")
	// ErrConflict: a file that would be unpacked is there already, and differs.
	ErrConflict = errors.New("a file of this name exists and differs")
	// ErrUncarried: a file cannot be carried to another machine.
	ErrUncarried = errors.New("cannot be carried to another machine")

	// ErrElsewhere: a checkpoint that was sent cannot be taken back.
	ErrElsewhere = errors.New("its checkpoint goes on on another machine")
	// ErrNothing: nothing waits that a command could go on from here.
	ErrNothing = errors.New("no checkpoint of this command waits")
	// ErrUnknown: the archive does not answer, or this machine cannot say what it is.
	ErrUnknown = errors.New("it is not known whether a checkpoint of it waits")
	// ErrBegun: an earlier daemon may have begun to restore the checkpoint.
	ErrBegun = errors.New("the daemon ended when it was about to be restored")
)
