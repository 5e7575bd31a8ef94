// Package dfs is a node of the distributed file system, as a library: its part in the names (package
// dfs/names, on package meta), and blocks (package block), on several nodes that are all alike. It speaks no
// protocol to clients; dfs/gateway does.
//
// All that nodes agree on is one state, of one group: the names, the ring's table and its members. A node founds a file
// system and is all of that group, or is invited to one: [Prepare] says who it is, the node that leads admits it, and Open
// takes its [Invitation]. Who leads answers [names.Group.Propose] and [names.Group.Query], others say who does
// ([NotLeader]).
//
// # In the directory
//
//	LOCK  meta.db  log/  blocks/
//
// meta.db is a bbolt database: its bucket "node" says who this node is, the rest is that of package dfs/names, as is log. All
// is readable by its user alone. A directory of the layout without a log is taken over when it is opened.
//
// # What is durable when
//
// A command that was answered is in the log of a majority of those who vote, and survives kill and power failure there; so
// does an answer that nobody has heard: who asks again, under the same call, gets it, whoever leads then. An error that is
// [ErrUncertain] says that it is not known. Answers that refuse, or say that nothing was done, are not kept.
// Bytes of a file survive a kill when they were flushed, and a power failure of all their nodes when they were synced (hsync), or closed with
// Config.SyncOnClose; package block says more. When the log or the database cannot be written nobody knows what is
// durable, so nothing is answered any more: see [names.Group.Failed].
//
// # How long an answer takes
//
// Commands that come during an fsync of the log share the next one, and an answer takes one to two of them, on whoever is
// the second fastest of three: the leader's and the others' take place at once. The database is written every few seconds, beside
// that. Time for each of what 64 clients of dfs/gateway do at once, at a node that is alone, as the least and the most of four runs in
// turn, on two processors that were busy with other work (go test ./dfs/gateway -run XXX -bench Names, in an older form that did these two alone); and what 64
// callers do in one process, without a protocol, three runs (go test ./dfs -run XXX -bench . -benchtime 2s):
//
//	                                      a directory made  asked for
//	bbolt alone, a transaction a batch    122-1,375 µs      31-117 µs
//	the log before it                      90-280 µs        36-171 µs
//	without a protocol                    148-228 µs        18-31 µs
//	the same, three nodes on one disk     776-2,586 µs      45-210 µs
//
// # Where copies are
//
// A block has a segment of the ring. While it is written, and until each node where its segment belongs has a copy, the nodes that have it
// are kept with it (meta.LocatedBlock.Nodes); then they are forgotten, and follow from the table ([Places]). A block of a file that
// wants fewer copies than the table has is never settled so: it stays where it is, as long as it can. More copies than the table has are not made.
//
// Each node has a [Keeper]. That of the node that leads the names knows who is to have what, and the others ask it; there is no list of
// blocks but that of files, and no reports of all blocks. What it does, and in which order it is safe:
//
//   - It settles: it walks over the blocks whose nodes are kept, asks these and those where the block belongs (Look), has copies made that are
//     missing (Fetch), and notes who has one. Places are forgotten when all targets of a settled segment have said that they have a copy.
//   - It collects: copies of deleted blocks are deleted at all nodes that may have some. A node that is away finds out later. What lies at one that is there and
//     cannot be asked waits, and is passed over.
//   - It recovers blocks whose writers have gone: see agree.
//
// And that of every node, for its own:
//
//   - It fills segments that the table says are to be here: it asks for their blocks (Segments), fetches what is not here, and confirms. A node that
//     has lost blocks that the table counts on says so first (Lost). That may take days: when nodes come or go, or a disk fails, it begins anew, with
//     what has the fewest copies.
//   - It judges, at the start and once an hour: it asks about all copies that are here. What no file needs here is deleted by
//     a look that finds it an hour after the first one, after a third question at that moment; what is old is fetched again. A good copy of a block for which only nodes
//     count that are away counts from then on. Nobody is told that a
//     copy is here while it is about to be deleted (Keeper.dropping, Keeper.condemned).
//   - It replaces a damaged copy by another node's, as soon as it is found: by a reader, by the reading of all blocks once a week, or because a client has
//     said so; what clients say is looked at first.
//
// Bytes go from node to node by HDFS's data transfer, as to clients, with tokens that each node can issue ([Tokens]). Few copies are made at
// a time, and each waits for the disk (block.Writer.Pace): clients have the same one, and would wait behind all that the page cache has taken. A
// node that is killed then is also sooner gone: its connections last until its writes have ended.
//
// # What readers see of a block that is written
//
// A node shows of it what all nodes behind it in the pipeline have as well (Keeper.Visible): what is visible anywhere is everywhere. So it is
// there after a recovery.
//
// # What is in memory
//
// Each node finds out which finished blocks are in the page cache (block.Memory), and tells the node that leads, which tells clients (HDFS's cached
// locations). That is a hint: nobody keeps it, and it may be some seconds old.
//
// What HDFS's cache directives want to be kept there, the node that leads finds out (Node.CacheUses): it looks through their files, and says which of the nodes with a
// copy of a block keep it, within what each says it may (assign). These ask what that is (BlockService.Keep), read it behind all others (block.Warm), and lock it
// (pagecache). A node lets nothing go until one that leads has looked since it has heard of that node.
//
// # Writers
//
// A [Writer] is a client of the pipeline like any other: packets, acknowledgements, and after a failure a new generation on those
// that are left and one more. Where the only copy is here, it writes to package block without a detour.
//
// # Locks and goroutines
//
// Upkeep is three goroutines that work while this node leads, every Config.Upkeep: one ends leases and settles, one deletes what calls have left behind, one recovers
// blocks. The last two do so also when a call says that there is something, for all such calls of 20 ms at once. Keeper.keep is another, for this node's
// copies; one writes the index of blocks, one of each disk reads all of them, one what clients say is bad. Whoever is inside a query must not propose. No lock is held around calls of
// package block but Keeper.dropping, and Keeper.settling, which the node that leads holds while it settles, and while it lists a segment's blocks.
//
// # Crash points
//
// dfs.format, dfs.collect.deleted, dfs.recover.started, dfs.recover.finished; those of dfs/names and quorum.
package dfs
