package gateway

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/block"
	"headrace/hdfs/pb"
	"headrace/internal/testkit"
)

func (c *client) truncate(path string, size uint64) bool {
	c.t.Helper()
	return ask[pb.TruncateResponseProto](c, "truncate", &pb.TruncateRequestProto{Src: &path, NewLength: &size, ClientName: &c.name}).GetResult()
}

func (c *client) isClosed(path string) bool {
	c.t.Helper()
	return ask[pb.IsFileClosedResponseProto](c, "isFileClosed", &pb.IsFileClosedRequestProto{Src: &path}).GetResult()
}

// TestTruncate: a file is cut at the end of a block at once, and within one after its copy is cut; it can be gone on with then.
func TestTruncate(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	c.write("/f", pattern(0, 5000)) // three blocks
	c.throws("HadoopIllegalArgumentException", "truncate", &pb.TruncateRequestProto{Src: proto.String("/f"), NewLength: proto.Uint64(5001), ClientName: &c.name})
	if c.truncate("/f", 4500) {
		t.Error("a block is cut at once")
	}
	testkit.Await(t, "the file to be closed", func() bool { return c.isClosed("/f") })
	if got := c.read("/f"); string(got) != string(pattern(0, 4500)) {
		t.Errorf("%d bytes, or others", len(got))
	}
	for range 2 { // the second time it is cut already
		if !c.truncate("/f", 4096) {
			t.Error("the end of a block is not cut at once")
		}
	}
	if c.truncate("/f", 1000) {
		t.Error("a block is cut at once")
	}
	testkit.Await(t, "the file to be closed", func() bool { return c.isClosed("/f") })
	w, err := s.node.Append(context.Background(), s.g.callers.Of("root"), "/f", "127.0.0.1")
	if err == nil {
		_, err = w.Write(pattern(1000, 7000))
	}
	if err == nil {
		err = w.Close()
	}
	if got := c.read("/f"); err != nil || string(got) != string(pattern(0, 7000)) {
		t.Errorf("%d bytes, or others, %v", len(got), err)
	}
	if !c.truncate("/f", 0) || len(c.read("/f")) > 0 {
		t.Error("there is something left")
	}
	testkit.Await(t, "the garbage to be collected", func() bool { return len(s.node.Blocks.Blocks()) == 0 })
}

// TestTruncateOnSeveralNodes: all copies are cut. One whose node is away meanwhile is never taken for the file again, and is replaced; what
// is left is right also if the file has grown in the meantime.
func TestTruncateOnSeveralNodes(t *testing.T) {
	c := startCluster(t, 4)
	c.write("/f", 3, 1<<20, 900_000)
	c.replicated("/f", 3) // nobody keeps where it is
	old := c.located("/f").Blocks[0]
	holders := c.leader().View().Table.Holders(old.Segment)
	var all []*peerNode
	for _, name := range holders {
		all = append(all, c.byName(name))
	}
	away := c.but(all)
	away.kill()
	who := c.leading().as("root")
	if who.truncate("/f", 500_000) {
		t.Fatal("a block is cut at once")
	}
	testkit.Await(t, "the file to be cut without the node that is away", func() bool { return who.isClosed("/f") })
	now := c.located("/f").Blocks[0]
	if now.Stamp <= old.Stamp || now.Size != 500_000 || slices.Contains(now.Nodes, away.name()) || len(now.Nodes) != 2 {
		t.Errorf("cut: %+v", now)
	}
	c.wantFile("/f", 500_000)
	w := c.extend("/f")
	if _, err := w.Write(pattern(0, 400_000)); err != nil { // as long as before, and of other bytes
		t.Fatal(err)
	}
	c.close(w)
	grown := c.located("/f").Blocks[0]
	away.start()
	if r, err := away.node.Blocks.Open(block.Block{ID: int64(grown.ID), Stamp: grown.Stamp}, 0, 1); err == nil {
		r.Close()
		t.Error("a copy from before the cut is given out")
	}
	c.back(away)
	c.replicated("/f", 3)
	for _, p := range all {
		b := c.located("/f").Blocks[0]
		i, err := p.node.Blocks.Stat(int64(b.ID))
		if err != nil || i.Stamp != b.Stamp || i.Length != 900_000 {
			t.Errorf("%s has %+v, %v", p.name(), i, err)
			continue
		}
		if got, want := p.part(i, 499_990, 20), string(pattern(499_990, 500_000))+string(pattern(0, 10)); got != want {
			t.Errorf("%s has other bytes at the cut", p.name())
		}
	}
}

// part is what a node has of a block from an offset on.
func (p *peerNode) part(i block.Info, from, n int64) string {
	p.c.t.Helper()
	r, err := p.node.Blocks.Open(i.Block, from, n)
	if err != nil {
		p.c.t.Fatal(err)
	}
	defer r.Close()
	got, err := r.Next(context.Background())
	if err != nil {
		p.c.t.Fatal(err)
	}
	return string(got.Data[from-got.Off:][:n])
}
