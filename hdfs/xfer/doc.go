// Package xfer is HDFS's data transfer protocol, version 28, as clients and data nodes speak it
// with data nodes: a [Server] without disk or metadata, and the other end:
// [Read], [Write], [Transfer], [Checksum]. See Hadoop's datatransfer.proto, DataXceiver, BlockSender,
// BlockReceiver and DataStreamer, which are all the specification there is.
//
// A connection is a row of operations, each the version, a code and a message with its length before it.
//
//   - READ_BLOCK is answered with packets: whole chunks and their checksums.
//   - WRITE_BLOCK builds a pipeline: each node connects to the next, and tells the first who cannot be
//     reached. Packets go down it; their acknowledgements come back up in the same order, with a status of
//     each node. A node acknowledges a packet when its store has taken it (and has it on the disk, when
//     the packet asks for that: hsync) and those after it have acknowledged it. The last node verifies
//     checksums, or each does (Server.Verify). An empty packet with a sequence number of -1 is a heartbeat, the last one ends the block.
//   - TRANSFER_BLOCK has a node copy a replica to another one, for a pipeline that lost a node.
//   - BLOCK_CHECKSUM is a checksum of a block's checksums.
//
// The rest is refused, in a way that clients understand: short-circuit reads, and what only data nodes of
// a NameNode ask each other. Clients that want SASL are told that there is none: a stock client wants it
// only where its configuration says so (dfs.data.transfer.protection), or there is Kerberos.
//
// A [Store] keeps replicas. It sees checksums of one kind only: CRC32C of 512 bytes, whatever
// a client has asked for, and writes that go on where the replica ends. Block tokens are bytes that a
// function judges.
package xfer
