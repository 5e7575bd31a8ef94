// Package stream deals the records of files to the consumers of a job: every
// record once, each file read in order, in long extents, by one reader
// (veloxdfs, section III.B: the block stream manager).
//
// # Terms
//
// A stream is the input of one job: files, a rule that says how records end,
// and a number of consumers. It is dealt in units: the records that start in
// one block of a file, a batch of small files, a compressed file, or the name of
// a file. A consumer takes one unit at a time, as fast as it can; a slow one
// gets fewer.
//
// A scan reads one file into an arena of shared memory, or deals it in place.
// Streams that read the same file at the same time are attached to the same scan:
// a later one joins where the scan is, and the scan wraps around for it. Blocks
// that are resident are dealt first.
//
// # Leases
//
// The units that a consumer's attempt was given are its lease. They are read when it has
// ended with code 0, and return to the stream when it is given up. Its user decides (Fail):
// what an attempt says of its end counts only if that is how its task has ended. If the
// task is restored from a checkpoint, the same attempt goes on with what it had then, and
// the rest returns; if it starts from the beginning, all does. The end of an attempt is
// in a journal on disk before anybody hears of it; who holds
// what is known by the consumers, who tell it when they come back (package
// stream/protocol), so that a killed daemon loses nothing.
//
// # Records at the border of blocks
//
// Unit i has the records that start at or after the beginning of block i and
// before that of block i+1. Where the first one starts is found by looking for
// the first end of a delimiter; the bytes between two such starts are the unit.
// So units are a function of the file alone, whatever order they are read in.
//
// # Rooms
//
// Package deal decides, without I/O, which unit goes to whom. Package source says what
// a file is, and package scan reads files. This package keeps what has to survive,
// and serves the consumers' connections: a stream asks its dealer what is to be done,
// and does it with its feed of package scan and with its links. Packages protocol and
// consumer are how consumers speak, and what they are.
//
// One lock, the engine's, guards all bookkeeping, that of scans too; reading, writing
// and sending happen outside it. Each scan has goroutines that read; each connection
// has two.
package stream
