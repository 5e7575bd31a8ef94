// Package inputs is the part of a cluster's manager that knows files: it has the inputs of
// jobs read into memory before the jobs come (ignem), and tells applications what is in
// memory where (quartet). It answers wire.InputService.
//
// What is wanted where is decided in warm/master, what is in memory is known to residency;
// this package looks files up in the file system, as the user who asks, and speaks to
// nodes and callers.
//
// # Nodes
//
// A node that is not known, because it or the manager was started anew, is asked for
// everything; then each tells the other what has changed. One of which nothing was heard for
// a while is forgotten, and its blocks are read elsewhere; when it comes back it is asked
// for everything again.
//
// # Jobs
//
// A job ends when somebody says so (Cool), or when its scheduler no longer names it among the
// applications that wait or run (Running), once it has, or tells that it has ended (Ended), or
// has not named it in ten minutes in which nobody has asked for it or about it. While nothing is heard of a scheduler for a minute, nothing of that happens. One that no scheduler knows, such as a query of Hive, may
// have a lease, which whoever runs it renews. Nothing is on disk.
//
// # Concurrency and trust
//
// One mutex guards everything; it is not held while a file system is asked or a caller
// waits. Callers have the cluster's token, and nodes are believed who their users are. What
// a user may read the file system says, which is asked as that user. Of blocks that a user
// names by their numbers (Follow) it is told how much is in memory where, and no more.
package inputs
