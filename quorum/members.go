package quorum

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Step of a change of members.
type MemberStep struct {
	Replica Replica
	// Remove it, or else let it be one: a voter, or a Learner, which only receives.
	Remove, Learner bool
}

// Change changes a group's members. Of several steps at once the group takes all or none
// (joint consensus): both old and new majorities have to agree until the change has ended,
// which it does by itself. So it is where the leader is removed, which gives way to another member then. A voter should be a Learner first until it has caught up. Only
// one change at a time: ErrBusy.
func (n *Node) Change(id uint64, steps []MemberStep, done func(error)) {
	g, err := n.leads(id)
	if err != nil {
		done(err)
		return
	}
	conf := g.confs[len(g.confs)-1].conf
	if g.change != nil || len(conf.GetVotersOutgoing()) > 0 {
		done(ErrBusy)
		return
	}
	voters := slices.Clone(conf.GetVoters())
	g.asked++
	change := &pb.ConfChangeV2{Context: g.id8(g.asked)}
	joint := len(steps) > 1
	for i, s := range steps {
		joint = joint || s.Remove && s.Replica == g.store.replica
		again := slices.ContainsFunc(steps[:i], func(o MemberStep) bool { return o.Replica == s.Replica })
		if s.Replica == 0 || again {
			done(ErrChange)
			return
		}
		kind := pb.ConfChangeAddNode
		voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == uint64(s.Replica) })
		switch {
		case s.Remove:
			kind = pb.ConfChangeRemoveNode
		case s.Learner:
			kind = pb.ConfChangeAddLearnerNode
		default:
			voters = append(voters, uint64(s.Replica))
		}
		change.Changes = append(change.Changes, &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(uint64(s.Replica))})
	}
	if len(steps) == 0 || len(voters) == 0 {
		done(ErrChange)
		return
	}
	if joint {
		change.Transition = pb.ConfChangeTransitionJointExplicit.Enum()
	}
	if err := g.raft.ProposeConfChange(change); err != nil {
		done(ErrBusy)
		return
	}
	g.changeID = g.asked
	g.change = &proposal{g.raft.BasicStatus().GetTerm(), func(_ []byte, err error) { done(err) }}
}

// endJoint has a joint change end that has begun, if this node leads. One that the new members lack gives way to one of them first. If it ended the
// change itself, it might be alone in knowing so, with an entry more than the others have: it would not stand for election, would grant them no
// vote, and they could not do without.
func (g *group) endJoint() {
	conf := g.confs[len(g.confs)-1].conf
	if !g.leading || len(conf.GetVotersOutgoing()) == 0 {
		return
	}
	if slices.Contains(conf.GetVoters(), uint64(g.store.replica)) {
		// Before an entry of its term is applied raft would put an empty one in the place of this.
		if term, err := g.store.Term(g.applied); err == nil && term == g.raft.BasicStatus().GetTerm() && g.ended != term && g.raft.ProposeConfChange(&pb.ConfChangeV2{}) == nil {
			g.ended = term
		}
		return
	}
	st := g.raft.Status()
	var to uint64
	for _, v := range conf.GetVoters() {
		if p := st.Progress[v]; p.RecentActive && (to == 0 || p.Match > st.Progress[to].Match) {
			to = v
		}
	}
	if to != 0 && st.LeadTransferee == 0 {
		g.raft.TransferLeader(to)
	}
}

// Status is what this node knows of a group.
type Status struct {
	Replica, Leader Replica
	Leading         bool
	Term            uint64
	// Applied is the last entry in the state, First and Last are those in the log.
	Applied, First, Last uint64
	// Before is the last entry that the log had three elections' time ago, or as long ago as this node is open.
	Before           uint64
	Voters, Learners []Replica
	// Joint: a change of several members has not ended.
	Joint bool
	// Has is, of other members, the last entry they are known to have, if this node leads.
	Has map[Replica]uint64
	// Active are those of them that have answered in the last time that an election takes, or in some of it.
	Active map[Replica]bool
}

// Status returns what is known of a group.
func (n *Node) Status(id uint64) (Status, error) {
	g := n.groups[id]
	if g == nil {
		return Status{}, ErrNoGroup
	}
	conf := g.confs[len(g.confs)-1].conf
	s := Status{Replica: g.store.replica, Leader: g.leader, Leading: g.leading, Term: g.term, Applied: g.applied,
		First: g.store.first(), Last: g.store.last(), Before: g.before(), Voters: replicas(conf.GetVoters()), Learners: replicas(conf.GetLearners()),
		Joint: len(conf.GetVotersOutgoing()) > 0, Has: map[Replica]uint64{}, Active: map[Replica]bool{}}
	for r, p := range g.raft.Status().Progress {
		s.Has[Replica(r)], s.Active[Replica(r)] = p.Match, p.RecentActive
	}
	return s, nil
}

func replicas(ids []uint64) []Replica {
	var all []Replica
	for _, id := range ids {
		all = append(all, Replica(id))
	}
	return all
}
