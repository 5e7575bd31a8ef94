package meta

// Delete takes a file or directory out of the tree. What is below a directory is out of
// reach at once; Sweep takes it apart later.
type Delete struct {
	Path      string
	Recursive bool
}

func (o *Delete) code(c *coder) { text(c, &o.Path); c.flag(&o.Recursive) }

func (o *Delete) apply(s *state) (Result, error) {
	if err := s.awake("Cannot delete %s", o.Path); err != nil {
		return nil, err
	}
	if o.Path == reservedPath {
		return nil, fail(classInvalidPath, "Invalid path name %s", o.Path)
	}
	t, err := s.resolve(o.Path, toWrite)
	if err == nil {
		err = s.permit(t, demands{parent: Write, below: All, emptyIsFit: true})
	}
	if err != nil {
		return nil, err
	}
	n := t.last()
	if n != nil && n.Directory && n.Children > 0 && !o.Recursive {
		return nil, fail(classNotEmpty, "`%s is non empty': Directory is not empty", t.path())
	}
	if n == nil || t.root() {
		return flag(false), nil
	}
	if limits(t.nodes[:len(t.nodes)-1]) {
		if err := measure(s, n); err != nil {
			return nil, err
		}
	}
	s.remove(t)
	return flag(true), nil
}

// remove takes what is at the end of a trail out of the tree.
func (s *state) remove(t *trail) {
	dir, n := t.parent(), t.last()
	s.unlink(dir, n, nil)
	s.touch(dir, s.now)
	s.detach(n)
	t.nodes[len(t.nodes)-1] = nil
}

// mostDestroyed is how many blocks of a file a command that deletes it takes apart.
const mostDestroyed = 1000

// detach destroys a file or an empty directory that is in no directory any more, and
// leaves a directory with something in it, and a long file, to Sweep.
func (s *records) detach(n *inode) {
	switch {
	case !n.Directory && n.File.count() > mostDestroyed && s.rules > version3:
		s.release(n)
		dir := &inode{ID: s.take(&s.counters().Inode), Directory: true, NameQuota: -1, SpaceQuota: -1, Height: 1}
		s.loaded[dir.ID] = dir
		s.link(dir, n, n.Name, nil)
		s.v.Set(key(keyOrphan, dir.ID), nothing)
	case !n.Directory:
		s.destroy(n)
	case n.Children == 0:
		s.v.Delete(key(keyDirectory, n.ID))
		delete(s.loaded, n.ID)
	default:
		n.Parent, n.NameQuota, n.SpaceQuota = 0, -1, -1 // nobody asks what it takes
		s.save(n)
		s.v.Set(key(keyOrphan, n.ID), nothing)
	}
}

// destroy forgets a file; its blocks are garbage.
func (s *records) destroy(n *inode) {
	s.release(n)
	s.blocks(n, func(b *block) bool { s.discard(b); return true })
	s.forget(n)
}

// forget takes a file out of the indexes of files.
func (s *records) forget(n *inode) {
	for i := range n.File.Spilled {
		s.v.Delete(key(keyBlock, n.ID, uint64(i)))
	}
	s.v.Delete(key(keyFile, n.ID))
	delete(s.loaded, n.ID)
}

// Sweep takes apart directories that were deleted, so many entries and blocks of files at once. The result is
// whether anything is left to do. Propose it until there is not.
type Sweep struct{ Most int }

func (o *Sweep) code(c *coder) { number(c, &o.Most) }

func (o *Sweep) apply(s *state) (Result, error) {
	left, attributes := o.Most, 0
	for left > 0 && attributes <= mostSwept {
		dir := s.orphan()
		if dir == nil {
			return flag(false), nil
		}
		var all []*inode
		weight := 0
		s.children(dir, "", func(n *inode) bool {
			all = append(all, n)
			if s.rules > version5 {
				attributes += n.attributes()
			}
			if weight++; !n.Directory && s.rules > version3 {
				weight += n.File.count()
			}
			return weight < left && attributes <= mostSwept
		})
		if over := weight - left; over > 0 { // of the last one, which is a file
			n := all[len(all)-1]
			shorten(s.records, n, min(over, n.File.count()-1))
			all = all[:len(all)-1]
		}
		for _, n := range all {
			s.unlink(dir, n, nil)
			s.detach(n)
		}
		left -= max(1, weight)
		if dir.Children == 0 {
			s.v.Delete(key(keyOrphan, dir.ID))
			s.v.Delete(key(keyDirectory, dir.ID))
			delete(s.loaded, dir.ID)
		}
	}
	return flag(s.orphan() != nil), nil
}

// shorten takes the last blocks off a deleted file, until it has so many.
func shorten(s *records, n *inode, to int) {
	s.release(n)
	for n.File.count() > to {
		s.discard(n.File.lastBlock())
		s.dropLast(n)
	}
	s.save(n)
}

// Orphaned reports whether Sweep has something to do.
func (q Query) Orphaned() bool { return q.state().orphan() != nil }

// orphan returns a directory to take apart, or nil.
func (s *records) orphan() *inode {
	for k := range s.v.Scan([]byte{keyOrphan}, []byte{keyOrphan + 1}) {
		return s.directory(numberAt(k, 0))
	}
	return nil
}

// Garbage is a block whose copies are to be deleted.
type Garbage struct {
	Number  uint64 // for Collected
	Block   Block
	Segment uint16
	Nodes   []string // with copies besides those where the segment belongs
}

// Garbage returns blocks to be deleted from a number on, the oldest first.
func (q Query) Garbage(from uint64, most int) []Garbage {
	var all []Garbage
	for k, v := range q.Reader.Scan(key(keyGarbage, from), []byte{keyGarbage + 1}) {
		if len(all) == most {
			break
		}
		var b block
		if err := decode(recordVersion, v, &b); err != nil {
			panic("meta: garbage cannot be read: " + err.Error())
		}
		all = append(all, Garbage{numberAt(k, 0), *b.public(), b.Segment, b.Nodes})
	}
	return all
}

// Collected says that the copies of blocks are gone.
type Collected struct{ Numbers []uint64 }

func (o *Collected) code(c *coder) {
	list(c, &o.Numbers, func(c *coder, n *uint64) { number(c, n) })
}

func (o *Collected) apply(s *state) (Result, error) {
	for _, n := range o.Numbers {
		s.v.Delete(key(keyGarbage, n))
	}
	return nil, nil
}
