package gateway

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
)

// write are the methods by which a client writes a file.
var write = table{
	"create": on(func(c *call, q *pb.CreateRequestProto) (*pb.CreateResponseProto, error) {
		if err := onlyPolicies(q.GetEcPolicyName(), q.GetStoragePolicy()); err != nil {
			return nil, err
		}
		r, err := c.held(q.GetClientName(), &meta.Create{Path: q.GetSrc(), Mode: modeOf(q.GetMasked()), Asked: askedOf(q.Unmasked), Holder: q.GetClientName(),
			Machine: c.machine(), Flags: q.GetCreateFlag() & (meta.FlagCreate | meta.FlagOverwrite), Parents: q.GetCreateParent(),
			Replication: copiesOf(q.GetReplication()), BlockSize: int64(q.GetBlockSize())})
		if err != nil {
			return nil, err
		}
		return &pb.CreateResponseProto{Fs: c.status(r.(*meta.Status))}, nil
	}),
	"append": on(func(c *call, q *pb.AppendRequestProto) (*pb.AppendResponseProto, error) {
		o := &meta.Append{Path: q.GetSrc(), Holder: q.GetClientName(), Machine: c.machine(), NewBlock: q.GetFlag()&uint32(pb.CreateFlagProto_NEW_BLOCK) != 0}
		a, _, err := c.node.Keeper.Append(c.ctx, o, func(op meta.Op) (meta.Result, error) { return c.held(q.GetClientName(), op) })
		if err != nil {
			return nil, err
		}
		p := &pb.AppendResponseProto{Stat: c.status(&a.Status)}
		if a.Block != nil {
			p.Block = c.writable(a.Block)
		}
		return p, nil
	}),
	"truncate": on(func(c *call, q *pb.TruncateRequestProto) (*pb.TruncateResponseProto, error) {
		r, err := c.held(q.GetClientName(), c.node.Truncation(q.GetSrc(), int64(q.GetNewLength()), q.GetClientName(), c.machine()))
		if err != nil {
			return nil, err
		}
		c.node.Wake()
		return &pb.TruncateResponseProto{Result: proto.Bool(bool(*r.(*meta.Flag)))}, nil
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
		return &pb.UpdateBlockForPipelineResponseProto{Block: c.located(&r.(*meta.Allocated).LocatedBlock, pb.AccessModeProto_WRITE, c.writer(), nil)}, nil
	}),
	"updatePipeline": on(func(c *call, q *pb.UpdatePipelineRequestProto) (*pb.UpdatePipelineResponseProto, error) {
		members := c.node.View().Members
		var nodes []string
		for _, n := range q.NewNodes {
			id := n.GetDatanodeUuid()
			if _, ok := members[id]; !ok {
				return nil, ipc.Throw(ipc.ClassIO, "there is no data node %.64q", id)
			}
			if slices.Contains(nodes, id) {
				return nil, ipc.Throw(ipc.ClassIO, "the data node %.64q is named twice", id)
			}
			nodes = append(nodes, id)
		}
		return &pb.UpdatePipelineResponseProto{}, c.did(&meta.UpdatePipeline{Holder: q.GetClientName(), Old: *blockOf(q.GetOldBlock()), New: *blockOf(q.GetNewBlock()),
			Nodes: nodes})
	}),
	"complete": on(func(c *call, q *pb.CompleteRequestProto) (*pb.CompleteResponseProto, error) {
		last := blockOf(q.GetLast())
		ok, err := c.flag(&meta.Complete{Path: q.GetSrc(), ID: q.GetFileId(), Holder: q.GetClientName(), Last: last, Copies: c.node.Keeper.Finished(c.ctx, last)})
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

// uuids are the names of nodes in a request.
func uuids(nodes []*pb.DatanodeInfoProto) map[string]bool {
	names := map[string]bool{}
	for _, n := range nodes {
		names[n.GetId().GetDatanodeUuid()] = true
	}
	return names
}

func (c *call) addBlock(q *pb.AddBlockRequestProto) (*pb.AddBlockResponseProto, error) {
	excluded := uuids(q.ExcludeNodes)
	segment, nodes, err := c.node.Keeper.Next(q.GetSrc(), q.GetFileId(), q.GetClientName(), c.machine(), func(name string) bool { return excluded[name] })
	if err != nil {
		if e, ok := errors.AsType[*dfs.NoNodes](err); ok {
			err = ipc.Throw(ipc.ClassIO, "File %s could only be written to 0 of the 1 minReplication nodes. There are %d datanode(s) running and %d node(s) are "+
				"excluded in this operation.", q.GetSrc(), e.Nodes, len(excluded))
		}
		return nil, err
	}
	previous := blockOf(q.GetPrevious())
	r, err := c.do(&meta.AddBlock{Path: q.GetSrc(), ID: q.GetFileId(), Holder: q.GetClientName(), Previous: previous,
		Copies: c.node.Keeper.Finished(c.ctx, previous), Segment: segment, Nodes: dfs.Names(nodes)})
	if err != nil {
		return nil, err
	}
	return &pb.AddBlockResponseProto{Block: c.writable(&r.(*meta.Allocated).LocatedBlock)}, nil
}

// additionalNode finds nodes that come into a pipeline in the place of others, and returns them behind those that there are. When there are
// none the client goes on with what it has, or fails, as it was configured.
func (c *call) additionalNode(q *pb.GetAdditionalDatanodeRequestProto) (*pb.GetAdditionalDatanodeResponseProto, error) {
	var segment uint16
	if err := c.ask(func(m meta.Query) error {
		file, _, err := m.Writing(q.GetSrc(), q.GetFileId(), q.GetClientName())
		if err != nil {
			return err
		}
		p := m.Placed(q.GetBlk().GetBlockId())
		if p == nil || p.File != file.ID { // a token for it would be one for somebody else's
			return ipc.Throw(ipc.ClassIO, "block %d is none of %s", q.GetBlk().GetBlockId(), q.GetSrc())
		}
		segment = p.Segment
		return nil
	}); err != nil {
		return nil, err
	}
	places, used, excluded := c.node.Places(), uuids(q.Existings), uuids(q.Excludes)
	var at []dfs.Member
	for _, n := range q.Existings {
		if m, ok := places.View.Members[n.GetId().GetDatanodeUuid()]; ok {
			at = append(at, m)
		}
	}
	at = append(at, places.Writers(segment, int(q.GetNumAdditionalNodes()), "", func(name string) bool { return used[name] || excluded[name] })...)
	b := &meta.LocatedBlock{Block: *blockOf(q.GetBlk()), Offset: -1}
	return &pb.GetAdditionalDatanodeResponseProto{Block: c.located(b, pb.AccessModeProto_COPY, c.writer(), at)}, nil
}
