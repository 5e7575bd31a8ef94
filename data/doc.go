// Package data reads the files of one machine for its users: it keeps files in
// memory ahead of who will read them, deals them out as streams, follows how much
// of them is in memory, measures the disks, and tells people all that.
//
// It knows files, their owners, and jobs by name. What runs, and what a job is
// made of, its caller knows: Jobs tells which jobs there are, and an Input or a
// stream is asked for by whoever starts what will read it.
//
// Requests of users are durable, in a Table that belongs to the package alone, and
// are taken up again by the next daemon. Inputs are not: the caller asks for them
// again. Streams have a journal of their own (package stream).
//
// All methods of Files may be called from any goroutine.
package data
