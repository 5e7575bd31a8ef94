package quorum

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"headrace/internal/vfs"
)

// outgoing is a snapshot on its way: one piece at a time, each sent again until the next one
// is asked for.
type outgoing struct {
	stream  uint64
	content io.ReadCloser
	now     Message
	// silent is for how many ticks nothing was heard.
	silent int
}

func (o *outgoing) close() { o.content.Close() }

// offer begins to send the state that a message of raft's is about.
func (n *Node) offer(g *group, m *pb.Message) {
	to := Replica(m.GetTo())
	if o := g.out[to]; o != nil {
		o.close()
		delete(g.out, to)
	}
	if p, ok := g.point(); !ok || p.index != m.GetSnapshot().GetMetadata().GetIndex() {
		g.raft.ReportSnapshot(uint64(to), raft.SnapshotFailure)
		return
	}
	content, err := g.machine.Snapshot()
	if err != nil {
		g.raft.ReportSnapshot(uint64(to), raft.SnapshotFailure)
		return
	}
	n.streams++
	o := &outgoing{stream: n.streams, content: content}
	o.now = Message{Kind: Chunk, Group: g.id, From: g.store.replica, To: to, Stream: o.stream, Payload: marshal(m)}
	g.out[to], g.behind[to] = o, &behind{match: m.GetSnapshot().GetMetadata().GetIndex()}
	n.config.Send(o.now)
}

// got goes on with the piece that is wanted.
func (n *Node) got(g *group, m Message) {
	o := g.out[m.From]
	switch {
	case o == nil || o.stream != m.Stream || m.Number != o.now.Number+1 && m.Number != 0:
		return
	case m.Number == 0:
		if o.now.Number > 0 { // whoever has lost the beginning does not get the end
			n.ended(g, m.From, raft.SnapshotFailure)
		}
	case o.now.Last:
		n.ended(g, m.From, raft.SnapshotFinish)
	default:
		piece := make([]byte, n.config.ChunkSize)
		l, err := io.ReadFull(o.content, piece)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			n.ended(g, m.From, raft.SnapshotFailure)
			return
		}
		o.now.Payload, o.now.Number, o.now.Last, o.silent = piece[:l], o.now.Number+1, err != nil, 0
		n.config.Send(o.now)
	}
}

func (n *Node) ended(g *group, to Replica, how raft.SnapshotStatus) {
	g.out[to].close()
	delete(g.out, to)
	g.raft.ReportSnapshot(uint64(to), how)
}

// remind sends pieces again that nothing is heard of, and gives up in the end.
func (n *Node) remind(g *group) {
	for _, to := range sorted(g.out) {
		o := g.out[to]
		switch o.silent++; {
		case o.silent > 8*n.config.ElectionTicks:
			n.ended(g, to, raft.SnapshotFailure)
		case o.silent%n.config.ElectionTicks == 0:
			n.config.Send(o.now)
		}
	}
}

// incoming is a snapshot that is being received.
type incoming struct {
	from   Replica
	stream uint64
	next   uint64
	offer  *pb.Message
	name   string
	file   vfs.File
	size   int64
	// whole: raft has been told, and decides in the next round.
	whole bool
}

func (n *Node) discard(g *group) {
	if g.in == nil {
		return
	}
	// It is of no use any more, and a start removes what is left.
	g.in.file.Close()
	n.config.FS.Remove(g.in.name)
	g.in = nil
}

// chunk takes a piece, and says which one it wants next.
func (n *Node) chunk(g *group, m Message) error {
	in := g.in
	if in != nil && in.whole {
		return nil
	}
	if m.Number == 0 && (in == nil || in.from != m.From || in.stream != m.Stream) {
		offer := &pb.Message{}
		if err := proto.Unmarshal(m.Payload, offer); err != nil || offer.GetType() != pb.MsgSnap ||
			Replica(offer.GetFrom()) != m.From || offer.GetTerm() < g.term || in != nil && in.offer.GetTerm() > offer.GetTerm() {
			return nil
		}
		n.discard(g)
		name := path.Join(n.config.Dir, fmt.Sprintf("%d%s", g.id, incomingSuffix))
		f, err := n.config.FS.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		in = &incoming{from: m.From, stream: m.Stream, offer: offer, name: name, file: f}
		g.in = in
	}
	reply := Message{Kind: Got, Group: g.id, From: g.store.replica, To: m.From, Stream: m.Stream}
	if in == nil || in.from != m.From || in.stream != m.Stream {
		n.config.Send(reply)
		return nil
	}
	if m.Number == in.next {
		if m.Number > 0 {
			if _, err := in.file.WriteAt(m.Payload, in.size); err != nil {
				return err
			}
			in.size += int64(len(m.Payload))
		}
		in.next++
		if m.Last {
			in.whole = true
			n.received = append(n.received, g)
			g.raft.Step(in.offer) // an error is a refusal: it is too old
		}
	}
	reply.Number = in.next
	n.config.Send(reply)
	return nil
}

// restore replaces the machine's state by the one that was received.
func (n *Node) restore(g *group, s *pb.Snapshot) error {
	p := snapshotPoint(s)
	in := g.in
	if in == nil || !in.whole || in.offer.GetSnapshot().GetMetadata().GetIndex() != p.index {
		return fmt.Errorf("quorum: group %d: the state of entry %d was not received", g.id, p.index)
	}
	n.config.point("quorum.restore.before")
	if err := g.machine.Restore(p.index, io.NewSectionReader(in.file, 0, in.size)); err != nil {
		return fmt.Errorf("quorum: group %d: restore: %w", g.id, err)
	}
	n.config.point("quorum.restore.after")
	n.discard(g)
	g.applied, g.given, g.confs = p.index, p.index, []point{p}
	return n.journal.write(putPoint(newBatch(), recReset, g.id, p))
}

func snapshotPoint(s *pb.Snapshot) point {
	m := s.GetMetadata()
	return point{m.GetIndex(), m.GetTerm(), m.GetConfState()}
}
