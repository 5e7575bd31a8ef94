package gateway

import (
	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/meta"
)

func permission(mode uint16) *pb.FsPermissionProto {
	return &pb.FsPermissionProto{Perm: proto.Uint32(uint32(mode))}
}

// status is a file or directory as clients are told of it. Where its blocks are is told without tokens: who
// may list a directory need not be one who may read what is in it.
func (g *Gateway) status(s *meta.Status) *pb.HdfsFileStatusProto {
	kind, children := pb.HdfsFileStatusProto_IS_FILE, int32(-1)
	if s.Directory {
		kind, children = pb.HdfsFileStatusProto_IS_DIR, int32(s.Children)
	}
	p := &pb.HdfsFileStatusProto{
		FileType: &kind, Path: []byte(s.Name), Length: proto.Uint64(uint64(s.Size)), Permission: permission(s.Mode), Owner: &s.Owner, Group: &s.Group,
		ModificationTime: proto.Uint64(uint64(s.Modified)), AccessTime: proto.Uint64(uint64(s.Accessed)),
		BlockReplication: proto.Uint32(uint32(s.Replication)), Blocksize: proto.Uint64(uint64(s.BlockSize)),
		FileId: &s.ID, ChildrenNum: &children, StoragePolicy: proto.Uint32(0), Flags: proto.Uint32(0),
	}
	if s.HasACL {
		p.Flags = proto.Uint32(uint32(pb.HdfsFileStatusProto_HAS_ACL))
	}
	if s.Located != nil {
		p.Locations = g.locatedBlocks(s.Located, false)
	}
	return p
}

// locatedBlocks are the blocks of a file, with tokens for who may read it.
func (g *Gateway) locatedBlocks(l *meta.Located, mayRead bool) *pb.LocatedBlocksProto {
	p := &pb.LocatedBlocksProto{FileLength: proto.Uint64(uint64(l.Size)), UnderConstruction: &l.Open, IsLastBlockComplete: &l.LastComplete}
	for i := range l.Blocks {
		p.Blocks = append(p.Blocks, g.readable(&l.Blocks[i], mayRead))
	}
	if l.Last != nil {
		p.LastBlock = g.readable(l.Last, mayRead)
	}
	return p
}

func (g *Gateway) blockProto(b meta.Block) *pb.ExtendedBlockProto {
	return &pb.ExtendedBlockProto{PoolId: &g.node.Identity.Pool, BlockId: &b.ID, GenerationStamp: &b.Stamp, NumBytes: proto.Uint64(uint64(b.Size))}
}

// located is a block with a token for one kind of access, at no place.
func (g *Gateway) located(l *meta.LocatedBlock, access pb.AccessModeProto) *pb.LocatedBlockProto {
	return &pb.LocatedBlockProto{B: g.blockProto(l.Block), Offset: proto.Uint64(uint64(l.Offset)), Corrupt: proto.Bool(false),
		BlockToken: g.tokens.issue(l.ID, access)}
}

// here adds this node to the places of a block.
func (g *Gateway) here(p *pb.LocatedBlockProto) *pb.LocatedBlockProto {
	p.Locs, p.IsCached = []*pb.DatanodeInfoProto{g.self()}, []bool{false}
	p.StorageTypes, p.StorageIDs = []pb.StorageTypeProto{pb.StorageTypeProto_DISK}, []string{g.node.Identity.Storage}
	return p
}

// writable is a block that is to be written here.
func (g *Gateway) writable(l *meta.LocatedBlock) *pb.LocatedBlockProto {
	return g.here(g.located(l, pb.AccessModeProto_WRITE))
}

// readable is a block to read. It is here unless it is known not to be; one that is only just
// being written may have no copy yet.
func (g *Gateway) readable(l *meta.LocatedBlock, mayRead bool) *pb.LocatedBlockProto {
	p := g.located(l, pb.AccessModeProto_READ)
	if !mayRead {
		p.BlockToken = noToken()
	}
	i, err := g.node.Blocks.Stat(int64(l.ID))
	if err != nil && len(l.Nodes) == 0 {
		return p
	}
	p.Corrupt = proto.Bool(err == nil && i.Damaged)
	return g.here(p)
}

// self is this node as a data node.
func (g *Gateway) self() *pb.DatanodeInfoProto {
	return &pb.DatanodeInfoProto{
		Id: &pb.DatanodeIDProto{IpAddr: &g.host, HostName: &g.host, DatanodeUuid: &g.node.Identity.Node, XferPort: &g.dataPort,
			InfoPort: proto.Uint32(0), IpcPort: &g.rpcPort},
		Location: proto.String("/default-rack"), AdminState: pb.DatanodeInfoProto_NORMAL.Enum(),
	}
}

// blockOf is a block as clients name it, or nil.
func blockOf(b *pb.ExtendedBlockProto) *meta.Block {
	if b == nil {
		return nil
	}
	return &meta.Block{ID: b.GetBlockId(), Stamp: b.GetGenerationStamp(), Size: int64(b.GetNumBytes())}
}
