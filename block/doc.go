// Package block keeps the blocks of a distributed file system on the disks of this
// machine, after VeloxDFS (Ahn et al., sections III.B and III.C). It knows blocks,
// generations and bytes; no names of files, no other nodes, no protocol.
//
// # On the disk
//
//	VERSION  LOCK  index  files/AA/FILE.blocks
//
// All blocks of a user's file on one disk are one combined file, FILE being the file's
// number and AA its last byte. In it each block has a region with room for the largest that
// it may become, sparse: a header of one page, then pieces of 8 MB, each behind the 64 KB
// of its checksums (CRC32C of 512 bytes), so that reading on is reading on. Regions follow
// one another and are never used again: a deleted block leaves its header and a hole, and
// with the last one the file goes. A piece is reserved as a whole once a block has grown
// past 1 MB.
//
// The headers say all there is to know (header). The index (index) only spares reading
// them at the start, and can be lost. It is one file, written anew by Snapshot and
// appended to when a file in it is about to change; it is no bbolt because it has to
// go through the same simulated power failures as everything else.
//
// # What survives what
//
// Flush hands bytes and checksums to the kernel: readers see them, and they survive the
// process. Sync, and what ends a recovery, makes them survive the machine. A block that
// was being written when its process ended is cut to its last good chunk, but never below
// what was synced, and is Waiting then. If the machine has not ended since its writer began, nor was the disk unmounted, nor has it
// failed, it is whole: it has all that was flushed (Config.Since). A closed block of which no one made all bytes
// durable is suspect after a crash: Scrub reads it first, and what has lost its end
// becomes Waiting. Config.SyncOnClose closes that gap, at the price of an fsync.
//
// Bytes are compared with their checksums before they leave. Damage is told of once for
// each replica; the others and the good chunks of this one stay readable.
//
// # Generations
//
// Each block has a generation stamp. Append, Recover, Complete and the two halves of block
// recovery raise it, as in HDFS; what comes with an older one is refused, and a writer that
// was replaced fails with ErrFenced at its next call. StartRecovery notes its promise
// durably.
//
// # Disks
//
// A new file goes where Place says, and later blocks of it to the same disk while there is
// room. A disk that is nearly full takes no new blocks, but lets those that are there
// grow; ENOSPC fails one writer (ErrFull). A read error is the replica's. A failed write or
// fsync takes the disk out until the next start, or until it was unmounted and is there again (Attach): nothing more is acknowledged there (ErrOut). So does a disk on which nothing ends for
// Config.Patience; sooner it takes no new blocks. That one operation is slow says only that the disk has much to do.
//
// # Reading
//
// A Reader reads up to 16 MB in one turn of disk.Scheduler and then gives bytes out of
// memory. Those who read one combined file share a place among the readers of the disk, and
// go in the order of the file. What is in memory needs no turn, nor does a disk that turns
// out to be too fast to seek. While nobody else waits, a reader has its next extent read
// before it asks, as far as Config.Memory allows; who waits for a turn holds no memory. At
// the end of a whole block the beginning of the file's next one is read ahead. Scrubbing takes turns of the class Warming.
//
// # What is in memory
//
// Memory tells which closed blocks are, and Extent where one lies, for who wants it there; Warm reads one. Kernels before Linux 6.5 do not say.
//
// # Locks
//
// replica.io, by whoever changes a replica; then combined.mu; then index.mu or Store.mu.
// Nothing of the disk is done under Store.mu.
//
// # Crash points
//
// block.create.opened, .create.header, .reopened, .rewind, .recovery.fenced,
// .finish.header, .delete.header, .delete.unlink, .salvage.erased, .spill.data, .spill.sums,
// .sync.header, .sync.durable, .keep.header, .final.header, .index.written, .index.durable.
package block
