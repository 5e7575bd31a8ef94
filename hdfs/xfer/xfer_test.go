package xfer

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/testkit"
)

// TestWriteAndRead writes blocks to one node and to three, and reads parts of them.
func TestWriteAndRead(t *testing.T) {
	a, b, c := start(t, &Server{Packet: 3 * Chunk}, nil), start(t, &Server{}, nil), start(t, &Server{}, nil)
	for i, n := range []int{0, 1, Chunk - 1, Chunk, Chunk + 1, 10 * Chunk, 100_001} {
		id, data := uint64(i+1), random(uint32(i), n)
		put(t, block(id), data, a, b, c)
		for _, node := range []*dataNode{a, b, c} {
			node.memory.want(t, id, data, true)
		}
		if r := a.memory.replica(id); r.acked != int64(n) || r.stamp != stamp {
			t.Errorf("acknowledged %d of %d, stamp %d", r.acked, n, r.stamp)
		}
		nc := a.dial(t) // serves all of them
		for _, part := range [][2]int{{0, n}, {n / 2, n - n/2}, {n / 3, n / 4}, {n, 0}} {
			r, err := Read(nc, Header(block(id), "client", nil), int64(part[0]), int64(part[1]))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[part[0]:part[0]+part[1]]) {
				t.Errorf("%v of %d bytes: %d bytes, %v", part, n, len(got), err)
			}
		}
	}
	// The last packet of each block wanted to be on the disk.
	if c.memory.syncs != 7 {
		t.Errorf("%d syncs at the last node", c.memory.syncs)
	}
}

// TestWithoutChecksums reads as a client that wants none.
func TestWithoutChecksums(t *testing.T) {
	a := start(t, &Server{}, nil)
	data := random(1, 3000)
	put(t, block(1), data, a)
	nc := a.dial(t)
	q := &pb.OpReadBlockProto{Header: Header(block(1), "c", nil), Offset: proto.Uint64(600), Len: proto.Uint64(2400), SendChecksums: proto.Bool(false)}
	if err := writeOp(nc, OpReadBlock, q); err != nil {
		t.Fatal(err)
	}
	r := &BlockReader{nc: nc, packets: packetReader{r: newBuffered(nc)}, from: 600, at: 512, left: 2400}
	m, err := readResponse(r.packets.r)
	if err != nil || m.GetReadOpChecksumInfo().GetChecksum().GetType() != pb.ChecksumTypeProto_CHECKSUM_NULL {
		t.Fatalf("%v, %v", m, err)
	}
	r.sum, _ = checksumOf(m.GetReadOpChecksumInfo().GetChecksum())
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[600:]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestChecksumsOfClients: whatever kind a client has, the store has its own.
func TestChecksumsOfClients(t *testing.T) {
	a, b := start(t, &Server{}, nil), start(t, &Server{}, nil)
	id := uint64(0)
	for _, kind := range []pb.ChecksumTypeProto{pb.ChecksumTypeProto_CHECKSUM_CRC32, pb.ChecksumTypeProto_CHECKSUM_CRC32C, pb.ChecksumTypeProto_CHECKSUM_NULL} {
		for _, chunk := range []uint32{512, 1024, 700} {
			id++
			q := setup(block(id), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b)
			q.RequestedChecksum = &pb.ChecksumProto{Type: &kind, BytesPerChecksum: &chunk}
			p, err := Write(a.dial(t), q)
			if err != nil {
				t.Fatal(err)
			}
			data := random(chunk, 12345)
			for at := 0; at < len(data); at += 2 * int(chunk) {
				p.Send(int64(at), data[at:min(at+2*int(chunk), len(data))], false)
			}
			last, _ := p.Finish(int64(len(data)), false)
			for i := range last + 1 {
				if n, err := p.Ack(); n != i || err != nil {
					t.Fatalf("%v of %d: %d, %v", kind, chunk, n, err)
				}
			}
			a.memory.want(t, id, data, true)
			b.memory.want(t, id, data, true)
		}
	}
}

// TestAppend goes on with blocks of any length, as clients do, and sends again what is there.
func TestAppend(t *testing.T) {
	a, b := start(t, &Server{}, nil), start(t, &Server{}, nil)
	for i, had := range []int{1, 511, 512, 513, 1500, 5000} {
		id, data := uint64(i+1), random(uint32(i), 9000)
		put(t, block(id), data[:had], a, b)
		q := setup(block(id), pb.OpWriteBlockProto_PIPELINE_SETUP_APPEND, a, b)
		q.LatestGenerationStamp, q.MinBytesRcvd = proto.Uint64(stamp+1), proto.Uint64(uint64(had))
		p, err := Write(a.dial(t), q)
		if err != nil {
			t.Fatal(err)
		}
		sendAll(t, p, had, data[had:])
		for _, node := range []*dataNode{a, b} {
			node.memory.want(t, id, data, true)
			if r := node.memory.replica(id); r.stamp != stamp+1 {
				t.Errorf("stamp %d", r.stamp)
			}
		}
	}
	// A chunk that grows, as with hflush: each packet begins where the chunk does.
	p, err := Write(a.dial(t), setup(block(100), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b))
	if err != nil {
		t.Fatal(err)
	}
	data := random(7, 2000)
	for n := 1; n <= len(data); n += 37 {
		if _, err := p.Send(int64((n-37)/Chunk*Chunk), data[max((n-37)/Chunk*Chunk, 0):n], false); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Ack(); err != nil {
			t.Fatal(err)
		}
		if r := b.memory.replica(100); r.acked != int64(n) || !bytes.Equal(r.data, data[:n]) {
			t.Fatalf("%d bytes are visible, %d there; want %d", r.acked, len(r.data), n)
		}
	}
	// Not the same bytes again.
	data[1600] ^= 1
	if _, err := p.Send(0, data[:2000], false); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Ack(); err == nil { // the first node is to blame
		t.Error("other bytes than before are acknowledged")
	}
}

// TestHeartbeat: heartbeats pass through all nodes, and are acknowledged in their turn.
func TestHeartbeat(t *testing.T) {
	a, b := start(t, &Server{}, nil), start(t, &Server{}, nil)
	p, err := Write(a.dial(t), setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b))
	if err != nil {
		t.Fatal(err)
	}
	p.Heartbeat()
	p.Send(0, []byte("hello"), false)
	p.Heartbeat()
	for _, want := range []int64{heartbeat, 0, heartbeat} {
		if n, err := p.Ack(); n != want || err != nil {
			t.Errorf("%d, %v; want %d", n, err, want)
		}
	}
	sendAllFrom(t, p, 1, 5)
	b.memory.want(t, 1, []byte("hello"), true)
}

// sendAllFrom ends a block of which packets before a number are acknowledged.
func sendAllFrom(t *testing.T, p *Pipeline, number, length int64) {
	t.Helper()
	p.Finish(length, false)
	if n, err := p.Ack(); n != number || err != nil {
		t.Errorf("the last packet: %d, %v", n, err)
	}
}

func TestChecksum(t *testing.T) {
	a := start(t, &Server{}, nil)
	data := random(3, 100_000)
	put(t, block(1), data, a)
	for _, n := range []int{0, 1, 512, 513, 70_000, 99_999, 100_000} {
		b := block(1)
		b.Length = int64(n)
		h := Header(b, "", nil).BaseHeader
		m, err := Checksum(a.dial(t), h, pb.BlockChecksumTypeProto_MD5CRC)
		if want := md5.Sum(AppendSums(nil, data[:n])); err != nil || !bytes.Equal(m.GetBlockChecksum(), want[:]) || m.GetCrcPerBlock() != uint64((n+511)/512) {
			t.Errorf("%d bytes: %v, %v", n, m, err)
		}
		m, err = Checksum(a.dial(t), h, pb.BlockChecksumTypeProto_COMPOSITE_CRC)
		if want := binary.BigEndian.AppendUint32(nil, crc32.Checksum(data[:n], castagnoli)); err != nil || !bytes.Equal(m.GetBlockChecksum(), want) {
			t.Errorf("%d bytes: %x, not %x; %v", n, m.GetBlockChecksum(), want, err)
		}
	}
	b := block(1)
	b.Length = 100_001
	_, err := Checksum(a.dial(t), Header(b, "", nil).BaseHeader, pb.BlockChecksumTypeProto_MD5CRC)
	wantStatus(t, err, pb.Status_ERROR, "100001")
	a.memory.corrupt = true // nobody looks
	b.Length = 100_000
	m, err := Checksum(a.dial(t), Header(b, "", nil).BaseHeader, pb.BlockChecksumTypeProto_MD5CRC)
	if want := md5.Sum(AppendSums(nil, data)); err != nil || !bytes.Equal(m.GetBlockChecksum(), want[:]) {
		t.Errorf("%v, %v", m, err)
	}
}

func TestTransfer(t *testing.T) {
	a, b := start(t, &Server{}, nil), start(t, &Server{}, nil)
	data := random(5, 70_001)
	put(t, block(1), data, a)
	if err := Transfer(a.dial(t), Header(block(1), "client", nil), b.info); err != nil {
		t.Error(err)
	}
	b.memory.want(t, 1, data, true)
	// One in writing stays so.
	p, err := Write(a.dial(t), setup(block(2), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a))
	if err != nil {
		t.Fatal(err)
	}
	p.Send(0, data[:1000], false)
	p.Ack()
	if err := Transfer(a.dial(t), Header(block(2), "client", nil), b.info); err != nil {
		t.Error(err)
	}
	b.memory.want(t, 2, data[:1000], false)
	// There already, then not to be reached, then corrupt.
	wantStatus(t, Transfer(a.dial(t), Header(block(1), "client", nil), b.info), pb.Status_ERROR, "")
	gone := proto.CloneOf(b.info)
	gone.Id.XferPort = proto.Uint32(1)
	wantStatus(t, Transfer(a.dial(t), Header(block(1), "client", nil), gone), pb.Status_ERROR, "refused")
	c := start(t, &Server{}, nil)
	a.memory.corrupt = true
	wantStatus(t, Transfer(a.dial(t), Header(block(1), "client", nil), c.info), pb.Status_ERROR, "")
	if c.memory.replica(1).final {
		t.Error("a corrupt copy is final")
	}
}

func TestCloseRecovery(t *testing.T) {
	a, b := start(t, &Server{}, nil), start(t, &Server{}, nil)
	for _, n := range []*dataNode{a, b} {
		p, err := Write(n.dial(t), setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, n))
		if err != nil {
			t.Fatal(err)
		}
		p.Send(0, []byte("abc"), false)
		p.Ack()
	}
	q := setup(block(1), pb.OpWriteBlockProto_PIPELINE_CLOSE_RECOVERY, a, b)
	q.LatestGenerationStamp, q.MinBytesRcvd, q.MaxBytesRcvd = proto.Uint64(stamp+2), proto.Uint64(3), proto.Uint64(3)
	if _, err := Write(a.dial(t), q); err != nil {
		t.Error(err)
	}
	for _, n := range []*dataNode{a, b} {
		n.memory.want(t, 1, []byte("abc"), true)
		if r := n.memory.replica(1); r.stamp != stamp+2 {
			t.Errorf("stamp %d", r.stamp)
		}
	}
}

func wantStatus(t testing.TB, err error, s pb.Status, text string) {
	t.Helper()
	if e := (*Error)(nil); !errors.As(err, &e) || e.Status != s || !strings.Contains(e.Error(), text) {
		t.Errorf("%v, want %v with %q", err, s, text)
	}
}

// TestTokens: what is shown is judged, on each node of a pipeline.
func TestTokens(t *testing.T) {
	check := func(_ context.Context, a Access) error {
		if string(a.Token.GetIdentifier()) != "mine" || a.Block.ID == 0 || a.Client != "client" && a.Op != OpBlockChecksum {
			return fmt.Errorf("token of %q", a.Token.GetIdentifier())
		}
		return nil
	}
	a, b := start(t, &Server{}, nil), start(t, &Server{Check: check}, nil)
	token := &pb.TokenProto{Identifier: []byte("mine"), Password: []byte{1}, Kind: proto.String("k"), Service: proto.String("")}
	q := setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b)
	_, err := Write(a.dial(t), q)
	wantStatus(t, err, pb.Status_ERROR_ACCESS_TOKEN, "token of")
	if e, ok := errors.AsType[*Error](err); !ok || e.BadLink != Address(b.info) {
		t.Errorf("%v does not blame %s", err, Address(b.info))
	}
	q = setup(block(2), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b)
	q.Header.BaseHeader.Token = token
	p, err := Write(a.dial(t), q)
	if err != nil {
		t.Fatal(err)
	}
	sendAll(t, p, 0, []byte("abc"))
	_, err = Read(b.dial(t), Header(block(2), "client", nil), 0, 3)
	wantStatus(t, err, pb.Status_ERROR_ACCESS_TOKEN, "")
	if _, err = Read(b.dial(t), Header(block(2), "client", token), 0, 3); err != nil {
		t.Error(err)
	}
	_, err = Checksum(b.dial(t), Header(block(2), "", nil).BaseHeader, pb.BlockChecksumTypeProto_MD5CRC)
	wantStatus(t, err, pb.Status_ERROR_ACCESS_TOKEN, "")
	wantStatus(t, Transfer(b.dial(t), Header(block(2), "client", nil), a.info), pb.Status_ERROR_ACCESS_TOKEN, "")
}

func TestReadErrors(t *testing.T) {
	a := start(t, &Server{}, nil)
	put(t, block(1), random(1, 1000), a)
	for name, c := range map[string]struct {
		b         Block
		offset, n int64
	}{
		"none": {block(2), 0, 1}, "stale": {Block{"BP-1", 1, stamp + 1, 0}, 0, 1}, "beyond": {block(1), 500, 501}, "far": {block(1), 1 << 62, 1 << 62}, "negative": {block(1), -1, 1},
	} {
		_, err := Read(a.dial(t), Header(c.b, "client", nil), c.offset, c.n)
		if e := (*Error)(nil); !errors.As(err, &e) || e.Status != pb.Status_ERROR {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.memory.corrupt = true
	r, err := Read(a.dial(t), Header(block(1), "client", nil), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r)
	wantStatus(t, err, pb.Status_ERROR_CHECKSUM, "")
}

// TestCorruptPacket: whoever sent what the last node finds corrupt is to blame.
func TestCorruptPacket(t *testing.T) {
	a, b, c := start(t, &Server{}, nil), start(t, &Server{}, nil), start(t, &Server{}, nil)
	for n, want := range map[int]*BadNode{1: {0, pb.Status_ERROR_CHECKSUM}, 2: nil, 3: {1, pb.Status_ERROR}} {
		nodes := []*dataNode{a, b, c}[:n]
		p, err := Write(a.dial(t), setup(block(uint64(n)), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, nodes...))
		if err != nil {
			t.Fatal(err)
		}
		p.Send(0, random(1, Chunk), false)
		bad := packet{offset: Chunk, seqno: 1, data: random(2, Chunk), sums: []byte{1, 2, 3, 4}}
		head, _ := bad.head(nil)
		p.nc.Write(bytes.Join([][]byte{head, bad.sums, bad.data}, nil))
		if i, err := p.Ack(); i != 0 || err != nil {
			t.Errorf("%d, %v", i, err)
		}
		_, err = p.Ack()
		if got := (*BadNode)(nil); want != nil && (!errors.As(err, &got) || *got != *want) || want == nil && (err == nil || errors.As(err, &got)) {
			t.Errorf("%d nodes: %v, want %v", n, err, want)
		}
		nodes[n-1].memory.want(t, uint64(n), random(1, Chunk), false)
	}
}

// TestCorruptPacketVerified: where each node compares, none keeps what is corrupt, and the first to find it says so.
func TestCorruptPacketVerified(t *testing.T) {
	nodes := []*dataNode{start(t, &Server{Verify: true}, nil), start(t, &Server{Verify: true}, nil), start(t, &Server{Verify: true}, nil)}
	p, err := Write(nodes[0].dial(t), setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, nodes...))
	if err != nil {
		t.Fatal(err)
	}
	bad := packet{data: random(2, Chunk), sums: []byte{1, 2, 3, 4}}
	head, _ := bad.head(nil)
	p.nc.Write(bytes.Join([][]byte{head, bad.sums, bad.data}, nil))
	_, err = p.Ack()
	if got := (*BadNode)(nil); !errors.As(err, &got) || *got != (BadNode{0, pb.Status_ERROR_CHECKSUM}) {
		t.Errorf("%v", err)
	}
	for _, n := range nodes {
		n.memory.want(t, 1, nil, false)
	}
}

// TestIssuedToken: a node copies a replica to another one with a token of its own.
func TestIssuedToken(t *testing.T) {
	token := func(s string) *pb.TokenProto {
		return &pb.TokenProto{Identifier: []byte(s), Password: []byte{1}, Kind: proto.String("k"), Service: proto.String("")}
	}
	check := func(_ context.Context, a Access) error {
		if want := map[Op]string{OpTransferBlock: "to copy", OpWriteBlock: "to write"}[a.Op]; a.Copy != (a.Op == OpWriteBlock) || string(a.Token.GetIdentifier()) != want {
			return fmt.Errorf("token of %q", a.Token.GetIdentifier())
		}
		return nil
	}
	a := start(t, &Server{Issue: func(Block) *pb.TokenProto { return token("to write") }}, nil)
	b := start(t, &Server{Check: check}, nil)
	put(t, block(1), random(1, 1000), a)
	a.Check = check
	if err := Transfer(a.dial(t), Header(block(1), "client", token("to copy")), b.info); err != nil {
		t.Fatal(err)
	}
	b.memory.want(t, 1, random(1, 1000), true)
}

// TestStoreFails: a node whose store fails is to blame.
func TestStoreFails(t *testing.T) {
	a, b, c := start(t, &Server{}, nil), start(t, &Server{}, nil), start(t, &Server{}, nil)
	b.memory.fail = errors.New("the disk is full")
	p, err := Write(a.dial(t), setup(block(1), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b, c))
	if err != nil {
		t.Fatal(err)
	}
	p.Send(0, []byte("abc"), false)
	var bad *BadNode
	if _, err := p.Ack(); !errors.As(err, &bad) || *bad != (BadNode{1, pb.Status_ERROR}) {
		t.Error(err)
	}
	// Where it cannot begin, the first node says who it was.
	put(t, block(2), nil, c)
	_, err = Write(a.dial(t), setup(block(2), pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, a, b, c))
	if e, ok := errors.AsType[*Error](err); !ok || e.BadLink != Address(c.info) {
		t.Errorf("%v does not blame %s", err, Address(c.info))
	}
	testkit.Await(t, "connections to end", func() bool { return c.crowd.Members() <= 1 })
}
