package ipc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// Calls that are none, by their id (org.apache.hadoop.ipc.RpcConstants, Server.AuthProtocol).
const (
	callUnknown = -1 // of a failure before there is a call
	callContext = -3
	callPing    = -4
	callSASL    = -33
)

// version is that of the protocol; Hadoop 2 and 3 speak no other.
const version = 9

// How a client wants to authenticate: the last byte of a connection's header.
const (
	authNone = 0
	authSASL = 0xdf // -33
)

// idLength is how long a client's id is, in bytes; clients before Hadoop 2.2 send none.
const idLength = 16

var errShort = errors.New("a message is longer than what is there of it")

// next takes the first message off a frame, without decoding it. It is part of the frame.
func next(frame []byte) (message, rest []byte, err error) {
	n, k := binary.Uvarint(frame)
	if k <= 0 || n > uint64(len(frame)-k) {
		return nil, nil, errShort
	}
	return frame[k : k+int(n)], frame[k+int(n):], nil
}

// decode takes the first message off a frame, into m.
func decode(frame []byte, m proto.Message) (rest []byte, err error) {
	b, rest, err := next(frame)
	if err != nil {
		return nil, err
	}
	return rest, proto.Unmarshal(b, m)
}

// encode makes a frame of messages; nil ones are left out.
func encode(messages ...proto.Message) ([]byte, error) {
	b := make([]byte, 4, 256)
	for _, m := range messages {
		if m == nil {
			continue
		}
		b = binary.AppendUvarint(b, uint64(proto.Size(m)))
		var err error
		if b, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(b, m); err != nil {
			return nil, err
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// firstPart is how much memory a frame gets before any of it has arrived.
const firstPart = 4 << 10

// readLength reads the length of the next frame, in bytes.
func readLength(r *bufio.Reader, most int) (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	if n := binary.BigEndian.Uint32(b[:]); n == 0 || uint64(n) > uint64(most) {
		return 0, fmt.Errorf("a frame of %d bytes; it may have 1 to %d", n, most)
	} else {
		return int(n), nil
	}
}

// readBody reads n bytes. Memory is taken as they arrive, so that a length alone costs next to nothing;
// grow is asked before each time.
func readBody(r io.Reader, n int, grow func(bytes int) error) ([]byte, error) {
	var b []byte
	for part := firstPart; len(b) < n; part = len(b) {
		part = min(part, n-len(b))
		if err := grow(part); err != nil {
			return nil, err
		}
		has := len(b)
		b = append(make([]byte, 0, has+part), b...)[:has+part]
		if _, err := io.ReadFull(r, b[has:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return b, nil
}

// request is what a frame of a call says; body is what follows the header of the call.
type request struct {
	header *pb.RpcRequestHeaderProto
	rest   []byte
}

// parseRequest reads the header of a frame from a client.
func parseRequest(frame []byte) (request, error) {
	r := request{header: new(pb.RpcRequestHeaderProto)}
	var err error
	if r.rest, err = decode(frame, r.header); err != nil {
		return r, fmt.Errorf("the header of a request: %w", err)
	}
	if n := len(r.header.GetClientId()); n != 0 && n != idLength {
		return r, fmt.Errorf("the id of a client has %d bytes", n)
	}
	return r, nil
}

// parseCall reads what is called, into what the header has said.
func parseCall(r request) (*Call, error) {
	h := r.header
	if h.GetRpcKind() != pb.RpcKindProto_RPC_PROTOCOL_BUFFER {
		return nil, fmt.Errorf("a call of kind %v", h.GetRpcKind())
	}
	if h.GetRpcOp() != pb.RpcRequestHeaderProto_RPC_FINAL_PACKET {
		return nil, fmt.Errorf("a call with operation %v", h.GetRpcOp())
	}
	var q pb.RequestHeaderProto
	rest, err := decode(r.rest, &q)
	if err != nil {
		return nil, fmt.Errorf("what is called: %w", err)
	}
	c := &Call{
		Protocol: q.GetDeclaringClassProtocolName(), Version: q.GetClientProtocolVersion(), Method: q.GetMethodName(),
		ID: h.GetCallId(), Retry: max(h.GetRetryCount(), 0), Context: h.GetCallerContext().GetContext(),
	}
	copy(c.Client[:], h.GetClientId())
	if c.Request, _, err = next(rest); err != nil {
		return nil, fmt.Errorf("the request of %s: %w", c.Method, err)
	}
	return c, nil
}
