package gateway

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/pb"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/ring"
)

// letGo takes the copies of a file's blocks on a node out of memory.
func (c *cluster) letGo(p *peerNode, path string) {
	c.t.Helper()
	for _, b := range c.located(path).Blocks {
		_, e, err := p.node.Blocks.Extent(int64(b.ID))
		if err != nil {
			c.t.Fatal(err)
		}
		f, err := os.Open(e.Path)
		if err == nil {
			err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), e.Off, (e.Size+4095)/4096*4096, unix.FADV_DONTNEED), f.Close())
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// cached are the hosts that a client is told to have the first block of a file in memory, by both ways of asking.
func (c *cluster) cached(at *client, path string) (hosts []string) {
	c.t.Helper()
	of := func(b *pb.LocatedBlockProto) (hosts []string) {
		for i, cached := range b.IsCached {
			if cached {
				hosts = append(hosts, b.Locs[i].GetId().GetHostName())
			}
		}
		slices.Sort(hosts)
		return hosts
	}
	l, listed := &pb.GetBlockLocationsResponseProto{}, &pb.GetListingResponseProto{}
	if err := errors.Join(at.Call(c.t.Context(), "getBlockLocations", &pb.GetBlockLocationsRequestProto{Src: &path, Offset: proto.Uint64(0), Length: proto.Uint64(1 << 40)}, l),
		at.Call(c.t.Context(), "getListing", &pb.GetListingRequestProto{Src: &path, StartAfter: []byte{}, NeedLocation: proto.Bool(true)}, listed)); err != nil {
		return []string{err.Error()} // it may not lead any more
	}
	hosts = of(l.Locations.Blocks[0])
	if again := of(listed.DirList.PartialListing[0].Locations.Blocks[0]); !slices.Equal(again, hosts) {
		return append(again, "(listed)") // it has changed between
	}
	return hosts
}

func (c *cluster) readAt(p *peerNode, path string) {
	c.t.Helper()
	for _, b := range c.located(path).Blocks {
		_, e, err := p.node.Blocks.Extent(int64(b.ID))
		if err == nil {
			var f *os.File
			if f, err = os.Open(e.Path); err == nil {
				_, err = f.ReadAt(make([]byte, e.Size), e.Off)
				f.Close()
			}
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// again has a file be in memory at some of the nodes that have it, and at no others: somebody may have needed the memory, or have read a copy.
func (c *cluster) again(path string, have, want []*peerNode) {
	c.t.Helper()
	for _, p := range have {
		if slices.Contains(want, p) {
			c.readAt(p, path)
		} else if p.alive {
			c.letGo(p, path)
		}
	}
}

// TestBlocksInMemory: clients are told which copies are in memory, whoever leads, and also when those were read past the nodes.
func TestBlocksInMemory(t *testing.T) {
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	c := startCluster(t, 5, often)
	c.write("/f", 3, 4<<20, 3<<20)
	c.replicated("/f", 3)
	var have []*peerNode
	for _, p := range c.nodes {
		if slices.Contains(dfs.Names(c.leader().Places().Readers(c.located("/f").Blocks[0], "")), p.name()) {
			have = append(have, p)
		}
	}
	at := c.leading()
	is := func(want ...*peerNode) {
		t.Helper()
		var hosts, got []string
		for _, p := range want {
			hosts = append(hosts, p.self.Host)
		}
		slices.Sort(hosts)
		testkit.Await(t, fmt.Sprintf("the file to be in memory at %v", hosts), func() bool {
			at = c.leading()
			if got = c.cached(at.as("root"), "/f"); slices.Equal(got, hosts) {
				return true
			}
			c.again("/f", have, want)
			return false
		}, &got)
	}
	is(have...)
	for _, p := range have {
		c.letGo(p, "/f")
	}
	is()
	c.readAt(have[1], "/f")
	is(have[1])
	// Another one leads.
	old := c.leading()
	old.kill()
	c.change(ring.Down{Node: old.name()})
	left := slices.DeleteFunc([]*peerNode{have[1]}, func(p *peerNode) bool { return p == old })
	is(left...)
}

// TestHadoopSeesMemory: Hadoop's client is told by BlockLocation.getCachedHosts, by which Spark and MapReduce choose nodes.
func TestHadoopSeesMemory(t *testing.T) {
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	c := startCluster(t, 3, often)
	j := javaClient(t, c.leading().rpc, nil)
	c.write("/f", 3, 1<<20, 2<<20)
	c.replicated("/f", 3)
	is := func(at ...*peerNode) {
		t.Helper()
		want, said := "", ""
		for _, p := range at {
			want = p.self.Host
		}
		testkit.Await(t, "getCachedHosts to be "+want, func() bool {
			if said = j.Run("root", "cached", "/f"); said == strings.ReplaceAll("0 W\n1048576 W\n", "W", want) {
				return true
			}
			c.again("/f", c.nodes, at)
			return false
		}, &said)
	}
	for _, p := range c.nodes {
		c.letGo(p, "/f")
	}
	is()
	c.readAt(c.nodes[1], "/f")
	is(c.nodes[1])
	c.letGo(c.nodes[1], "/f")
	is()
}
