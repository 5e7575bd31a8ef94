// Package link carries messages of package quorum between nodes, over TCP.
//
// A [Link] has one connection to each node that it sends to, which it makes when there is
// something to send. It never makes a sender wait: what does not fit into a node's queue, or
// was under way when a connection broke, is lost, as Raft expects. Frames have a length and
// a checksum; a connection that brings nonsense is closed.
//
// A connection begins with a hello, by which who dials names whom it means ([Greet]); the other end takes or refuses it
// before there are messages, because an address may be another node's by then. Whether
// who names somebody may do so is not asked here: the caller's listener and Dial see to that (mutual TLS).
package link
