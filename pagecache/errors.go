package pagecache

import (
	"errors"
	"fmt"
	"os"

	"headrace/internal/linux"
)

// Kinds of errors that callers act on; test with errors.Is.
var (
	// ErrBudget: so much may not be locked besides what is locked now. Release
	// something, and try again. The error is a *BudgetError.
	ErrBudget = errors.New("the budget for locked memory is used up")
	// ErrUnsafeBudget: New was given a budget that this machine cannot bear.
	ErrUnsafeBudget = errors.New("the budget for locked memory is too large")
	// ErrResident: the range was in memory already, half of it or more, and it was not
	// this Pin that read it. To lock it would make memory unevictable that is charged to the
	// cgroup of whoever read it first. Try again later: it may have gone by then.
	ErrResident = errors.New("in memory already")
	// ErrNotRegular: pipes, devices and directories have no page cache of their own
	// that could be followed or locked.
	ErrNotRegular = errors.New("not a regular file")
	// ErrNotCached: the descriptor was opened so that it does not read through the
	// page cache (O_DIRECT), or does not read at all (O_PATH, O_WRONLY).
	ErrNotCached = errors.New("not open for reading through the page cache")
	// ErrLockLimit: the kernel lets this process lock no more memory
	// (RLIMIT_MEMLOCK).
	ErrLockLimit = errors.New("the kernel's limit of locked memory is reached")
	// ErrTooMany: no more files can be watched, for lack of descriptors or of memory.
	ErrTooMany = errors.New("too many files are watched")
	// ErrClosed: the cache, or the watched file, was closed.
	ErrClosed = errors.New("already closed")
	// ErrHangs: a disk or file server does not answer.
	ErrHangs = errors.New("no answer")
)

// A CapabilityError says that this machine or user cannot do something, and what
// it would take. It is errors.ErrUnsupported.
type CapabilityError = linux.MissingError

// A BudgetError tells how much too large a Pin was. It is ErrBudget. All numbers
// are bytes.
type BudgetError struct{ Need, Free, Budget int64 }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %s is wanted, %s of %s is free", ErrBudget, size(e.Need), size(e.Free), size(e.Budget))
}

// Is makes it an ErrBudget.
func (e *BudgetError) Is(target error) bool { return target == ErrBudget }

// fileError says which operation on which file failed.
func fileError(op string, f *os.File, err error) error {
	return &os.PathError{Op: op, Path: f.Name(), Err: err}
}

// size returns a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1e6:
		return fmt.Sprintf("%d bytes", n)
	case n < 1e9:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}
