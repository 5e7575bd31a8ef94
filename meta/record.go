package meta

// Versions of what is stored. A record of another version is not read; a version that
// follows one reads both.
const recordVersion = 1

// inode is a directory or a file. A directory is a record of its own; a file lies in its
// entry in the directory.
type inode struct {
	ID         uint64
	Parent     uint64 // its directory; 0 for the root, and for what is cut off from it
	Name       string
	Directory  bool
	Mode       uint16 // nine bits, and the sticky one
	Owner      string
	Group      string
	Modified   int64 // ms
	Accessed   int64 // ms
	ACL        []ACLEntry
	XAttrs     []XAttr
	Children   uint64 // of a directory
	NameQuota  int64  // of a directory; -1 is none
	SpaceQuota int64
	Used       usage // of a directory with a quota: by it and all below it
	Height     int   // of a directory: how many levels there may be below it, of what came there since that is counted
	File       *file
	charged    int64 // the space of a file that those with quotas above it know of
}

// file is what only files have. All blocks but the last few lie under keys of their own,
// so that a block added to a long file costs as little as one to a short file.
type file struct {
	Replication uint16
	BlockSize   int64
	Spilled     int     // how many blocks lie apart
	SpilledSize int64   // their bytes
	Tail        []block // those after them
	Writer      *writer
}

// writer is who has a file open.
type writer struct {
	Holder, Machine string
	User            string // empty of files that were opened before that was kept
}

// blockState is how far a block has come.
type blockState uint8

const (
	complete      blockState = iota // enough copies are known
	building                        // a client writes it
	committed                       // the client has said its length
	underRecovery                   // its writer has gone, its nodes agree on a length
)

// How two states are written in a record: underRecovery of a block with a Cut, and complete of one that is Full.
const (
	beingCut = underRecovery + 1 + iota
	full
)

func (s blockState) String() string {
	return [...]string{"COMPLETE", "UNDER_CONSTRUCTION", "COMMITTED", "UNDER_RECOVERY"}[s]
}

// block is a block of a file.
type block struct {
	ID      uint64
	Stamp   uint64 // generation stamp
	Size    int64
	Segment uint16 // where its copies belong, see package comment
	State   blockState
	Copies  uint16   // finished ones with this stamp, as far as was told
	Nodes   []string // where it is written, or was until that is settled
	// Of a recovery: the stamp it gives, and until when no other begins, in ms.
	Recovery      uint64
	RecoveryUntil int64
	Cut           int64 // the length that it gives, if the file is being truncated; else 0
	// Full: it takes no more, however long, as far as was known when the file was opened last.
	Full bool
}

func (n *inode) code(c *coder) {
	number(c, &n.ID)
	c.flag(&n.Directory)
	if n.Directory { // of a file its key says it
		number(c, &n.Parent)
		text(c, &n.Name)
	}
	number(c, &n.Mode)
	text(c, &n.Owner)
	text(c, &n.Group)
	c.signed(&n.Modified)
	c.signed(&n.Accessed)
	list(c, &n.ACL, codeACLEntry)
	list(c, &n.XAttrs, codeXAttr)
	if n.Directory {
		number(c, &n.Children)
		c.signed(&n.NameQuota)
		c.signed(&n.SpaceQuota)
		if n.limited() {
			c.signed(&n.Used.names)
			c.signed(&n.Used.space)
		}
		if c.ending(n.Height > 0) {
			if number(c, &n.Height); n.Height <= 0 {
				c.fail()
			}
		}
		return
	}
	if c.reading {
		n.File = &file{}
	}
	n.File.code(c)
}

func (f *file) code(c *coder) {
	number(c, &f.Replication)
	number(c, &f.BlockSize)
	number(c, &f.Spilled)
	number(c, &f.SpilledSize)
	list(c, &f.Tail, codeBlock)
	optional(c, &f.Writer, func(c *coder, w *writer) { text(c, &w.Holder); text(c, &w.Machine) })
	if f.Writer != nil && c.ending(f.Writer.User != "") {
		if text(c, &f.Writer.User); f.Writer.User == "" {
			c.fail()
		}
	}
}

func (b *block) code(c *coder) { codeBlock(c, b) }

func codeBlock(c *coder, b *block) {
	number(c, &b.ID)
	number(c, &b.Stamp)
	number(c, &b.Size)
	number(c, &b.Segment)
	state := b.State
	switch {
	case b.Cut > 0:
		state = beingCut
	case b.Full && b.State == complete:
		state = full
	}
	number(c, &state)
	if state > full {
		c.fail()
		state = complete
	}
	b.State, b.Full = min(state, underRecovery), state == full
	if b.Full {
		b.State = complete
	}
	number(c, &b.Copies)
	texts(c, &b.Nodes)
	number(c, &b.Recovery)
	number(c, &b.RecoveryUntil)
	if state == beingCut {
		number(c, &b.Cut)
		if b.Cut == 0 {
			c.fail()
		}
	}
}

// place says where a file's entry is, or in which file a block is.
type place struct {
	Parent uint64
	Name   string
}

func (p *place) code(c *coder) { number(c, &p.Parent); text(c, &p.Name) }

// owner says to which file and segment a block belongs.
type owner struct {
	File    uint64
	Segment uint16
	Place   int // in the file, from 1 on; 0 where that is not known, since before it was kept
}

func (o *owner) code(c *coder) {
	number(c, &o.File)
	number(c, &o.Segment)
	if c.ending(o.Place > 0) {
		if number(c, &o.Place); o.Place <= 0 {
			c.fail()
		}
	}
}

// lease is that of a client.
type lease struct {
	Renewed int64 // ms
	Files   uint64
}

func (l *lease) code(c *coder) { c.signed(&l.Renewed); number(c, &l.Files) }

// counters are the next numbers of the shard.
type counters struct {
	Inode, Block, Stamp, Garbage, Answer uint64
}

func (n *counters) code(c *coder) {
	for _, v := range []*uint64{&n.Inode, &n.Block, &n.Stamp, &n.Garbage, &n.Answer} {
		number(c, v)
	}
}
