package meta

// Flags of Create, as in HDFS's protocol.
const (
	FlagCreate    = 1
	FlagOverwrite = 2
)

// maxBlockSize is what package block has files for. The space of all copies of a block must be a number, too.
const maxBlockSize = 1 << 40

// Create makes a file and opens it for its holder. Its result is a *Status.
type Create struct {
	Path        string
	Mode        uint16  // with the client's umask applied
	Asked       *uint16 // without it
	Holder      string  // the client's name
	Machine     string  // the client's
	Flags       uint32
	Parents     bool
	Replication uint16
	BlockSize   int64
}

func (o *Create) code(c *coder) {
	text(c, &o.Path)
	number(c, &o.Mode)
	optional(c, &o.Asked, codeMode)
	text(c, &o.Holder)
	text(c, &o.Machine)
	number(c, &o.Flags)
	c.flag(&o.Parents)
	number(c, &o.Replication)
	c.signed(&o.BlockSize)
}

func (o *Create) apply(s *state) (Result, error) {
	if err := shortEnough("create", o.Path); err != nil {
		return nil, err
	}
	names, _ := split(o.Path)
	if !validName(o.Path) || len(names) > 1 && names[1] == reserved && (len(names) == 2 || names[2] != "raw" && names[2] != ".inodes") {
		return nil, fail(classInvalidPath, "Invalid path name %s", o.Path)
	}
	if err := s.awake("Cannot create file%s", o.Path); err != nil {
		return nil, err
	}
	t, err := o.resolve(s)
	if err != nil {
		return nil, err
	}
	if o.BlockSize < s.config.MinBlockSize {
		return nil, fail(classIO, "Specified block size %d is less than configured minimum value dfs.namenode.fs-limits.min-block-size=%d",
			o.BlockSize, s.config.MinBlockSize)
	}
	if s.rules > version2 && o.BlockSize > maxBlockSize {
		return nil, fail(classIO, "Specified block size %d is greater than %d", o.BlockSize, int64(maxBlockSize))
	}
	if err := s.replicable(o.Path, o.Replication, o.Machine); err != nil {
		return nil, err
	}
	if t.last() != nil {
		if o.Flags&FlagOverwrite == 0 {
			return nil, o.inTheWay(s, t)
		}
		s.remove(t)
	}
	return o.make(s, t)
}

// resolve checks what the caller may do with the path (FSDirWriteFileOp.resolvePathForStartFile).
func (o *Create) resolve(s *state) (*trail, error) {
	t, err := s.resolve(o.Path, toCreate)
	if err == nil {
		err = s.permit(t, demands{ancestor: Write})
	}
	if err != nil {
		return nil, err
	}
	switch n := t.last(); {
	case n != nil && n.Directory:
		return nil, fail(classExists, "%s already exists as a directory", t.path())
	case n != nil && o.Flags&FlagOverwrite != 0:
		return t, s.permit(t, demands{last: Write})
	case n != nil:
		return t, nil
	}
	if !o.Parents {
		if err := hasParent(t); err != nil {
			return nil, err
		}
	}
	if o.Flags&FlagCreate == 0 {
		return nil, fail(classNotFound, "Can't overwrite non-existent %s", o.Path)
	}
	return t, nil
}

// inTheWay is the error for a file that is there already; a lease that has expired is
// recovered.
func (o *Create) inTheWay(s *state, t *trail) error {
	exists := fail(classExists, "%s for client %s already exists", t.path(), o.Machine)
	n := t.last()
	wasOpen := n.File.Writer != nil
	_, err := s.reclaim("CREATE_FILE", n, t.path(), o.Holder, o.Machine)
	switch {
	case err != nil:
		return err
	case wasOpen:
		return &partial{exists}
	}
	return exists
}

func (o *Create) make(s *state, t *trail) (Result, error) {
	above := modes{t.nodes[t.existing()-1].Mode, nil}
	n := &inode{Accessed: s.now, File: &file{Replication: o.Replication, BlockSize: o.BlockSize, Writer: writerBy(s, o.Holder, o.Machine)}}
	if err := s.addBelow(t, above.passable(), n, modes{o.Mode, o.Asked}); err != nil {
		return nil, err
	}
	s.save(n)
	s.hold(o.Holder, n)
	return s.status(n), nil
}

// replicable refuses numbers of copies outside the limits.
func (s *state) replicable(path string, copies uint16, machine string) error {
	var why string
	var limit uint16
	switch {
	case copies > s.config.MaxReplication:
		why, limit = "exceeds maximum of", s.config.MaxReplication
	case copies < s.config.MinReplication:
		why, limit = "is less than the required minimum of", s.config.MinReplication
	default:
		return nil
	}
	by := ""
	if machine != "" {
		by = ", clientName=" + machine
	}
	return fail(classIO, "Requested replication factor of %d %s %d for %s%s", copies, why, limit, path, by)
}

// Append opens a file that is there for more. Its result is *Appended.
type Append struct {
	Path     string
	Holder   string
	Machine  string
	NewBlock bool     // begin a new block
	Nodes    []string // where the last block is
	// Block and Stamp say of which block Nodes are: it need not be the last one any more. Room is the most that it may have there: less than
	// other blocks of the file, if it was another's (concat).
	Block, Stamp uint64
	Room         int64
}

func (o *Append) code(c *coder) {
	text(c, &o.Path)
	text(c, &o.Holder)
	text(c, &o.Machine)
	c.flag(&o.NewBlock)
	texts(c, &o.Nodes)
	if c.version > version1 {
		number(c, &o.Block)
		number(c, &o.Stamp)
		c.signed(&o.Room)
	}
}

// Appended is the result of Append: the last block, if the client goes on in it.
type Appended struct {
	Block  *LocatedBlock
	Status Status
}

func (a *Appended) code(c *coder) { optional(c, &a.Block, codeLocated); a.Status.code(c) }

// known refuses to go on in a block of which it is not known who has it.
func (o *Append) known(last *block, path string) error {
	switch {
	case o.Block != last.ID || o.Stamp != last.Stamp:
		return fail(classRetriable, "append: lastBlock=%v of src=%s has come to be that while it was asked where it is.", last.public(), path)
	case len(o.Nodes) == 0:
		return fail(classIO, "append: lastBlock=%v of src=%s is not sufficiently replicated yet.", last.public(), path)
	}
	return nil
}

func (o *Append) apply(s *state) (Result, error) {
	if err := s.awake("Cannot append to file%s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err != nil {
		return nil, err
	}
	n, path := t.last(), t.path()
	if n != nil && n.Directory {
		return nil, fail(classExists, "Cannot append to directory %s; already exists as a directory.", path)
	}
	if err := s.permit(t, demands{last: Write}); err != nil {
		return nil, err
	}
	if n == nil {
		return nil, fail(classNotFound, "Failed to append to non-existent file %s for client %s", path, o.Machine)
	}
	if _, err := s.reclaim("APPEND_FILE", n, path, o.Holder, o.Machine); err != nil {
		return nil, err
	}
	f := n.File
	last := f.lastBlock()
	if last != nil && last.State == committed { // no file that is closed now has one
		if s.rules == version1 {
			return nil, &partial{fail(classRetriable, "append: lastBlock=%v of src=%s is COMMITTED but not yet COMPLETE.", last.public(), path)}
		}
		last.State = complete
	}
	if last != nil {
		if err := t.affords(usage{space: (f.BlockSize - last.Size) * int64(f.Replication)}, nil); err != nil {
			return nil, err
		}
		if err := o.known(last, path); s.rules > version1 && !o.NewBlock && last.Size < f.BlockSize && err != nil {
			return nil, err
		}
	}
	f.Writer = writerBy(s, o.Holder, o.Machine)
	s.hold(o.Holder, n)
	a := &Appended{}
	switch {
	case last == nil:
	case o.NewBlock:
		a.Block = located(last, 0)
		a.Block.Nodes = nil
	case last.Size < f.BlockSize && s.rules > version1 && o.Room < f.BlockSize:
		last.Full = true // clients take it for granted that all blocks may become equally long
	case last.Size < f.BlockSize:
		last.State, last.Nodes, last.Full = building, o.Nodes, false
		a.Block = located(last, f.size()-last.Size)
	}
	s.save(n)
	a.Status = *s.status(n)
	return a, nil
}
