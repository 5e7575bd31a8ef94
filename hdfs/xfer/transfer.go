package xfer

import (
	"context"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/accept"
)

// transfer serves TRANSFER_BLOCK: it copies a replica to another node, and answers when that has it.
func (c *conn) transfer(ctx context.Context, op Op, q *pb.OpTransferBlockProto) error {
	h := q.GetHeader()
	if err := c.check(ctx, op, h.GetBaseHeader(), h.GetClientName()); err != nil {
		return err
	}
	if len(q.GetTargets()) != 1 || h.GetClientName() == "" {
		return c.fail(refuse(pb.Status_ERROR_UNSUPPORTED, "a replica is copied to one node, for a client"))
	}
	r, err := c.s.Store.Open(ctx, blockOf(h.GetBaseHeader().GetBlock()))
	if err != nil {
		return c.fail(err)
	}
	defer r.Close()
	if err := c.s.transfer(ctx, r, q); err != nil {
		return c.fail(err)
	}
	return c.answer(&pb.BlockOpResponseProto{Status: pb.Status_SUCCESS.Enum()})
}

func (s *Server) transfer(ctx context.Context, r Reader, q *pb.OpTransferBlockProto) error {
	h := proto.CloneOf(q.GetHeader())
	h.BaseHeader.Block.GenerationStamp = proto.Uint64(r.Stamp())
	h.BaseHeader.Block.NumBytes = proto.Uint64(uint64(r.Length()))
	if s.Issue != nil {
		h.BaseHeader.Token = s.Issue(blockOf(h.GetBaseHeader().GetBlock()))
	}
	stage := pb.OpWriteBlockProto_TRANSFER_RBW
	if r.Final() {
		stage = pb.OpWriteBlockProto_TRANSFER_FINALIZED
	}
	w := &pb.OpWriteBlockProto{
		Header: h, Stage: &stage, PipelineSize: pbUint32(0), MinBytesRcvd: proto.Uint64(0), MaxBytesRcvd: proto.Uint64(0),
		LatestGenerationStamp: proto.Uint64(0), RequestedChecksum: ours(),
	}
	if len(q.TargetStorageTypes) > 0 {
		w.StorageType = &q.TargetStorageTypes[0]
	}
	if len(q.TargetStorageIds) > 0 {
		w.StorageId = &q.TargetStorageIds[0]
	}
	m, err := s.connect(ctx, Address(q.Targets[0]), w)
	if err != nil {
		return err
	}
	defer m.net.Close()
	defer context.AfterFunc(ctx, func() { m.net.Close() })()
	out := sender{r: r, to: m.net, activity: new(accept.Activity), limit: s.Limits.Send, most: s.Packet, sums: true}
	if err := out.send(ctx, 0, r.Length()); err != nil {
		return err
	}
	_, err = readResponse(m.r)
	return err
}
