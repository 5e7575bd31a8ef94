package dfs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/meta"
)

// Location is a member's rack as a path, as HDFS has them: Java's clients can do nothing with a file that has a block in a rack that is none.
func Location(m Member) string {
	return "/" + cmp.Or(strings.Trim(m.Rack, "/"), "default-rack")
}

// HostName is what a member's machine is called; who runs tasks compares it with what it calls machines itself.
func (n *Node) HostName(m Member) string {
	name := ""
	if n.Config.HostName != nil {
		name = n.Config.HostName(m.Name)
	}
	return cmp.Or(name, m.Host)
}

// DataNode is a member as HDFS's clients see it.
func DataNode(m Member) *pb.DatanodeInfoProto {
	rack := Location(m)
	return &pb.DatanodeInfoProto{
		Id: &pb.DatanodeIDProto{IpAddr: &m.Host, HostName: &m.Host, DatanodeUuid: &m.Name, XferPort: proto.Uint32(uint32(m.Data)),
			InfoPort: proto.Uint32(uint32(m.Web)), IpcPort: proto.Uint32(uint32(m.RPC))},
		Location: &rack, AdminState: pb.DatanodeInfoProto_NORMAL.Enum(),
	}
}

const (
	packetSize = 64 << 10
	mostFlying = 64 // packets that are not acknowledged
	mostTries  = 8  // to build a pipeline for one block
)

// pipeline writes a block to several nodes, as a client does. When one of them fails it goes on with the others, and with another
// one in its place if there is one. Its owner sends something every few minutes, or the nodes give it up.
type pipeline struct {
	w       *Writer
	b       meta.Block // as it is recorded
	nodes   []Member
	bad     map[string]bool
	copies  int // that there are to be
	segment uint16

	nc     dataConn
	stop   func()
	p      *xfer.Pipeline
	flying []flight
	at     int64  // where the next packet begins
	buf    []byte // of that
	acked  int64
	ending bool // all is acknowledged but the end
}

// flight is a packet that is not acknowledged.
type flight struct {
	offset int64
	data   []byte
	sync   bool
	seqno  int64
}

// build has nodes begin to write, and returns the index of the one that is to blame if they do not.
func (p *pipeline) build(stage pb.OpWriteBlockProto_BlockConstructionStage, stamp uint64, least, most int64) (bad int, err error) {
	p.close()
	k := p.w.n.Keeper
	// The nodes wait for each other, and the first one is to say which does not answer before it is given up itself.
	wait := p.w.n.Config.DataTime + time.Duration(len(p.nodes))*xfer.PerNode
	p.nc, p.stop, err = dialData(p.w.ctx, p.nodes[0], wait)
	if err != nil {
		p.stop = nil
		return 0, err
	}
	q := &pb.OpWriteBlockProto{
		Header: xfer.Header(k.block(p.b), p.w.holder, p.w.n.Tokens().Issue(p.b.ID, pb.AccessModeProto_WRITE, "")), Stage: &stage,
		PipelineSize: proto.Uint32(uint32(len(p.nodes))), MinBytesRcvd: proto.Uint64(uint64(least)), MaxBytesRcvd: proto.Uint64(uint64(most)),
		LatestGenerationStamp: &stamp, StorageType: pb.StorageTypeProto_DISK.Enum(), StorageId: &p.nodes[0].Storage,
	}
	for _, m := range p.nodes[1:] {
		q.Targets = append(q.Targets, DataNode(m))
		q.TargetStorageTypes, q.TargetStorageIds = append(q.TargetStorageTypes, pb.StorageTypeProto_DISK), append(q.TargetStorageIds, m.Storage)
	}
	if p.p, err = xfer.Write(p.nc, q); err == nil {
		return 0, nil
	}
	if e, ok := errors.AsType[*xfer.Error](err); ok && e.BadLink != "" {
		bad = max(0, slices.IndexFunc(p.nodes, func(m Member) bool { return m.DataAddress() == e.BadLink }))
	}
	return bad, err
}

func (p *pipeline) close() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// blame leaves a node out.
func (p *pipeline) blame(i int, cause error) {
	p.w.n.Config.Log.Warn("a node of a pipeline has failed", "block", p.b.ID, "node", p.nodes[i].Name, "err", cause)
	p.bad[p.nodes[i].Name] = true
	p.nodes = slices.Delete(slices.Clone(p.nodes), i, i+1)
}

// length is the end of what was written.
func (p *pipeline) length() int64 { return p.at + int64(len(p.buf)) }

// write takes bytes, and sends whole packets.
func (p *pipeline) write(data []byte) error {
	for len(data) > 0 {
		room := packetSize - int(p.at%xfer.Chunk) - len(p.buf) // the packet after the first one begins with a chunk
		n := min(len(data), room)
		p.buf = append(p.buf, data[:n]...)
		data = data[n:]
		if n == room {
			if err := p.send(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends what there is as a packet.
func (p *pipeline) send(sync bool) error {
	f := flight{offset: p.at, data: p.buf, sync: sync}
	p.at, p.buf = p.at+int64(len(p.buf)), nil
	p.flying = append(p.flying, f)
	err := p.launch(len(p.flying) - 1)
	for err == nil && len(p.flying) > mostFlying {
		err = p.land()
	}
	if err != nil {
		return p.repair(err)
	}
	return nil
}

func (p *pipeline) launch(i int) (err error) {
	f := &p.flying[i]
	f.seqno, err = p.p.Send(f.offset, f.data, f.sync)
	return err
}

// land waits for the next acknowledgement.
func (p *pipeline) land() error {
	seqno, err := p.p.Ack()
	if err != nil {
		return err
	}
	f := p.flying[0]
	if seqno != f.seqno {
		return fmt.Errorf("packet %d is acknowledged, not %d", seqno, f.seqno)
	}
	p.acked, p.flying = f.offset+int64(len(f.data)), p.flying[1:]
	return nil
}

// flush returns when all nodes have all that was written.
func (p *pipeline) flush(sync bool) error {
	if len(p.buf) > 0 || sync {
		if err := p.send(sync); err != nil {
			return err
		}
	}
	for len(p.flying) > 0 {
		if err := p.land(); err != nil {
			if err = p.repair(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish ends the block.
func (p *pipeline) finish(sync bool) error {
	if err := p.flush(sync); err != nil {
		return err
	}
	p.ending = true
	_, err := p.p.Finish(p.at, sync)
	if err == nil {
		_, err = p.p.Ack()
	}
	if err != nil {
		err = p.repair(err)
	}
	p.close()
	p.b.Size = p.at
	return err
}

// repair goes on after a failure: the nodes that are left, and a new one, get a new generation of the block.
func (p *pipeline) repair(cause error) error {
	bad := 0
	if e, ok := errors.AsType[*xfer.BadNode](cause); ok && e.Index < len(p.nodes) {
		bad = e.Index
	}
	for range mostTries {
		if p.w.ctx.Err() != nil || len(p.nodes) == 1 {
			break
		}
		p.blame(bad, cause)
		if bad, cause = p.rebuild(); cause == nil {
			return nil
		}
	}
	return fmt.Errorf("block %d cannot be written on: %w", p.b.ID, cause)
}

func (p *pipeline) rebuild() (bad int, err error) {
	next, err := p.w.next(p.b)
	if err != nil {
		return 0, err
	}
	stage, most := pb.OpWriteBlockProto_PIPELINE_CLOSE_RECOVERY, p.acked
	if !p.ending {
		stage, most = pb.OpWriteBlockProto_PIPELINE_SETUP_STREAMING_RECOVERY, p.at
		p.replace()
	}
	if bad, err = p.build(stage, next.Stamp, p.acked, most); err != nil {
		return bad, err
	}
	next.Size = p.acked
	if _, err := p.w.do(&meta.UpdatePipeline{Holder: p.w.holder, Old: p.b, New: next, Nodes: Names(p.nodes)}); err != nil {
		return 0, err
	}
	p.b = next
	for i := range p.flying {
		if err := p.launch(i); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// replace has another node get a copy of what there is, to come into the pipeline. Without one the others go on.
func (p *pipeline) replace() {
	if len(p.nodes) >= p.copies {
		return
	}
	has := func(name string) bool {
		return p.bad[name] || slices.ContainsFunc(p.nodes, func(m Member) bool { return m.Name == name })
	}
	for _, m := range p.w.n.Places().Writers(p.segment, 1, "", has) {
		nc, stop, err := dialData(p.w.ctx, p.nodes[0], p.w.n.Config.DataTime)
		if err == nil {
			h := xfer.Header(p.w.n.Keeper.block(p.b), p.w.holder, p.w.n.Tokens().Issue(p.b.ID, pb.AccessModeProto_COPY, ""))
			err = xfer.Transfer(nc, h, DataNode(m))
			stop()
		}
		if err != nil {
			p.bad[m.Name] = true
			p.w.n.told("copy a block that is being written", err)
			return
		}
		p.nodes = append(p.nodes, m)
	}
}

// pipeline is that of a block at nodes, which is to be built.
func (w *Writer) pipeline(b meta.Block, segment uint16, nodes []Member) *pipeline {
	return &pipeline{w: w, b: b, segment: segment, nodes: nodes, bad: map[string]bool{}, copies: w.n.Places().Copies(w.file.Replication)}
}
