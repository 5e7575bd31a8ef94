package quorum

import (
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Replica names a member of a group for ever: its node, and which of the node's replicas of
// this group it is. One that was removed or lost its log has forgotten what it promised,
// so the node comes back as another replica.
type Replica uint64

// NewReplica names the nth replica of a node, from 1.
func NewReplica(node, n uint32) Replica { return Replica(n)<<32 | Replica(node) }

// Node returns the node that the replica is on.
func (r Replica) Node() uint32 { return uint32(r) }

// Kind is what a message carries.
type Kind uint8

const (
	Raft  Kind = iota + 1 // a message of the protocol
	Chunk                 // a piece of a snapshot
	Got                   // the number of the piece that is wanted next
)

// Others is the first of the kinds that are not this package's: of messages between those who use it, which go the same way. A Node drops them.
const Others Kind = 128

// Message goes from a replica of a group to another. It may be lost, come late, twice, or
// in another order.
type Message struct {
	Kind     Kind
	Group    uint64
	From, To Replica
	// Payload is a marshalled raftpb.Message, or bytes of a snapshot. It is not changed
	// any more.
	Payload []byte
	// Stream and Number say which piece of which snapshot it is. Piece 0 is the message
	// of Raft that the snapshot belongs to.
	Stream, Number uint64
	// Last: no piece follows.
	Last bool
}

// Append adds the message's bytes to b.
func (m Message) Append(b []byte) []byte {
	last := byte(0)
	if m.Last {
		last = 1
	}
	b = append(b, byte(m.Kind), last)
	for _, n := range []uint64{m.Group, uint64(m.From), uint64(m.To), m.Stream, m.Number} {
		b = binary.AppendUvarint(b, n)
	}
	return append(b, m.Payload...)
}

// ParseMessage is the reverse of Append. The payload stays in b.
func ParseMessage(b []byte) (Message, error) {
	if len(b) < 2 || b[1] > 1 {
		return Message{}, errRecord
	}
	m := Message{Kind: Kind(b[0]), Last: b[1] == 1}
	r := &reader{b: b[2:]}
	m.Group, m.From, m.To = r.number(), Replica(r.number()), Replica(r.number())
	m.Stream, m.Number = r.number(), r.number()
	m.Payload = r.b
	return m, r.err
}

// foreign are the kinds of Raft's messages that come from other nodes. Proposals and
// reads are made where the leader is, and snapshots come in pieces.
var foreign = map[pb.MessageType]bool{
	pb.MsgApp: true, pb.MsgAppResp: true, pb.MsgVote: true, pb.MsgVoteResp: true, pb.MsgPreVote: true, pb.MsgPreVoteResp: true,
	pb.MsgHeartbeat: true, pb.MsgHeartbeatResp: true, pb.MsgTimeoutNow: true,
}

func marshal(m *pb.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // only strings can be wrong, and there are none
	}
	return b
}
