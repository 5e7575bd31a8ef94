package headrace

import "fmt"

// BlockID names a block of a distributed file system. It is never reused.
type BlockID struct {
	// Pool names the file system; of HDFS it is the block pool, such as
	// BP-1-127.0.0.1-1700000000000.
	Pool string
	// Number is unique in its pool.
	Number int64
}

// String returns what people are shown.
func (b BlockID) String() string { return fmt.Sprintf("%s:blk_%d", b.Pool, b.Number) }

// Block is a part of a file of a distributed file system, and where its replicas are.
type Block struct {
	ID BlockID
	// Generation tells versions of the block apart: it grows when the block is appended to
	// or recovered.
	Generation int64
	// Offset is where in its file the block begins, Bytes how long it is.
	Offset, Bytes int64
	// Hosts are the machines with a replica, by the names that the file system has for them.
	Hosts []string
}
