package xfer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// patience is how long a test waits at most for what must happen, on a machine that may be busy.
const patience = 5 * time.Minute

// memory is a Store in memory. It is strict: it refuses what the interfaces do not allow.
type memory struct {
	mu       sync.Mutex
	replicas map[uint64]*replica
	syncs    int
	fail     error // of the next write
	corrupt  bool  // what is read
}

type replica struct {
	stamp      uint64
	data, sums []byte
	acked      int64
	final      bool
	writer     *memoryWriter
}

func newMemory() *memory { return &memory{replicas: map[uint64]*replica{}} }

func (m *memory) Open(_ context.Context, b Block) (Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replicas[b.ID]
	if r == nil || r.stamp < b.Stamp {
		return nil, fmt.Errorf("no replica of block %d with stamp %d", b.ID, b.Stamp)
	}
	data, sums := slices.Clone(r.data), slices.Clone(r.sums)
	if m.corrupt {
		data[len(data)/2] ^= 1
	}
	return &memoryReader{data, sums, r.stamp, r.final}, nil
}

type memoryReader struct {
	data, sums []byte
	stamp      uint64
	final      bool
}

func (r *memoryReader) Length() int64 { return int64(len(r.data)) }
func (r *memoryReader) Stamp() uint64 { return r.stamp }
func (r *memoryReader) Final() bool   { return r.final }
func (r *memoryReader) Close() error  { return nil }

func (r *memoryReader) Read(_ context.Context, offset int64, most int) (data, sums []byte, err error) {
	if offset%Chunk != 0 {
		return nil, nil, fmt.Errorf("read at %d", offset)
	}
	n := min(most, len(r.data)-int(offset), 100*Chunk)
	return r.data[offset:][:n], r.sums[offset/Chunk*Sum:][:(n+Chunk-1)/Chunk*Sum], nil
}

func (r *memoryReader) Sums(_ context.Context, offset, n int64) ([]byte, error) {
	if offset%Chunk != 0 || n%Chunk != 0 {
		return nil, fmt.Errorf("checksums of %d bytes at %d", n, offset)
	}
	return r.sums[offset/Chunk*Sum:][:min(n/Chunk, 100)*Sum], nil
}

func (m *memory) Write(_ context.Context, q WriteRequest) (Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replicas[q.Block.ID]
	switch q.Stage {
	case pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, pb.OpWriteBlockProto_TRANSFER_RBW, pb.OpWriteBlockProto_TRANSFER_FINALIZED:
		if r != nil {
			return nil, fmt.Errorf("block %d is there", q.Block.ID)
		}
		r = &replica{}
		m.replicas[q.Block.ID] = r
	default:
		n := int64(0)
		if r != nil {
			n = int64(len(r.data))
		}
		if r == nil || q.Stamp < r.stamp || n < q.Min || q.Max > 0 && n > q.Max {
			return nil, fmt.Errorf("the replica is not as it should be: %+v", q)
		}
		r.final = false
	}
	r.stamp = q.Stamp
	r.writer = &memoryWriter{m: m, r: r, copy: q.Stage == pb.OpWriteBlockProto_TRANSFER_RBW}
	return r.writer, nil
}

func (m *memory) Close(_ context.Context, q WriteRequest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replicas[q.Block.ID]
	if r == nil || int64(len(r.data)) != q.Min {
		return errors.New("not closed")
	}
	r.final, r.stamp, r.writer = true, q.Stamp, nil
	return nil
}

type memoryWriter struct {
	m    *memory
	r    *replica
	copy bool
}

func (w *memoryWriter) Tail() (int64, uint32) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if n := len(w.r.data); n%Chunk != 0 {
		return int64(n), binary.BigEndian.Uint32(w.r.sums[len(w.r.sums)-Sum:])
	}
	return int64(len(w.r.data)), 0
}

func (w *memoryWriter) Write(_ context.Context, offset int64, data, sums []byte) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.m.fail != nil {
		return w.m.fail
	}
	n := len(w.r.data)
	if w.r.writer != w || w.r.final || offset != int64(n) || len(data) == 0 {
		return fmt.Errorf("a write of %d bytes at %d of %d, final %v", len(data), offset, n, w.r.final)
	}
	w.r.data = append(w.r.data, data...)
	w.r.sums = append(w.r.sums[:n/Chunk*Sum], sums...)
	if len(w.r.sums) != (len(w.r.data)+Chunk-1)/Chunk*Sum {
		return fmt.Errorf("%d bytes have %d of checksums", len(w.r.data), len(w.r.sums))
	}
	return nil
}

func (w *memoryWriter) Sync(context.Context) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.m.syncs++
	return nil
}

func (w *memoryWriter) Same(_ context.Context, offset int64, data []byte) (bool, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	return bytes.Equal(w.r.data[offset:][:len(data)], data), nil
}

func (w *memoryWriter) Acked(n int64) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.r.acked = n
}

func (w *memoryWriter) Finalize(context.Context) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.r.writer != w {
		return errors.New("another one writes this by now")
	}
	w.r.final = !w.copy
	return nil
}

func (w *memoryWriter) Close() error { return nil }

// replica returns a copy of what there is of a block.
func (m *memory) replica(id uint64) replica {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replicas[id]
	if r == nil {
		return replica{}
	}
	return replica{stamp: r.stamp, data: slices.Clone(r.data), sums: slices.Clone(r.sums), acked: r.acked, final: r.final}
}

// wantReplica wants bytes, final or not, with the right checksums.
func (m *memory) want(t testing.TB, id uint64, data []byte, final bool) {
	t.Helper()
	r := m.replica(id)
	if string(r.data) != string(data) || r.final != final {
		t.Errorf("%d bytes, final %v; want %d, %v", len(r.data), r.final, len(data), final)
	}
	if string(r.sums) != string(AppendSums(nil, r.data)) {
		t.Errorf("the checksums are not those of %d bytes", len(r.data))
	}
}

// dataNode is a server with its store.
type dataNode struct {
	*Server
	memory *memory
	info   *pb.DatanodeInfoProto
}

// start serves a memory until the test ends. listener may put something between.
func start(t testing.TB, s *Server, listener func(net.Listener) net.Listener) *dataNode {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dataNode{Server: s, memory: newMemory()}
	a := l.Addr().(*net.TCPAddr)
	d.info = &pb.DatanodeInfoProto{Id: &pb.DatanodeIDProto{IpAddr: proto.String(a.IP.String()), HostName: proto.String("localhost"),
		DatanodeUuid: proto.String(a.String()), XferPort: proto.Uint32(uint32(a.Port)), InfoPort: proto.Uint32(0), IpcPort: proto.Uint32(0)}}
	s.Store = d.memory
	orDefault(&s.Limits.Operation, patience)
	orDefault(&s.Limits.Next, patience)
	s.init()
	if listener != nil {
		l = listener(l)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if n := s.crowd.Members(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
	return d
}

func (d *dataNode) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", Address(d.info))
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

const stamp = 1001

func block(id uint64) Block { return Block{Pool: "BP-1", ID: id, Stamp: stamp} }

// setup asks for a pipeline of nodes, of which the first is the one that is asked.
func setup(b Block, stage pb.OpWriteBlockProto_BlockConstructionStage, nodes ...*dataNode) *pb.OpWriteBlockProto {
	q := &pb.OpWriteBlockProto{Header: Header(b, "client", nil), Stage: &stage, PipelineSize: pbUint32(uint32(len(nodes))),
		MinBytesRcvd: proto.Uint64(0), MaxBytesRcvd: proto.Uint64(0), LatestGenerationStamp: proto.Uint64(b.Stamp)}
	for _, n := range nodes[1:] {
		q.Targets = append(q.Targets, n.info)
	}
	return q
}

// random returns bytes that a number decides on.
func random(seed uint32, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if i%4 == 0 {
			seed = crc32.Update(seed, castagnoli, []byte{1})
		}
		b[i] = byte(seed >> (i % 4 * 8))
	}
	return b
}

// put writes a block.
func put(t testing.TB, b Block, data []byte, nodes ...*dataNode) {
	t.Helper()
	p, err := Write(nodes[0].dial(t), setup(b, pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, nodes...))
	if err != nil {
		t.Fatal(err)
	}
	sendAll(t, p, 0, data)
}

// sendAll sends data from an offset on, ends the block, and wants everything acknowledged.
func sendAll(t testing.TB, p *Pipeline, offset int, data []byte) {
	t.Helper()
	packets := int64(0)
	for at := 0; at < len(data); {
		// What fills a chunk goes alone.
		n := min(len(data)-at, 10*Chunk)
		if in := (offset + at) % Chunk; in != 0 {
			n = min(n, Chunk-in)
		}
		if _, err := p.Send(int64(offset+at), data[at:at+n], false); err != nil {
			t.Fatal(err)
		}
		at += n
		packets++
	}
	if _, err := p.Finish(int64(offset+len(data)), true); err != nil {
		t.Fatal(err)
	}
	for i := range packets + 1 {
		if n, err := p.Ack(); n != i || err != nil {
			t.Fatalf("acknowledged: %d, %v; want %d", n, err, i)
		}
	}
}
