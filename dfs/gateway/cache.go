package gateway

import (
	"math"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
)

// cache are the methods about what is to be kept in memory: pools and directives.
var cache = table{
	"addCachePool": on(func(c *call, q *pb.AddCachePoolRequestProto) (*pb.AddCachePoolResponseProto, error) {
		return &pb.AddCachePoolResponseProto{}, c.changePool(q.GetInfo(), true)
	}),
	"modifyCachePool": on(func(c *call, q *pb.ModifyCachePoolRequestProto) (*pb.ModifyCachePoolResponseProto, error) {
		return &pb.ModifyCachePoolResponseProto{}, c.changePool(q.GetInfo(), false)
	}),
	"removeCachePool": on(func(c *call, q *pb.RemoveCachePoolRequestProto) (*pb.RemoveCachePoolResponseProto, error) {
		return &pb.RemoveCachePoolResponseProto{}, c.did(&meta.RemoveCachePool{Name: q.GetPoolName()})
	}),
	"listCachePools": on((*call).cachePools),
	"addCacheDirective": on(func(c *call, q *pb.AddCacheDirectiveRequestProto) (*pb.AddCacheDirectiveResponseProto, error) {
		if q.GetInfo().Id != nil {
			return nil, ipc.Throw(ipc.ClassIO, "addDirective: you cannot specify an ID for this operation.")
		}
		id, err := c.changeDirective(q.GetInfo(), q.GetCacheFlags())
		return &pb.AddCacheDirectiveResponseProto{Id: &id}, err
	}),
	"modifyCacheDirective": on(func(c *call, q *pb.ModifyCacheDirectiveRequestProto) (*pb.ModifyCacheDirectiveResponseProto, error) {
		if q.GetInfo().Id == nil {
			return nil, ipc.Throw(classInvalidRequest, "Must supply an ID.")
		}
		_, err := c.changeDirective(q.GetInfo(), q.GetCacheFlags())
		return &pb.ModifyCacheDirectiveResponseProto{}, err
	}),
	"removeCacheDirective": on(func(c *call, q *pb.RemoveCacheDirectiveRequestProto) (*pb.RemoveCacheDirectiveResponseProto, error) {
		return &pb.RemoveCacheDirectiveResponseProto{}, c.did(&meta.RemoveCacheDirective{ID: q.GetId()})
	}),
	"listCacheDirectives": on((*call).cacheDirectives),
}

const classInvalidRequest = "org.apache.hadoop.fs.InvalidRequestException"

// cacheCopies is a number of copies, which in HDFS has 16 bits (Shorts.checkedCast).
func cacheCopies(n *uint32) (*int64, error) {
	if n == nil {
		return nil, nil
	}
	v := int64(int32(*n))
	if v < math.MinInt16 || v > math.MaxInt16 {
		return nil, ipc.Throw("java.lang.IllegalArgumentException", "Out of range: %d", v)
	}
	return &v, nil
}

func (c *call) changePool(i *pb.CachePoolInfoProto, add bool) error {
	copies, err := cacheCopies(i.DefaultReplication)
	if err != nil {
		return err
	}
	o := &meta.ChangeCachePool{Add: add, Name: i.GetPoolName(), Owner: i.OwnerName, Group: i.GroupName, Limit: i.Limit, MaxTTL: i.MaxRelativeExpiry, Replication: copies}
	if i.Mode != nil {
		mode := uint16(i.GetMode())
		o.Mode = &mode
	}
	return c.did(o)
}

func (c *call) changeDirective(i *pb.CacheDirectiveInfoProto, flags uint32) (int64, error) {
	copies, err := cacheCopies(i.Replication)
	if err != nil {
		return 0, err
	}
	o := &meta.ChangeCacheDirective{ID: i.Id, Path: i.Path, Pool: i.Pool, Replication: copies, Force: flags&uint32(pb.CacheFlagProto_FORCE) != 0}
	if e := i.Expiration; e != nil {
		o.Expiry = &meta.CacheExpiry{Millis: e.GetMillis(), Relative: e.GetIsRelative()}
	}
	pool := ""
	if err := c.walk(func(q meta.Query) (err error) { pool, err = q.CacheRoom(o); return err }); err != nil {
		return 0, err
	}
	if pool != "" { // nobody adds to it between the look at what is in it and the command
		select {
		case c.limiting <- struct{}{}:
			defer func() { <-c.limiting }()
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		}
		uses, err := c.node.CacheUses(c.ctx)
		if err != nil {
			return 0, err
		}
		o.Taken = uses.Pools[pool].BytesNeeded
	}
	r, err := c.do(o)
	if id, ok := r.(*meta.DirectiveID); ok {
		return int64(*id), err
	}
	return 0, err
}

func (c *call) cachePools(q *pb.ListCachePoolsRequestProto) (*pb.ListCachePoolsResponseProto, error) {
	uses, err := c.node.CacheUses(c.ctx)
	if err != nil {
		return nil, err
	}
	r := &pb.ListCachePoolsResponseProto{}
	return r, c.ask(func(m meta.Query) error {
		page, more := m.CachePools(q.GetPrevPoolName())
		r.HasMore = &more
		for _, p := range page {
			e := &pb.CachePoolEntryProto{Info: &pb.CachePoolInfoProto{PoolName: &p.Name}, Stats: poolStats(meta.CacheUse{}, 0)}
			if p.All {
				mode, copies := int32(p.Mode), uint32(p.Replication)
				e.Info = &pb.CachePoolInfoProto{PoolName: &p.Name, OwnerName: &p.Owner, GroupName: &p.Group, Mode: &mode, Limit: &p.Limit, MaxRelativeExpiry: &p.MaxTTL,
					DefaultReplication: &copies}
				e.Stats = poolStats(uses.Pools[p.Name], p.Limit)
			}
			r.Entries = append(r.Entries, e)
		}
		return nil
	})
}

func poolStats(u meta.CacheUse, limit int64) *pb.CachePoolStatsProto {
	return &pb.CachePoolStatsProto{BytesNeeded: &u.BytesNeeded, BytesCached: &u.BytesCached, BytesOverlimit: proto.Int64(max(0, u.BytesNeeded-limit)), FilesNeeded: &u.FilesNeeded,
		FilesCached: &u.FilesCached}
}

func (c *call) cacheDirectives(q *pb.ListCacheDirectivesRequestProto) (*pb.ListCacheDirectivesResponseProto, error) {
	uses, err := c.node.CacheUses(c.ctx)
	if err != nil {
		return nil, err
	}
	f := q.GetFilter()
	r := &pb.ListCacheDirectivesResponseProto{}
	return r, c.ask(func(m meta.Query) error {
		page, more, err := m.CacheDirectives(q.GetPrevId(), meta.CacheFilter{ID: f.Id, Path: f.Path, Pool: f.Pool, ByCopies: f.Replication != nil})
		r.HasMore = &more
		for _, d := range page {
			u := uses.Directives[d.ID]
			r.Elements = append(r.Elements, &pb.CacheDirectiveEntryProto{
				Info: &pb.CacheDirectiveInfoProto{Id: &d.ID, Path: &d.Path, Replication: proto.Uint32(uint32(d.Replication)), Pool: &d.Pool,
					Expiration: &pb.CacheDirectiveInfoExpirationProto{Millis: &d.Expires, IsRelative: proto.Bool(false)}},
				Stats: &pb.CacheDirectiveStatsProto{BytesNeeded: &u.BytesNeeded, BytesCached: &u.BytesCached, FilesNeeded: &u.FilesNeeded, FilesCached: &u.FilesCached,
					HasExpired: proto.Bool(m.Time > d.Expires)}})
		}
		return err
	})
}
