package warm

import (
	"cmp"
	"fmt"
	"slices"
)

// FileOf names a file of a request, by its path and where its part begins.
type FileOf struct {
	Request RequestID
	File
}

// FileStatus is how a request stands with one of its files, in bytes as in Status. One that it does not have
// is not Known.
type FileStatus struct {
	Pinned, Resident, Read, NotFit int64
	Known, Failed                  bool
	// Done: nothing is left to be done.
	Done bool
	// Reason is why it has failed or does not fit, if that is known still.
	Reason string
}

// Put accepts a request as Add does, or adds its files to those of the request with its ID; what else is
// said of them counts for all its files from now on. It fails with ErrRequest and ErrClosed.
func (e *Engine) Put(q Request) error {
	if err := q.Validate(); err != nil {
		return err
	}
	e.mu.Lock()
	r := e.requests[q.ID]
	if r == nil {
		e.mu.Unlock()
		return e.Add(q)
	}
	defer e.mu.Unlock()
	failed := r.failedFiles
	if err := r.add(q.Files); err != nil {
		return err
	}
	e.counters.FailedFiles += int64(r.failedFiles - failed)
	r.Bytes, r.Seq, r.Implicit, r.Budget = cmp.Or(q.Bytes, r.size), q.Seq, q.Implicit, q.Budget
	assigner{Engine: e, r: r}.start()
	e.kickAll() // others may come first now
	return nil
}

// Drop takes files out of a request. What is locked of them is released soon after, but for others. A request without
// files ends. It fails with ErrUnknown; a file that the request does not have is no error.
func (e *Engine) Drop(id RequestID, files []File) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.requests[id]
	if r == nil {
		return fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	var free []*block
	gone := make(map[int32]bool, len(files))
	for _, f := range files {
		if file, ok := r.find(f); ok && !gone[int32(file)] {
			gone[int32(file)] = true
			free = append(free, r.giveUp(file)...)
		}
	}
	r.byPath = slices.DeleteFunc(r.byPath, func(f int32) bool { return gone[f] })
	r.failures = slices.DeleteFunc(r.failures, func(f Failure) bool { return len(r.named(f.Path)) == 0 })
	if len(r.byPath) == 0 {
		free = append(free, e.end(r)...)
	}
	e.kickAll()
	e.letGoSoon(free)
	return nil
}

// Files tells how it stands with files, of all at one time.
func (e *Engine) Files(files []FileOf) []FileStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]FileStatus, len(files))
	for i, f := range files {
		if r := e.requests[f.Request]; r != nil {
			all[i] = r.fileStatus(f.File)
		}
	}
	return all
}

func (r *request) fileStatus(f File) FileStatus {
	file, known := r.find(f)
	if !known {
		return FileStatus{}
	}
	s := FileStatus{Known: true, Done: true}
	for pos := r.start[file]; pos < r.start[file+1]; pos++ {
		n := r.part(file, pos).Len
		switch r.state[pos] {
		case remaining:
			s.Done = false
		case pinned:
			s.Pinned += n
		case resident:
			s.Resident += n
		case read:
			s.Read += n
		case notFit:
			s.NotFit += n
			s.Reason = r.notFitReason
		case failed:
			s.Failed = true
		}
	}
	if s.Failed {
		s.Reason = ""
		if i := slices.IndexFunc(r.failures, func(o Failure) bool { return o.Path == f.Path }); i >= 0 {
			s.Reason = r.failures[i].Reason
		}
	}
	return s
}
