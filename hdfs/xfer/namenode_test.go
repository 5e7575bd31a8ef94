package xfer

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
)

// nameNode is a namespace in memory, just good enough for hdfs dfs -put, -cat, -ls, -mkdir, -appendToFile and -checksum.
type nameNode struct {
	nodes []*dataNode
	ipc   uint32 // the port where data nodes are called; that of the name node

	mu      sync.Mutex
	entries map[string]*entry
	last    uint64 // id of a file or block
	called  map[string]int
}

type entry struct {
	id     uint64
	dir    bool
	open   bool
	blocks []*nameBlock
}

type nameBlock struct {
	Block
	nodes []*dataNode
}

func (n *nameNode) serve(_ context.Context, c *ipc.Call, q proto.Message) (proto.Message, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.called[c.Method]++
	switch q := q.(type) {
	case *pb.GetServerDefaultsRequestProto:
		return &pb.GetServerDefaultsResponseProto{ServerDefaults: &pb.FsServerDefaultsProto{
			BlockSize: proto.Uint64(1 << 20), BytesPerChecksum: proto.Uint32(512), WritePacketSize: proto.Uint32(65536), Replication: proto.Uint32(3),
			FileBufferSize: proto.Uint32(4096), ChecksumType: pb.ChecksumTypeProto_CHECKSUM_CRC32C.Enum()}}, nil
	case *pb.GetFileInfoRequestProto:
		r := &pb.GetFileInfoResponseProto{}
		if e := n.entries[q.GetSrc()]; e != nil {
			r.Fs = n.status(e, "")
		}
		return r, nil
	case *pb.GetListingRequestProto:
		return n.list(q.GetSrc()), nil
	case *pb.MkdirsRequestProto:
		n.entries[q.GetSrc()] = &entry{id: n.next(), dir: true}
		return &pb.MkdirsResponseProto{Result: proto.Bool(true)}, nil
	case *pb.CreateRequestProto:
		e := &entry{id: n.next(), open: true}
		n.entries[q.GetSrc()] = e
		return &pb.CreateResponseProto{Fs: n.status(e, "")}, nil
	case *pb.RenameRequestProto:
		n.entries[q.GetDst()] = n.entries[q.GetSrc()]
		delete(n.entries, q.GetSrc())
		return &pb.RenameResponseProto{Result: proto.Bool(true)}, nil
	case *pb.GetBlockLocationsRequestProto:
		e := n.entries[q.GetSrc()]
		if e == nil {
			return nil, ipc.Throw("java.io.FileNotFoundException", "File does not exist: %s", q.GetSrc())
		}
		return &pb.GetBlockLocationsResponseProto{Locations: n.located(e)}, nil
	case *pb.GetReplicaVisibleLengthRequestProto:
		return n.visible(q.GetBlock()), nil
	case *pb.RenewLeaseRequestProto:
		return &pb.RenewLeaseResponseProto{}, nil
	case *pb.FsyncRequestProto:
		return &pb.FsyncResponseProto{}, nil
	}
	return n.writing(c, q)
}

// writing serves what writes blocks.
func (n *nameNode) writing(c *ipc.Call, q proto.Message) (proto.Message, error) {
	switch q := q.(type) {
	case *pb.AppendRequestProto:
		e := n.entries[q.GetSrc()]
		e.open = true
		return &pb.AppendResponseProto{Block: n.locate(e, len(e.blocks)-1), Stat: n.status(e, "")}, nil
	case *pb.AddBlockRequestProto:
		e := n.file(q.GetFileId())
		if q.Previous != nil {
			e.blocks[len(e.blocks)-1].Length = int64(q.Previous.GetNumBytes())
		}
		e.blocks = append(e.blocks, &nameBlock{Block{Pool: "BP-1", ID: n.next(), Stamp: stamp}, n.others(q.ExcludeNodes)[:3]})
		return &pb.AddBlockResponseProto{Block: n.locate(e, len(e.blocks)-1)}, nil
	case *pb.AbandonBlockRequestProto:
		e := n.file(q.GetFileId())
		e.blocks = e.blocks[:len(e.blocks)-1]
		return &pb.AbandonBlockResponseProto{}, nil
	case *pb.CompleteRequestProto:
		e := n.file(q.GetFileId())
		if q.Last != nil {
			e.blocks[len(e.blocks)-1].Length = int64(q.Last.GetNumBytes())
		}
		e.open = false
		return &pb.CompleteResponseProto{Result: proto.Bool(true)}, nil
	case *pb.UpdateBlockForPipelineRequestProto:
		e, i := n.block(q.GetBlock().GetBlockId())
		b := n.locate(e, i)
		b.B.GenerationStamp = proto.Uint64(b.B.GetGenerationStamp() + 1)
		return &pb.UpdateBlockForPipelineResponseProto{Block: b}, nil
	case *pb.GetAdditionalDatanodeRequestProto:
		e, i := n.block(q.GetBlk().GetBlockId())
		b := *e.blocks[i]
		b.nodes = append(b.nodes[:0:0], n.others(append(q.Existings, q.Excludes...))[0])
		for _, x := range q.Existings {
			b.nodes = append(b.nodes, n.node(x.GetId()))
		}
		return &pb.GetAdditionalDatanodeResponseProto{Block: n.locate(&entry{blocks: []*nameBlock{&b}}, 0)}, nil
	case *pb.UpdatePipelineRequestProto:
		e, i := n.block(q.GetNewBlock().GetBlockId())
		b := e.blocks[i]
		b.Stamp, b.nodes = q.GetNewBlock().GetGenerationStamp(), nil
		for _, id := range q.NewNodes {
			b.nodes = append(b.nodes, n.node(id))
		}
		return &pb.UpdatePipelineResponseProto{}, nil
	}
	return nil, ipc.NoMethod(c)
}

func (n *nameNode) next() uint64 { n.last++; return n.last }

// node returns the data node that a client names.
func (n *nameNode) node(id *pb.DatanodeIDProto) *dataNode {
	return n.nodes[slices.IndexFunc(n.nodes, func(d *dataNode) bool { return d.info.Id.GetDatanodeUuid() == id.GetDatanodeUuid() })]
}

// others returns the data nodes that are not among some.
func (n *nameNode) others(some []*pb.DatanodeInfoProto) []*dataNode {
	return slices.DeleteFunc(slices.Clone(n.nodes), func(d *dataNode) bool {
		return slices.ContainsFunc(some, func(x *pb.DatanodeInfoProto) bool { return x.GetId().GetDatanodeUuid() == d.info.Id.GetDatanodeUuid() })
	})
}

func (n *nameNode) file(id uint64) *entry {
	for _, e := range n.entries {
		if e.id == id {
			return e
		}
	}
	return nil
}

func (n *nameNode) block(id uint64) (*entry, int) {
	for _, e := range n.entries {
		for i, b := range e.blocks {
			if b.ID == id {
				return e, i
			}
		}
	}
	return nil, 0
}

func (e *entry) length() (sum int64) {
	for _, b := range e.blocks {
		sum += b.Length
	}
	return sum
}

func (n *nameNode) status(e *entry, name string) *pb.HdfsFileStatusProto {
	s := &pb.HdfsFileStatusProto{Path: []byte(name), FileType: pb.HdfsFileStatusProto_IS_FILE.Enum(), Length: proto.Uint64(uint64(e.length())), FileId: &e.id,
		Permission: &pb.FsPermissionProto{Perm: proto.Uint32(0o755)}, Owner: proto.String("anna"), Group: proto.String("g"), ModificationTime: proto.Uint64(1),
		AccessTime: proto.Uint64(1), BlockReplication: proto.Uint32(3), Blocksize: proto.Uint64(1 << 20)}
	if e.dir {
		s.FileType = pb.HdfsFileStatusProto_IS_DIR.Enum()
	}
	return s
}

func (n *nameNode) list(dir string) *pb.GetListingResponseProto {
	l := &pb.DirectoryListingProto{RemainingEntries: proto.Uint32(0)}
	for _, p := range slices.Sorted(maps.Keys(n.entries)) {
		if path.Dir(p) == strings.TrimSuffix(dir, "/") && p != "/" {
			l.PartialListing = append(l.PartialListing, n.status(n.entries[p], path.Base(p)))
		}
	}
	return &pb.GetListingResponseProto{DirList: l}
}

func (n *nameNode) locate(e *entry, i int) *pb.LocatedBlockProto {
	offset := uint64(0)
	for _, b := range e.blocks[:i] {
		offset += uint64(b.Length)
	}
	b := e.blocks[i]
	l := &pb.LocatedBlockProto{B: b.proto(), Offset: &offset, Corrupt: proto.Bool(false),
		BlockToken: &pb.TokenProto{Identifier: []byte("token"), Password: []byte("of a block"), Kind: proto.String("HDFS_BLOCK_TOKEN"), Service: proto.String("")}}
	for _, d := range b.nodes {
		d.info.Id.IpcPort = &n.ipc
		l.Locs = append(l.Locs, d.info)
		l.IsCached = append(l.IsCached, false)
		l.StorageTypes = append(l.StorageTypes, pb.StorageTypeProto_DISK)
		l.StorageIDs = append(l.StorageIDs, "DS-"+d.info.Id.GetDatanodeUuid())
	}
	return l
}

func (n *nameNode) located(e *entry) *pb.LocatedBlocksProto {
	r := &pb.LocatedBlocksProto{UnderConstruction: &e.open, IsLastBlockComplete: proto.Bool(!e.open || len(e.blocks) == 0), FileLength: proto.Uint64(uint64(e.length()))}
	for i := range e.blocks {
		if l := n.locate(e, i); e.open && i == len(e.blocks)-1 {
			r.LastBlock = l
		} else {
			r.Blocks = append(r.Blocks, l)
			r.LastBlock = l
		}
	}
	return r
}

// visible answers as a data node.
func (n *nameNode) visible(b *pb.ExtendedBlockProto) proto.Message {
	e, i := n.block(b.GetBlockId())
	return &pb.GetReplicaVisibleLengthResponseProto{Length: proto.Uint64(uint64(e.blocks[i].nodes[0].memory.replica(b.GetBlockId()).acked))}
}
