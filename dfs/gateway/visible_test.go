package gateway

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/internal/testkit"
)

// slow is a data node that takes a packet when it is told to.
type slow struct{ take chan struct{} }

func (s slow) Open(context.Context, xfer.Block) (xfer.Reader, error) {
	return nil, errors.New("nothing")
}
func (s slow) Close(context.Context, xfer.WriteRequest) error { return nil }
func (s slow) Write(context.Context, xfer.WriteRequest) (xfer.Writer, error) {
	return slowWriter(s), nil
}

type slowWriter slow

func (slowWriter) Tail() (int64, uint32)          { return 0, 0 }
func (slowWriter) Sync(context.Context) error     { return nil }
func (slowWriter) Acked(int64)                    {}
func (slowWriter) Finalize(context.Context) error { return nil }
func (slowWriter) Close() error                   { return nil }

func (slowWriter) Same(context.Context, int64, []byte) (bool, error) { return true, nil }

func (w slowWriter) Write(ctx context.Context, _ int64, _, _ []byte) error {
	select {
	case <-w.take:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestWhatReadersSee: a node shows of a block that is written what the nodes behind it have as well, also when the pipeline has broken.
func TestWhatReadersSee(t *testing.T) {
	s := serve(t, t.TempDir(), func(g *Gateway) {
		g.data.Dial = func(ctx context.Context, address string) (net.Conn, error) { // also to what is no member
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	})
	c := s.as("root")
	l := listen(t)
	next := &xfer.Server{Store: slow{make(chan struct{})}}
	ended := make(chan error, 1)
	go func() { ended <- next.Serve(l) }()
	defer func() { next.Close(); <-ended }()
	b := c.addBlock("/f", c.create("/f"), nil)
	p, err := c.begin(b, func(q *pb.OpWriteBlockProto) {
		a := l.Addr().(*net.TCPAddr)
		q.PipelineSize, q.Targets = proto.Uint32(2), []*pb.DatanodeInfoProto{{Id: &pb.DatanodeIDProto{IpAddr: str(a.IP.String()), HostName: str("next"), DatanodeUuid: str("next"),
			XferPort: proto.Uint32(uint32(a.Port)), InfoPort: proto.Uint32(0), IpcPort: proto.Uint32(0)}}}
		q.TargetStorageTypes, q.TargetStorageIds = []pb.StorageTypeProto{pb.StorageTypeProto_DISK}, []string{"s"}
	})
	if err != nil {
		t.Fatal(err)
	}
	id := int64(b.B.GetBlockId())
	visible := func(stored int64) (n int64) {
		t.Helper()
		testkit.Await(t, "bytes to be here", func() bool {
			i, err := s.node.Blocks.Stat(id)
			n = s.node.Keeper.Visible(i)
			return err == nil && i.Length == stored
		})
		return n
	}
	send := func(from, to int64) {
		t.Helper()
		if _, err := p.Send(from, pattern(from, to), false); err != nil {
			t.Fatal(err)
		}
	}
	send(0, 512)
	if n := visible(512); n != 0 {
		t.Errorf("%d bytes are shown that the next node has not", n)
	}
	read := c.locations("/f").LastBlock
	if got, err := c.readBlock(read, 0, 512); err == nil {
		t.Errorf("%d bytes are read that the next node has not", len(got))
	}
	next.Store.(slow).take <- struct{}{}
	if _, err := p.Ack(); err != nil {
		t.Fatal(err)
	}
	if n := visible(512); n != 512 {
		t.Errorf("%d bytes are shown of those that are acknowledged", n)
	}
	send(512, 1000)
	if n := visible(1000); n != 512 {
		t.Errorf("%d bytes are shown", n)
	}
	next.Close()
	if _, err := p.Ack(); err == nil {
		t.Error("acknowledged by a node that has gone")
	}
	if n := visible(1000); n != 512 {
		t.Errorf("%d bytes are shown after the pipeline broke", n)
	}
	if got, err := c.readBlock(read, 0, 512); err != nil || string(got) != string(pattern(0, 512)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// The writer goes on alone.
	alone, err := c.begin(b, func(q *pb.OpWriteBlockProto) {
		stamp := ask[pb.UpdateBlockForPipelineResponseProto](c, "updateBlockForPipeline", &pb.UpdateBlockForPipelineRequestProto{Block: b.B, ClientName: &c.name}).Block.B.GenerationStamp
		q.Stage, q.LatestGenerationStamp = pb.OpWriteBlockProto_PIPELINE_SETUP_STREAMING_RECOVERY.Enum(), stamp
		q.MinBytesRcvd, q.MaxBytesRcvd = proto.Uint64(512), proto.Uint64(1000)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := visible(1000); n != 512 {
		t.Errorf("%d bytes are shown before they are acknowledged again", n)
	}
	c.send(alone, 512, pattern(512, 1200))
	if n := visible(1200); n != 1200 {
		t.Errorf("%d bytes are shown of the block that is finished", n)
	}
}
