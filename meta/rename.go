package meta

import "strings"

// Rename gives a file or directory another path. There are two kinds, HDFS's old rename,
// which puts the source into a directory that is there, and answers false on most errors;
// and rename2, which says what is wrong.
type Rename struct {
	From, To  string
	Old       bool // the old kind; it has no options
	Overwrite bool
	Trash     bool // to the trash: what is below must be the caller's to delete
}

func (o *Rename) code(c *coder) {
	text(c, &o.From)
	text(c, &o.To)
	c.flag(&o.Old)
	c.flag(&o.Overwrite)
	c.flag(&o.Trash)
}

// trash reports whether the caller must have all rights below the source: the old kind never asks.
func (o *Rename) trash() bool { return o.Trash && !o.Old }

func (o *Rename) apply(s *state) (Result, error) {
	if err := shortEnough("rename", o.To); err != nil {
		return nil, err
	}
	if err := s.awake("Cannot rename %s", o.From); err != nil {
		return nil, err
	}
	from, err := s.resolve(o.From, toWrite)
	if err != nil {
		return nil, err
	}
	to, err := s.resolve(o.To, toCreate)
	if err != nil {
		return nil, err
	}
	if n := to.last(); o.Old && n != nil && n.Directory {
		to = &trail{append(to.names[:len(to.names):len(to.names)], from.name()), append(to.nodes, s.child(n, from.name()))}
	}
	need := demands{parent: Write}
	if o.trash() {
		need.below, need.emptyIsFit = All, true
	}
	if err := s.permit(from, need); err != nil {
		return nil, err
	}
	if err := s.permit(to, demands{ancestor: Write}); err != nil {
		return nil, err
	}
	if o.Old {
		return o.old(s, from, to)
	}
	if err := o.check(from, to); err != nil {
		return nil, err
	}
	return nil, s.move(from, to)
}

// old answers false where rename2 says what is wrong.
func (o *Rename) old(s *state, from, to *trail) (Result, error) {
	switch {
	case checkSource(from) != nil:
		return flag(false), nil
	case from.path() == to.path():
		return flag(true), nil
	case checkTarget(from, to) != nil, to.last() != nil, to.parent() == nil:
		return flag(false), nil
	}
	return flag(true), s.move(from, to)
}

// check is that of rename2, in HDFS's order (FSDirRenameOp.unprotectedRenameTo).
func (o *Rename) check(from, to *trail) error {
	if err := checkSource(from); err != nil {
		return err
	}
	if from.path() == to.path() {
		return fail(classExists, "The source %s and destination %s are the same", from.path(), to.path())
	}
	if err := checkTarget(from, to); err != nil {
		return err
	}
	if to.root() {
		return fail(classIO, "rename destination cannot be the root")
	}
	if n := to.last(); n != nil {
		switch {
		case n.Directory != from.last().Directory:
			return fail(classIO, "Source %s and destination %s must both be directories", from.path(), to.path())
		case !o.Overwrite:
			return fail(classExists, "rename destination %s already exists", to.path())
		case n.Directory && n.Children > 0:
			return fail(classIO, "rename destination directory is not empty: %s", to.path())
		}
	}
	if to.parent() == nil {
		return fail(classNotFound, "rename destination parent %s not found.", to.path())
	}
	return nil
}

func checkSource(from *trail) error {
	if from.last() == nil {
		return fail(classNotFound, "rename source %s is not found.", from.path())
	}
	if from.root() {
		return fail(classIO, "rename source cannot be the root")
	}
	return nil
}

func checkTarget(from, to *trail) error {
	switch src, dst := from.path(), to.path(); {
	case strings.HasPrefix(dst, src+"/"):
		return fail(classIO, "Rename destination %s is a directory or file under source %s", dst, src)
	case src == reservedPath || dst == reservedPath:
		return fail(classInvalidPath, "Invalid path name Cannot rename to or from /.reserved")
	}
	return nil
}

// movable refuses what the quotas above a new place do not let in, up to those that it is below already (verifyQuotaForRename).
func (s *state) movable(from, to *trail) error {
	i := common(from, to)
	into := limits(to.nodes[i : len(to.nodes)-1])
	if into || limits(from.nodes[i:len(from.nodes)-1]) { // else nobody counts
		if err := measure(s, from.last()); err != nil {
			return err
		}
	}
	if !into {
		return nil
	}
	more := s.usage(from.last())
	if old := to.last(); old != nil {
		more = more.minus(s.usage(old))
	}
	return to.affords(more, from.nodes[i-1])
}

// common is how many inodes two trails have in common, from the root down.
func common(from, to *trail) (i int) {
	for i < len(from.nodes) && i < len(to.nodes) && from.nodes[i] == to.nodes[i] {
		i++
	}
	return i
}

// move takes an inode from one place to another, in place of what was there.
func (s *state) move(from, to *trail) error {
	n, source, target, name := from.last(), from.parent(), to.parent(), to.name()
	limited := target
	if source.ID == target.ID {
		limited = nil // the number of entries stays
	}
	if err := s.fits(limited, to.parentPath(), name); err != nil {
		return err
	}
	if err := s.movable(from, to); err != nil {
		return err
	}
	if err := to.shallow(n, s.rules); err != nil {
		return err
	}
	if err := notReserved(target, name); err != nil {
		return err
	}
	if old := to.last(); old != nil {
		s.unlink(target, old, nil)
		s.detach(old)
	}
	above := from.nodes[common(from, to)-1]
	s.unlink(source, n, above)
	s.link(target, n, name, above)
	if n.Directory {
		s.save(n) // has its parent and name
	}
	to.nodes[len(to.nodes)-1] = n
	to.raise(len(to.nodes)-1, s.records)
	s.touch(source, s.now)
	s.touch(target, s.now)
	return nil
}
