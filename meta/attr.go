package meta

import "slices"

// SetPermission sets the mode of a file or directory.
type SetPermission struct {
	Path string
	Mode uint16
}

func (o *SetPermission) code(c *coder) { text(c, &o.Path); number(c, &o.Mode) }

func (o *SetPermission) apply(s *state) (Result, error) {
	if err := s.awake("Cannot set permission for %s", o.Path); err != nil {
		return nil, err
	}
	n, err := s.ownedAt(o.Path)
	if err != nil {
		return nil, err
	}
	n.Mode = o.Mode & (sticky | 0o777)
	s.save(n)
	return nil, nil
}

// ownedAt returns what lies at a path, if the caller owns it.
func (s *state) ownedAt(path string) (*inode, error) {
	if path == reservedPath {
		return nil, fail(classInvalidPath, "Invalid path name %s", path)
	}
	t, err := s.resolve(path, toWrite)
	if err == nil {
		err = s.owns(t)
	}
	if err != nil {
		return nil, err
	}
	return t.last(), nil
}

// SetOwner sets owner, group or both; an empty one stays. Only who may do all gives
// something to another user, or to a group he is no member of.
type SetOwner struct{ Path, Owner, Group string }

func (o *SetOwner) code(c *coder) { text(c, &o.Path); text(c, &o.Owner); text(c, &o.Group) }

func (o *SetOwner) apply(s *state) (Result, error) {
	if err := s.awake("Cannot set owner for %s", o.Path); err != nil {
		return nil, err
	}
	n, err := s.ownedAt(o.Path)
	if err != nil {
		return nil, err
	}
	if by := s.caller; !by.Super {
		if o.Owner != "" && o.Owner != by.User {
			return nil, fail(classAccess, "User %s is not a super user (non-super user cannot change owner).", by.User)
		}
		if o.Group != "" && !slices.Contains(by.Groups, o.Group) {
			return nil, fail(classAccess, "User %s does not belong to %s", by.User, o.Group)
		}
	}
	for _, who := range []string{o.Owner, o.Group} {
		if err := nameable(who); err != nil {
			return nil, err
		}
	}
	if o.Owner != "" {
		n.Owner = o.Owner
	}
	if o.Group != "" {
		n.Group = o.Group
	}
	s.save(n)
	return nil, nil
}

// SetTimes sets times, in ms; a negative one stays.
type SetTimes struct {
	Path               string
	Modified, Accessed int64
}

func (o *SetTimes) code(c *coder) { text(c, &o.Path); c.signed(&o.Modified); c.signed(&o.Accessed) }

func (o *SetTimes) apply(s *state) (Result, error) {
	if err := s.awake("Cannot set times %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err == nil {
		err = s.permit(t, demands{last: Write})
	}
	if err != nil {
		return nil, err
	}
	n := t.last()
	if n == nil {
		return nil, fail(classNotFound, "File/Directory %s does not exist.", t.path())
	}
	if o.Modified >= 0 {
		n.Modified = o.Modified
	}
	if o.Accessed >= 0 {
		n.Accessed = o.Accessed
	}
	s.save(n)
	return nil, nil
}

// SetReplication sets how many copies a file is to have. The result is false when it is
// no file.
type SetReplication struct {
	Path   string
	Copies uint16
}

func (o *SetReplication) code(c *coder) { text(c, &o.Path); number(c, &o.Copies) }

func (o *SetReplication) apply(s *state) (Result, error) {
	if err := s.awake("Cannot set replication for %s", o.Path); err != nil {
		return nil, err
	}
	if err := s.replicable(o.Path, o.Copies, ""); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err == nil {
		err = s.permit(t, demands{last: Write})
	}
	if err != nil {
		return nil, err
	}
	n := t.last()
	if n == nil || n.Directory {
		return flag(false), nil
	}
	more := n.File.full() * (int64(o.Copies) - int64(n.File.Replication))
	if err := t.affords(usage{space: more}, nil); err != nil {
		return nil, err
	}
	n.File.Replication = o.Copies
	s.save(n)
	return flag(true), nil
}
