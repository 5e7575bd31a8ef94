package dfs

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/quorum"
)

// Config says where a node is and how it is kept. The zero value of all but Dir works.
type Config struct {
	Dir string
	// Disks are directories for blocks, one on each disk (default: blocks in Dir). None that the node has had may be missing.
	Disks []string
	// NewDisks are directories that the node has had before, and whose blocks are given up. Those of Disks may be empty, which are left out else; others are none of the node's any more.
	NewDisks []string
	// Run is a directory in memory, which lives as long as the machine runs (default $RUNTIME_DIRECTORY, else /run/headrace-dfs): that a disk has failed is noted there
	// as well, where it may be written.
	Run string
	// FS is the file system that Disks are in (default vfs.OS).
	FS vfs.FS
	// Owner and Group are those of the root directory of a new file system, of the user who may
	// do all and of the group whose members may.
	Owner, Group string
	// Meta is what a new file system keeps to.
	Meta *meta.Config
	// SyncOnClose makes each block durable when it is closed.
	SyncOnClose bool
	// Upkeep is the time between two rounds of upkeep (default 2 s).
	Upkeep time.Duration
	// ScrubRate is how many bytes a second of each disk are read to find decay (default 4 MB), more where all of it would not be read within a week;
	// below 0 there is none.
	ScrubRate int64
	// FetchRate is how many bytes a second come here from other nodes, to make copies that are missing (default 100 MB, as HDFS has it
	// for what it moves about); below 0 there is no limit.
	FetchRate int64
	// DataTime is how long another node may take for the next bytes of a block, or to take them (default a minute); the first one of a pipeline
	// has 5 s more for each node of it.
	DataTime time.Duration
	// AcceptDamage has a file system of one or two nodes go on with names that are not all as they were written.
	AcceptDamage bool
	// Self says where others reach the node that founds a file system; its names are set here. Others, and
	// one that comes back elsewhere, are admitted.
	Self Member
	// Invitation has a node that was prepared join the file system that it is of.
	Invitation *Invitation
	// Send hands a message to another node's Deliver, that of the number in To. It does not wait, and may lose messages.
	Send func(quorum.Message)
	// Peers reaches other nodes about blocks. A node without is alone.
	Peers Peers
	// HostName returns what HDFS's clients know the machine of a node by, of this one as well, and "" when that is its address. nil: all are
	// known by theirs.
	HostName func(node string) string
	// Reconcile is the time between two looks at all copies (default an hour): what no file knows is deleted by a look that finds it so long
	// after the first one.
	Reconcile time.Duration
	// Memory is the time between two looks at what is in memory (default 1 s), of which the node that leads is told, and at what is to be kept there.
	Memory time.Duration
	// CacheMemory is how many bytes of blocks are kept in memory at most, as cache directives want it (default: what package pagecache calls usual); below 0
	// nothing is.
	CacheMemory int64
	// Tick is that of the names (names.Config).
	Tick time.Duration
	// Now is the clock.
	Now func() time.Time
	Log *slog.Logger
}

func (c Config) filled() Config {
	if len(c.Disks) == 0 {
		c.Disks = []string{filepath.Join(c.Dir, "blocks")}
	}
	c.Disks, c.NewDisks = absolutes(c.Disks), absolutes(c.NewDisks)
	c.Group = cmp.Or(c.Group, "supergroup")
	c.Upkeep = cmp.Or(c.Upkeep, 2*time.Second)
	c.Reconcile = cmp.Or(c.Reconcile, time.Hour)
	c.Memory = cmp.Or(c.Memory, time.Second)
	c.FetchRate = cmp.Or(c.FetchRate, 100<<20)
	c.DataTime = cmp.Or(c.DataTime, dataTime)
	c.ScrubRate = cmp.Or(c.ScrubRate, 4<<20)
	run, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":") // there may be several
	c.Run = cmp.Or(c.Run, run, "/run/headrace-dfs")
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Send == nil {
		c.Send = func(quorum.Message) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Meta == nil {
		m := meta.DefaultConfig()
		c.Meta = &m
	}
	return c
}

// itself is the node as a member.
func (c Config) itself(who Identity) Member {
	m := c.Self
	m.Name, m.Storage = who.Node, who.Storage
	return m
}
