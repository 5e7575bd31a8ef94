// Package ipc is Hadoop RPC, version 9, as Hadoop's own clients and servers speak it:
// a [Server] and a small [Client]. It knows no method of any protocol.
//
// A connection begins with "hrpc", the version, a service class and how the client wants to
// authenticate. Then come frames: a length of four bytes and so many bytes, in which
// messages stand one after another, each with its length before it. The client may negotiate
// (SASL; this server offers simple authentication alone, as an HDFS without Kerberos does),
// then says who it is and for whom it acts (the connection context), then calls. Calls of a
// connection run beside each other, and are answered as they end, with one write for all that end at the same time; goroutines that have served one wait for the next, of any connection. See Hadoop's RpcHeader.proto,
// and ipc/Server.java and ipc/Client.java, which are all the specification there is.
//
// A protocol is served by a [Handler]; a [Service] is one that finds a method's messages in the
// descriptor of the protocol (hdfs/pb). It is told each call's client id, call id and
// retry count, by which a call that comes again after a failure is known. Errors are Java
// exceptions: see [Exception].
//
// Whoever connects is a stranger until it has said who it is, and what it then says is proved by Server.Prove alone (but for
// protocols in Server.Unproved).
// [Limits] bound connections and memory for each address and for all, and the time that
// anything may take.
package ipc
