// Package link carries messages of package quorum between nodes, over TCP.
//
// A [Link] has one connection to each node that it sends to, which it makes when there is
// something to send. It never makes a sender wait: what does not fit into a node's queue, or
// was under way when a connection broke, is lost, as Raft expects. Frames have a length and
// a checksum; a connection that brings nonsense is closed.
//
// Links do not know whom they speak with: whoever reaches the port can be any node. So the
// caller's listener and Dial have to see to that (mutual TLS), which none does yet.
package link
