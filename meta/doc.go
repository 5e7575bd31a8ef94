// Package meta is the namespace of a distributed file system as a deterministic state
// machine: commands in, answers out, over a state of keys and values. Clients of HDFS are
// to take it for HDFS's NameNode: operations, the order of their checks, exceptions by
// Java class and message, permissions, ACLs, attributes, leases and the life of blocks are
// those of Hadoop 3.5.0. Names of its source are given where a rule comes from there.
//
// # Commands and queries
//
// [Apply] applies a [Command]. All that its effect depends on is in the state or in the
// command: who proposes it adds the time, the caller, and the nodes and segment of a new
// block. There is no clock, no chance, no I/O; maps are never walked in their own order.
// So all who hold the state and apply the same commands hold the same bytes. A command
// that fails changes nothing, but for a lease whose recovery it has begun.
//
// A [Query] reads. It has no way to write.
//
// Clients that lost an answer ask again, with the same client and call. They get the
// answer of the first time: answers are part of the state, for a time and up to a number.
// HDFS's RetryCache does so for a third of the operations.
//
// Who proposes commands also has to propose, from time to time: [ExpireLeases], [Sweep]
// (directories that were deleted are out of reach at once and are taken apart in small
// steps), and [Collected] once the copies of blocks from [Query.Garbage] are gone. It tells
// of finished copies in [AddBlock] and [Complete], makes the nodes of blocks
// from [Query.Recoveries] agree on a length and says so in [CommitRecovery].
//
// # State
//
// See keys.go for the keys. A directory is a record; a file lies in its entry in the
// directory, with its last eight blocks, and blocks before those have keys of their own.
// So what most operations touch is one directory and one entry, and a block added to a
// long file costs as much as one added to a short one. A path costs two reads a level.
//
// Numbers of inodes and blocks have that of a shard in their upper bits, and belong to the
// shard for ever. One shard is in use so far.
//
// Where the copies of a block are is not stored: a block has a segment, and a table
// elsewhere says which nodes have copies of a segment (VeloxDFS, III.C, computes places as
// well). Only the nodes of a block that is being written are kept, until [Relocate] says that
// it is where it belongs.
//
// # Cache
//
// Pools and directives of HDFS's cache are kept, and who may change them; [Query.CacheUses] says which blocks they want in memory. Who has those in memory is told
// by whoever asks. That a pool has a limit is a matter of how much its directives want, which is as much work as they have files: who proposes a directive has found that out.
//
// # Quotas
//
// Directories with a quota, and only those, keep how many names and bytes there are below. Saving, linking and unlinking an inode
// adds to them, so no operation can forget it. What a whole tree takes is counted when it gets a quota, or when it is moved or deleted
// below one: that takes as long as it has entries.
//
// # Surveys
//
// That, and whether the caller may delete all below a directory, is not found out while a command is applied, if it is much: nothing else is
// done meanwhile, on any node. [Apply] then returns an error that is [TooMuch]. [Survey] marks the directory; [Query.Survey] looks at a state
// that does not change, and the command comes again with what was [Seen]. Commands between the mark and that add what they change to the mark, or take it away:
// then it begins anew.
//
// A file that is to be overwritten stays when the new one would exceed a quota; HDFS has deleted it by then.
//
// # What is not here
//
// Snapshots, erasure coding, encryption zones, storage policies, symbolic links (HDFS, too,
// refuses them by default), quotas by storage type. Times of access are set by SetTimes alone, as
// with dfs.namenode.accesstime.precision=0.
//
// dfs/metatest compares this package with a real HDFS, operation by operation.
package meta
