package gateway

import (
	"errors"
	"slices"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
)

// write are the methods by which a client writes a file.
var write = table{
	"create": on(func(c *call, q *pb.CreateRequestProto) (*pb.CreateResponseProto, error) {
		r, err := c.held(q.GetClientName(), &meta.Create{Path: q.GetSrc(), Mode: modeOf(q.GetMasked()), Asked: askedOf(q.Unmasked), Holder: q.GetClientName(),
			Machine: c.machine(), Flags: q.GetCreateFlag() & (meta.FlagCreate | meta.FlagOverwrite), Parents: q.GetCreateParent(),
			Replication: copiesOf(q.GetReplication()), BlockSize: int64(q.GetBlockSize())})
		if err != nil {
			return nil, err
		}
		return &pb.CreateResponseProto{Fs: c.status(r.(*meta.Status))}, nil
	}),
	"append": on(func(c *call, q *pb.AppendRequestProto) (*pb.AppendResponseProto, error) {
		r, err := c.held(q.GetClientName(), &meta.Append{Path: q.GetSrc(), Holder: q.GetClientName(), Machine: c.machine(),
			NewBlock: q.GetFlag()&uint32(pb.CreateFlagProto_NEW_BLOCK) != 0, Nodes: c.nodes()})
		if err != nil {
			return nil, err
		}
		a := r.(*meta.Appended)
		p := &pb.AppendResponseProto{Stat: c.status(&a.Status)}
		if a.Block != nil {
			p.Block = c.writable(a.Block)
		}
		return p, nil
	}),
	"addBlock": on((*call).addBlock),
	"abandonBlock": on(func(c *call, q *pb.AbandonBlockRequestProto) (*pb.AbandonBlockResponseProto, error) {
		err := c.did(&meta.AbandonBlock{Path: q.GetSrc(), ID: q.GetFileId(), Holder: q.GetHolder(), Block: *blockOf(q.GetB())})
		c.node.Wake()
		return &pb.AbandonBlockResponseProto{}, err
	}),
	"getAdditionalDatanode": on((*call).additionalNode),
	"updateBlockForPipeline": on(func(c *call, q *pb.UpdateBlockForPipelineRequestProto) (*pb.UpdateBlockForPipelineResponseProto, error) {
		r, err := c.do(&meta.NewStamp{Block: *blockOf(q.GetBlock()), Holder: q.GetClientName()})
		if err != nil {
			return nil, err
		}
		return &pb.UpdateBlockForPipelineResponseProto{Block: c.located(&r.(*meta.Allocated).LocatedBlock, pb.AccessModeProto_WRITE)}, nil
	}),
	"updatePipeline": on(func(c *call, q *pb.UpdatePipelineRequestProto) (*pb.UpdatePipelineResponseProto, error) {
		for _, n := range q.NewNodes {
			if id := n.GetDatanodeUuid(); id != c.node.Identity.Node {
				return nil, ipc.Throw(ipc.ClassIO, "there is no data node %.64q", id)
			}
		}
		return &pb.UpdatePipelineResponseProto{}, c.did(&meta.UpdatePipeline{Holder: q.GetClientName(), Old: *blockOf(q.GetOldBlock()), New: *blockOf(q.GetNewBlock()),
			Nodes: c.nodes()[:min(1, len(q.NewNodes))]})
	}),
	"complete": on(func(c *call, q *pb.CompleteRequestProto) (*pb.CompleteResponseProto, error) {
		last := blockOf(q.GetLast())
		ok, err := c.flag(&meta.Complete{Path: q.GetSrc(), ID: q.GetFileId(), Holder: q.GetClientName(), Last: last, Copies: c.node.Copies(last)})
		return &pb.CompleteResponseProto{Result: ok}, err
	}),
	"fsync": on(func(c *call, q *pb.FsyncRequestProto) (*pb.FsyncResponseProto, error) {
		return &pb.FsyncResponseProto{}, c.did(&meta.Fsync{Path: q.GetSrc(), ID: q.GetFileId(), Holder: q.GetClient(), Size: q.GetLastBlockLength()})
	}),
	"renewLease": on(func(c *call, q *pb.RenewLeaseRequestProto) (*pb.RenewLeaseResponseProto, error) {
		_, err := c.node.Propose(c.ctx, meta.Command{Caller: c.by, Op: &meta.RenewLease{Holder: q.GetClientName()}})
		return &pb.RenewLeaseResponseProto{}, err
	}),
	"recoverLease": on(func(c *call, q *pb.RecoverLeaseRequestProto) (*pb.RecoverLeaseResponseProto, error) {
		r, err := c.held(q.GetClientName(), &meta.RecoverLease{Path: q.GetSrc(), Holder: q.GetClientName()})
		if err != nil {
			return nil, err
		}
		closed := bool(*r.(*meta.Flag))
		if !closed {
			c.node.Wake()
		}
		return &pb.RecoverLeaseResponseProto{Result: &closed}, nil
	}),
}

// mostHolder is how long the name of a client may be: it is a part of keys.
const mostHolder = 4096

// held is do for commands that may give a client a file. What they refuse may have begun a recovery.
func (c *call) held(holder string, op meta.Op) (meta.Result, error) {
	if len(holder) > mostHolder {
		return nil, ipc.Throw("java.lang.IllegalArgumentException", "the name of a client has %d bytes, more than %d", len(holder), mostHolder)
	}
	r, err := c.do(op)
	if e, ok := errors.AsType[*meta.Error](err); ok && e.Class == classRecovering {
		c.node.Wake()
	}
	return r, err
}

const classRecovering = "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException"

// machine is the client's.
func (c *call) machine() string { return c.Remote.Addr().Unmap().String() }

// nodes are those that write blocks.
func (g *Gateway) nodes() []string { return []string{g.node.Identity.Node} }

func (c *call) addBlock(q *pb.AddBlockRequestProto) (*pb.AddBlockResponseProto, error) {
	if slices.ContainsFunc(q.ExcludeNodes, c.isSelf) {
		return nil, ipc.Throw(ipc.ClassIO, "File %s could only be written to 0 of the 1 minReplication nodes. There are 1 datanode(s) running and 1 node(s) are "+
			"excluded in this operation.", q.GetSrc())
	}
	previous := blockOf(q.GetPrevious())
	r, err := c.do(&meta.AddBlock{Path: q.GetSrc(), ID: q.GetFileId(), Holder: q.GetClientName(), Previous: previous, Copies: c.node.Copies(previous), Nodes: c.nodes()})
	if err != nil {
		return nil, err
	}
	return &pb.AddBlockResponseProto{Block: c.writable(&r.(*meta.Allocated).LocatedBlock)}, nil
}

func (c *call) isSelf(n *pb.DatanodeInfoProto) bool {
	return n.GetId().GetDatanodeUuid() == c.node.Identity.Node
}

// additionalNode finds none: there is one node. The client then goes on with what it has, or fails, as it
// was configured.
func (c *call) additionalNode(q *pb.GetAdditionalDatanodeRequestProto) (*pb.GetAdditionalDatanodeResponseProto, error) {
	if err := c.ask(func(m meta.Query) error {
		_, _, err := m.Writing(q.GetSrc(), q.GetFileId(), q.GetClientName())
		return err
	}); err != nil {
		return nil, err
	}
	b := &meta.LocatedBlock{Block: *blockOf(q.GetBlk()), Offset: -1}
	return &pb.GetAdditionalDatanodeResponseProto{Block: c.located(b, pb.AccessModeProto_COPY)}, nil
}
