package meta

import "strings"

// Status is what is known of a file or directory (HdfsFileStatus). Its name is that in a
// listing, else empty.
type Status struct {
	ID          uint64
	Name        string
	Directory   bool
	Size        int64
	Mode        uint16
	HasACL      bool
	Owner       string
	Group       string
	Modified    int64 // ms
	Accessed    int64
	Replication uint16
	BlockSize   int64
	Children    uint64
	Located     *Located // if that was asked for
}

func (v *Status) code(c *coder) {
	number(c, &v.ID)
	text(c, &v.Name)
	c.flag(&v.Directory)
	c.signed(&v.Size)
	number(c, &v.Mode)
	c.flag(&v.HasACL)
	text(c, &v.Owner)
	text(c, &v.Group)
	c.signed(&v.Modified)
	c.signed(&v.Accessed)
	number(c, &v.Replication)
	c.signed(&v.BlockSize)
	number(c, &v.Children)
	optional(c, &v.Located, func(c *coder, l *Located) { l.code(c) })
}

func (s *state) status(n *inode) *Status {
	v := &Status{ID: n.ID, Directory: n.Directory, Mode: n.Mode, HasACL: len(n.ACL) > 0, Owner: n.Owner, Group: n.Group,
		Modified: n.Modified, Accessed: n.Accessed, Children: n.Children}
	if f := n.File; f != nil {
		v.Size, v.Replication, v.BlockSize = f.size(), f.Replication, f.BlockSize
	}
	return v
}

// Located are the blocks of a part of a file, or of all of it (LocatedBlocks).
type Located struct {
	Size         int64 // without a last block that is written
	Open         bool  // somebody writes the file
	Blocks       []LocatedBlock
	Last         *LocatedBlock
	LastComplete bool
}

func (l *Located) code(c *coder) {
	c.signed(&l.Size)
	c.flag(&l.Open)
	list(c, &l.Blocks, codeLocated)
	optional(c, &l.Last, codeLocated)
	c.flag(&l.LastComplete)
}

// A Part is Length bytes of the file at Path from Offset on. Next returns its blocks, Most at a time (0: all at once), until it is Over. Blocks that the
// file has got since the first time are left out.
type Part struct {
	Path           string
	Offset, Length int64
	Most           int
	Over           bool

	file  uint64
	count int   // of its blocks, the first time
	next  int   // place of the block to go on with
	at    int64 // where that begins
	begun bool  // the part begins before it
}

// locate returns the blocks of a part (BlockManager.createLocatedBlocks), or the next of them.
func (s *state) locate(n *inode, p *Part) *Located {
	f := n.File
	if p.file == 0 {
		p.file, p.count = n.ID, f.count()
	}
	last := f.lastBlock()
	if last == nil {
		p.Over = true
		return &Located{Open: f.Writer != nil}
	}
	l := &Located{Size: f.settled(), Open: f.Writer != nil, LastComplete: last.State == complete}
	l.Last = located(last, f.size()-last.Size)
	end := p.Offset + p.Length
	if end < p.Offset { // as far as there is
		end = 1<<63 - 1
	}
	all := blocksOf{s.records, n}
	for !p.Over && (p.Most == 0 || len(l.Blocks) < p.Most) {
		b := all.at(p.next)
		// HDFS gives the first block of a file that is empty so far, whatever is asked for.
		if p.at+b.Size > p.Offset || p.next == 0 && b.Size == 0 || p.begun {
			l.Blocks, p.begun = append(l.Blocks, *located(b, p.at)), true
		}
		p.at, p.next = p.at+b.Size, p.next+1
		p.Over = p.next == p.count || p.begun && p.at >= end
	}
	return l
}

// reservedStatus is that of a directory in /.reserved.
func (s *state) reservedStatus(name string) Status {
	return Status{Name: name, Directory: true, Mode: 0o770, Group: s.config.Group, Modified: s.config.Born, Accessed: s.config.Born}
}

// Stat returns the status of what lies at a path, or nil when there is nothing
// (getFileInfo). It may say where the blocks of a file are.
func (q Query) Stat(path string, locate bool) (*Status, error) {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err != nil {
		if e := err.(*Error); e.Class == classAccess && s.caller.Super {
			return nil, nil // a file is on the way
		}
		return nil, err
	}
	n := t.last()
	switch {
	case t.path() == reservedPath:
		return &Status{Directory: true, Mode: sticky | 0o770}, nil
	case n == nil:
		return nil, nil
	}
	v := s.status(n)
	if locate && !n.Directory {
		v.Located = s.locate(n, &Part{Length: v.Size})
	}
	return v, nil
}

// Listing is a part of a directory.
type Listing struct {
	Entries []Status
	// Left is how many entries follow: 1, if there are any. To count them would take a look at all of them for each page, and clients only
	// ask whether there are more.
	Left int
}

// List returns entries of a directory after a name, or a file's own; nil when there is
// nothing at the path (getListing). With locations, a page ends when it has as many of
// those as it may have entries.
func (q Query) List(path, startAfter string, locate bool) (*Listing, error) {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err != nil {
		return nil, err
	}
	if startAfter, err = s.startName(startAfter); err != nil {
		return nil, err
	}
	n := t.last()
	if n != nil && n.Directory {
		if err := s.permit(t, demands{last: Read | Execute}); err != nil {
			return nil, err
		}
	}
	switch {
	case t.path() == reservedPath:
		return &Listing{Entries: []Status{s.reservedStatus(".inodes"), s.reservedStatus("raw")}}, nil
	case t.name() == snapshotName:
		return nil, noSnapshots(t)
	case n == nil:
		return nil, nil
	case !n.Directory:
		return &Listing{Entries: []Status{*s.entry(n, "", locate)}}, nil
	}
	l := &Listing{}
	places := s.config.ListLimit
	s.look(n.ID, startAfter, func(c *inode) bool {
		if len(l.Entries) == s.config.ListLimit || places <= 0 {
			l.Left = 1
			return false
		}
		v := s.entry(c, c.Name, locate)
		if v.Located != nil {
			places -= len(v.Located.Blocks) * int(v.Replication)
		}
		l.Entries = append(l.Entries, *v)
		return true
	})
	return l, nil
}

// noSnapshots refuses to list the snapshots of the directory before the last name: there are none, of any.
func noSnapshots(t *trail) error {
	if t.parent() == nil {
		return fail(classNotFound, "Directory does not exist: %s", t.parentPath())
	}
	return fail(classSnapshot, "Directory is not a snapshottable directory: %s", t.parentPath())
}

func (s *state) entry(n *inode, name string, locate bool) *Status {
	v := s.status(n)
	v.Name = name
	if locate && !n.Directory {
		v.Located = s.locate(n, &Part{Length: v.Size})
	}
	return v
}

// startName turns a path below /.reserved, which clients may give for the name after which
// to go on, into a name.
func (s *state) startName(name string) (string, error) {
	if !strings.HasPrefix(name, reservedPath+"/") {
		return name, nil
	}
	names, err := split(name)
	if err == nil {
		names, err = s.unreserve(names, name)
	}
	if err != nil {
		return "", fail(classStartAfter, "Can't find startAfter %s", name)
	}
	return names[len(names)-1], nil
}

// Blocks returns the blocks of a part of a file (getBlockLocations).
func (q Query) Blocks(path string, offset, length int64) (*Located, error) {
	return (&Part{Path: path, Offset: offset, Length: length}).Next(q)
}

// Next returns the blocks that follow those that it has returned. It is an error when there is another file at the path by then, or the file was cut off.
func (p *Part) Next(q Query) (*Located, error) {
	path := p.Path
	if p.Offset < 0 {
		return nil, fail(classHadoopArgument, "Negative offset is not supported. File: %s", path)
	}
	if p.Length < 0 {
		return nil, fail(classHadoopArgument, "Negative length is not supported. File: %s", path)
	}
	s := q.state()
	// The path is looked up without rights first, so that who may not pass learns whether
	// there is a file: so does HDFS.
	caller := s.caller
	s.caller.Super = true
	t, err := s.resolve(path, toRead)
	s.caller = caller
	if err != nil {
		return nil, err
	}
	n, err := t.file(t.path())
	if err != nil {
		return nil, err
	}
	if s.caller.Super {
		for _, x := range n.XAttrs {
			if x.is(unreadable) {
				return nil, fail(classAccess, "Access is denied for %s since the superuser is not allowed to perform this operation.", s.caller.User)
			}
		}
	}
	if err := s.permit(t, demands{last: Read}); err != nil {
		return nil, err
	}
	if p.file != 0 && (n.ID != p.file || n.File.count() < p.count) {
		return nil, fail(classIO, "%s was changed while its blocks were asked for", path)
	}
	return s.locate(n, p), nil
}

// Closed reports whether nobody writes a file (isFileClosed).
func (q Query) Closed(path string) (bool, error) {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err != nil {
		return false, err
	}
	n, err := t.file(path)
	return err == nil && n.File.Writer == nil, err
}

// BlockSize returns the one a file was made with (getPreferredBlockSize).
func (q Query) BlockSize(path string) (int64, error) {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err != nil {
		return 0, err
	}
	n, err := t.file(t.path())
	if err != nil {
		return 0, err
	}
	return n.File.BlockSize, nil
}

// Check refuses what the caller may not do with what lies at a path (checkAccess).
func (q Query) Check(path string, need Access) error {
	return q.check(path, need, "Path not found: %s")
}

// MayWrite is Check for what changes nothing because it is as it is to be (setStoragePolicy).
func (q Query) MayWrite(path string) error {
	return q.check(path, Write, "File/Directory does not exist: %s")
}

func (q Query) check(path string, need Access, missing string) error {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err != nil {
		return err
	}
	if t.last() == nil {
		return fail(classNotFound, missing, t.path())
	}
	return s.permit(t, demands{last: need})
}

// EnclosingRoot returns the root of the encryption zone that a path is in, of which there
// are none (getEnclosingRoot).
func (q Query) EnclosingRoot(path string) (string, error) {
	_, err := q.state().resolve(path, toRead)
	return "/", err
}

// Writing returns an open file for another node in the pipeline of its last block
// (getAdditionalDatanode): its status and the client's machine.
func (q Query) Writing(path string, id uint64, holder string) (*Status, string, error) {
	s := q.state()
	if err := s.awake("Cannot add datanode; src=%s", path); err != nil {
		return nil, "", err
	}
	t, err := s.byNumberOrPath(path, id)
	if err != nil {
		return nil, "", err
	}
	n, err := s.leased(t, id, holder)
	if err != nil {
		return nil, "", err
	}
	return s.status(n), n.File.Writer.Machine, nil
}
