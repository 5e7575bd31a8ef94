package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/wire"
)

const (
	// maxPaths is how many paths one request may name.
	maxPaths = 100000
	// maxSearches is how many directory trees may be searched for one user at a
	// time, so that nobody keeps the disks busy with names.
	maxSearches = 4
	// maxProblems is how many files one answer tells of by name.
	maxProblems = 20
)

// credentials are what the caller's files are looked up and opened with. A
// daemon of an ordinary user acts as that user for everybody it serves.
func (c caller) credentials() (linux.Credentials, error) {
	if euid := os.Geteuid(); euid != 0 {
		return linux.Credentials{UID: uint32(euid), GID: uint32(os.Getegid())}, nil
	}
	return credentialsOf(c.uid, c.gid)
}

// credentialsOf has the groups that the user database says. An account that is
// not there has none but gid.
func credentialsOf(uid, gid uint32) (linux.Credentials, error) {
	cred := linux.Credentials{UID: uid, GID: gid, Groups: []uint32{gid}}
	if uid == 0 {
		return cred, nil
	}
	who, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if errors.As(err, new(user.UnknownUserIdError)) {
		return cred, nil
	}
	if err != nil {
		return cred, fmt.Errorf("look up user %d: %w", uid, err)
	}
	cred.Groups, err = groupsOf(who)
	return cred, err
}

// userName is for people.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if who, err := user.LookupId(id); err == nil {
		return who.Username
	}
	return id
}

// checkInputPaths refuses paths that cannot be looked up.
func checkInputPaths(paths []string) error {
	switch {
	case len(paths) == 0:
		return refusal("no path is given")
	case len(paths) > maxPaths:
		return refusal("%d paths; at most %d are allowed: name directories or patterns", len(paths), maxPaths)
	}
	for _, p := range paths {
		switch {
		case strings.IndexByte(p, 0) >= 0:
			return refusal("a path contains a NUL byte")
		case len(p) > maxPath:
			return refusal("a path has %d bytes; the kernel takes at most %d", len(p), maxPath)
		case !filepath.IsAbs(p):
			return refusal("the path %q is relative; the daemon has another working directory, so give an absolute path", p)
		}
	}
	return nil
}

// searches bounds how many searches each user has at a time; more of them wait.
// The zero value works.
type searches struct {
	most int // 0: maxSearches
	mu   sync.Mutex
	open map[uint32]*searchPlaces
}

// searchPlaces are those of one user.
type searchPlaces struct {
	taken chan struct{}
	users int // that have one or wait for one
}

// begin waits for a place, which end gives back.
func (s *searches) begin(ctx context.Context, uid uint32) (end func(), err error) {
	s.mu.Lock()
	p := s.open[uid]
	if p == nil {
		p = &searchPlaces{taken: make(chan struct{}, cmp.Or(s.most, maxSearches))}
		if s.open == nil {
			s.open = map[uint32]*searchPlaces{}
		}
		s.open[uid] = p
	}
	p.users++
	s.mu.Unlock()
	select {
	case p.taken <- struct{}{}:
		return func() { <-p.taken; s.leave(uid, p) }, nil
	case <-ctx.Done():
		s.leave(uid, p)
		return nil, ctx.Err()
	}
}

func (s *searches) leave(uid uint32, p *searchPlaces) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(s.open, uid)
	}
}

// find is fileset.Find with somebody's rights; the visitor has them too.
func (s *searches) find(ctx context.Context, cred linux.Credentials, paths []string, v fileset.Visitor) error {
	end, err := s.begin(ctx, cred.UID)
	if err != nil {
		return err
	}
	defer end()
	return linux.AsUser(cred, func() error { return fileset.Find(ctx, paths, v) })
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

// pathProblem has the path and what is wrong with it, each once.
func pathProblem(path string, err error) *wire.PathProblem {
	var with *fileset.Problem
	var named *os.PathError
	switch {
	case errors.As(err, &with):
		err = with.Err
	case errors.As(err, &named):
		err = named.Err
	}
	return &wire.PathProblem{Path: shown(path), Reason: shown(err.Error())}
}

// shown is a name as the protocol can carry it.
func shown(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
