// Package pagecache tells which parts of which files are in the kernel's page
// cache, keeps parts of them there, and lets them go.
//
// It works on open files of this machine and knows nothing of jobs. What a
// caller may read is the caller's business: it passes files that it has opened.
//
// # Residency
//
// Where the process may load BPF programs (CAP_BPF and CAP_PERFMON), two of them
// count the pages that enter and leave the page cache, per block of each watched
// file. When a file is first watched, cachestat(2) tells what is there, between
// two looks at its counter: if that has not moved, both belong together, else it
// is done again. A thousandth of the time goes to comparing counters with the
// kernel. A file whose counters turn out wrong three times in a row is polled
// from then on; tmpfs, which has no such events, is polled from the beginning.
//
// Where BPF is not allowed, all files are polled with cachestat (Linux 6.5). That
// costs about 30 ns for each folio in memory, and the kernel answers only the
// owner of a file, who may write it, and root. mincore(2) is used for the files of
// overlayfs and of FUSE file systems that pass through, whose pages belong to
// inodes below of which cachestat does not know.
//
// A third program notes which parts of watched files other processes read, once somebody
// asks, where the kernel has the tracepoint (Linux 6.13): about 0.1 µs for each read of any
// file (BenchmarkReads).
//
// # Pinning
//
// A range is read in order with pread, then mapped and locked. Nothing here
// touches mapped memory: a fault would hold up a thread of the scheduler, and a
// file that was cut would end the process. Files of a FUSE file system must not be
// pinned by the process that serves it: it would wait for itself.
//
// Memory is charged to the cgroup that touches it first, and locking past the
// limit of a cgroup ends the process. So there is a budget, of at most three
// quarters of what the tightest limit leaves when the cache is opened. And what somebody
// else has read is not locked: it stays charged to their cgroup, which could not get rid of
// it any more, and they would be killed for lack of memory.
//
// What is pinned is gone with the process: the kernel unlocks it, and counters
// and programs go too.
package pagecache
