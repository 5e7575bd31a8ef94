// Package dfs is a node of the distributed file system, as a library: a name space
// (package meta) and blocks (package block), made durable and kept in step. It speaks no
// protocol; dfs/gateway does.
//
// There is one node so far. What will be agreed between nodes is one call, Propose: a
// command in, an answer out once it is durable. All else only reads.
//
// # In the directory
//
//	LOCK  meta.db  blocks/
//
// meta.db is a bbolt database of two buckets: "node" says who this node is, "state" has
// the keys and values of package meta. All is readable by its user alone.
//
// # Why the state lies in bbolt, without a log
//
// A batch of commands is one transaction: they are applied to the tree, then one commit
// makes them durable, then they are answered. So there is no log to replay, no snapshot to
// take, no state that must fit into memory, and a start takes no time. A query reads a
// transaction of its own, and never waits for a commit. pebble would commit with one
// fsync in place of two and write less beside it; it is a large dependency, and a log as
// Raft wants it will bear the cost of commits later.
//
// # What is durable when
//
// A command that was answered survives kill and power failure, and so does an answer that
// nobody has heard: who asks again, under the same call, gets it. Bytes of a file survive a kill
// when they were flushed, and a power failure when they were synced (hsync), or closed with
// Config.SyncOnClose; package block says more. When a commit fails nobody knows what is
// durable, so nothing is answered any more: see Failed.
//
// # Upkeep
//
// One goroutine does what nobody asks for: it ends leases that were not renewed, takes apart
// directories that were deleted, deletes the copies of blocks that belong to no file,
// recovers blocks whose writers have gone, drops copies that no file knows (in the second
// pass that finds them, an hour after the first), and has the blocks' index written.
// Another one reads all blocks, slowly, to find those that have decayed.
//
// # Locks and goroutines
//
// Commands are applied by one goroutine, in the order in which they came. Queries run beside
// it. Whoever is inside a query must not propose: the database may have to wait for all
// readers in order to grow. The node takes no lock around calls of package block.
//
// # Crash points
//
// dfs.format, dfs.commit.before, dfs.commit.after, dfs.collect.deleted,
// dfs.recover.started, dfs.recover.finished.
package dfs
