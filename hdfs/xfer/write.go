package xfer

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/accept"
)

// isCopy tells whether a replica is written by another node, from one that it has.
func isCopy(s pb.OpWriteBlockProto_BlockConstructionStage) bool {
	return s == pb.OpWriteBlockProto_TRANSFER_RBW || s == pb.OpWriteBlockProto_TRANSFER_FINALIZED
}

// write serves WRITE_BLOCK.
func (c *conn) write(ctx context.Context, op Op, q *pb.OpWriteBlockProto) error {
	h := q.GetHeader()
	b := h.GetBaseHeader()
	if err := c.checkAs(ctx, Access{op, blockOf(b.GetBlock()), h.GetClientName(), b.GetToken(), isCopy(q.GetStage())}); err != nil {
		return err
	}
	sum, err := checksumOf(q.GetRequestedChecksum())
	if err != nil {
		return c.fail(refuse(pb.Status_ERROR_INVALID, "%s", err))
	}
	if h.GetClientName() == "" || isCopy(q.GetStage()) && len(q.GetTargets()) > 0 {
		return c.fail(refuse(pb.Status_ERROR_UNSUPPORTED, "data nodes copy replicas for clients, one at a time"))
	}
	if !distinct(q.GetTargets()) {
		return c.fail(refuse(pb.Status_ERROR_INVALID, "a pipeline of %d more nodes, some of which are the same", len(q.GetTargets())))
	}
	var w Writer
	r := writeRequest(q)
	if r.Stage == pb.OpWriteBlockProto_PIPELINE_CLOSE_RECOVERY {
		err = c.s.Store.Close(ctx, r)
	} else if w, err = c.s.Store.Write(ctx, r); err == nil {
		defer w.Close()
	}
	if err != nil {
		return c.fail(err)
	}
	var next *mirror
	if len(q.GetTargets()) > 0 {
		if next, err = c.s.mirror(ctx, q); err != nil {
			return c.fail(err)
		}
		defer next.net.Close()
	}
	if !isCopy(r.Stage) {
		if err := c.answer(&pb.BlockOpResponseProto{Status: pb.Status_SUCCESS.Enum(), FirstBadLink: proto.String("")}); err != nil {
			return err
		}
	}
	if w == nil {
		return nil
	}
	n := newNode(c, w, sum, next)
	defer n.packets.close()
	if isCopy(r.Stage) {
		return n.copy(ctx)
	}
	return n.run(ctx)
}

// distinct tells whether the nodes of a pipeline are all different. Otherwise it could be as long as a client likes.
func distinct(nodes []*pb.DatanodeInfoProto) bool {
	seen := map[string]bool{}
	for _, n := range nodes {
		seen[Address(n)] = true
	}
	return len(seen) == len(nodes)
}

func writeRequest(q *pb.OpWriteBlockProto) WriteRequest {
	r := WriteRequest{
		Block: blockOf(q.GetHeader().GetBaseHeader().GetBlock()), Client: q.GetHeader().GetClientName(), Token: q.GetHeader().GetBaseHeader().GetToken(), Stage: q.GetStage(),
		Min: int64(q.GetMinBytesRcvd()), Max: int64(q.GetMaxBytesRcvd()), StorageType: q.GetStorageType(), StorageID: q.GetStorageId(),
	}
	r.Stamp = r.Block.Stamp
	switch q.GetStage() {
	case pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, pb.OpWriteBlockProto_TRANSFER_RBW, pb.OpWriteBlockProto_TRANSFER_FINALIZED, pb.OpWriteBlockProto_DATA_STREAMING:
	default:
		r.Stamp = q.GetLatestGenerationStamp()
	}
	return r
}

// node is one node's part of a pipeline: it receives packets, hands them on to the next node and to its
// store, and answers them once both have them.
type node struct {
	c       *conn
	w       Writer
	next    *mirror // nil: it is the last
	packets packetReader
	splice  splicer
	verify  bool

	acks  chan ack
	ended error // of the goroutine that answers
	wg    sync.WaitGroup
}

// ack is a packet that the store has taken, or found bad.
type ack struct {
	seqno, end int64
	last       bool
	status     pb.Status
}

// mostUnanswered bounds the packets that the next node has not answered. Clients have up to 80 under way.
const mostUnanswered = 4096

func newNode(c *conn, w Writer, sum checksum, next *mirror) *node {
	n := &node{c: c, w: w, next: next, packets: packetReader{r: c.r}, splice: splicer{client: sum}, acks: make(chan ack, mostUnanswered)}
	from := accept.Network(c.net.Remote.Addr()).String()
	n.packets.take = func(bytes int) error { return c.s.memory.Take(from, int64(bytes)) }
	n.splice.length, n.splice.tail = w.Tail()
	// What the store gets in place of the client's own checksums is made here, so that it is verified here.
	n.verify = c.s.Verify || next == nil || sum != checksum{Chunk, castagnoli}
	return n
}

// run receives a block and answers its packets.
func (n *node) run(ctx context.Context) error {
	n.wg.Go(func() {
		if n.ended = n.answer(ctx); n.ended != nil {
			n.c.net.Close() // the receiver need not go on
		}
	})
	err := n.receive(ctx)
	if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Status != pb.Status_ERROR_CHECKSUM) {
		n.c.net.Close() // nobody waits for answers any more, nor need this node for the next one's
		if n.next != nil {
			n.next.net.Close()
		}
	}
	close(n.acks)
	n.wg.Wait()
	return errors.Join(err, n.ended)
}

// receive takes packets until the last one.
func (n *node) receive(ctx context.Context) error {
	for {
		n.c.net.SetReadDeadline(time.Now().Add(n.c.s.Limits.Receive))
		p, err := n.packets.next()
		if err != nil {
			return unexpected(err)
		}
		if n.next != nil {
			n.next.send(p.raw)
		}
		a := ack{p.seqno, p.offset + int64(len(p.data)), p.last, pb.Status_SUCCESS}
		err = n.take(ctx, &p)
		if e, ok := errors.AsType[*Error](err); ok && e.Status == pb.Status_ERROR_CHECKSUM {
			a.status = e.Status
		} else if err != nil {
			return err
		}
		n.acks <- a
		if err != nil || p.last {
			return err
		}
	}
}

// take hands a packet to the store.
func (n *node) take(ctx context.Context, p *packet) error {
	if n.verify || !n.splice.asStored(p) {
		if err := n.splice.client.verify(p.data, p.sums); err != nil {
			return err
		}
	} else if len(p.sums) != n.splice.client.size(len(p.data)) {
		return refuse(pb.Status_ERROR_CHECKSUM, "%d bytes have %d bytes of checksums", len(p.data), len(p.sums))
	}
	// Who sends again, as after a pipeline broke, sends the same: others would be told that this is there, too.
	if again := n.splice.again(p); len(again) > 0 {
		same, err := n.w.Same(ctx, p.offset, again)
		if err != nil {
			return err
		}
		if !same {
			return refuse(pb.Status_ERROR_CHECKSUM, "what was sent again of the %d bytes at %d is not what came first", len(again), p.offset)
		}
	}
	offset, data, sums, err := n.splice.splice(p)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		if err := n.w.Write(ctx, offset, data, sums); err != nil {
			return err
		}
	}
	if p.sync {
		return n.w.Sync(ctx)
	}
	return nil
}

// answer answers packets in their order, each after the next node has; answers that need not wait for each other go out at once. It
// returns after the last one, or when there are no more to come.
func (n *node) answer(ctx context.Context) (err error) {
	var answers []byte // that are not sent
	for a := range n.acks {
		statuses := []pb.Status{a.status}
		if n.next != nil && a.status == pb.Status_SUCCESS { // the next one was sent what is bad here, too
			statuses = append(statuses, n.next.statuses(a.seqno)...)
			if statuses[1] == pb.Status_ERROR_CHECKSUM {
				// What left this node was bad. The one before finds it gone, not the next one (BlockReceiver.PacketResponder).
				return errors.Join(errors.New("the next node found that what it was sent is corrupt"), n.send(answers))
			}
		}
		if success(statuses) {
			n.w.Acked(a.end)
		}
		if a.last {
			if err := n.send(answers); err != nil { // that may take long
				return err
			}
			answers = answers[:0]
			if err := n.w.Finalize(ctx); err != nil {
				return err
			}
		}
		if answers, err = appendMessage(answers, &pb.PipelineAckProto{Seqno: &a.seqno, Reply: statuses, DownstreamAckTimeNanos: proto.Uint64(0)}); err != nil {
			return err
		}
		if !a.last && n.answered() {
			continue
		}
		if err := n.send(answers); err != nil {
			return err
		}
		answers = answers[:0]
	}
	return nil
}

// send sends answers to the node before, or to the client.
func (n *node) send(answers []byte) error {
	if len(answers) == 0 {
		return nil
	}
	n.c.net.SetWriteDeadline(time.Now().Add(n.c.s.Limits.Send))
	_, err := n.c.net.Write(answers)
	return err
}

// answered reports whether the next packet is answered here, and by the next node, with all of a message: who sends a part of one may
// stop in the middle.
func (n *node) answered() bool {
	if len(n.acks) == 0 || n.next == nil {
		return len(n.acks) > 0
	}
	b, _ := n.next.r.Peek(n.next.r.Buffered())
	length, prefix := protowire.ConsumeVarint(b)
	return prefix > 0 && length <= uint64(len(b)-prefix)
}

func success(statuses []pb.Status) bool {
	for _, s := range statuses {
		if s != pb.Status_SUCCESS {
			return false
		}
	}
	return true
}

// copy receives a replica from another node, which waits for one answer.
func (n *node) copy(ctx context.Context) error {
	for last := false; !last; {
		n.c.net.SetReadDeadline(time.Now().Add(n.c.s.Limits.Receive))
		p, err := n.packets.next()
		if err == nil {
			err = n.take(ctx, &p)
		}
		if err != nil {
			return unexpected(err)
		}
		last = p.last
	}
	if err := n.w.Finalize(ctx); err != nil {
		return n.c.fail(err)
	}
	return n.c.answer(&pb.BlockOpResponseProto{Status: pb.Status_SUCCESS.Enum()})
}
