// Package quorum has many groups of replicas, on many nodes, agree on commands: Raft, by
// go.etcd.io/raft/v3, with one log for all groups of a node. What a group agrees on is
// a [Machine]'s matter. Messages are handed over, and come back; quorum/link carries them.
//
// # Driven
//
// A [Node] has no goroutine and no clock: Tick, Step and Work are all that happens. So a test
// runs many nodes in one goroutine, and has any of them die anywhere.
// A [Driver] is the goroutine that a program wants.
//
// # The log
//
//	LOCK  NUMBER.log ...  GROUP.incoming
//
// A round of Work writes one frame for all groups that have something, and syncs once;
// only then do messages go out and new entries get applied. What comes in meanwhile is the next
// round's, and what was proposed meanwhile is one message to each of the others. Two things go before: a leader's entries, so that its fsync and the others' take
// place at once, and what is durable here and was agreed on since. A frame has a checksum and a number. Segments (64 MB) begin with all there is to know but
// entries, and go when nothing live is in them; of three, what keeps the oldest one is
// written again. Entries that were not cut off are in memory, too: see Config.KeepBytes.
//
// It is no bbolt, which takes two fsyncs for a commit, and no pebble, which is large: neither
// goes through the same simulated power failures as package block. The cost is that this
// log can do nothing else. 256 callers, 100 bytes, 16 groups of 3 nodes in one process, all logs
// on one virtual disk, two busy cores, as the range of several runs of
// go test ./quorum -run xxx -bench Commits [-synctime 10ms]:
//
//	                                   commits/s      median  fsyncs of a node for a commit
//	one log                        11,000-23,000    6-9 ms  0.015
//	a log for each group             3,400-6,300  21-27 ms  0.17
//	one log, fsync + 10 ms           4,000-4,100  45-47 ms  0.011
//
// The last row had rounds of 24 ms: the machine was busy with other work. An answer takes two.
//
// # What is durable when
//
// Terms, votes and entries, before anybody hears of them. That more is committed is written
// with whatever is written next, for it can be learnt again; but that a change of members is, before
// others hear of it: who was removed does not vote for who has forgotten that. A frame is written only when the
// one before is durable. So a bad one at the very end was being written when the power
// failed: it is cut off. A bad one before others, a missing segment or entry is damage
// (ErrDamaged), and the node does not start: a replica that forgets what it promised makes
// others lose. Such a one is replaced: see [Replica]. Decay in the last frame of all looks
// like a power failure, and cannot be told from it.
//
// What is found at the start may only have been in the page cache, so the last frame is
// written and synced again before anything is said. The simulation found that.
//
// When a write or fsync fails nobody knows what is durable: nothing is answered any more,
// until the next start (ErrStopped).
//
// # Machines
//
// A machine need not be durable when Apply returns. It says what is, and the log keeps the
// rest, from which it is applied again. A restored state is on the disk before the log
// begins behind it; a note in the log, before both, says which of the two a crash came
// between.
//
// # Reads
//
// Read asks a majority whether this node still leads (ReadIndex). There are no leases: they
// would trust clocks.
//
// # Members
//
// One change at a time; of several members at once by joint consensus. The first members and
// the empty state count as a snapshot at index 1, so whoever joins gets a snapshot first. A
// snapshot goes in pieces, one at a time, to a file, beside Raft's messages.
//
// # Locks and goroutines
//
// Node has no locks. Work applies to several groups at the same time (Config.Workers), and
// waits for all of them: a machine that hangs has the node lose its leaderships.
//
// # Simulation
//
// TestWorlds runs nodes on files that lose what was not synced, in one goroutine, with
// trouble of all kinds; -seeds says how many worlds, -seed from which on. TestFaultsAreFound
// makes mistakes on purpose, and the same worlds have to find them.
//
// # What is not here
//
// Groups that rest still tick and send heartbeats, each its own: some hundreds of groups on
// a node are meant, not thousands. Bytes of a snapshot have no checksum but the transport's.
// A frame that the disk has room for no more stops the node.
//
// # Crash points
//
// quorum.created, quorum.log.before, quorum.log.written, quorum.log.synced,
// quorum.roll.created, quorum.roll.durable, quorum.reclaim.moved, quorum.restore.before,
// quorum.restore.after, quorum.entries.sent, quorum.sent, quorum.applied.
package quorum
