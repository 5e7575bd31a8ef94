// Package blocks looks after the blocks of a distributed file system that lie on this
// machine: it tells how much of each is in memory, and has those read ahead that jobs of
// the cluster will read.
//
// The manager says which (node.Agent brings its answers); nothing is decided here. Only
// blocks that somebody is interested in are watched, since each takes a descriptor. What
// is to be warmed is handed to the machine's own warm.Engine, in one request for all blocks of a
// job, so that it stands in one queue with files of this machine, under one budget.
// The checksums of a block are warmed with it.
//
// A block is a file of a DataNode of HDFS (Volumes), or a part of one of a node of our own file system (Near).
//
// # What may happen to a block
//
// A replica that is not here, or is not finished, is looked for again from time to time:
// it may come, by replication or because its writer ends. One that was moved to another
// volume, appended to, or replaced is found anew; its old file is let go. A block that is
// gone counts as not in memory. None of that is an error; what a job wants of it is told
// as failed, with the reason, and taken back when it turns up.
//
// # What is read
//
// The kernel tells which parts of a watched block others read (pagecache.ReadWatched), not for
// whom: a data node reads for everybody. What one job alone wants counts as read by that job,
// and is let go when all of it was read, if the job asked for that. Of blocks that share a file (Near) that is not known: what
// a job wants of them stays until the job ends.
//
// # Without a manager
//
// What jobs have ended only the manager knows. When it is silent for long what is kept for them is let go (Abandoned), but
// for what users hold; a job whose lease is longer keeps its blocks until that is over.
//
// # Order of things
//
// Apply and Report are called by one goroutine at a time (they are node.Blocks). Finding
// replicas takes time where there are many, or disks are slow: a Report looks for so many at most, and for so long, the next
// one for more.
package blocks
