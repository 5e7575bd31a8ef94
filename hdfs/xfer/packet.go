package xfer

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// Sequence numbers of packets that have no data.
const heartbeat = -1

const (
	// mostPacket is the largest packet, in bytes (PacketReceiver.MAX_PACKET_SIZE).
	mostPacket = 16 << 20
	// usualPacket is the largest one that is in no budget: clients send 64 KB if nobody has told them otherwise.
	usualPacket = 256 << 10
)

// A packet is a piece of a block: data and the checksums of its chunks, which begin at its offset.
type packet struct {
	offset int64 // in the block
	seqno  int64
	last   bool // an empty one, which ends the block
	sync   bool // to the disk, before it is acknowledged
	sums   []byte
	data   []byte

	raw []byte // all of it, as it was read
}

// packetReader reads packets into memory of its own, which the next packet takes again.
type packetReader struct {
	r   *bufio.Reader
	buf []byte
	h   pb.PacketHeaderProto
	// take takes memory for a packet larger than usual, or gives it back; nil: nobody counts.
	take func(bytes int) error
	took int
}

// The parts of a packet before its header: how long it is without the header, counted with these four bytes, and
// how long the header is.
const lengths = 4 + 2

// next reads a packet.
func (p *packetReader) next() (packet, error) {
	first, err := p.r.Peek(lengths)
	if err != nil {
		if len(first) > 0 {
			err = unexpected(err)
		}
		return packet{}, err
	}
	payload, header := int64(binary.BigEndian.Uint32(first))-4, int(binary.BigEndian.Uint16(first[4:]))
	if payload < 0 || payload > mostPacket {
		return packet{}, fmt.Errorf("a packet of %d bytes", payload)
	}
	n := lengths + header + int(payload)
	if err := p.room(n); err != nil {
		return packet{}, err
	}
	if p.buf, err = grow(p.r, p.buf, n); err != nil {
		return packet{}, err
	}
	return parsePacket(p.buf[:n], &p.h)
}

// room takes memory for a packet before any of it is read, and gives back what a larger one has taken if this one is as usual.
func (p *packetReader) room(bytes int) error {
	if bytes <= usualPacket {
		if p.took > 0 {
			p.close()
		}
		return nil
	}
	if p.take == nil || bytes <= p.took {
		return nil
	}
	if err := p.take(bytes - p.took); err != nil {
		return err
	}
	p.took = bytes
	return nil
}

// close gives back what was taken. It may be used again.
func (p *packetReader) close() {
	if p.took > 0 {
		_ = p.take(-p.took)
		p.buf, p.took = nil, 0
	}
}

// parsePacket takes a packet apart, with h to decode its header.
func parsePacket(b []byte, h *pb.PacketHeaderProto) (packet, error) {
	if len(b) < lengths {
		return packet{}, io.ErrUnexpectedEOF
	}
	payload, header := int(binary.BigEndian.Uint32(b))-4, int(binary.BigEndian.Uint16(b[4:]))
	if payload < 0 || lengths+header+payload != len(b) {
		return packet{}, fmt.Errorf("a packet of %d bytes says that it has %d", len(b), lengths+header+payload)
	}
	if err := proto.Unmarshal(b[lengths:lengths+header], h); err != nil {
		return packet{}, fmt.Errorf("the header of a packet: %w", err)
	}
	n := int(h.GetDataLen())
	if n < 0 || n > payload || h.GetOffsetInBlock() < 0 || h.GetLastPacketInBlock() && n > 0 {
		return packet{}, fmt.Errorf("the header of a packet: %d of %d bytes at %d", n, payload, h.GetOffsetInBlock())
	}
	body := b[lengths+header:]
	return packet{
		offset: h.GetOffsetInBlock(), seqno: h.GetSeqno(), last: h.GetLastPacketInBlock(), sync: h.GetSyncBlock(),
		sums: body[:payload-n], data: body[payload-n:], raw: b,
	}, nil
}

// head returns what comes before a packet's checksums and data.
func (p *packet) head(b []byte) ([]byte, error) {
	h := &pb.PacketHeaderProto{OffsetInBlock: &p.offset, Seqno: &p.seqno, LastPacketInBlock: &p.last, DataLen: proto.Int32(int32(len(p.data)))}
	if p.sync {
		h.SyncBlock = &p.sync
	}
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(p.sums)+len(p.data)))
	b = binary.BigEndian.AppendUint16(b, uint16(proto.Size(h)))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, h)
}

// readAck reads an acknowledgement: a sequence number, and a status of each node.
func readAck(r *bufio.Reader) (*pb.PipelineAckProto, error) {
	m := new(pb.PipelineAckProto)
	if err := readMessage(r, m); err != nil {
		return nil, err
	}
	if len(m.Reply) == 0 {
		return nil, fmt.Errorf("the acknowledgement of packet %d has no status", m.GetSeqno())
	}
	return m, nil
}
