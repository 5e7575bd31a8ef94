package meta

import (
	"fmt"
	"slices"
)

// Access is what somebody wants to do: bits as in modes.
type Access uint8

const (
	Execute Access = 1
	Write   Access = 2
	Read    Access = 4
	All     Access = 7
)

func (a Access) String() string {
	return [...]string{"NONE", "EXECUTE", "WRITE", "WRITE_EXECUTE", "READ", "READ_EXECUTE", "READ_WRITE", "ALL"}[a&7]
}

const sticky = 0o1000

// symbols returns a mode as ls shows it.
func symbols(mode uint16) string {
	b := []byte("rwxrwxrwx")
	for i := range b {
		if mode&(1<<(8-i)) == 0 {
			b[i] = '-'
		}
	}
	if mode&sticky != 0 {
		b[8] = "Tt"[mode&1]
	}
	return string(b)
}

func (n *inode) kind() string {
	if n.Directory {
		return "d"
	}
	return "-"
}

// demands is what an operation needs of the places on a trail; 0 is nothing. A caller with
// all rights needs none of it (FSPermissionChecker.checkPermission).
type demands struct {
	owner      bool   // the caller owns the last inode
	ancestor   Access // of the lowest directory there is
	parent     Access
	last       Access
	below      Access // of the last inode and of all directories below it
	emptyIsFit bool   // below does not ask empty directories
}

// passable reports whether all inodes but the last are directories that the caller may pass.
func (s *state) passable(t *trail) error {
	for i, n := range t.nodes[:len(t.nodes)-1] {
		switch {
		case n == nil:
			return nil
		case !n.Directory:
			return fail(classParentNoDir, "%s (is not a directory)", t.upTo(i))
		case !s.allows(n, Execute):
			return s.denied(n, t.upTo(i), Execute)
		}
	}
	return nil
}

// permit checks the demands in HDFS's order.
func (s *state) permit(t *trail, d demands) error {
	if s.caller.Super {
		return nil
	}
	if err := s.passable(t); err != nil {
		return err
	}
	lowest, end := min(t.existing(), len(t.nodes)-1)-1, len(t.nodes)-1
	if d.parent&Write != 0 && t.last() != nil && !t.root() {
		if err := s.unstuck(t.parent(), t.last(), t.parentPath(), t.path()); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		at   int
		need Access
	}{{lowest, d.ancestor}, {end - 1, d.parent}, {end, d.last}} {
		if c.need == 0 || c.at < 0 {
			continue
		}
		if n := t.nodes[c.at]; n != nil && !s.allows(n, c.need) {
			return s.denied(n, t.upTo(c.at), c.need)
		}
	}
	if n := t.last(); d.below != 0 && n != nil && n.Directory {
		if y := surveysOf(s.records).find(s.seen, s.caller, n); y == nil || !y.Rights {
			u, err := s.through(n, d.below, d.emptyIsFit)
			if err != nil {
				return err
			}
			if s.rules > version3 {
				s.known[n.ID] = u
			}
		}
	}
	if d.owner && t.last().Owner != s.caller.User {
		return fail(classAccess, "Permission denied. user=%s is not the owner of inode=%s", s.caller.User, t.path())
	}
	return nil
}

// through asks a directory and those below it, if anything is needed there, and returns what they take of quotas.
func (s *state) through(top *inode, need Access, emptyIsFit bool) (u usage, err error) {
	for todo := []uint64{top.ID}; len(todo) > 0; { // numbers: there may be very many
		dir := s.peek(todo[len(todo)-1])
		todo = todo[:len(todo)-1]
		u.names++
		if dir.Children == 0 && emptyIsFit {
			continue
		}
		if need != 0 && !s.allows(dir, need) {
			return u, s.denied(dir, s.upwards(dir).path(), need)
		}
		s.look(dir.ID, "", func(n *inode) bool {
			if need != 0 && s.stuck(dir, n) {
				way := s.upwards(dir).path()
				err = s.unstuck(dir, n, way, join(way, n.Name))
			} else {
				err = s.ended()
			}
			if n.Directory {
				todo = append(todo, n.ID)
			} else {
				u = u.plus(usage{1, n.File.space()})
			}
			return err == nil
		})
		if err != nil {
			return u, err
		}
	}
	return u, nil
}

func join(dir, name string) string {
	if dir == "/" {
		return dir + name
	}
	return dir + "/" + name
}

// stuck reports whether the sticky bit of a directory keeps the caller from taking an inode out of it.
func (s *state) stuck(dir, n *inode) bool {
	return dir.Mode&sticky != 0 && dir.Owner != s.caller.User && n.Owner != s.caller.User
}

// unstuck is the error for an inode that is stuck.
func (s *state) unstuck(dir, n *inode, dirPath, path string) error {
	if !s.stuck(dir, n) {
		return nil
	}
	return fail(classAccess, `Permission denied by sticky bit: user=%s, path="%s":%s:%s:%s%s, parent="%s":%s:%s:%s%s`, s.caller.User,
		path, n.Owner, n.Group, n.kind(), symbols(n.Mode), dirPath, dir.Owner, dir.Group, dir.kind(), symbols(dir.Mode))
}

func (s *state) denied(n *inode, path string, need Access) error {
	return fail(classAccess, `Permission denied: user=%s, access=%v, inode="%s":%s`, s.caller.User, need, path,
		fmt.Sprintf("%s:%s:%s%s", n.Owner, n.Group, n.kind(), symbols(n.Mode)))
}

// privileged refuses who may not do all.
func (s *state) privileged() error {
	if s.caller.Super {
		return nil
	}
	return fail(classAccess, "Access denied for user %s. Superuser privilege is required", s.caller.User)
}

// owns refuses who does not own what is at the end of a trail.
func (s *state) owns(t *trail) error {
	if t.last() == nil {
		return fail(classNotFound, "Directory/File does not exist %s", t.path())
	}
	return s.permit(t, demands{owner: true})
}

// allows reports whether the caller may do something with an inode, by its mode and ACL.
func (s *state) allows(n *inode, need Access) bool {
	if s.caller.Super {
		return true
	}
	if len(n.ACL) > 0 && !n.ACL[0].Default {
		return s.listed(n, need)
	}
	switch {
	case s.caller.User == n.Owner:
		return n.class(6)&need == need
	case slices.Contains(s.caller.Groups, n.Group):
		return n.class(3)&need == need
	}
	return n.class(0)&need == need
}

// class returns the rights of owner (6), group (3) or others (0).
func (n *inode) class(shift int) Access { return Access(n.Mode>>shift) & 7 }

// listed is allows by an ACL: the owner's rights are his; a named user has those of his
// entry, members of groups those of any of theirs, both within the mask, which is where a
// mode has the group's.
func (s *state) listed(n *inode, need Access) bool {
	if s.caller.User == n.Owner {
		return n.class(6)&need == need
	}
	found := false
	for _, e := range n.ACL {
		if e.Default {
			break
		}
		fits := e.Access&n.class(3)&need == need
		switch {
		case e.Type == User && e.Name == s.caller.User:
			return fits
		case e.Type == Group && slices.Contains(s.caller.Groups, e.group(n)):
			if fits {
				return true
			}
			found = true
		}
	}
	return !found && n.class(0)&need == need
}
