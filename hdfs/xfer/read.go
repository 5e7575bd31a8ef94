package xfer

import (
	"context"
	"crypto/md5"
	"net"
	"time"

	"headrace/hdfs/pb"
	"headrace/internal/accept"
)

// read serves READ_BLOCK.
func (c *conn) read(ctx context.Context, op Op, q *pb.OpReadBlockProto) error {
	if err := c.check(ctx, op, q.GetHeader().GetBaseHeader(), q.GetHeader().GetClientName()); err != nil {
		return err
	}
	b := blockOf(q.GetHeader().GetBaseHeader().GetBlock())
	r, err := c.s.Store.Open(ctx, b)
	if err != nil {
		return c.fail(err)
	}
	defer r.Close()
	from, n := q.GetOffset(), q.GetLen()
	if length := uint64(r.Length()); from > length || n > length-from {
		return c.fail(refuse(pb.Status_ERROR, "%d bytes at %d of a replica of block %d that has %d", n, from, b.ID, length))
	}
	s := sender{r: r, to: c.net, activity: &c.activity, limit: c.s.Limits.Send, most: c.s.Packet, sums: q.SendChecksums == nil || q.GetSendChecksums()}
	sum := ours()
	if !s.sums {
		sum.Type = pb.ChecksumTypeProto_CHECKSUM_NULL.Enum()
	}
	begin := from / Chunk * Chunk
	err = c.answer(&pb.BlockOpResponseProto{Status: pb.Status_SUCCESS.Enum(),
		ReadOpChecksumInfo: &pb.ReadOpChecksumInfoProto{Checksum: sum, ChunkOffset: &begin}})
	if err == nil {
		err = s.send(ctx, int64(begin), int64(from+n))
	}
	if err != nil {
		return err
	}
	// The client says whether it is content, unless it has ended the connection.
	c.deadlines(c.s.Limits.Answer, c.s.Limits.Send)
	return readMessage(c.r, new(pb.ClientReadStatusProto))
}

// sender sends a replica as packets.
type sender struct {
	r        Reader
	to       net.Conn
	activity *accept.Activity
	limit    time.Duration // for each write
	most     int           // bytes of data in a packet
	sums     bool

	head  [128]byte
	bytes net.Buffers
}

// send sends the chunks between two offsets, of which begin is a multiple of Chunk, and then the packet that ends the block.
func (s *sender) send(ctx context.Context, begin, end int64) error {
	end = min((end+Chunk-1)/Chunk*Chunk, s.r.Length())
	p := packet{offset: begin}
	for p.offset < end {
		data, sums, err := s.r.Read(ctx, p.offset, int(end-p.offset))
		if err != nil {
			return err
		}
		if n := len(data); n == 0 || int64(n) > end-p.offset || n%Chunk != 0 && p.offset+int64(n) != end || len(sums) != (n+Chunk-1)/Chunk*Sum {
			return refuse(pb.Status_ERROR, "the store has read %d bytes and %d of checksums at %d of %d", n, len(sums), p.offset, end)
		}
		for len(data) > 0 {
			n := min(len(data), s.most)
			k := (n + Chunk - 1) / Chunk * Sum
			p.data, p.sums = data[:n], nil
			if s.sums {
				p.sums = sums[:k]
			}
			if err := s.packet(&p); err != nil {
				return err
			}
			data, sums = data[n:], sums[k:]
			p.offset += int64(n)
			p.seqno++
		}
	}
	p.last, p.data, p.sums = true, nil, nil
	return s.packet(&p)
}

// packet sends one, by one system call and without copying it.
func (s *sender) packet(p *packet) error {
	head, err := p.head(s.head[:0])
	if err != nil {
		return err
	}
	s.to.SetWriteDeadline(time.Now().Add(s.limit))
	s.bytes = append(s.bytes[:0], head, p.sums, p.data)
	bytes := s.bytes // WriteTo consumes it
	_, err = s.activity.Send(func() (int64, error) { return bytes.WriteTo(unwrap(s.to)) })
	return err
}

// unwrap returns the connection that knows writev.
func unwrap(c net.Conn) net.Conn {
	if m, ok := c.(*accept.Member); ok {
		return m.Conn
	}
	return c
}

// checksum serves BLOCK_CHECKSUM.
func (c *conn) checksum(ctx context.Context, op Op, q *pb.OpBlockChecksumProto) error {
	if err := c.check(ctx, op, q.GetHeader(), ""); err != nil {
		return err
	}
	b := blockOf(q.GetHeader().GetBlock())
	r, err := c.s.Store.Open(ctx, b)
	if err != nil {
		return c.fail(err)
	}
	defer r.Close()
	if b.Length > r.Length() {
		return c.fail(refuse(pb.Status_ERROR, "the replica of block %d has %d bytes, and not the %d that are asked for", b.ID, r.Length(), b.Length))
	}
	o := q.GetBlockChecksumOptions()
	if o == nil {
		o = &pb.BlockChecksumOptionsProto{BlockChecksumType: pb.BlockChecksumTypeProto_MD5CRC.Enum()}
	}
	sum, err := blockChecksum(ctx, r, b.Length, o.GetBlockChecksumType())
	if err != nil {
		return c.fail(err)
	}
	chunks := uint64((b.Length + Chunk - 1) / Chunk)
	return c.answer(&pb.BlockOpResponseProto{Status: pb.Status_SUCCESS.Enum(), ChecksumResponse: &pb.OpBlockChecksumResponseProto{
		BytesPerCrc: pbUint32(Chunk), CrcPerBlock: &chunks, BlockChecksum: sum, CrcType: pb.ChecksumTypeProto_CHECKSUM_CRC32C.Enum(),
		BlockChecksumOptions: o,
	}})
}

// blockChecksum returns the checksum of a replica's first bytes: the MD5 of the checksums of its chunks, or their
// composition, which is the checksum of all bytes (HDFS-13056). As in HDFS it goes by the checksums that are kept, and of the bytes
// reads only those of a last chunk that is not full.
func blockChecksum(ctx context.Context, r Reader, length int64, kind pb.BlockChecksumTypeProto) ([]byte, error) {
	sum, all := md5.New(), uint32(0)
	add := func(sums []byte, n int) {
		sum.Write(sums)
		if kind == pb.BlockChecksumTypeProto_COMPOSITE_CRC {
			all = compose(all, sums, n)
		}
	}
	whole := length / Chunk * Chunk
	for at := int64(0); at < whole; {
		sums, err := r.Sums(ctx, at, whole-at)
		if err != nil {
			return nil, err
		}
		n := int64(len(sums)) / Sum * Chunk
		if n == 0 || n > whole-at {
			return nil, refuse(pb.Status_ERROR, "the store has read %d bytes of checksums at %d of %d", len(sums), at, whole)
		}
		add(sums, int(n))
		at += n
	}
	if rest := int(length - whole); rest > 0 { // the replica may have more of that chunk
		data, sums, err := r.Read(ctx, whole, Chunk)
		if err != nil {
			return nil, err
		}
		if len(data) < rest {
			return nil, refuse(pb.Status_ERROR, "the replica ends at %d", whole+int64(len(data)))
		}
		if err := (checksum{Chunk, castagnoli}).verify(data, sums); err != nil {
			return nil, err
		}
		add(AppendSums(nil, data[:rest]), rest)
	}
	if kind == pb.BlockChecksumTypeProto_COMPOSITE_CRC {
		return []byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}, nil
	}
	return sum.Sum(nil), nil
}
