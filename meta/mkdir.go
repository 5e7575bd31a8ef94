package meta

// Mkdirs makes a directory, and those above it that are missing.
type Mkdirs struct {
	Path    string
	Mode    uint16  // with the client's umask applied
	Asked   *uint16 // without it, for default ACLs; nil from clients that do not say
	Parents bool    // whether directories above it are made
}

func codeMode(c *coder, m *uint16) { number(c, m) }

func (o *Mkdirs) code(c *coder) {
	text(c, &o.Path)
	number(c, &o.Mode)
	optional(c, &o.Asked, codeMode)
	c.flag(&o.Parents)
}

func (o *Mkdirs) apply(s *state) (Result, error) {
	if err := shortEnough("mkdirs", o.Path); err != nil {
		return nil, err
	}
	if err := s.awake("Cannot create directory %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toCreate)
	if err != nil {
		return nil, err
	}
	if n := t.last(); n != nil {
		if !n.Directory {
			return nil, fail(classExists, "Path is not a directory: %s", o.Path)
		}
		return flag(true), nil
	}
	if err := s.permit(t, demands{ancestor: Write}); err != nil {
		return nil, err
	}
	if !o.Parents {
		if err := hasParent(t); err != nil {
			return nil, err
		}
	}
	m := modes{o.Mode, o.Asked}
	return flag(true), s.addBelow(t, m.passable(), &inode{Directory: true}, m)
}

// modes are those of a new inode: what it gets, and what was asked for before the umask,
// if the client has said so.
type modes struct {
	mode  uint16
	asked *uint16
}

// passable are the modes of directories made on the way: their owner may go on.
func (m modes) passable() modes { return modes{m.mode&0o777 | 0o300, m.asked} }

// hasParent refuses paths whose directory does not exist.
func hasParent(t *trail) error {
	if len(t.names) > 2 && t.parent() == nil {
		return fail(classNotFound, "Parent directory doesn't exist: %s", t.parentPath())
	}
	return nil
}

// addBelow makes the last inode of a trail, and the directories that are missing above it. When a limit ends that, those that were made
// stay.
func (s *state) addBelow(t *trail, above modes, n *inode, m modes) error {
	if err := t.shallow(n, s.rules); err != nil {
		return err
	}
	low := t.existing()
	for i := low; i < len(t.names); i++ {
		made, mode := &inode{Directory: true}, above
		if i == len(t.names)-1 {
			made, mode = n, m
		}
		switch err := s.add(t, i, made, mode); {
		case err != nil && i > low:
			t.raise(i-1, s.records)
			return &partial{err}
		case err != nil:
			return err
		}
	}
	t.raise(len(t.nodes)-1, s.records)
	return nil
}

// shallow refuses to put an inode at the end of a trail when that, or something below it, would be too deep. Paths alone do not tell: a
// directory is moved with all that is below it.
func (t *trail) shallow(n *inode, rules byte) error {
	if rules > version2 && len(t.names)-1+n.Height > maxDepth {
		return fail(classIO, "%s would be, or have below it, more than %d levels of directories.", t.name(), maxDepth)
	}
	return nil
}

// raise has the directories of a trail know how far there is something below them, up to its last-th inode, which is new there. Deleting makes none
// of them lower, but those that become empty: so it is the most that it may be.
func (t *trail) raise(last int, s *records) {
	for i := last; s.rules > version2 && i > 0; i-- {
		above := t.nodes[i-1]
		if above.Height > t.nodes[i].Height {
			return // and so have those above it
		}
		above.Height = t.nodes[i].Height + 1
		s.save(above)
	}
}

// add makes the i-th inode of a trail. It belongs to the caller, and to the group of its
// directory.
func (s *state) add(t *trail, i int, n *inode, m modes) error {
	dir, name := t.nodes[i-1], t.names[i]
	if err := s.mayAdd(dir, t.upTo(i-1), name); err != nil {
		return err
	}
	if err := affords(t, i-1, usage{names: 1}, nil); err != nil {
		return err
	}
	n.ID = s.take(&s.counters().Inode)
	n.Owner, n.Group, n.Modified = s.caller.User, dir.Group, s.now
	n.NameQuota, n.SpaceQuota = -1, -1
	n.Mode = m.mode & (sticky | 0o777)
	if m.asked != nil {
		n.Mode = *m.asked & (sticky | 0o777)
	}
	if !n.inherit(dir) {
		n.Mode = m.mode & (sticky | 0o777)
	}
	s.link(dir, n, name, nil)
	if n.Directory {
		s.save(n)
	}
	s.touch(dir, s.now)
	t.nodes[i] = n
	return nil
}

// mayAdd refuses a name in a directory by HDFS's limits and reserved names.
func (s *state) mayAdd(dir *inode, dirPath, name string) error {
	if dir.ID == rootID && name == reserved {
		return notReserved(dir, name)
	}
	if err := s.fits(dir, dirPath, name); err != nil {
		return err
	}
	return notReserved(dir, name)
}
