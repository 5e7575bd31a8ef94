package quorum

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// point is a place in a group's log, with the members of then.
type point struct {
	index, term uint64
	conf        *pb.ConfState
}

// span: entries up to last were written to a segment.
type span struct{ segment, last uint64 }

// storage is what the journal has of one group, in memory: all entries behind start.
// It is raft's Storage.
type storage struct {
	replica   Replica
	hard      *pb.HardState
	start     point
	entries   []*pb.Entry
	restoring *point
	bytes     int
	spans     []span
	// want is where the log ended when the segment that is being read was begun.
	want uint64
	// applied says the point that a snapshot would have now, if one can be made.
	applied func() (point, bool)
}

func newStorage(r Replica) *storage {
	return &storage{replica: r, hard: &pb.HardState{}, start: point{conf: &pb.ConfState{}}}
}

func (s *storage) last() uint64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].GetIndex()
	}
	return s.start.index
}

// first is the index of the first entry. While a journal is read it may be behind a gap.
func (s *storage) first() uint64 {
	if len(s.entries) > 0 {
		return s.entries[0].GetIndex()
	}
	return s.start.index + 1
}

// append adds entries and drops what they replace.
func (s *storage) append(segment uint64, entries []*pb.Entry) {
	for len(entries) > 0 && entries[0].GetIndex() <= s.start.index {
		entries = entries[1:]
	}
	if len(entries) == 0 {
		return
	}
	i := entries[0].GetIndex()
	if i < s.first() || i > s.last()+1 {
		// Only while a journal is read: what lies between was dropped later, and its segment
		// is gone. If it was not dropped, check will find the gap.
		s.entries, s.bytes = nil, 0
	} else {
		for _, e := range s.entries[i-s.first():] {
			s.bytes -= len(e.GetData())
		}
		if i <= s.last() { // raft may hold what is replaced
			s.entries = slices.Clip(s.entries[:i-s.first()])
		}
	}
	s.entries = append(s.entries, entries...)
	s.want = 0 // the log ends here now, and there is a gap if something is missing
	for _, e := range entries {
		s.bytes += len(e.GetData())
	}
	if n := len(s.spans); n > 0 && s.spans[n-1].segment == segment {
		s.spans[n-1].last = max(s.spans[n-1].last, s.last())
	} else {
		s.spans = append(s.spans, span{segment, s.last()})
	}
}

// begin makes the log begin behind p.
func (s *storage) begin(p point) {
	if p.index < s.start.index {
		return
	}
	for len(s.entries) > 0 && s.entries[0].GetIndex() <= p.index {
		s.bytes -= len(s.entries[0].GetData())
		s.entries = s.entries[1:]
	}
	s.start = p
	for len(s.spans) > 0 && s.spans[0].last <= p.index {
		s.spans = s.spans[1:]
	}
}

// reset makes the log an empty one behind p.
func (s *storage) reset(p point) {
	s.entries, s.bytes, s.spans, s.restoring, s.start, s.want = nil, 0, nil, nil, p, 0
	s.hard = proto.CloneOf(s.hard)
	s.hard.Commit = new(max(s.hard.GetCommit(), p.index))
}

// check returns an error unless all that is to be there is there.
func (s *storage) check() error {
	if s.first() != s.start.index+1 {
		return fmt.Errorf("entries %d to %d are missing", s.start.index+1, s.first()-1)
	}
	if end := max(s.want, s.hard.GetCommit()); end > s.last() {
		return fmt.Errorf("entries %d to %d are missing", s.last()+1, end)
	}
	return nil
}

func (s *storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return s.hard, s.start.conf, nil
}

func (s *storage) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	switch {
	case lo <= s.start.index:
		return nil, raft.ErrCompacted
	case hi > s.last()+1:
		return nil, raft.ErrUnavailable
	}
	all := s.entries[lo-s.first() : hi-s.first()]
	var size uint64
	for i, e := range all {
		if size += uint64(proto.Size(e)); size > maxSize && i > 0 {
			return all[:i:i], nil
		}
	}
	return all[:len(all):len(all)], nil
}

func (s *storage) Term(i uint64) (uint64, error) {
	switch {
	case i == s.start.index:
		return s.start.term, nil
	case i < s.start.index:
		return 0, raft.ErrCompacted
	case i > s.last():
		return 0, raft.ErrUnavailable
	}
	return s.entries[i-s.first()].GetTerm(), nil
}

func (s *storage) LastIndex() (uint64, error)  { return s.last(), nil }
func (s *storage) FirstIndex() (uint64, error) { return s.start.index + 1, nil }

// Snapshot returns the point of a snapshot. Its bytes go their own way: see outgoing.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	p, ok := s.applied()
	if !ok {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &p.index, Term: &p.term, ConfState: p.conf}}, nil
}
