package gateway

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
	"headrace/ring"
)

// admin are the methods about the file system as a whole.
var admin = table{
	"getServerDefaults": on(func(c *call, _ *pb.GetServerDefaultsRequestProto) (*pb.GetServerDefaultsResponseProto, error) {
		return &pb.GetServerDefaultsResponseProto{ServerDefaults: &pb.FsServerDefaultsProto{BlockSize: u64(128 << 20), BytesPerChecksum: proto.Uint32(512),
			WritePacketSize: proto.Uint32(64 << 10), Replication: proto.Uint32(uint32(c.node.Places().Default())), FileBufferSize: proto.Uint32(4096), EncryptDataTransfer: proto.Bool(false),
			TrashInterval: u64(0), ChecksumType: pb.ChecksumTypeProto_CHECKSUM_CRC32C.Enum(), KeyProviderUri: proto.String(""), PolicyId: hot().PolicyId,
			SnapshotTrashRootEnabled: proto.Bool(false)}}, nil
	}),
	"getFsStats": on(func(c *call, _ *pb.GetFsStatusRequestProto) (*pb.GetFsStatsResponseProto, error) {
		h, err := c.health.of(c.node, healthTime)
		r := h.room
		return &pb.GetFsStatsResponseProto{Capacity: &r.Capacity, Used: &r.Used, Remaining: &r.Remaining, UnderReplicated: &h.lacking, CorruptBlocks: &h.bad,
			MissingBlocks: &h.missing, MissingReplOneBlocks: &h.missing, BlocksInFuture: u64(0), PendingDeletionBlocks: u64(0)}, err
	}),
	"getFsReplicatedBlockStats": on(func(c *call, _ *pb.GetFsReplicatedBlockStatsRequestProto) (*pb.GetFsReplicatedBlockStatsResponseProto, error) {
		h, err := c.health.of(c.node, healthTime)
		return &pb.GetFsReplicatedBlockStatsResponseProto{LowRedundancy: &h.lacking, CorruptBlocks: &h.bad, MissingBlocks: &h.missing, MissingReplOneBlocks: &h.missing,
			BlocksInFuture: u64(0), PendingDeletionBlocks: u64(0)}, err
	}),
	"getFsECBlockGroupStats": on(func(*call, *pb.GetFsECBlockGroupStatsRequestProto) (*pb.GetFsECBlockGroupStatsResponseProto, error) {
		return &pb.GetFsECBlockGroupStatsResponseProto{LowRedundancy: u64(0), CorruptBlocks: u64(0), MissingBlocks: u64(0), BlocksInFuture: u64(0), PendingDeletionBlocks: u64(0)}, nil
	}),
	"getDatanodeReport": on(func(c *call, q *pb.GetDatanodeReportRequestProto) (*pb.GetDatanodeReportResponseProto, error) {
		return &pb.GetDatanodeReportResponseProto{Di: c.reports(q.GetType())}, nil
	}),
	"getDatanodeStorageReport": on(func(c *call, q *pb.GetDatanodeStorageReportRequestProto) (*pb.GetDatanodeStorageReportResponseProto, error) {
		r := &pb.GetDatanodeStorageReportResponseProto{}
		members := c.node.View().Members
		for _, n := range c.reports(q.GetType()) {
			storage := members[n.GetId().GetDatanodeUuid()].Storage
			r.DatanodeStorageReports = append(r.DatanodeStorageReports, &pb.DatanodeStorageReportProto{DatanodeInfo: n, StorageReports: []*pb.StorageReportProto{{
				StorageUuid: &storage, Capacity: n.Capacity, DfsUsed: n.DfsUsed, Remaining: n.Remaining, BlockPoolUsed: n.DfsUsed,
				Storage: &pb.DatanodeStorageProto{StorageUuid: &storage}}}})
		}
		return r, nil
	}),
	"setSafeMode": on(func(c *call, q *pb.SetSafeModeRequestProto) (*pb.SetSafeModeResponseProto, error) {
		on := q.GetAction() == pb.SafeModeActionProto_SAFEMODE_ENTER
		if q.GetAction() == pb.SafeModeActionProto_SAFEMODE_GET {
			err := c.ask(func(m meta.Query) error { on = m.SafeMode(); return nil })
			return &pb.SetSafeModeResponseProto{Result: &on}, err
		}
		return &pb.SetSafeModeResponseProto{Result: &on}, c.did(&meta.SetSafeMode{On: on})
	}),
	"listOpenFiles":         on((*call).openFiles),
	"listCorruptFileBlocks": on((*call).corruptFiles),
	"reportBadBlocks": on(func(c *call, q *pb.ReportBadBlocksRequestProto) (*pb.ReportBadBlocksResponseProto, error) {
		for _, b := range q.Blocks[:min(len(q.Blocks), mostBad)] { // whether that is so, those look that have it
			c.log.Info("a client says that a block is bad", "block", b.GetB().GetBlockId(), "client", c.Remote)
			for _, n := range b.Locs[:min(len(b.Locs), mostBad)] {
				c.node.Keeper.Verify(n.GetId().GetDatanodeUuid(), b.GetB().GetBlockId())
			}
		}
		return &pb.ReportBadBlocksResponseProto{}, nil
	}),
	"getStoragePolicies": on(func(*call, *pb.GetStoragePoliciesRequestProto) (*pb.GetStoragePoliciesResponseProto, error) {
		return &pb.GetStoragePoliciesResponseProto{Policies: []*pb.BlockStoragePolicyProto{hot()}}, nil
	}),
	"getStoragePolicy": on(func(c *call, q *pb.GetStoragePolicyRequestProto) (*pb.GetStoragePolicyResponseProto, error) {
		return &pb.GetStoragePolicyResponseProto{StoragePolicy: hot()}, c.exists(q.GetPath())
	}),
	"msync": answers[*pb.MsyncRequestProto](&pb.MsyncResponseProto{}),
	"getHAServiceState": on(func(*call, *pb.HAServiceStateRequestProto) (*pb.HAServiceStateResponseProto, error) {
		return &pb.HAServiceStateResponseProto{State: pb.HAServiceStateProto_ACTIVE.Enum()}, nil
	}),
}

// mostBad is how many blocks, and copies of each, a client may say at once that they are bad. Readers find one at a time.
const mostBad = 16

func hot() *pb.BlockStoragePolicyProto {
	disk := &pb.StorageTypesProto{StorageTypes: []pb.StorageTypeProto{pb.StorageTypeProto_DISK}}
	none := &pb.StorageTypesProto{}
	return &pb.BlockStoragePolicyProto{PolicyId: proto.Uint32(7), Name: proto.String("HOT"), CreationPolicy: disk, CreationFallbackPolicy: none, ReplicationFallbackPolicy: none}
}

// reports are the data nodes of a kind, with what they have.
func (g *Gateway) reports(kind pb.DatanodeReportTypeProto) (all []*pb.DatanodeInfoProto) {
	v := g.node.View()
	for _, n := range v.Table.Nodes() {
		m, known := v.Members[n.Name]
		is := map[pb.DatanodeReportTypeProto]bool{pb.DatanodeReportTypeProto_ALL: true, pb.DatanodeReportTypeProto_LIVE: n.State == ring.IsUp,
			pb.DatanodeReportTypeProto_DEAD: n.State != ring.IsUp, pb.DatanodeReportTypeProto_DECOMMISSIONING: n.Leaving}
		if known && is[kind] {
			all = append(all, g.report(m, n))
		}
	}
	return all
}

func (g *Gateway) report(m dfs.Member, n ring.Node) *pb.DatanodeInfoProto {
	p, r := g.dataNode(m), g.node.RoomOf(m.Name)
	p.Capacity, p.DfsUsed, p.Remaining, p.BlockPoolUsed = &r.Capacity, &r.Used, &r.Remaining, &r.Used
	budget, used := g.node.Keeper.Cache(m.Name)
	p.CacheCapacity, p.CacheUsed = u64(budget), u64(used)
	p.NonDfsUsed = proto.Uint64(r.Capacity - min(r.Capacity, r.Used+r.Remaining))
	p.NumBlocks, p.SoftwareVersion, p.LastUpdate = proto.Uint32(uint32(r.Blocks)), proto.String(softwareVersion), u64(0)
	if n.State == ring.IsUp {
		p.LastUpdate = u64(g.node.Config.Now().UnixMilli())
	}
	if n.Leaving {
		p.AdminState = pb.DatanodeInfoProto_DECOMMISSION_INPROGRESS.Enum()
	}
	return p
}

// health is what takes a look at all blocks to count, and everybody may ask for: it is counted in the background, for all who ask.
type health struct {
	mu      sync.Mutex
	counts            // of the last count that has ended
	at      time.Time // when it did
	took    time.Duration
	err     error
	began   time.Time     // the one under way
	running chan struct{} // closed at its end, nil when there is none
}

// counts are the room there is, and the blocks that cannot be read, among them those that have a copy which is not good; those that
// have too few copies are lacking.
type counts struct {
	room                  dfs.Room
	missing, bad, lacking uint64
	known                 bool // whether missing and bad were ever counted
}

const (
	// healthTime is how long that is told: data nodes tell a NameNode every three seconds.
	healthTime = 3 * time.Second
	// countTime is how long somebody waits for a count: after that the last one is told.
	countTime = 5 * time.Second
	// countRest is for how many times as long as a count has taken there is no other one.
	countRest = 10
)

// of counts, unless that was done a short time ago. Of a large file system it tells what is known, and counts on.
func (h *health) of(n *dfs.Node, fresh time.Duration) (counts, error) {
	if ended := h.count(n, fresh); ended != nil {
		wait := time.NewTimer(countTime)
		defer wait.Stop()
		select {
		case <-ended:
		case <-wait.C:
		}
	}
	h.mu.Lock()
	c, err := h.counts, h.err
	h.mu.Unlock()
	c.room = n.TotalRoom()
	few, _ := n.Keeper.Lacking()
	c.lacking = uint64(few)
	return c, err
}

// count begins a count, if it is time, and returns when the one under way ends, nil if nobody should wait for that.
func (h *health) count(n *dfs.Node, fresh time.Duration) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.running != nil && time.Since(h.began) > countTime:
		return nil
	case h.running != nil:
		return h.running
	case h.err == nil && time.Since(h.at) < max(fresh, countRest*h.took):
		return nil
	}
	ended := make(chan struct{})
	h.began, h.running = time.Now(), ended
	n.Go(func() {
		defer close(ended)
		c := counts{known: true}
		err := n.Problems(meta.Caller{}, 0, func(p dfs.Problem) bool {
			c.missing++ // as in HDFS: nothing of it can be read, for one reason or the other
			if p.Text != dfs.Missing {
				c.bad++
			}
			return true
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.running, h.err = nil, err; err == nil {
			h.counts, h.at, h.took = c, time.Now(), time.Since(h.began)
		}
	})
	return ended
}

func (c *call) openFiles(q *pb.ListOpenFilesRequestProto) (*pb.ListOpenFilesResponseProto, error) {
	path := q.GetPath()
	if path == "" {
		path = "/"
	}
	r := &pb.ListOpenFilesResponseProto{HasMore: proto.Bool(false), Types: q.Types}
	err := c.ask(func(m meta.Query) error {
		files, more, err := m.OpenFiles(uint64(q.GetId()), path)
		r.HasMore = &more
		for _, f := range files {
			r.Entries = append(r.Entries, &pb.OpenFilesBatchResponseProto{Id: proto.Int64(int64(f.ID)), Path: &f.Path, ClientName: &f.Holder, ClientMachine: &f.Machine})
		}
		return err
	})
	return r, err
}

// mostCorrupt is how many files one answer has (dfs.corruptfilesreturned.max).
const mostCorrupt = 500

// corruptFiles lists files with blocks of which there is no good copy. The cookie is the number of a block.
func (c *call) corruptFiles(q *pb.ListCorruptFileBlocksRequestProto) (*pb.ListCorruptFileBlocksResponseProto, error) {
	if err := c.privileged(); err != nil {
		return nil, err
	}
	from := uint64(0)
	if s := q.GetCookie(); s != "" {
		var err error
		if from, err = strconv.ParseUint(s, 10, 64); err != nil {
			return nil, ipc.Throw("java.lang.IllegalArgumentException", "the cookie %.64q is none of this node's", s)
		}
	}
	r := &pb.CorruptFileBlocksProto{Cookie: proto.String(strconv.FormatUint(from, 10))}
	below := strings.TrimSuffix(q.GetPath(), "/") + "/"
	err := c.node.Problems(c.by, from, func(p dfs.Problem) bool {
		if strings.HasPrefix(p.Path+"/", below) {
			r.Files = append(r.Files, p.Path)
			r.Cookie = proto.String(strconv.FormatUint(p.Block+1, 10))
		}
		return len(r.Files) < mostCorrupt
	})
	return &pb.ListCorruptFileBlocksResponseProto{Corrupt: r}, err
}
