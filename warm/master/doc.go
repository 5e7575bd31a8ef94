// Package master knows which jobs want which blocks of a distributed file system in memory,
// and on which node each is to be: the master of ignem (section III.A), outside the file
// system. Nodes decide when a block is read, by the same rules that hold on one machine
// (policy/prefetch, package warm), and only they read.
//
// # Jobs
//
// Migrate names the files of a job and their blocks as they are then; later changes of the
// files are not followed. For each block one replica is chosen (prefetch.Place). What finds no
// room is tried again when some has become free, or another job begins to keep the block where it can
// be shared, jobs with the smallest input first. What a job
// and an owner may have is a share of the memory that all nodes have for warming (Config), of which
// what is in memory anyhow takes nothing until a node has to lock it; within an owner's share smaller jobs take what has not been read yet for larger ones,
// and what several jobs of the owner share on a node counts once.
//
// A job lets go of its blocks when it is evicted or has ended (Evict, End), of each when it has
// read it if it asked for that (Facts.Implicit), and of all when memory is short and nobody
// knows it any more (Config.Alive). What it has read, or no node can keep, does not count towards the bounds any more
// (Config.PerJob), and when that is most of what is known of the job it is forgotten: one that goes on for months asks for
// new files all the time. What it asks for again it wants again.
//
// # Readers
//
// What is in memory somewhere is not read elsewhere, so who migrates a job has found out before what of it is there
// (Config.Watch, Config.Resident). What is in memory anyhow and goes is placed anew.
//
// What comes into a node's memory without having been ordered somebody reads (Changed): the job itself, or another one with the
// same input. That is left to them: the block is not read on another node as well, and nothing else of these jobs on that
// node, whose disk the readers need, for a few seconds after it was last seen. A block of which all was read like that is one that the job has read.
//
// # Nodes
//
// A node is told which blocks to keep for which jobs, as what has changed since it asked last
// (Orders, package delta). Each that it is told of, also one that it keeps already, it reports
// when it has come as far as it can: pinned, resident, read, or why not. Where it cannot keep
// one, another replica is chosen, Config.Attempts of them at most. The blocks of a node
// that has left are placed elsewhere, too.
//
// A node that joins tells what it keeps, and for whom. A master that has been started again
// knows nothing, and takes over what it is told: a job that it does not know is adopted by its
// name, and stays until it ends, is cleaned up, or is migrated again, which completes it.
// Nothing is let go because a master or a connection has ended; but the jobs that have ended
// lately are remembered, so that a node that was away does not bring them back.
//
// # Contracts
//
// It is pure but for its own state, and keeps nothing anywhere: no clock, no I/O, no goroutine.
// A Master is not safe for concurrent use; the channel of Ready may be waited for anywhere.
// A million blocks with three replicas each take about 300 MB, and a job of 2000 blocks from its first
// order to its end about 0.02 s of a core, with 1000 nodes and 500 other jobs (BenchmarkMaster).
package master
