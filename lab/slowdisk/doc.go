// Package slowdisk is a measuring instrument: a file system that passes
// everything through to a directory and takes as long as a disk with one head
// would, for experiments on machines without a hard disk.
//
// # The model
//
// There is one queue and one head (Model). A request takes the time to get there,
// a seek and half a turn of the platter, unless it begins where the last one
// ended, and then its bytes at the bandwidth of the platter. Each file is a place
// of its own: going from one file to another is a seek, however small they are,
// and the distance does not matter. The next request is the oldest one, with two
// exceptions that command queueing in a drive has too: a request that goes on
// where the head is goes first, until Model.Slice bytes in a row; and of the
// oldest one's neighbours, those up to Model.Window bytes before it in the same
// file, the first goes first, which puts right what arrives in disorder. For the
// same reason the choice of a request that costs a seek may be put off by a quarter
// of the time of a seek, which is not added to anything.
//
// Time is kept on a line of its own. A request ends at the moment that the model
// has computed, a timer that fires late does not delay those behind it, and
// Stats.Busy is the sum of the stated service times and not of measured ones.
// When the next request arrives after the last one has ended, the head has been
// idle; only a request that goes on where the last one ended and comes within
// Model.Lookahead is served as if it had been in time, because a drive reads on
// into its own buffer.
//
// Reads and writes take model time alike. Everything else (names, attributes,
// directories, fsync) takes none. A write is durable as in the directory below.
// While the head is bypassed (Disk.Bypass) nothing takes any. With Model.WriteBack the page
// cache takes up what is written, as far as the kernel lets it for one disk (max_ratio), and
// what was never written is read in no time.
//
// # The file system
//
// It is FUSE. Files are regular ones for stat, mmap, mlock and cachestat; the
// page cache keeps them when they are closed, and they leave it as those of a disk
// do. The kernel's read-ahead is part of the model, because how many seeks there
// are with several readers depends on it. The directory below is read with
// O_DIRECT, so that nothing is in memory twice; where its file system refuses,
// through its page cache, from which the data are dropped at once, and
// Stats.Buffered counts such files. Files of the directory must not be changed
// there while they are read here; new ones may be made there, which takes no
// model time.
//
// The server is a process of its own (Main), so that its processor time is counted
// apart from that of what is measured (Disk.CPU). It raises its priority: a disk
// does not wait for a processor.
package slowdisk
