// Package replica finds the files of HDFS's blocks on the machine of a data node.
//
// # Where they are
//
// A data node keeps its replicas in directories, one for each disk as a rule, which are
// called volumes (dfs.datanode.data.dir). In each there is, for each block pool,
//
//	current/POOL/current/VERSION
//	current/POOL/current/finalized/subdirA/subdirB/blk_ID
//	current/POOL/current/finalized/subdirA/subdirB/blk_ID_GENERATION.meta
//	current/POOL/current/rbw    blocks that are being written, or wait for recovery
//	current/POOL/tmp            copies that are being made
//
// where A and B are bits of the ID: five each in the layout -57 of Hadoop 2.8 and later,
// eight each in -56 before (DatanodeUtil.idToBlockDir of Hadoop). Other layouts are
// refused. What an upgrade keeps for a rollback (previous, trash) is not looked at, nor is
// provided storage, which has no files.
//
// # What a replica is
//
// Data and checksums of a finalized block of the generation and the length that are asked
// for, both open. Names may lead to something else at any moment: the block is appended
// to, cut, recovered, moved to another volume, deleted, its disk removed. Open files stay
// what they are; [Replica.Check] tells, without a look at the disk as a rule, whether the
// data node still has them. Nobody is told of changes: look again from time to time.
//
// The contents are not read, so that a replica that is corrupt but complete is found. The
// data node's own scanner finds out, and then the name node no longer names this machine.
// A checksum file of an earlier generation that was left beside the data (the data node
// does not accept that either) passes if the length is right.
//
// # Safety and rights
//
// The rights are those of the process. Data nodes close their volumes to all but their
// own user, so it must be that one, usually hdfs, or root; cachestat(2) of the files, too,
// is for these alone. Below a volume no symbolic link is followed. No volume is kept
// open, so none is kept from being unmounted, but open replicas do.
//
// A disk may fail or not answer at all. Each volume is asked by goroutines of its own; one
// that does not answer in ten seconds is left out until it does.
package replica
