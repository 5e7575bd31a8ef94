package xfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// mortal is a listener of a node that dies at a point of the first connection: with all its connections
// and its listener, as a killed process.
type mortal struct {
	net.Listener
	reads  int  // bytes that are read before it dies; those of the operation, or, with begun, those after it
	begun  bool // it dies after its pipeline was built
	writes int  // with reads < 0: answers that are written before it dies

	die  func()
	once sync.Once
}

func (m *mortal) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &mortalConn{Conn: c, m: m, reads: m.reads}, nil
}

type mortalConn struct {
	net.Conn
	m             *mortal
	mu            sync.Mutex
	reads, writes int
	begun         bool
}

var errKilled = errors.New("killed")

func (c *mortalConn) kill() error {
	c.m.once.Do(func() {
		c.m.Listener.Close()
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Conn.Close()
		go c.m.die()
	})
	return errKilled
}

func (c *mortalConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	counts := c.m.reads >= 0 && c.begun == c.m.begun
	if counts && c.reads == 0 {
		c.mu.Unlock()
		return 0, c.kill()
	}
	if counts {
		p = p[:min(len(p), c.reads)]
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m.reads >= 0 && c.begun == c.m.begun {
		if c.reads -= n; c.reads < 0 { // it was built while this waited
			c.reads = 0
		}
	}
	return n, err
}

func (c *mortalConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	if c.m.reads >= 0 {
		return c.Conn.Write(p)
	}
	rest := p
	for ; len(rest) > 0 && c.writes < c.m.writes; c.writes++ {
		n, k := binary.Uvarint(rest)
		rest = rest[k+int(n):]
	}
	n, err := c.Conn.Write(p[:len(p)-len(rest)])
	if len(rest) > 0 {
		err = c.kill()
	}
	return n, err
}

// TestKilledNode kills a node of a pipeline of three at each of many points: the client gets the answers from
// which it knows who it was, nothing that was acknowledged is lost, and the others go on.
func TestKilledNode(t *testing.T) {
	data := random(9, 50*Chunk+100)
	first := packet{data: data[:10*Chunk], sums: AppendSums(nil, data[:10*Chunk])}
	head, _ := first.head(nil)
	full := len(head) + len(first.sums) + len(first.data)
	points := map[string]*mortal{
		"before the operation": {reads: 0}, "in the version": {reads: 1}, "in the operation": {reads: 9}, "before the setup is answered": {reads: -1, writes: 0},
		"before the first packet": {begun: true}, "in the lengths of a packet": {begun: true, reads: full + 3}, "in the header": {begun: true, reads: full + len(head)/2},
		"in the checksums": {begun: true, reads: full + len(head) + 5}, "in the data": {begun: true, reads: full + len(head) + 500}, "a byte before the end": {begun: true, reads: 2*full - 1},
		"between packets": {begun: true, reads: 3 * full}, "in the last data": {begun: true, reads: 5*full + 50}, "in the last packet": {begun: true, reads: 5*full + 100 + 4 + len(head) + 10},
		"before the first acknowledgement": {reads: -1, writes: 1}, "before the fourth acknowledgement": {reads: -1, writes: 4}, "before the last acknowledgement": {reads: -1, writes: 7},
	}
	for victim := range 3 {
		for name, point := range points {
			t.Run(fmt.Sprintf("node %d %s", victim, name), func(t *testing.T) {
				var nodes []*dataNode
				for i := range 3 {
					s := &Server{}
					var wrap func(net.Listener) net.Listener
					if i == victim {
						m := &mortal{reads: point.reads, begun: point.begun, writes: point.writes, die: func() { s.Close() }}
						wrap = func(l net.Listener) net.Listener { m.Listener = l; return m }
					}
					nodes = append(nodes, start(t, s, wrap))
				}
				built, acked := killedWrite(t, nodes, victim, data)
				if wantBuilt := point.begun || point.writes > 0; built != wantBuilt {
					t.Errorf("built: %v", built)
				}
				survivors := append(append([]*dataNode{}, nodes[:victim]...), nodes[victim+1:]...)
				recoverPipeline(t, survivors, data, acked, built)
			})
		}
	}
}

// killedWrite writes until a node is gone, and returns whether the pipeline was built, and how many bytes
// were acknowledged.
func killedWrite(t *testing.T, nodes []*dataNode, victim int, data []byte) (built bool, acked int) {
	t.Helper()
	nc, err := net.Dial("tcp", Address(nodes[0].info))
	if err != nil && victim == 0 {
		return false, 0
	}
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	p, err := Write(nc, setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, nodes...))
	if err != nil {
		e, ok := errors.AsType[*Error](err)
		if victim > 0 && (!ok || e.Status != pb.Status_ERROR || e.BadLink != Address(nodes[victim].info)) {
			t.Errorf("%v does not blame %s", err, Address(nodes[victim].info))
		}
		return false, 0
	}
	var ends []int
	for at := 0; at < len(data); at += 10 * Chunk {
		end := min(at+10*Chunk, len(data))
		p.Send(int64(at), data[at:end], false) // it may be gone
		ends = append(ends, end)
	}
	p.Finish(int64(len(data)), false)
	for i := int64(0); ; i++ {
		n, err := p.Ack()
		bad, known := errors.AsType[*BadNode](err)
		switch {
		case err == nil && n == i:
			if i < int64(len(ends)) {
				acked = ends[i]
			} else {
				t.Error("everything is acknowledged")
				return true, acked
			}
		case victim > 0 && (!known || n != i || *bad != BadNode{victim, pb.Status_ERROR}), victim == 0 && (err == nil || known):
			t.Errorf("packet %d: acknowledged %d, %v", i, n, err)
			return true, acked
		default:
			return true, acked
		}
	}
}

// recoverPipeline goes on with those that are left, as a client does, and wants the whole block there.
func recoverPipeline(t *testing.T, nodes []*dataNode, data []byte, acked int, built bool) {
	t.Helper()
	stage, id := pb.OpWriteBlockProto_PIPELINE_SETUP_STREAMING_RECOVERY, uint64(1)
	if !built { // a client abandons the block and gets another one
		stage, id = pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, 2
	}
	for _, n := range nodes {
		if r := n.memory.replica(1); built && (len(r.data) < acked || string(r.data) != string(data[:len(r.data)])) {
			t.Errorf("%d bytes are left of %d that were acknowledged", len(r.data), acked)
		}
	}
	q := setup(block(id), stage, nodes...)
	q.LatestGenerationStamp, q.MinBytesRcvd, q.MaxBytesRcvd = proto.Uint64(stamp+1), proto.Uint64(uint64(acked)), proto.Uint64(uint64(len(data)))
	if !built {
		q.LatestGenerationStamp = proto.Uint64(stamp)
	}
	p, err := Write(nodes[0].dial(t), q)
	if err != nil {
		t.Fatal(err)
	}
	sendAll(t, p, acked, data[acked:])
	for _, n := range nodes {
		n.memory.want(t, id, data, true)
	}
}
