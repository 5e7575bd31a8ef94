package xfer

import (
	"context"

	"headrace/hdfs/pb"
)

// A Block is one of a file, as clients name it.
type Block struct {
	Pool  string
	ID    uint64
	Stamp uint64 // the generation stamp: of two replicas, that with the older one is stale
	// Length is what the client thinks that the block has, in bytes.
	Length int64
}

func blockOf(m *pb.ExtendedBlockProto) Block {
	return Block{m.GetPoolId(), m.GetBlockId(), m.GetGenerationStamp(), int64(m.GetNumBytes())}
}

func (b Block) proto() *pb.ExtendedBlockProto {
	n := uint64(b.Length)
	return &pb.ExtendedBlockProto{PoolId: &b.Pool, BlockId: &b.ID, GenerationStamp: &b.Stamp, NumBytes: &n}
}

// An Access is what somebody wants to do with a block, for which it shows a token.
type Access struct {
	Op     Op
	Block  Block
	Client string // its name; empty when a data node asks
	Token  *pb.TokenProto
	// Copy: the block is written by a data node that has it, in the client's name.
	Copy bool
}

// A WriteRequest says how a replica is to be written.
type WriteRequest struct {
	Block  Block
	Client string
	Token  *pb.TokenProto // which Check has let pass
	// Stage is PIPELINE_SETUP_CREATE for a new replica; PIPELINE_SETUP_APPEND to open a final one
	// again, of the length Min; the same with _RECOVERY when an earlier try may have begun, then for a replica
	// in writing, too; PIPELINE_SETUP_STREAMING_RECOVERY goes on with one that has between Min and
	// Max bytes; DATA_STREAMING is as CREATE, from other data nodes; TRANSFER_RBW and TRANSFER_FINALIZED
	// make a copy.
	Stage pb.OpWriteBlockProto_BlockConstructionStage
	// Stamp is the generation stamp that the replica has from now on; in most cases that of the block.
	Stamp uint64
	// Min and Max bytes that the client knows to have been acknowledged, and has sent.
	Min, Max int64
	// Storage that the client was told to write to: what kind, and its name.
	StorageType pb.StorageTypeProto
	StorageID   string
}

// A Store keeps replicas. Its errors reach the client: an *Error as it is, others with the status ERROR.
type Store interface {
	// Open opens a replica for reading, if its stamp is not older than the block's.
	Open(ctx context.Context, b Block) (Reader, error)
	// Write opens a replica for writing. Another writer of the same replica is stopped: its
	// next write is to fail.
	Write(ctx context.Context, r WriteRequest) (Writer, error)
	// Close makes a replica in writing final, of the length r.Min and with the stamp r.Stamp, or sees that it is so
	// (PIPELINE_CLOSE_RECOVERY).
	Close(ctx context.Context, r WriteRequest) error
}

// A Reader reads a replica as it was when it was opened. One goroutine uses it.
type Reader interface {
	// Length in bytes that may be read, Stamp the replica's, Final whether it grows no more.
	Length() int64
	Stamp() uint64
	Final() bool
	// Read returns bytes from offset, a multiple of Chunk, and the checksums of their chunks: up to most
	// bytes, which are all that will be asked for, and fewer as it likes, but whole chunks unless the replica ends. The checksum of a last chunk
	// that is not full is one of the bytes up to Length. What it returns is valid until the next call.
	Read(ctx context.Context, offset int64, most int) (data, sums []byte, err error)
	// Sums returns the checksums of the chunks of n bytes from offset, both multiples of Chunk, or of as many of these as it likes. They are as
	// they were kept: the bytes need not be read for it.
	Sums(ctx context.Context, offset, n int64) (sums []byte, err error)
	Close() error
}

// A Writer writes a replica. One goroutine uses it, but for Acked.
type Writer interface {
	// Tail returns how long the replica is, and the checksum of its last chunk if that is not full.
	Tail() (length int64, sum uint32)
	// Same reports whether the replica has these bytes at offset, none of which are behind its end. Those that somebody else has written
	// are to count as the same: whoever may write need not be one who may read.
	Same(ctx context.Context, offset int64, data []byte) (bool, error)
	// Write adds data at offset, where the replica ends, with the checksums of all chunks that it touches,
	// so far: the first takes the place of that of a chunk which was not full. When it returns, readers
	// may see the data, and the death of the process loses nothing. It keeps nothing of data and sums.
	Write(ctx context.Context, offset int64, data, sums []byte) error
	// Sync returns when all that was written is on the disk.
	Sync(ctx context.Context) error
	// Acked says that all nodes of the pipeline after this one have so many bytes, and that the client
	// is about to hear of it: its visible length. It may be called beside the others.
	Acked(length int64)
	// Finalize makes the replica final; a copy of one in writing (TRANSFER_RBW) becomes such a one.
	Finalize(ctx context.Context) error
	// Close ends writing; a replica that is not final stays for recovery, a copy is deleted.
	Close() error
}
