package xfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/testkit"
)

func newBuffered(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

func message(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := appendMessage(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRefused: what is not supported is said so, in the way of the operation, and the connection goes on.
func TestRefused(t *testing.T) {
	a := start(t, &Server{}, nil)
	put(t, block(1), []byte("abc"), a)
	nc := a.dial(t)
	r := newBuffered(nc)
	h := Header(block(1), "client", nil)
	for op, m := range map[Op]proto.Message{
		OpRequestFDs:   &pb.OpRequestShortCircuitAccessProto{Header: h.BaseHeader, MaxVersion: pbUint32(1)},
		OpCopyBlock:    &pb.OpCopyBlockProto{Header: h.BaseHeader},
		OpReplaceBlock: &pb.OpReplaceBlockProto{Header: h.BaseHeader, DelHint: proto.String(""), Source: a.info},
		OpGroupChecksum: &pb.OpBlockGroupChecksumProto{Header: h.BaseHeader, Datanodes: &pb.DatanodeInfosProto{}, EcPolicy: &pb.ErasureCodingPolicyProto{Id: pbUint32(1)},
			BlockIndices: []uint32{}, RequestedNumBytes: proto.Uint64(1)},
	} {
		if err := writeOp(nc, op, m); err != nil {
			t.Fatal(err)
		}
		_, err := readResponse(r)
		wantStatus(t, err, pb.Status_ERROR_UNSUPPORTED, op.String())
	}
	writeOp(nc, OpReleaseFDs, &pb.ReleaseShortCircuitAccessRequestProto{SlotId: &pb.ShortCircuitShmSlotProto{ShmId: &pb.ShortCircuitShmIdProto{Hi: proto.Int64(1), Lo: proto.Int64(1)}, SlotIdx: proto.Int32(1)}})
	var released pb.ReleaseShortCircuitAccessResponseProto
	if err := readMessage(r, &released); err != nil || released.GetStatus() != pb.Status_ERROR_UNSUPPORTED {
		t.Errorf("%v, %v", &released, err)
	}
	writeOp(nc, OpRequestSegment, &pb.ShortCircuitShmRequestProto{ClientName: proto.String("c")})
	var segment pb.ShortCircuitShmResponseProto
	if err := readMessage(r, &segment); err != nil || segment.GetStatus() != pb.Status_ERROR_UNSUPPORTED {
		t.Errorf("%v, %v", &segment, err)
	}
	if b, err := Read(nc, h, 0, 3); err != nil {
		t.Error(err)
	} else if got, err := io.ReadAll(b); string(got) != "abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSameNodesInAPipeline: a client does not have nodes connect to each other again and again.
func TestSameNodesInAPipeline(t *testing.T) {
	a, b, c := start(t, &Server{}, nil), start(t, &Server{}, nil), start(t, &Server{}, nil)
	_, err := Write(a.dial(t), setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b, c, b))
	wantStatus(t, err, pb.Status_ERROR_INVALID, "the same")
	put(t, block(1), []byte("abc"), a, b, c)
}

// patient notes how long its connections may be silent.
type patient struct {
	net.Listener
	silent *atomic.Int64
}

func (p patient) Accept() (net.Conn, error) {
	nc, err := p.Listener.Accept()
	return patientConn{nc, p.silent}, err
}

type patientConn struct {
	net.Conn
	silent *atomic.Int64
}

func (c patientConn) SetReadDeadline(t time.Time) error {
	c.silent.Store(int64(time.Until(t)))
	return c.Conn.SetReadDeadline(t)
}

// TestWriterThatPauses: a client whose socket timeout is 10 minutes sends a heartbeat every 5, and keeps its pipeline.
func TestWriterThatPauses(t *testing.T) {
	var first, second atomic.Int64
	a := start(t, &Server{}, func(l net.Listener) net.Listener { return patient{l, &first} })
	b := start(t, &Server{}, func(l net.Listener) net.Listener { return patient{l, &second} })
	p, err := Write(a.dial(t), setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Heartbeat(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Ack(); err != nil {
		t.Fatal(err)
	}
	for i, node := range []*atomic.Int64{&first, &second} {
		if silent := time.Duration(node.Load()); silent < 5*time.Minute {
			t.Errorf("node %d waits for %v", i, silent)
		}
	}
}

// TestSASL: a client that wants a handshake hears that there is none.
func TestSASL(t *testing.T) {
	nc := start(t, &Server{}, nil).dial(t)
	nc.Write(append([]byte{0xde, 0xad, 0xbe, 0xef}, message(t, &pb.DataTransferEncryptorMessageProto{Status: pb.DataTransferEncryptorMessageProto_SUCCESS.Enum()})...))
	var m pb.DataTransferEncryptorMessageProto
	if err := readMessage(newBuffered(nc), &m); err != nil || m.GetStatus() != pb.DataTransferEncryptorMessageProto_ERROR {
		t.Errorf("%v, %v", &m, err)
	}
}

// TestStrangers sends what is no client's, or a bad one's: the connection ends, and nothing else does.
func TestStrangers(t *testing.T) {
	a := start(t, &Server{Limits: Limits{Operation: 100 * time.Millisecond, Receive: 100 * time.Millisecond, Answer: 100 * time.Millisecond}}, nil)
	a.memory.replicas[1] = &replica{stamp: stamp, data: []byte("abc"), sums: AppendSums(nil, []byte("abc")), final: true}
	op := append([]byte{0, version, byte(OpWriteBlock)}, message(t, setup0(block(7)))...)
	for name, b := range map[string][]byte{
		"http": []byte("GET / HTTP/1.1\r\n\r\n"), "version": {0, 27, 81}, "unknown": {0, version, 12}, "no message": {0, version, 81}, "long message": append([]byte{0, version, 81}, binary.AppendUvarint(nil, 1<<40)...),
		"rubbish": {0, version, 81, 2, 0xff, 0xff}, "nothing": {}, "silent pipeline": op,
		"negative packet": append(slices.Clone(op), 0, 0, 0, 3, 0, 0), "2 GB packet": append(slices.Clone(op), 0x7f, 0xff, 0xff, 0xff, 0, 1), "half a packet": append(slices.Clone(op), 0, 0, 9, 0, 0, 20, 1, 2),
		"no header": append(slices.Clone(op), 0, 0, 0, 4, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			nc := a.dial(t)
			nc.Write(b)
			if _, err := io.Copy(io.Discard, nc); isTimeout(err) {
				t.Error("the connection goes on")
			}
		})
		a.memory.mu.Lock()
		delete(a.memory.replicas, 7)
		a.memory.mu.Unlock()
	}
	testkit.Await(t, "a reader to be served", func() bool { // on a busy machine it may itself be slow
		r, err := Read(a.dial(t), Header(block(1), "c", nil), 0, 3)
		if err != nil {
			return false
		}
		got, err := io.ReadAll(r)
		return err == nil && string(got) == "abc"
	})
}

func isTimeout(err error) bool {
	t, ok := err.(net.Error)
	return ok && t.Timeout()
}

func setup0(b Block) *pb.OpWriteBlockProto {
	q := setup(b, pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, nil)
	q.RequestedChecksum = ours()
	return q
}

// TestManyConnections: idle connections keep nobody out.
func TestManyConnections(t *testing.T) {
	a := start(t, &Server{Limits: Limits{AddressConnections: 20}}, nil)
	put(t, block(1), []byte("abc"), a)
	for range 500 {
		a.dial(t)
	}
	r, err := Read(a.dial(t), Header(block(1), "c", nil), 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if n := a.crowd.Members(); n > 20 {
		t.Errorf("%d connections", n)
	}
}

// TestHalfOperations: who has not shown that it may do something keeps nobody out, whatever it has begun to say.
func TestHalfOperations(t *testing.T) {
	a := start(t, &Server{Limits: Limits{AddressConnections: 3}}, nil)
	put(t, block(1), []byte("abc"), a)
	for range 10 {
		nc := a.dial(t)
		nc.Write([]byte{0, version, byte(OpReadBlock), 0xff, 0xff, 0x03}) // 64 KB are to come
	}
	r, err := Read(a.dial(t), Header(block(1), "c", nil), 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLargePackets: packets that are larger than usual have a budget, those that are not have none, and what was taken is given back.
func TestLargePackets(t *testing.T) {
	a := start(t, &Server{Limits: Limits{AddressMemory: 3 << 20}}, nil)
	begin := func(id uint64, payload uint32) net.Conn {
		nc := a.dial(t)
		if _, err := Write(nc, setup(block(id), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a)); err != nil {
			t.Fatal(err)
		}
		nc.Write(append(binary.BigEndian.AppendUint32(nil, payload+4), 0, 20, 1)) // and what comes after is yet to come
		return nc
	}
	held := begin(1, 2<<20)
	testkit.Await(t, "it to be counted", func() bool { all, _ := a.Server.memory.Taken(); return all > 2<<20 })
	if _, err := io.ReadAll(begin(2, 2<<20)); isTimeout(err) {
		t.Error("a second one of 2 MB has room in 3 MB")
	}
	put(t, block(3), random(3, 1<<20), a)
	held.Close()
	testkit.Await(t, "it to be given back", func() bool { all, owners := a.Server.memory.Taken(); return all == 0 && owners == 0 })
}

// TestReadersThatTakeNothing: they give way to others of their address.
func TestReadersThatTakeNothing(t *testing.T) {
	a := start(t, &Server{Limits: Limits{AddressConnections: 2, Stalled: 50 * time.Millisecond}}, nil)
	data := make([]byte, 32<<20) // more than is under way
	a.memory.replicas[1] = &replica{stamp: stamp, data: data, sums: AppendSums(nil, data), final: true}
	for range 2 {
		if _, err := Read(a.dial(t), Header(block(1), "c", nil), 0, int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Await(t, "another reader to be served", func() bool {
		r, err := Read(a.dial(t), Header(block(1), "c", nil), 0, 3)
		if err != nil {
			return false
		}
		got, err := io.ReadAll(r)
		return err == nil && len(got) == 3
	})
}

// FuzzPacket reads any bytes as packets: what is read has what its header says, and comes again when it is written.
func FuzzPacket(f *testing.F) {
	p := packet{offset: 512, seqno: 3, data: []byte("hello"), sums: []byte{1, 2, 3, 4}, sync: true}
	head, _ := p.head(nil)
	f.Add(bytes.Join([][]byte{head, p.sums, p.data}, nil))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 1})
	f.Add([]byte{0, 0, 0, 4, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := packetReader{r: newBuffered(bytes.NewReader(b))}
		for {
			p, err := r.next()
			if err != nil {
				return
			}
			head, err := p.head(nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := parsePacket(bytes.Join([][]byte{head, p.sums, p.data}, nil), new(pb.PacketHeaderProto))
			if err != nil || again.offset != p.offset || again.seqno != p.seqno || again.last != p.last || again.sync != p.sync || !bytes.Equal(again.data, p.data) || !bytes.Equal(again.sums, p.sums) {
				t.Errorf("%+v, then %+v, %v", p, again, err)
			}
		}
	})
}

// FuzzMessages reads any bytes as operations, answers and acknowledgements.
func FuzzMessages(f *testing.F) {
	f.Add(append([]byte{0, version, byte(OpWriteBlock)}, message(f, setup0(block(7)))...))
	f.Add(message(f, &pb.PipelineAckProto{Seqno: proto.Int64(1), Reply: []pb.Status{0}}))
	f.Add(message(f, response(io.EOF)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := func() *bufio.Reader { return newBuffered(bytes.NewReader(b)) }
		if a, err := readAck(r()); err == nil && len(a.Reply) == 0 {
			t.Error("an acknowledgement without a status")
		}
		readResponse(r())
		in := r()
		if op, err := readOp(in); err == nil && op == OpWriteBlock {
			q := new(pb.OpWriteBlockProto)
			if readMessage(in, q) == nil {
				writeRequest(q)
				if len(q.Targets) > 0 {
					onward(q)
				}
				checksumOf(q.GetRequestedChecksum())
			}
		}
	})
}

// TestSentAgain: what a client sends again is what it sent first, whatever checksums it has, or it is refused, and the replica stays as it is.
func TestSentAgain(t *testing.T) {
	data := random(3, 3*Chunk+100)
	for _, kind := range []pb.ChecksumTypeProto{pb.ChecksumTypeProto_CHECKSUM_CRC32C, pb.ChecksumTypeProto_CHECKSUM_CRC32} {
		sum, err := checksumOf(&pb.ChecksumProto{Type: &kind, BytesPerChecksum: pbUint32(Chunk)})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []struct{ from, to int }{{0, len(data)}, {0, Chunk}, {Chunk, len(data) + 1000}, {3 * Chunk, len(data)}, {3 * Chunk, len(data) + 7}, {10, 20}, {700, len(data) + 5}} {
			for other := range 2 {
				m := newMemory()
				w, _ := m.Write(t.Context(), WriteRequest{Block: block(1), Stage: pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE})
				n := &node{w: w, splice: splicer{client: sum}, verify: true}
				send := func(from int, part []byte) error {
					return n.take(t.Context(), &packet{offset: int64(from), data: part, sums: sum.append(nil, part)})
				}
				if err := send(0, data); err != nil {
					t.Fatal(err)
				}
				all := append(slices.Clone(data), random(4, 2000)...)[:max(part.to, len(data))]
				again := slices.Clone(all[part.from:part.to])
				if other > 0 {
					again[3] ^= 1
				}
				err := send(part.from, again)
				if e, ok := errors.AsType[*Error](err); other > 0 && (!ok || e.Status != pb.Status_ERROR_CHECKSUM) || other == 0 && err != nil {
					t.Errorf("%v, %+v, other bytes: %v: %v", kind, part, other > 0, err)
				}
				if other > 0 {
					all = data
				}
				m.want(t, 1, all, false)
			}
		}
	}
}

// FuzzSplice sends a block in any packets that a client may send: parts that come again, that begin in a chunk, of
// any kind of checksum. The store gets each byte once, and the right checksums.
func FuzzSplice(f *testing.F) {
	f.Add([]byte{10, 20, 30, 200, 3, 1, 255}, uint16(512), uint8(0))
	f.Add([]byte{1, 0, 1, 0, 255, 255, 255, 7}, uint16(100), uint8(1))
	f.Fuzz(func(t *testing.T, steps []byte, chunk uint16, kind uint8) {
		kinds := []pb.ChecksumTypeProto{pb.ChecksumTypeProto_CHECKSUM_CRC32C, pb.ChecksumTypeProto_CHECKSUM_CRC32, pb.ChecksumTypeProto_CHECKSUM_NULL}
		sum, err := checksumOf(&pb.ChecksumProto{Type: &kinds[int(kind)%3], BytesPerChecksum: pbUint32(uint32(chunk))})
		if err != nil || len(steps) > 100 {
			return
		}
		data := random(uint32(chunk), 100*3*255)
		s, m := splicer{client: sum}, newMemory()
		w, _ := m.Write(context.Background(), WriteRequest{Block: block(1), Stage: pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE})
		for _, step := range steps {
			from := int(s.length) - int(s.length)%max(int(step%8)*100, 1)
			to := int(s.length) + int(step)*3
			if step == 255 {
				from, to = int(s.length)+1, int(s.length)+2
			}
			p := packet{offset: int64(from), data: data[from:min(to, len(data))]}
			if sum.table != nil {
				p.sums = sum.append(nil, p.data)
			}
			if err := sum.verify(p.data, p.sums); err != nil {
				t.Fatal(err)
			}
			offset, part, sums, err := s.splice(&p)
			if (err != nil) != (step == 255) {
				t.Fatal(err)
			}
			if len(part) > 0 {
				if err := w.Write(context.Background(), offset, part, sums); err != nil {
					t.Fatal(err)
				}
			}
		}
		m.want(t, 1, data[:s.length], false)
	})
}

// FuzzConnection sends any bytes to a server.
func FuzzConnection(f *testing.F) {
	a := start(f, &Server{Limits: Limits{Operation: time.Second, Receive: time.Second, Answer: time.Second, Connect: 10 * time.Millisecond}}, nil)
	a.memory.replicas[1] = &replica{stamp: stamp, data: []byte("abc"), sums: AppendSums(nil, []byte("abc")), final: true}
	f.Add(append([]byte{0, version, byte(OpWriteBlock)}, message(f, setup0(block(7)))...))
	f.Add(append([]byte{0, version, byte(OpReadBlock)}, message(f, &pb.OpReadBlockProto{Header: Header(block(1), "c", nil), Offset: proto.Uint64(0), Len: proto.Uint64(3)})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		nc := a.dial(t)
		nc.Write(b)
		nc.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, nc); isTimeout(err) {
			t.Error("the connection goes on")
		}
	})
}
