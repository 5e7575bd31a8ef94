// Package statedir is the daemon's state directory: who has it, whose checkpoint stores its daemon uses, and
// where what is in it. It (mode 0711) holds
//
//	lock            held while a daemon runs; names its pid
//	identity        names the directory, in the checkpoint stores that belong to it
//	state.db        the records of tasks, and, in a bucket of its own, those of
//	                package data
//	reserve         space that is given up when the disk is full, so that the
//	                records can still be written
//	headrace.sock   the API (Connect over a unix socket; package wire)
//	stream.sock     where consumers of streams connect (package stream/protocol)
//	attach.sock     where processes of containers connect (package proc/attach)
//	streams/        one directory for each stream (package stream)
//	tasks/          one directory for each task (package proc)
//	checkpoints/    the default checkpoint store
//	scratch/        decompression during restores
package statedir
