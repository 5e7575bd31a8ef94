package xfer

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// mirror is a connection to the next node of a pipeline.
type mirror struct {
	net    net.Conn
	r      *bufio.Reader
	limits Limits
	after  int // nodes after that one

	failed atomic.Bool
}

// Address returns HOST:PORT of a node for data transfer, as clients name it when they look for who is to blame.
func Address(n *pb.DatanodeInfoProto) string {
	return net.JoinHostPort(n.GetId().GetIpAddr(), strconv.Itoa(int(n.GetId().GetXferPort())))
}

// mirror has the next node begin to write. The error names who is to blame.
func (s *Server) mirror(ctx context.Context, q *pb.OpWriteBlockProto) (*mirror, error) {
	to := Address(q.Targets[0])
	m, err := s.connect(ctx, to, onward(q))
	if err == nil {
		return m, nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = refuse(pb.Status_ERROR, "%s", err)
	}
	if e.BadLink == "" {
		e.BadLink = to
	}
	return nil, e
}

// connect connects to a node, and has it answer how the pipeline from there on is.
func (s *Server) connect(ctx context.Context, to string, q *pb.OpWriteBlockProto) (*mirror, error) {
	wait := s.Limits.Connect + time.Duration(len(q.Targets))*PerNode
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	nc, err := s.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	m := &mirror{net: nc, r: bufio.NewReader(nc), limits: s.Limits, after: len(q.Targets)}
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	if err = writeOp(nc, OpWriteBlock, q); err == nil && !isCopy(q.GetStage()) {
		_, err = readResponse(m.r)
	}
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return m, nil
}

// onward returns what a node asks of the next one.
func onward(q *pb.OpWriteBlockProto) *pb.OpWriteBlockProto {
	o := proto.CloneOf(q)
	o.Targets = o.Targets[1:]
	if len(o.TargetStorageTypes) > 0 {
		o.StorageType, o.TargetStorageTypes = &q.TargetStorageTypes[0], o.TargetStorageTypes[1:]
	}
	if len(o.TargetStorageIds) > 0 {
		o.StorageId, o.TargetStorageIds = &q.TargetStorageIds[0], o.TargetStorageIds[1:]
	}
	if len(o.TargetPinnings) > 0 {
		o.Pinning, o.TargetPinnings = &q.TargetPinnings[0], o.TargetPinnings[1:]
	}
	return o
}

// send hands a packet on. When that fails, the answers say so.
func (m *mirror) send(packet []byte) {
	if m.failed.Load() {
		return
	}
	m.net.SetWriteDeadline(time.Now().Add(m.limits.Send))
	if _, err := m.net.Write(packet); err != nil {
		m.fail()
	}
}

// fail gives the node up, and does not wait for its answers.
func (m *mirror) fail() {
	m.failed.Store(true)
	m.net.Close()
}

// statuses waits for the answer to a packet: the status of the node and of those after it. A node that
// is gone has the status ERROR, and nobody knows of those after it.
func (m *mirror) statuses(seqno int64) []pb.Status {
	if !m.failed.Load() {
		m.net.SetReadDeadline(time.Now().Add(m.limits.Answer + time.Duration(m.after+1)*PerNode))
		if a, err := readAck(m.r); err == nil && a.GetSeqno() == seqno {
			return a.Reply
		}
		m.fail()
	}
	return []pb.Status{pb.Status_ERROR}
}
