package checkpoint

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt: files of an image are missing or not what was written. The error
	// is a *CorruptError. Use an older image, or start the task again.
	ErrCorrupt = errors.New("checkpoint is damaged")
	// ErrNeedsFull: this dump cannot be incremental. Abort it, and dump again with
	// BeginOptions.Full.
	ErrNeedsFull = errors.New("the task has mappings that CRIU restores only from a full checkpoint")
	// ErrBusy: another process, or another part of this one, writes or reads an
	// image of this task, and longer than the store's patience lasts. It passes.
	ErrBusy = errors.New("another checkpoint or restore of the task is in progress")
	// ErrUnreadable: the machine could not read an image now: too few descriptors, too
	// little memory, a device that reports errors. It says nothing about the image; the
	// error wraps the system's. Try again later.
	ErrUnreadable = errors.New("the checkpoint cannot be read now")
	// ErrNoSpace: the store has too little room for the dump, or the scratch directory
	// for a restore.
	ErrNoSpace = errors.New("too little room for a checkpoint")
	// ErrVersion: the image was written by a newer Headrace, whose format this one
	// does not know.
	ErrVersion = errors.New("checkpoint was written by a newer version")
)

// A CorruptError tells which file of which image is damaged.
type CorruptError struct {
	Task string
	Seq  int
	File string // path, or the path of the directory if that is the problem
	Err  error  // what was found
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("checkpoint %d of task %s is damaged: %s: %v", e.Seq, e.Task, e.File, e.Err)
}

func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }
