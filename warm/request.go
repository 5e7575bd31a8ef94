package warm

import (
	"errors"
	"fmt"

	"headrace"
	"headrace/internal/linux"
)

// Kinds of errors; test with errors.Is.
var (
	// ErrRequest: the request makes no sense. The text says what to change.
	ErrRequest = errors.New("bad warm request")
	// ErrExists: there is a request with this ID already.
	ErrExists = errors.New("there is such a request already")
	// ErrUnknown: there is no such request, or not any more.
	ErrUnknown = errors.New("no such request")
	// ErrClosed: the engine has been closed.
	ErrClosed = errors.New("warming has ended")
	// ErrHangs: a disk or file server does not answer.
	ErrHangs = errors.New("no answer")
)

// RequestID names a request. The caller chooses it.
type RequestID string

// File is one file of a request.
type File struct {
	// Path is absolute and clean.
	Path string `json:"path"`
	// Size is how many bytes are wanted, from Off on: of a whole file, its size when
	// it was listed. Off may lie within a page.
	Size int64 `json:"size"`
	Off  int64 `json:"offset,omitempty"`
}

// Request asks for files to be kept in memory. It is a plain value that may be
// written as JSON and given again.
type Request struct {
	ID RequestID `json:"id"`
	// Job is who will read the files. The request ends with it. Empty: the request
	// lasts until a user lets it go; Hold must be set then.
	Job headrace.JobID `json:"job,omitempty"`
	// Hold says that there is no job.
	Hold bool `json:"hold,omitempty"`
	// Owner is with whose rights the files are opened.
	Owner linux.Credentials `json:"owner"`
	// Files in the order in which they will be read; further mentions of a path with the same Off
	// count for nothing. The engine keeps the slice: it must not be changed.
	Files []File `json:"files"`
	// Bytes is the size of all of the job's input, by which it gets its place in
	// the queue; 0: that of Files.
	Bytes int64 `json:"bytes,omitempty"`
	// Seq is the place in the sequence of submission.
	Seq uint64 `json:"order"`
	// Implicit: what the job has read is let go at once, not only when it ends.
	Implicit bool `json:"implicit,omitempty"`
	// Leave: what is in memory without being locked, and goes, is not read again: whoever asks sees that, and asks again.
	Leave bool `json:"leave,omitempty"`
	// Budget is how many bytes may be locked for this request; 0: as many as the
	// budget of all allows. Blocks that are locked for others too count in full.
	Budget int64 `json:"budget,omitempty"`
}

// Validate says what is wrong with q, all of it, or returns nil. Files that
// cannot be warmed do not make a request wrong; they count as failed.
func (q *Request) Validate() error {
	var errs []error
	if q.ID == "" {
		errs = append(errs, errors.New("it has no ID"))
	}
	if (q.Job == "") != q.Hold {
		errs = append(errs, errors.New("give either a job or Hold"))
	}
	if q.Bytes < 0 || q.Budget < 0 {
		errs = append(errs, fmt.Errorf("%d bytes with a budget of %d: neither can be negative", q.Bytes, q.Budget))
	}
	if len(q.Files) > maxFiles {
		errs = append(errs, fmt.Errorf("%d files: give several requests of at most %d", len(q.Files), maxFiles))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return nil
}

const (
	maxFiles = 1 << 27
	// maxFileBlocks bounds the memory that one file costs: with blocks of 16 MiB
	// it is 4 MiB for 64 TiB. Sparse files can be much larger.
	maxFileBlocks = 1 << 22
	// maxBlocks is how many blocks a request can have.
	maxBlocks = 1 << 30
)
