package gateway

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
)

func permission(mode uint16) *pb.FsPermissionProto {
	return &pb.FsPermissionProto{Perm: proto.Uint32(uint32(mode))}
}

// status is a file or directory as clients are told of it. Where its blocks are is told without tokens: who
// may list a directory need not be one who may read what is in it.
func (c *call) status(s *meta.Status) *pb.HdfsFileStatusProto {
	kind, children := pb.HdfsFileStatusProto_IS_FILE, int32(0)
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
		p.Locations = c.locatedBlocks(s.Located, false)
	}
	return p
}

const (
	manyBlocks  = 1000    // that an answer may name without waiting for other such answers
	mostBlocks  = 200_000 // that it may name at all: no client takes more
	blockMemory = 3 << 10 // bytes that one takes while an answer is put together: 3 nodes, a token
)

// located asks for something that names the blocks of a file; f says which they are, of several files those of the one with the most. If they are
// many it waits until the answer may be put together, with nothing in hand, and asks again.
func located[T any](c *call, f func(meta.Query) (T, *meta.Located, error)) (T, error) {
	var none T
	for waited := false; ; waited = true {
		var v T
		var l *meta.Located
		err := c.ask(func(q meta.Query) (err error) { v, l, err = f(q); return err })
		if err != nil {
			return none, err
		}
		n := 0
		if l != nil {
			n = len(l.Blocks)
		}
		switch {
		case n > mostBlocks:
			return none, ipc.Throw(ipc.ClassIO, "%d blocks are asked about, more than %d: ask about parts of the file", n, mostBlocks)
		case n <= manyBlocks || waited:
			return v, nil
		}
		v, l = none, nil
		if err := c.Reserve(c.ctx, int64(n)*blockMemory); err != nil {
			return none, err
		}
	}
}

// locatedBlocks are the blocks of a file, with tokens for who may read it.
func (c *call) locatedBlocks(l *meta.Located, mayRead bool) *pb.LocatedBlocksProto {
	p := &pb.LocatedBlocksProto{FileLength: proto.Uint64(uint64(l.Size)), UnderConstruction: &l.Open, IsLastBlockComplete: &l.LastComplete}
	for i := range l.Blocks {
		p.Blocks = append(p.Blocks, c.readable(&l.Blocks[i], mayRead, c.machine()))
	}
	if l.Last != nil {
		p.LastBlock = c.readable(l.Last, mayRead, c.machine())
	}
	return p
}

func (g *Gateway) blockProto(b meta.Block) *pb.ExtendedBlockProto {
	return &pb.ExtendedBlockProto{PoolId: &g.node.Identity.Pool, BlockId: &b.ID, GenerationStamp: &b.Stamp, NumBytes: proto.Uint64(uint64(b.Size))}
}

// noToken is in the place of a token that was not issued.
func noToken() *pb.TokenProto {
	return &pb.TokenProto{Identifier: []byte{}, Password: []byte{}, Kind: proto.String(""), Service: proto.String("")}
}

// located is a block at nodes, with a token for one kind of access.
func (g *Gateway) located(l *meta.LocatedBlock, access pb.AccessModeProto, user string, at []dfs.Member) *pb.LocatedBlockProto {
	p := &pb.LocatedBlockProto{B: g.blockProto(l.Block), Offset: proto.Uint64(uint64(l.Offset)), Corrupt: proto.Bool(false),
		BlockToken: g.tokens.Issue(l.ID, access, user)}
	for _, m := range at {
		p.Locs, p.IsCached = append(p.Locs, g.dataNode(m)), append(p.IsCached, g.node.Keeper.InMemory(m.Name, l.ID))
		p.StorageTypes, p.StorageIDs = append(p.StorageTypes, pb.StorageTypeProto_DISK), append(p.StorageIDs, m.Storage)
	}
	return p
}

// writer is whom tokens to write are for: with others' nobody writes. Who may do all has tokens for all.
func (c *call) writer() string {
	if c.by.Super {
		return ""
	}
	return c.by.User
}

// writable is a block that is to be written at the nodes that are kept with it.
func (c *call) writable(l *meta.LocatedBlock) *pb.LocatedBlockProto {
	places := c.node.Places()
	var at []dfs.Member
	for _, name := range l.Nodes {
		if m, ok := places.View.Members[name]; ok {
			at = append(at, m)
		}
	}
	return c.located(l, pb.AccessModeProto_WRITE, c.writer(), at)
}

// readable is a block to read, at its nodes, the nearest to a client's machine first. It is here unless it is known not to be; one
// that is only just being written may have no copy yet.
func (g *Gateway) readable(l *meta.LocatedBlock, mayRead bool, machine string) *pb.LocatedBlockProto {
	at := g.node.Places().Readers(*l, machine)
	self := g.node.Identity.Node
	corrupt := false
	if slices.ContainsFunc(at, func(m dfs.Member) bool { return m.Name == self }) {
		i, err := g.node.Blocks.Stat(int64(l.ID))
		corrupt = err == nil && i.Damaged
		if gone := err != nil && len(l.Nodes) == 0; gone || corrupt && len(at) > 1 {
			at, corrupt = slices.DeleteFunc(at, func(m dfs.Member) bool { return m.Name == self }), false
		}
	}
	p := g.located(l, pb.AccessModeProto_READ, "", at)
	p.Corrupt = &corrupt
	if !mayRead {
		p.BlockToken = noToken()
	}
	return p
}

// dataNode is a member of the ring as a data node. Of this one the listeners say where it is.
func (g *Gateway) dataNode(m dfs.Member) *pb.DatanodeInfoProto {
	own := m.Name == g.node.Identity.Node
	if own {
		m.Host = g.host
	}
	p, name := dfs.DataNode(m), g.node.HostName(m)
	p.Id.HostName = &name
	if own {
		p.Id.XferPort, p.Id.IpcPort, p.Id.InfoPort = &g.dataPort, &g.rpcPort, &g.webPort
	}
	return p
}

// blockOf is a block as clients name it, or nil.
func blockOf(b *pb.ExtendedBlockProto) *meta.Block {
	if b == nil {
		return nil
	}
	return &meta.Block{ID: b.GetBlockId(), Stamp: b.GetGenerationStamp(), Size: int64(b.GetNumBytes())}
}
