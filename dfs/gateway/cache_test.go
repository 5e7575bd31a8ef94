package gateway

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/ring"
)

// cacheStats are those of all directives and pools that a client sees: bytes wanted, bytes in memory.
func cacheStats(c *client) (s string) {
	c.t.Helper()
	l := ask[pb.ListCacheDirectivesResponseProto](c, "listCacheDirectives", &pb.ListCacheDirectivesRequestProto{PrevId: proto.Int64(0), Filter: &pb.CacheDirectiveInfoProto{}})
	for _, e := range l.Elements {
		s += fmt.Sprintf("%d %s %d %d/%d %v; ", e.Info.GetId(), e.Info.GetPath(), e.Info.GetReplication(), e.Stats.GetBytesCached(), e.Stats.GetBytesNeeded(), e.Stats.GetHasExpired())
	}
	p := ask[pb.ListCachePoolsResponseProto](c, "listCachePools", &pb.ListCachePoolsRequestProto{PrevPoolName: new("")})
	for _, e := range p.Entries {
		s += fmt.Sprintf("%s %d/%d, %d over", e.Info.GetPoolName(), e.Stats.GetBytesCached(), e.Stats.GetBytesNeeded(), e.Stats.GetBytesOverlimit())
	}
	return s
}

// TestCacheDirectives: blocks of a directive stay in memory on as many nodes as it says, whoever leads, and clients are told so; a pool takes no more than its limit.
func TestCacheDirectives(t *testing.T) {
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	const size = 3 << 20
	c := startCluster(t, 5, often)
	c.write("/f", 3, 4<<20, size)
	c.replicated("/f", 3)
	at := func() *client { return c.leading().as("root") }
	is := func(want string) {
		t.Helper()
		got := ""
		testkit.Await(t, want, func() bool { got = cacheStats(at()); return got == want }, &got)
	}
	pool := &pb.CachePoolInfoProto{PoolName: new("p"), GroupName: new("g"), Limit: new(int64(2*size + 1))}
	info := func() *pb.CacheDirectiveInfoProto {
		return &pb.CacheDirectiveInfoProto{Path: new("/f"), Pool: new("p"), Replication: new(uint32(2))}
	}
	at().throws("InvalidRequestException", "addCacheDirective", &pb.AddCacheDirectiveRequestProto{Info: info()})
	ask[pb.AddCachePoolResponseProto](at(), "addCachePool", &pb.AddCachePoolRequestProto{Info: pool})
	c.leading().as("alice").throws("AccessControlException", "addCacheDirective", &pb.AddCacheDirectiveRequestProto{Info: info()})
	c.leading().as("alice").throws("AccessControlException", "removeCachePool", &pb.RemoveCachePoolRequestProto{PoolName: new("p")})
	if r := ask[pb.AddCacheDirectiveResponseProto](at(), "addCacheDirective", &pb.AddCacheDirectiveRequestProto{Info: info()}); r.GetId() != 1 {
		t.Fatalf("directive %d", r.GetId())
	}
	is(fmt.Sprintf("1 /f 2 %d/%[1]d false; p %[1]d/%[1]d, 0 over", 2*size))
	// Two keep it in memory, and the third does not.
	kept := func() (hosts []string) {
		t.Helper()
		testkit.Await(t, "two hosts to have it in memory", func() bool {
			for _, p := range c.nodes {
				if _, _, err := p.node.Blocks.Extent(int64(c.located("/f").Blocks[0].ID)); p.alive && err == nil {
					c.letGo(p, "/f")
				}
			}
			hosts = c.cached(at(), "/f")
			return len(hosts) == 2
		}, &hosts)
		return hosts
	}
	hosts := kept()
	e := at().throws("InvalidRequestException", "addCacheDirective", &pb.AddCacheDirectiveRequestProto{Info: &pb.CacheDirectiveInfoProto{Path: new("/f"), Pool: new("p")}})
	if want := fmt.Sprintf("Caching path /f of size %d bytes at replication 1 would exceed pool p's remaining capacity of 1 bytes.", size); e.Message != want {
		t.Errorf("%q, want %q", e.Message, want)
	}
	at().throws("IOException", "addCacheDirective", &pb.AddCacheDirectiveRequestProto{Info: &pb.CacheDirectiveInfoProto{Id: new(int64(7)), Path: new("/f"), Pool: new("p")}})
	at().throws("InvalidRequestException", "modifyCacheDirective", &pb.ModifyCacheDirectiveRequestProto{Info: info()})
	at().throws("IllegalArgumentException", "addCacheDirective", &pb.AddCacheDirectiveRequestProto{Info: &pb.CacheDirectiveInfoProto{Path: new("/f"), Pool: new("p"), Replication: new(uint32(40_000))}})
	// One that leads or keeps it is lost: another one does.
	lost := c.nodes[slices.IndexFunc(c.nodes, func(p *peerNode) bool { return p.self.Host == hosts[0] })]
	lost.kill()
	c.leading()
	c.change(ring.Down{Node: lost.name()})
	is(fmt.Sprintf("1 /f 2 %d/%[1]d false; p %[1]d/%[1]d, 0 over", 2*size))
	if again := kept(); slices.Contains(again, hosts[0]) {
		t.Errorf("a node that is down has it in memory: %v", again)
	}
	// The limit becomes less: nothing is kept, and it is said by how much that is too much.
	ask[pb.ModifyCachePoolResponseProto](at(), "modifyCachePool", &pb.ModifyCachePoolRequestProto{Info: &pb.CachePoolInfoProto{PoolName: new("p"), Limit: new(int64(size))}})
	is(fmt.Sprintf("1 /f 2 0/%d false; p 0/%[1]d, %d over", 2*size, size))
	ask[pb.ModifyCacheDirectiveResponseProto](at(), "modifyCacheDirective", &pb.ModifyCacheDirectiveRequestProto{
		Info: &pb.CacheDirectiveInfoProto{Id: new(int64(1)), Expiration: &pb.CacheDirectiveInfoExpirationProto{Millis: new(int64(0)), IsRelative: new(true)}}})
	is("1 /f 2 0/0 true; p 0/0, 0 over")
	ask[pb.RemoveCacheDirectiveResponseProto](at(), "removeCacheDirective", &pb.RemoveCacheDirectiveRequestProto{Id: new(int64(1))})
	is("p 0/0, 0 over")
	ask[pb.RemoveCachePoolResponseProto](at(), "removeCachePool", &pb.RemoveCachePoolRequestProto{PoolName: new("p")})
	is("")
}
