package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/meta"
)

const clientProtocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol"

// site is a gateway that serves a node, of which root is the superuser. Files may have blocks of 1 KB.
type site struct {
	t         testing.TB
	node      *dfs.Node
	g         *Gateway
	rpc, data string
	passed    atomic.Int64 // of its clock
}

func serve(t testing.TB, dir string, prepare ...func(*Gateway)) *site {
	t.Helper()
	m := meta.DefaultConfig()
	m.MinBlockSize = 512
	s := &site{t: t}
	var err error
	s.node, err = dfs.Open(dfs.Config{Dir: dir, Owner: "root", Meta: &m, Now: func() time.Time { return time.UnixMilli(1_700_000_000_000).Add(time.Duration(s.passed.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	s.g = New(Config{Node: s.node, Host: "127.0.0.1", Groups: func(u string) []string { return map[string][]string{"alice": {"staff"}}[u] }})
	for _, f := range prepare {
		f(s.g)
	}
	rpc, data := listen(t), listen(t)
	s.rpc, s.data = rpc.Addr().String(), data.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.g.Serve(rpc, data) }()
	t.Cleanup(func() {
		s.g.Shutdown()
		if err := errors.Join(<-ended, s.node.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// a client is a user of a site.
type client struct {
	*ipc.Client
	s    *site
	t    testing.TB
	name string // by which it holds leases
}

func (s *site) as(user string) *client {
	s.t.Helper()
	return s.dial(user, ipc.Options{Protocol: clientProtocol, User: ipc.User{Name: user}})
}

func (s *site) dial(user string, o ipc.Options) *client {
	s.t.Helper()
	c, err := ipc.Dial(context.Background(), s.rpc, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return &client{c, s, s.t, "client of " + user}
}

// ask calls a method that must succeed.
func ask[A any, P interface {
	*A
	proto.Message
}](c *client, method string, q proto.Message) P {
	c.t.Helper()
	a := P(new(A))
	if err := c.Call(context.Background(), method, q, a); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return a
}

// throws calls a method that must fail with an exception, whose class has such an end.
func (c *client) throws(class, method string, q proto.Message) *ipc.Exception {
	c.t.Helper()
	err := c.Call(context.Background(), method, q, &pb.MsyncResponseProto{})
	e, ok := errors.AsType[*ipc.Exception](err)
	if !ok || !strings.HasSuffix(e.Class, class) {
		c.t.Fatalf("%s: %v, want a %s", method, err, class)
	}
	return e
}

func (c *client) mkdir(path string, mode uint32) {
	c.t.Helper()
	ask[pb.MkdirsResponseProto](c, "mkdirs", &pb.MkdirsRequestProto{Src: &path, Masked: &pb.FsPermissionProto{Perm: &mode}, CreateParent: proto.Bool(true)})
}

func (c *client) createRequest(path string) *pb.CreateRequestProto {
	return &pb.CreateRequestProto{Src: &path, Masked: permission(0o640), ClientName: &c.name, CreateFlag: proto.Uint32(1), CreateParent: proto.Bool(true),
		Replication: proto.Uint32(1), BlockSize: proto.Uint64(2048)}
}

// create makes a file with blocks of 2 KB and returns its id.
func (c *client) create(path string) uint64 {
	c.t.Helper()
	return ask[pb.CreateResponseProto](c, "create", c.createRequest(path)).GetFs().GetFileId()
}

func (c *client) addBlock(path string, id uint64, previous *pb.ExtendedBlockProto) *pb.LocatedBlockProto {
	c.t.Helper()
	return ask[pb.AddBlockResponseProto](c, "addBlock", &pb.AddBlockRequestProto{Src: &path, ClientName: &c.name, FileId: &id, Previous: previous}).Block
}

func (c *client) complete(path string, id uint64, last *pb.ExtendedBlockProto) {
	c.t.Helper()
	if r := ask[pb.CompleteResponseProto](c, "complete", &pb.CompleteRequestProto{Src: &path, ClientName: &c.name, FileId: &id, Last: last}); !r.GetResult() {
		c.t.Fatalf("%s is not closed", path)
	}
}

func (c *client) connect() net.Conn {
	c.t.Helper()
	nc, err := net.Dial("tcp", c.s.data)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { nc.Close() })
	return nc
}

func extended(b *pb.ExtendedBlockProto) xfer.Block {
	return xfer.Block{Pool: b.GetPoolId(), ID: b.GetBlockId(), Stamp: b.GetGenerationStamp(), Length: int64(b.GetNumBytes())}
}

// begin begins to write a block.
func (c *client) begin(b *pb.LocatedBlockProto, change func(*pb.OpWriteBlockProto)) (*xfer.Pipeline, error) {
	q := &pb.OpWriteBlockProto{Header: xfer.Header(extended(b.B), c.name, b.BlockToken), Stage: pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE.Enum(),
		PipelineSize: proto.Uint32(1), MinBytesRcvd: b.B.NumBytes, MaxBytesRcvd: b.B.NumBytes, LatestGenerationStamp: b.B.GenerationStamp}
	if change != nil {
		change(q)
	}
	return xfer.Write(c.connect(), q)
}

// send writes bytes at an offset of a block, and ends it.
func (c *client) send(p *xfer.Pipeline, offset int64, data []byte) {
	c.t.Helper()
	n, err := p.Send(offset, data, false)
	if err == nil {
		n, err = p.Finish(offset+int64(len(data)), false)
	}
	for acked := int64(-1); err == nil && acked < n; {
		acked, err = p.Ack()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// write makes a file.
func (c *client) write(path string, data []byte) {
	c.t.Helper()
	id := c.create(path)
	var last *pb.ExtendedBlockProto
	for len(data) > 0 {
		b := c.addBlock(path, id, last)
		p, err := c.begin(b, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		n := min(2048, len(data))
		c.send(p, 0, data[:n])
		last, data = b.B, data[n:]
		last.NumBytes = proto.Uint64(uint64(n))
	}
	c.complete(path, id, last)
}

func (c *client) locations(path string) *pb.LocatedBlocksProto {
	c.t.Helper()
	return ask[pb.GetBlockLocationsResponseProto](c, "getBlockLocations", c.locationsRequest(path)).Locations
}

func (c *client) locationsRequest(path string) *pb.GetBlockLocationsRequestProto {
	return &pb.GetBlockLocationsRequestProto{Src: &path, Offset: proto.Uint64(0), Length: proto.Uint64(1 << 62)}
}

func (c *client) readBlock(b *pb.LocatedBlockProto, offset, n int64) ([]byte, error) {
	r, err := xfer.Read(c.connect(), xfer.Header(extended(b.B), c.name, b.BlockToken), offset, n)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// read returns what is in a file.
func (c *client) read(path string) (all []byte) {
	c.t.Helper()
	for _, b := range c.locations(path).Blocks {
		data, err := c.readBlock(b, 0, int64(b.B.GetNumBytes()))
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// status is that of a refusal of data transfer.
func status(err error) pb.Status {
	if e, ok := errors.AsType[*xfer.Error](err); ok {
		return e.Status
	}
	return pb.Status_SUCCESS
}
