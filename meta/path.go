package meta

import (
	"strconv"
	"strings"
)

// Limits on paths (HDFS's NameNode refuses longer ones).
const (
	maxPath  = 8000 // characters
	maxDepth = 1000
)

// trail is a path with what lies on it: as many inodes as names, the first of them the
// root's, nil where there is nothing. Names after a file have none.
type trail struct {
	names []string // the root's is empty
	nodes []*inode
}

func (t *trail) last() *inode { return t.nodes[len(t.nodes)-1] }
func (t *trail) name() string { return t.names[len(t.names)-1] }
func (t *trail) root() bool   { return len(t.names) == 1 }

// parent returns the directory that the last name is in, or nil.
func (t *trail) parent() *inode {
	if t.root() {
		return nil
	}
	return t.nodes[len(t.nodes)-2]
}

// upTo is the path of the i-th inode.
func (t *trail) upTo(i int) string {
	if i <= 0 {
		return "/"
	}
	return strings.Join(t.names[:i+1], "/")
}

func (t *trail) path() string       { return t.upTo(len(t.names) - 1) }
func (t *trail) parentPath() string { return t.upTo(len(t.names) - 2) }

// existing is how many inodes there are from the root down.
func (t *trail) existing() int {
	for i, n := range t.nodes {
		if n == nil {
			return i
		}
	}
	return len(t.nodes)
}

// purpose is what a path is resolved for (HDFS's DirOp).
type purpose int

const (
	toRead purpose = iota
	toWrite
	toCreate // the name may be new, so it is checked, and a file in the way is named as such
)

// split returns the names of a path. Several slashes are one, one at the end is none.
func split(path string) ([]string, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fail(classAssertion, "Absolute path required, but got '%s'", path)
	}
	names := []string{""}
	for name := range strings.SplitSeq(path, "/") {
		if name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

// validName reports whether something may be created under a path (DFSUtilClient.isValidName).
func validName(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		switch {
		case part == ".", strings.Contains(part, ":"), part == "" && i != 0 && i != len(parts)-1:
			return false
		case part == ".." && !(len(parts) > 4 && parts[1] == reserved && parts[2] == ".inodes"):
			return false
		}
	}
	return true
}

const (
	reserved     = ".reserved"
	reservedPath = "/" + reserved
	snapshotName = ".snapshot"
)

// shortEnough refuses paths that are too long for a new name.
func shortEnough(what, path string) error {
	names, err := split(path)
	if err == nil && (len(path) > maxPath || len(names)-1 > maxDepth) {
		return fail(classIO, "%s: Pathname too long.  Limit %d characters, %d levels.", what, maxPath, maxDepth)
	}
	return nil
}

// resolve looks up a path as the caller may: all on the way is a directory that the caller
// may pass.
func (s *state) resolve(path string, to purpose) (*trail, error) {
	if to == toCreate && !validName(path) {
		return nil, fail(classInvalidPath, "Invalid path name Invalid file name: %s", path)
	}
	names, err := split(path)
	if err != nil {
		return nil, err
	}
	raw := len(names) > 2 && names[1] == reserved && names[2] == "raw"
	if names, err = s.unreserve(names, path); err != nil {
		return nil, err
	}
	t := s.walk(names)
	if raw && to != toRead {
		if err := s.privileged(); err != nil {
			return nil, err
		}
	}
	if err := s.passable(t); err != nil {
		if e := err.(*Error); e.Class == classParentNoDir && to != toCreate {
			return nil, fail(classAccess, "%s", e.Message)
		}
		return nil, err
	}
	return t, nil
}

// walk looks up names from the root.
func (s *records) walk(names []string) *trail {
	t := &trail{names, make([]*inode, len(names))}
	n := s.directory(rootID)
	for i := range names {
		if t.nodes[i] = n; n == nil || !n.Directory || i == len(names)-1 {
			break
		}
		n = s.child(n, names[i+1])
	}
	return t
}

// unreserve turns paths below /.reserved/.inodes and /.reserved/raw into what they stand for.
func (s *records) unreserve(names []string, path string) ([]string, error) {
	switch {
	case len(names) < 3 || names[1] != reserved:
	case names[2] == ".inodes" && len(names) > 3:
		return s.numbered(names, path)
	case names[2] == "raw" && !(len(names) == 4 && names[3] == reserved):
		return append([]string{""}, names[3:]...), nil
	}
	return names, nil
}

// numbered resolves /.reserved/.inodes/NUMBER/...
func (s *records) numbered(names []string, path string) ([]string, error) {
	id, err := strconv.ParseInt(names[3], 10, 64)
	if err != nil {
		return nil, fail(classNotFound, "Invalid inode path: %s", path)
	}
	n := s.byNumber(uint64(id))
	if n == nil {
		return nil, fail(classNotFound, "File for given inode path does not exist: %s", path)
	}
	t := s.upwards(n)
	if t == nil {
		return nil, fail(classNotFound, "File for given inode path does not exist: %s", path)
	}
	if len(names) > 4 && names[4] == ".." {
		return t.names[:max(1, len(t.names)-1)], nil
	}
	return append(t.names, names[4:]...), nil
}

// upwards returns the trail to an inode, or nil when it was deleted.
func (s *records) upwards(n *inode) *trail {
	var nodes []*inode
	for at := n; at != nil; at = s.directory(at.Parent) {
		nodes = append(nodes, at)
		if at.ID == rootID {
			t := &trail{}
			for i := len(nodes) - 1; i >= 0; i-- {
				t.names, t.nodes = append(t.names, nodes[i].Name), append(t.nodes, nodes[i])
			}
			return t
		}
	}
	return nil
}

// byNumberOrPath finds a file that is written: by its number when the client knows it, as
// it may have been renamed meanwhile.
func (s *state) byNumberOrPath(path string, id uint64) (*trail, error) {
	if id == 0 {
		return s.resolve(path, toWrite)
	}
	if n := s.byNumber(id); n != nil {
		if t := s.upwards(n); t != nil {
			return t, nil
		}
	}
	names, err := split(path)
	if err != nil {
		return nil, err
	}
	return &trail{names, make([]*inode, len(names))}, nil
}

// file returns the file at the end of a trail.
func (t *trail) file(path string) (*inode, error) {
	switch n := t.last(); {
	case n == nil:
		return nil, fail(classNotFound, "File does not exist: %s", path)
	case n.Directory:
		return nil, fail(classNotFound, "Path is not a file: %s", path)
	default:
		return n, nil
	}
}

// there returns what is at the end of a trail.
func (t *trail) there() (*inode, error) {
	if n := t.last(); n != nil {
		return n, nil
	}
	return nil, fail(classNotFound, "cannot find %s", t.path())
}

// fits reports whether a name may be added to a directory, as HDFS's limits have it.
func (s *records) fits(dir *inode, dirPath, name string) error {
	switch {
	case len(name) > s.config.MaxName:
		return fail(classNameTooLong, "The maximum path component name limit of %s in directory %s is exceeded: limit=%d length=%d",
			name, dirPath, s.config.MaxName, len(name))
	case dir != nil && dir.Children >= uint64(s.config.MaxEntries):
		return fail(classTooManyItems, "The directory item limit of %s is exceeded: limit=%d items=%d", dirPath, s.config.MaxEntries, dir.Children)
	}
	return nil
}

// notReserved refuses names that nothing may have.
func notReserved(dir *inode, name string) error {
	switch {
	case dir.ID == rootID && name == reserved:
		return fail(classHadoopArgument, "File name \"%s\" is reserved and cannot be created. If this is during upgrade change the name of the "+
			"existing file or directory to another name before upgrading to the new release.", name)
	case name == snapshotName:
		return fail(classHadoopArgument, "\"%s\" is a reserved name.", name)
	}
	return nil
}
