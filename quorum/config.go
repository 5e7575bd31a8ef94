package quorum

import (
	"cmp"

	"headrace/internal/crash"
	"headrace/internal/vfs"
)

// Config says how a node is. Zero values, where they make no sense, are replaced.
type Config struct {
	// Dir is where the log is kept, in FS, by default the machine's file system.
	Dir string
	FS  vfs.FS
	// Machine returns the state of a group that is, or comes to be, on this node.
	Machine func(group uint64) (Machine, error)
	// Send hands a message over to the transport. It does not wait. It may lose messages.
	Send func(Message)
	// Leader, if set, is told of each new term or leader of a group; zero: nobody is known.
	Leader func(group, term uint64, leader Replica)

	// ElectionTicks without a leader begin an election: 10. Each tick is a heartbeat.
	ElectionTicks int
	// SegmentSize is the size of the log's files: 64 MB.
	SegmentSize int64
	// KeepEntries and KeepBytes say how much of a group's log is kept for replicas that
	// are behind, before they have to get a snapshot: 10,000 and 16 MB. Up to twice that is
	// in memory, and up to 16 times while a replica takes over a snapshot and catches up.
	KeepEntries, KeepBytes int
	// MaxProposal is the size of the longest proposal, MaxPending the number of proposals,
	// and of reads, that wait in a group: 1 MB and 4,096.
	MaxProposal, MaxPending int
	// ChunkSize is the size of a snapshot's pieces: 1 MB.
	ChunkSize int
	// Workers is how many groups apply at the same time: 8.
	Workers int

	fault fault
	point func(string)
}

// fault is a mistake made on purpose. Tests set it, to see that they would find it.
type fault struct {
	answersEarly, forgetsHard, appliesTwice, keepsTail, trustsCache, readsAlone bool
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.OS{}
	}
	if c.Leader == nil {
		c.Leader = func(uint64, uint64, Replica) {}
	}
	if c.point == nil {
		c.point = crash.Here
	}
	c.ElectionTicks = cmp.Or(c.ElectionTicks, 10)
	c.SegmentSize = cmp.Or(c.SegmentSize, 64<<20)
	c.KeepEntries = cmp.Or(c.KeepEntries, 10_000)
	c.KeepBytes = cmp.Or(c.KeepBytes, 16<<20)
	c.MaxProposal = cmp.Or(c.MaxProposal, 1<<20)
	c.MaxPending = cmp.Or(c.MaxPending, 4096)
	c.ChunkSize = cmp.Or(c.ChunkSize, 1<<20)
	c.Workers = cmp.Or(c.Workers, 8)
	return c
}
