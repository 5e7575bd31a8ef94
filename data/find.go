package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/serve"
	"headrace/wire"
)

const (
	// maxPath is the length of the longest path, in bytes.
	maxPath = unix.PathMax - 1
	// maxPaths is how many paths one request may name.
	maxPaths = 100000
	// maxSearches is how many directory trees may be searched for one user at a
	// time, so that nobody keeps the disks busy with names.
	maxSearches = 4
	// maxProblems is how many files one answer tells of by name.
	maxProblems = 20
)

// checkPaths refuses paths that cannot be looked up.
func checkPaths(paths []string) error {
	switch {
	case len(paths) == 0:
		return serve.Refusal("no path is given")
	case len(paths) > maxPaths:
		return serve.Refusal("%d paths; at most %d are allowed: name directories or patterns", len(paths), maxPaths)
	}
	for _, p := range paths {
		switch {
		case strings.IndexByte(p, 0) >= 0:
			return serve.Refusal("a path contains a NUL byte")
		case len(p) > maxPath:
			return serve.Refusal("a path has %d bytes; the kernel takes at most %d", len(p), maxPath)
		case !filepath.IsAbs(p):
			return serve.Refusal("the path %q is relative; the daemon has another working directory, so give an absolute path", p)
		}
	}
	return nil
}

// searches bounds how many searches each user has at a time, of which more wait, and what these keep of names.
type searches struct {
	budget.Slots[uint32]
	memory *budget.Budget
}

func newSearches() searches {
	return searches{budget.Slots[uint32]{Most: maxSearches}, newNamesMemory()}
}

// findAs does as fileset.Find, with somebody's rights; the visitor has them too.
func (s *searches) findAs(ctx context.Context, cred linux.Credentials, paths []string, v fileset.Visitor) error {
	v.Remember = func(n int64) error { return s.remember(cred.UID, n) }
	return linux.AsUser(cred, func() error { return fileset.Find(ctx, paths, v) })
}

// remember is the fileset.Visitor.Remember of a search for a user.
func (s *searches) remember(uid uint32, n int64) error {
	if n < 0 {
		s.memory.Give(uid, -n)
		return nil
	}
	if err := s.memory.Take(uid, n); err != nil {
		return fmt.Errorf("%w: %w", serve.ErrBusy, err)
	}
	return nil
}

// find does as findAs when it has a slot.
func (s *searches) find(ctx context.Context, cred linux.Credentials, paths []string, v fileset.Visitor) error {
	end, err := s.Begin(ctx, cred.UID)
	if err != nil {
		return err
	}
	defer end()
	return s.findAs(ctx, cred, paths, v)
}

// problems collects what could not be done with files, the first by name.
type problems struct {
	count uint32
	first []*wire.PathProblem
}

func (p *problems) add(path string, err error) {
	p.count++
	if len(p.first) < maxProblems {
		p.first = append(p.first, pathProblem(path, err))
	}
}

// pathProblem says the path and what is wrong with it, each once.
func pathProblem(path string, err error) *wire.PathProblem {
	var with *fileset.Problem
	var named *os.PathError
	switch {
	case errors.As(err, &with):
		err = with.Err
	case errors.As(err, &named):
		err = named.Err
	}
	return &wire.PathProblem{Path: serve.Shown(path), Reason: serve.Shown(err.Error())}
}
