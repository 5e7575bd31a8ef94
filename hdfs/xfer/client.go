package xfer

import (
	"bufio"
	"fmt"
	"io"
	"net"

	"headrace/hdfs/pb"
)

// Header returns what an operation says of its block, of who asks and of the token it shows; nil is an empty token.
func Header(b Block, client string, token *pb.TokenProto) *pb.ClientOperationHeaderProto {
	return &pb.ClientOperationHeaderProto{ClientName: &client, BaseHeader: &pb.BaseHeaderProto{Block: b.proto(), Token: token}}
}

// A BlockReader reads a part of a block from a data node, and verifies its checksums.
type BlockReader struct {
	nc      net.Conn
	packets packetReader
	sum     checksum
	at      int64 // where the next packet begins
	from    int64 // bytes before that are not for the caller
	left    int64 // bytes for the caller
	data    []byte
	err     error
}

// Read begins READ_BLOCK of n bytes at offset. The connection is the caller's, with its deadlines; when
// the reader has come to io.EOF, it serves for another operation.
func Read(nc net.Conn, h *pb.ClientOperationHeaderProto, offset, n int64) (*BlockReader, error) {
	from, length := uint64(offset), uint64(n)
	if err := writeOp(nc, OpReadBlock, &pb.OpReadBlockProto{Header: h, Offset: &from, Len: &length}); err != nil {
		return nil, err
	}
	r := &BlockReader{nc: nc, packets: packetReader{r: bufio.NewReaderSize(nc, 64<<10)}, from: offset, left: n}
	m, err := readResponse(r.packets.r)
	if err != nil {
		return nil, err
	}
	info := m.GetReadOpChecksumInfo()
	if r.sum, err = checksumOf(info.GetChecksum()); err != nil {
		return nil, err
	}
	if r.at = int64(info.GetChunkOffset()); r.at < 0 || r.at > offset || offset-r.at >= int64(r.sum.chunk) {
		return nil, fmt.Errorf("bytes from %d on, where %d are asked for", r.at, offset)
	}
	return r, nil
}

// Read is that of io.Reader. Bytes that it returns are verified.
func (r *BlockReader) Read(p []byte) (int, error) {
	for len(r.data) == 0 {
		if r.err == nil {
			r.err = r.next()
		}
		if r.err != nil {
			return 0, r.err
		}
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

// next reads a packet, and tells the node after the last one that all is well.
func (r *BlockReader) next() error {
	p, err := r.packets.next()
	if err != nil {
		return unexpected(err)
	}
	if p.last {
		if r.left > 0 {
			return fmt.Errorf("the block ends %d bytes too early: %w", r.left, io.ErrUnexpectedEOF)
		}
		if err := writeMessage(r.nc, &pb.ClientReadStatusProto{Status: pb.Status_CHECKSUM_OK.Enum()}); err != nil {
			return err
		}
		return io.EOF
	}
	if p.offset != r.at {
		return fmt.Errorf("a packet of bytes at %d, not %d", p.offset, r.at)
	}
	if err := r.sum.verify(p.data, p.sums); err != nil {
		return err
	}
	r.at += int64(len(p.data))
	data := p.data[min(max(r.from-p.offset, 0), int64(len(p.data))):]
	r.data = data[:min(r.left, int64(len(data)))]
	r.left -= int64(len(r.data))
	return nil
}

// A Pipeline is a block that is being written to a row of data nodes. One goroutine may send while
// another one waits for acknowledgements.
type Pipeline struct {
	nc   net.Conn
	r    *bufio.Reader
	sum  checksum
	seq  int64
	sums []byte
}

// A BadNode is the error of a pipeline in which a node has failed.
type BadNode struct {
	Index  int // of the node in the pipeline
	Status pb.Status
}

func (b *BadNode) Error() string {
	return fmt.Sprintf("node %d of the pipeline has failed: %v", b.Index, b.Status)
}

// Write begins WRITE_BLOCK at the first node, to which the connection is, with its deadlines. The error is an *Error that
// may name who is to blame. A request without a checksum gets the store's.
func Write(nc net.Conn, q *pb.OpWriteBlockProto) (*Pipeline, error) {
	if q.RequestedChecksum == nil {
		q.RequestedChecksum = ours()
	}
	sum, err := checksumOf(q.RequestedChecksum)
	if err != nil {
		return nil, err
	}
	if err := writeOp(nc, OpWriteBlock, q); err != nil {
		return nil, err
	}
	p := &Pipeline{nc: nc, r: bufio.NewReader(nc), sum: sum}
	if _, err := readResponse(p.r); err != nil {
		return nil, err
	}
	return p, nil
}

// Send sends data at an offset, a multiple of Chunk unless it fills what the replica has of one, and returns the
// packet's number, from 0 on. sync wants it on the disks.
func (p *Pipeline) Send(offset int64, data []byte, sync bool) (seqno int64, err error) {
	return p.send(packet{offset: offset, data: data, sync: sync})
}

// Finish sends the packet that ends the block, which has length bytes.
func (p *Pipeline) Finish(length int64, sync bool) (seqno int64, err error) {
	return p.send(packet{offset: length, last: true, sync: sync})
}

// Heartbeat tells the nodes that the client is alive; it is acknowledged as packet -1.
func (p *Pipeline) Heartbeat() error {
	return p.write(packet{seqno: heartbeat})
}

func (p *Pipeline) send(k packet) (int64, error) {
	k.seqno = p.seq
	p.seq++
	return k.seqno, p.write(k)
}

func (p *Pipeline) write(k packet) error {
	if p.sum.table != nil {
		p.sums = p.sum.append(p.sums[:0], k.data)
		k.sums = p.sums
	}
	head, err := k.head(nil)
	if err != nil {
		return err
	}
	bytes := net.Buffers{head, k.sums, k.data}
	_, err = bytes.WriteTo(p.nc)
	return err
}

// Ack waits for the next acknowledgement, and returns which packet all nodes have. The error is a *BadNode
// when one of them has not; when the connection fails it is the first node.
func (p *Pipeline) Ack() (seqno int64, err error) {
	a, err := readAck(p.r)
	if err != nil {
		return 0, unexpected(err)
	}
	for i := len(a.Reply) - 1; i >= 0; i-- {
		if a.Reply[i] != pb.Status_SUCCESS {
			return a.GetSeqno(), &BadNode{i, a.Reply[i]}
		}
	}
	return a.GetSeqno(), nil
}

// Transfer asks a node to copy a replica to another one, and waits until it has.
func Transfer(nc net.Conn, h *pb.ClientOperationHeaderProto, to *pb.DatanodeInfoProto) error {
	q := &pb.OpTransferBlockProto{Header: h, Targets: []*pb.DatanodeInfoProto{to}}
	if err := writeOp(nc, OpTransferBlock, q); err != nil {
		return err
	}
	_, err := readResponse(bufio.NewReader(nc))
	return err
}

// Checksum asks a node for the checksum of a block's first b.Length bytes.
func Checksum(nc net.Conn, h *pb.BaseHeaderProto, kind pb.BlockChecksumTypeProto) (*pb.OpBlockChecksumResponseProto, error) {
	q := &pb.OpBlockChecksumProto{Header: h, BlockChecksumOptions: &pb.BlockChecksumOptionsProto{BlockChecksumType: &kind}}
	if err := writeOp(nc, OpBlockChecksum, q); err != nil {
		return nil, err
	}
	m, err := readResponse(bufio.NewReader(nc))
	return m.GetChecksumResponse(), err
}
