package xfer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// version is that of the protocol (DataTransferProtocol.DATA_TRANSFER_VERSION).
const version = 28

// An Op is the code of an operation.
type Op byte

// The operations (org.apache.hadoop.hdfs.protocol.datatransfer.Op).
const (
	OpWriteBlock     Op = 80
	OpReadBlock      Op = 81
	OpReplaceBlock   Op = 83
	OpCopyBlock      Op = 84
	OpBlockChecksum  Op = 85
	OpTransferBlock  Op = 86
	OpRequestFDs     Op = 87
	OpReleaseFDs     Op = 88
	OpRequestSegment Op = 89
	OpGroupChecksum  Op = 90
)

var opNames = map[Op]string{OpWriteBlock: "WRITE_BLOCK", OpReadBlock: "READ_BLOCK", OpReplaceBlock: "REPLACE_BLOCK", OpCopyBlock: "COPY_BLOCK",
	OpBlockChecksum: "BLOCK_CHECKSUM", OpTransferBlock: "TRANSFER_BLOCK", OpRequestFDs: "REQUEST_SHORT_CIRCUIT_FDS",
	OpReleaseFDs: "RELEASE_SHORT_CIRCUIT_FDS", OpRequestSegment: "REQUEST_SHORT_CIRCUIT_SHM", OpGroupChecksum: "BLOCK_GROUP_CHECKSUM"}

func (o Op) String() string {
	if n, ok := opNames[o]; ok {
		return n
	}
	return fmt.Sprintf("operation %d", byte(o))
}

// mostMessage is the largest message of an operation or an answer, in bytes: a pipeline of 512 nodes has room. Strangers may send it, too.
const mostMessage = 256 << 10

// saslMagic begins a handshake of SASL in place of a version (DataTransferSaslUtil.SASL_TRANSFER_MAGIC_NUMBER).
const saslMagic = 0xdeadbeef

var errSASL = errors.New("the client wants SASL, which there is none of: see dfs.data.transfer.protection")

// readOp reads which operation comes next.
func readOp(r *bufio.Reader) (Op, error) {
	var b [3]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return 0, err
	}
	v := binary.BigEndian.Uint16(b[:])
	if v == saslMagic>>16 {
		return 0, errSASL
	}
	if v != version {
		return 0, fmt.Errorf("version %d of data transfer, not %d", v, version)
	}
	_, err := io.ReadFull(r, b[2:])
	return Op(b[2]), err
}

// readMessage reads a message with its length before it.
func readMessage(r *bufio.Reader, m proto.Message) error {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	if n > mostMessage {
		return fmt.Errorf("a message of %d bytes", n)
	}
	b, err := grow(r, nil, int(n))
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

// appendMessage adds a message, with its length before it.
func appendMessage(b []byte, m proto.Message) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(proto.Size(m)))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
}

func writeMessage(w io.Writer, m proto.Message) error {
	b, err := appendMessage(nil, m)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// writeOp begins an operation.
func writeOp(w io.Writer, o Op, m proto.Message) error {
	b, err := appendMessage([]byte{0, version, byte(o)}, m)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// firstPart is how much memory a message or packet gets before any of it has arrived.
const firstPart = 4 << 10

// grow reads n bytes, into b where it has the room. Else memory is taken as they arrive, so that
// a length alone costs next to nothing.
func grow(r io.Reader, b []byte, n int) ([]byte, error) {
	if n <= cap(b) {
		b = b[:n]
		_, err := io.ReadFull(r, b)
		return b, unexpected(err)
	}
	b = b[:0]
	for part := max(firstPart, cap(b)); len(b) < n; part = len(b) {
		has := len(b)
		part = min(part, n-has)
		if cap(b) < has+part {
			b = append(make([]byte, 0, has+part), b...)
		}
		b = b[:has+part]
		if _, err := io.ReadFull(r, b[has:]); err != nil {
			return b, unexpected(err)
		}
	}
	return b, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// An Error is a refusal, as a status and a text.
type Error struct {
	Status  pb.Status
	Message string
	// BadLink is the address of the node that is to blame, where it is not the one that says so.
	BadLink string
}

func (e *Error) Error() string {
	s := e.Status.String() + ": " + e.Message
	if e.BadLink != "" {
		s += " (node " + e.BadLink + ")"
	}
	return s
}

// refuse makes an error of a status.
func refuse(s pb.Status, format string, args ...any) *Error {
	return &Error{Status: s, Message: fmt.Sprintf(format, args...)}
}

// response returns what tells a client of an error; any but an *Error has the status ERROR.
func response(err error) *pb.BlockOpResponseProto {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Status: pb.Status_ERROR, Message: err.Error()}
	}
	return &pb.BlockOpResponseProto{Status: &e.Status, Message: &e.Message, FirstBadLink: &e.BadLink}
}

// readResponse reads the answer to an operation; the error is what it refuses.
func readResponse(r *bufio.Reader) (*pb.BlockOpResponseProto, error) {
	m := new(pb.BlockOpResponseProto)
	if err := readMessage(r, m); err != nil {
		return nil, unexpected(err)
	}
	if m.GetStatus() != pb.Status_SUCCESS {
		return m, &Error{m.GetStatus(), m.GetMessage(), m.GetFirstBadLink()}
	}
	return m, nil
}
