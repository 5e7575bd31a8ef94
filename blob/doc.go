// Package blob keeps objects where all machines of a cluster reach them: in a directory
// that all have mounted ([Dir]; by NFS for example), or in a directory of HDFS ([HDFS]).
//
// All that a [Place] promises is that what was written is there for all, and that a
// rename of a directory happens once. There are no locks and no server of our own.
// Objects may be the memory of programs, so a place must be closed to other users; that
// is checked.
//
// # Crash points
//
// The points at which a test can end the process (package headrace/internal/crash):
//
//	blob.renamed   a rename was done, not yet durably (Dir only)
package blob
