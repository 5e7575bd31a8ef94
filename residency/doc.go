// Package residency knows which blocks of a distributed file system are in memory, on which
// nodes, and how much of each (quartet, section 4.1: the Quartet Manager).
//
// Applications say which blocks they are interested in, and hear of changes to these only.
// Nodes are told which blocks to watch: those in whose Hosts one of their names stands, and
// those that are held there. They report what is in memory of these: all of it when they
// join, then what has changed. What is reported of other blocks is passed over, so memory is
// bounded by what applications may register (Config). Of machines that have not joined an owner may name so
// many; further ones count for nothing.
//
// All of it is soft: a Map keeps nothing anywhere. After a restart of its process callers get
// ErrUnknown, and say again who they are and what they want.
//
// # Versions
//
// Changes and Watch number their answers. Who asks names the last answer that it has
// applied, 0 when it has just registered or joined; an answer that was lost on the way is
// given again, and to who names one that is not known everything is told anew (package delta).
//
// # What a node does
//
// It keeps what it has reported of the blocks that it watches, and reports what differs from
// that. When a block is to be watched (Watch.Add), also one that it watches already, it
// reports it once more, unless nothing is in memory and nothing was reported. What it has
// reported of a block it forgets when it is to watch it no more. It may tell its whole state
// at any time. Reports come in the order in which they were made: who takes them in for a Map
// refuses one that comes late.
//
// # Contracts
//
// A Map of a million blocks with three replicas each takes about 330 MB, and a second of a
// thousand nodes with a hundred changes each about 0.2 s of a core (BenchmarkSecond); both
// grow in proportion.
//
// It is pure but for its own state: no clock, no I/O, no goroutine. A Map is not safe for
// concurrent use; the channels that it returns may be waited for anywhere. Times are given by
// the caller and need not grow.
package residency
