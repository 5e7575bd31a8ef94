// Package gateway is what HDFS's clients see of a node: a NameNode and a DataNode in one, in HDFS's own
// protocols. It turns requests into commands and queries of package meta, and replicas of package
// block into those of hdfs/xfer. It decides nothing.
//
// Methods are functions in tables, grouped by what they are about: names, look, write, attributes,
// cache, admin; refused lists those that there are not, each with the exception by which HDFS refuses it.
// A method that is in no table is unknown to the client, too.
//
// # Who calls
//
// Of a caller on this machine the kernel says who it is (dfs.Callers.Prove). One from another machine is who it says it
// is, as in an HDFS without Kerberos: the name in the connection context is not proved. Groups are those
// that this machine's user database gives a name. The user who made the file system may do all, and so may
// members of its group. So whoever reaches the port from elsewhere can read and write everything: listen
// where only those come who may.
//
// A block is read and written with a token that the name side has given out, signed, for one block and one
// kind of access, and for ten hours, at all nodes. HDFS's clients carry it without being told to. What is written
// must be the last block of a file that is open as well, under a stamp that was given to somebody: of that the node of the names is asked
// (dfs.Keeper.Locate). A node that copies a block to another one for a client has a token of its own for it, of a kind that no client gets.
//
// # Several nodes
//
// Each node is a data node. A pipeline is HDFS's, each node hands packets on to the next, and compares them with their checksums, because
// package block makes its own. A node that comes into a pipeline (getAdditionalDatanode) gets what was written
// so far as a copy, which becomes a block in writing when it is whole. Nodes with a copy are told to clients the nearest first: on the client's
// machine, in its rack, elsewhere.
//
// # Other nodes
//
// The node that leads the names answers what is about them; a gateway of another node passes the call on to it (Config.Pass, which
// is dfs/member's), with who calls as it has found. Each node answers for itself what is about its own blocks. RingProtocol is
// ours: by it the superuser asks about nodes, and says which are to leave. Who says so must be proved by the node that it has reached: a name
// that comes from a machine without a node is not enough for that.
//
// # Calls that come again
//
// Each command carries the client's id, user, method and number of the call, so an answer that got lost is given
// again, after a restart as well, and to nobody else.
package gateway
