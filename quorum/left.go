package quorum

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"

	"headrace/internal/vfs"
)

// Left is what the log of a replica says of it that does not run.
type Left struct {
	Replica Replica
	// Voters is the least number of those who vote by what the log has of the group's members, from what is known to be committed on.
	Voters int
}

// Look reads what is left of a group's replica in a directory, whose node is not open. There is none: a zero Left. ErrDamaged: the log lacks what was
// durable once.
func Look(fs vfs.FS, dir string, group uint64) (l Left, err error) {
	j := &journal{fs: fs, dir: dir, segmentSize: 1 << 62, point: func(string) {}}
	err = openJournal(j)
	if s := j.groups[group]; s != nil && err == nil {
		l.Replica = s.replica
		l.Voters, err = s.leastVoters()
	}
	return l, errors.Join(err, j.close())
}

func (s *storage) leastVoters() (int, error) {
	voters := slices.Clone(s.start.conf.GetVoters())
	least := len(voters)
	for _, e := range s.entries {
		if e.GetType() != pb.EntryNormal {
			change, err := decodeChange(e)
			if err != nil {
				return 0, err
			}
			for _, c := range change.AsV2().GetChanges() { // none ends a joint change, whose members are the same
				voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == c.GetNodeId() })
				if c.GetType() == pb.ConfChangeAddNode {
					voters = append(voters, c.GetNodeId())
				}
			}
		}
		if e.GetIndex() <= s.hard.GetCommit() {
			least = len(voters)
		}
		least = min(least, len(voters))
	}
	return least, nil
}

func decodeChange(e *pb.Entry) (pb.ConfChangeI, error) {
	var change pb.ConfChangeI = &pb.ConfChangeV2{}
	if e.GetType() == pb.EntryConfChange {
		change = &pb.ConfChange{}
	}
	if err := proto.Unmarshal(e.GetData(), change.(proto.Message)); err != nil {
		return nil, fmt.Errorf("%w: entry %d: %w", ErrDamaged, e.GetIndex(), err)
	}
	return change, nil
}
