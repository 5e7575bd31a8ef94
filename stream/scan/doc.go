// Package scan reads the files of streams into shared memory, each file in order, in
// long extents, by one reader for all streams that read it at the time.
//
// # In memory or in place
//
// On a disk that seeks a scan reads, in order and alone, into shared memory. What
// is resident already, and what is on a disk that is too fast to seek, is dealt in
// place: a unit is then a part of the file, and its consumer has the kernel put the
// pages into a pipe, or reads them. That saves two copies, and lets the consumers
// of a fast disk read side by side; the scan only looks for where records start.
// Consumers see that the file is still what it was.
//
// # Who owns what
//
// A Set has everything that is being read. Each stream has a Feed in it, which is
// attached to the scans of files that the stream reads; its units go to its Taker. A
// unit holds the memory of its pieces until it is freed or cancelled. One lock, that
// of who made the set, guards all bookkeeping; reading happens outside it.
package scan
