package gateway

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"headrace/block"
	"headrace/dfs"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/meta"
	"headrace/wire"
)

// replicas are the blocks of a node as data transfer wants them.
type replicas struct {
	node          *dfs.Node
	read, written prometheus.Counter // bytes
}

func named(b xfer.Block) block.Block { return block.Block{ID: int64(b.ID), Stamp: b.Stamp} }

// Open opens a replica as it is now, as far as readers may see it.
func (s *replicas) Open(_ context.Context, b xfer.Block) (xfer.Reader, error) {
	i, err := s.node.Blocks.Stat(int64(b.ID))
	if err != nil {
		return nil, err
	}
	if i.State == block.Temporary || i.Stamp < b.Stamp {
		return nil, fmt.Errorf("block %d has generation %d here, not %d: %w", b.ID, i.Stamp, b.Stamp, block.ErrNotFound)
	}
	i.Length = s.node.Keeper.Visible(i)
	return &replica{store: s.node.Blocks, info: i, bytes: s.read}, nil
}

// Write opens a replica of a file that somebody writes.
func (s *replicas) Write(ctx context.Context, q xfer.WriteRequest) (xfer.Writer, error) {
	t, err := s.target(ctx, q)
	if err != nil {
		return nil, err
	}
	b := named(q.Block)
	var w *block.Writer
	r := &writing{bytes: s.written}
	acked := q.Min
	switch q.Stage {
	case pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE:
		w, err = s.node.Blocks.Create(b, t.File, t.Capacity, false)
		acked = 0
	case pb.OpWriteBlockProto_PIPELINE_SETUP_APPEND, pb.OpWriteBlockProto_PIPELINE_SETUP_APPEND_RECOVERY:
		w, err = s.node.Blocks.Append(b, q.Stamp, q.Min)
	case pb.OpWriteBlockProto_PIPELINE_SETUP_STREAMING_RECOVERY:
		w, err = s.node.Blocks.Recover(b, q.Stamp, q.Min, q.Max)
	case pb.OpWriteBlockProto_TRANSFER_RBW, pb.OpWriteBlockProto_TRANSFER_FINALIZED:
		w, err = s.node.Keeper.CopyFor(ctx, meta.Block{ID: q.Block.ID, Stamp: q.Block.Stamp}, t, false)
		r.kept, acked = q.Stage == pb.OpWriteBlockProto_TRANSFER_RBW, q.Block.Length
	default:
		return nil, &xfer.Error{Status: pb.Status_ERROR_UNSUPPORTED, Message: q.Stage.String() + " is not for clients"}
	}
	if err != nil {
		return nil, err
	}
	r.w = w
	if r.tail, err = s.tail(ctx, b.ID, w.Length()); err != nil {
		w.Close()
		return nil, err
	}
	by := dfs.TokenUser(q.Token)
	if r.from = w.Length(); q.Stage == pb.OpWriteBlockProto_PIPELINE_SETUP_STREAMING_RECOVERY {
		r.from = s.node.Keeper.WrittenFrom(b.ID, by, r.from)
	}
	r.seen = s.node.Keeper.Writing(block.Block{ID: b.ID, Stamp: q.Stamp}, acked, by, r.from)
	return r, nil
}

// Close closes a replica whose writer has lost the connection.
func (s *replicas) Close(ctx context.Context, q xfer.WriteRequest) error {
	if _, err := s.target(ctx, q); err != nil {
		return err
	}
	return s.node.Blocks.Complete(named(q.Block), q.Stamp, q.Min)
}

// target refuses blocks of files that nobody writes, or another user than the token is for, and stamps that nobody was given: a token outlives
// the right to write. Which client holds the lease is not asked: some (hdfs-native) have another name here.
func (s *replicas) target(ctx context.Context, q xfer.WriteRequest) (*wire.WantedBlock, error) {
	t, err := s.node.Keeper.Locate(ctx, int64(q.Block.ID))
	switch {
	case err != nil:
		return nil, err
	case t.Writable == 0:
		return nil, fmt.Errorf("block %d is not being written", q.Block.ID)
	case t.Writer != "" && !slices.Contains([]string{"", t.Writer}, dfs.TokenUser(q.Token)):
		return nil, &xfer.Error{Status: pb.Status_ERROR_ACCESS_TOKEN, Message: fmt.Sprintf("block %d is being written by another user", q.Block.ID)}
	case q.Stamp > t.Writable:
		return nil, fmt.Errorf("block %d: the stamp %d was given to nobody", q.Block.ID, q.Stamp)
	}
	return t.Wanted, nil
}

// tail returns the checksum of a last chunk that is not full.
func (s *replicas) tail(ctx context.Context, id, length int64) (uint32, error) {
	n := length % block.Chunk
	if n == 0 {
		return 0, nil
	}
	r, err := s.node.Blocks.Open(block.Block{ID: id}, length-n, n)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	p, err := r.Next(ctx)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(p.Sums), nil
}

// replica is one that is being read.
type replica struct {
	store *block.Store
	info  block.Info
	bytes prometheus.Counter
	r     *block.Reader
	part  block.Part // what was read and not given yet; it begins at part.Off
}

func (r *replica) Length() int64 { return r.info.Length }
func (r *replica) Stamp() uint64 { return r.info.Stamp }
func (r *replica) Final() bool   { return r.info.State == block.Final }

// Read reads on, or anew when the offset is not where the last part has ended.
func (r *replica) Read(ctx context.Context, offset int64, most int) (data, sums []byte, err error) {
	n := min(int64(most), r.info.Length-offset)
	if r.r == nil || offset != r.part.Off {
		r.Close()
		if r.r, err = r.store.Open(r.info.Block, offset, n); err != nil {
			return nil, nil, err
		}
		r.part = block.Part{Off: offset}
	}
	if len(r.part.Data) == 0 {
		if r.part, err = r.r.Next(ctx); err != nil {
			return nil, nil, err
		}
	}
	n = min(n, int64(len(r.part.Data)))
	data, sums = r.part.Data[:n], r.part.Sums[:(n+block.Chunk-1)/block.Chunk*block.SumSize]
	if in := n % block.Chunk; in > 0 && n < int64(len(r.part.Data)) {
		// The replica has grown since, and its last chunk has a checksum of more than what is told of. The bytes
		// have been compared with that one.
		sums = xfer.AppendSums(sums[:len(sums)-block.SumSize:len(sums)-block.SumSize], data[n-in:])
	}
	r.bytes.Add(float64(n))
	r.part = block.Part{Off: r.part.Off + n, Data: r.part.Data[n:], Sums: r.part.Sums[len(sums):]}
	return data, sums, nil
}

func (r *replica) Sums(ctx context.Context, offset, n int64) ([]byte, error) {
	own, err := r.store.Open(r.info.Block, offset, n)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	return own.Sums(ctx)
}

func (r *replica) Close() error {
	if r.r != nil {
		r.r.Close()
	}
	return nil
}

// writing is a replica that is being written. The store makes checksums of its own: those of the client have been
// compared with the bytes before they come here (xfer.Server.Verify).
type writing struct {
	w     *block.Writer
	tail  uint32
	from  int64 // what lies before it others may have written
	seen  dfs.Seen
	bytes prometheus.Counter
	kept  bool // it is a copy of one that is being written, and is to be such a one
}

func (w *writing) Tail() (length int64, sum uint32) { return w.w.Length(), w.tail }

func (w *writing) Same(_ context.Context, offset int64, data []byte) (bool, error) {
	others := min(max(0, w.from-offset), int64(len(data)))
	return w.w.Same(data[others:], offset+others)
}

func (w *writing) Write(_ context.Context, offset int64, data, _ []byte) error {
	w.bytes.Add(float64(len(data)))
	if err := w.w.Write(data, offset); err != nil {
		return err
	}
	return w.w.Flush()
}

func (w *writing) Sync(context.Context) error { return w.w.Sync() }
func (w *writing) Acked(length int64)         { w.seen.Set(length) }
func (w *writing) Close() error               { return w.w.Close() }

func (w *writing) Finalize(context.Context) error {
	if w.kept {
		return w.w.Keep()
	}
	return w.w.Finalize(w.w.Length())
}
