package quorum

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// idLen is the length of the number before each proposal, by which its proposer knows it.
const idLen = 8

type proposal struct {
	term uint64
	done func([]byte, error)
}

// waiting is a proposal that raft has not been given yet.
type waiting struct {
	data []byte
	done func([]byte, error)
}

type read struct {
	index uint64 // that the state must have; zero while it is not known
	done  func(error)
}

// group is one replica.
type group struct {
	id      uint64
	store   *storage
	raft    *raft.RawNode
	machine Machine

	// hard is what raft said last. That more is committed becomes durable with whatever is
	// written next.
	hard *pb.HardState
	// applied is the last entry that was applied, given the last that the machine got.
	applied, given uint64
	// cutTo is where the log is to begin with the next frame.
	cutTo uint64
	// confs are the members from the start of the log on.
	confs []point
	// ends are those of the log at the last ticks.
	ends    []uint64
	leader  Replica
	leading bool
	term    uint64

	asked     uint64 // number of the last proposal or read
	waiting   []waiting
	proposals map[uint64]proposal
	reads     map[uint64]*read
	change    *proposal
	changeID  uint64
	ended     uint64 // the term in which this node has proposed that the joint change end; 0: it has not

	out    map[Replica]*outgoing
	behind map[Replica]*behind
	in     *incoming
}

// start makes the replica of what is in the log.
func (n *Node) start(id uint64, s *storage) (*group, error) {
	m, err := n.config.Machine(id)
	if err != nil {
		return nil, fmt.Errorf("quorum: group %d: %w", id, err)
	}
	durable := m.Durable()
	if p := s.restoring; p != nil {
		b := newBatch()
		if durable >= p.index {
			b = putPoint(b, recReset, id, *p)
		} else {
			b = putPoint(b, recRestoring, id, point{conf: &pb.ConfState{}})
		}
		if err := n.journal.write(b); err != nil {
			return nil, err
		}
	}
	if durable > s.last() || durable < s.start.index && s.start.index > firstIndex {
		return nil, fmt.Errorf("%w: group %d: the state ends at %d, the log goes from %d to %d", ErrDamaged, id, durable, s.start.index+1, s.last())
	}
	if n.config.fault.appliesTwice && durable > 0 {
		durable--
	}
	g := &group{id: id, store: s, machine: m, applied: s.start.index, given: durable, confs: []point{s.start},
		proposals: map[uint64]proposal{}, reads: map[uint64]*read{}, out: map[Replica]*outgoing{}, behind: map[Replica]*behind{}}
	s.applied = g.point
	s.hard = proto.CloneOf(s.hard)
	s.hard.Commit = new(max(s.hard.GetCommit(), s.start.index, durable))
	if n.config.fault.forgetsHard {
		term, _ := s.Term(s.last())
		s.hard.Term = new(max(s.hard.GetTerm(), term))
	}
	g.hard = s.hard
	g.raft, err = raft.NewRawNode(&raft.Config{
		ID: uint64(s.replica), ElectionTick: n.config.ElectionTicks, HeartbeatTick: 1, Storage: s,
		MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 4 << 20, MaxUncommittedEntriesSize: 64 << 20,
		MaxInflightMsgs: 256, MaxInflightBytes: 16 << 20,
		CheckQuorum: true, PreVote: true, StepDownOnRemoval: true, DisableProposalForwarding: true, Logger: quiet{},
	})
	return g, err
}

// point returns the place of what is applied. After a start the machine may be ahead of
// what is known to be committed; then there is no place for its state yet.
func (g *group) point() (point, bool) {
	term, err := g.store.Term(g.applied)
	return point{g.applied, term, g.confs[len(g.confs)-1].conf}, err == nil && g.applied >= g.given
}

func (g *group) id8(n uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 2*idLen), n)
}

// propose gives raft all that was proposed since the last round, at once: given one by one, each would be a message to
// each of the others, and an answer of it.
func (g *group) propose() {
	if len(g.waiting) == 0 {
		return
	}
	all := g.waiting
	g.waiting = nil
	m := &pb.Message{Type: pb.MsgProp.Enum(), From: new(uint64(g.store.replica)), Entries: make([]*pb.Entry, len(all))}
	for i, w := range all {
		m.Entries[i] = &pb.Entry{Data: append(g.id8(g.asked+1+uint64(i)), w.data...)}
	}
	if err := g.raft.Step(m); err != nil {
		for _, w := range all {
			w.done(nil, ErrBusy)
		}
		return
	}
	term := g.raft.BasicStatus().GetTerm()
	for _, w := range all {
		g.asked++
		g.proposals[g.asked] = proposal{term, w.done}
	}
}

func (g *group) read(done func(error)) {
	g.asked++
	g.reads[g.asked] = &read{done: done}
	g.raft.ReadIndex(binary.BigEndian.AppendUint64(g.id8(g.asked), uint64(g.store.replica)))
}

// take splits what was agreed into what the machine gets and changes of members.
func (g *group) take(entries []*pb.Entry) (commands []Entry) {
	for _, e := range entries {
		if e.GetType() == pb.EntryNormal && len(e.GetData()) >= idLen && e.GetIndex() > g.given {
			commands = append(commands, Entry{e.GetIndex(), e.GetData()[idLen:]})
		}
	}
	return commands
}

// finish follows after the machine has applied the commands among the entries.
func (g *group) finish(entries []*pb.Entry, commands []Entry, answers [][]byte) error {
	if len(answers) != len(commands) {
		return fmt.Errorf("quorum: group %d: %d answers to %d commands", g.id, len(answers), len(commands))
	}
	for _, e := range entries {
		g.applied = e.GetIndex()
		switch {
		case e.GetType() != pb.EntryNormal:
			if err := g.reconfigure(e); err != nil {
				return err
			}
		case len(commands) > 0 && commands[0].Index == e.GetIndex():
			g.given = e.GetIndex()
			id := binary.BigEndian.Uint64(e.GetData())
			if p, ok := g.proposals[id]; ok && p.term == e.GetTerm() {
				delete(g.proposals, id)
				p.done(answers[0], nil)
			}
			commands, answers = commands[1:], answers[1:]
		}
	}
	return nil
}

// reconfigure applies a change of members.
func (g *group) reconfigure(e *pb.Entry) error {
	change, err := decodeChange(e)
	if err != nil {
		return fmt.Errorf("group %d: %w", g.id, err)
	}
	conf := g.raft.ApplyConfChange(change)
	g.confs = append(g.confs, point{e.GetIndex(), e.GetTerm(), conf})
	g.ended = 0
	id := change.AsV2().GetContext()
	if c := g.change; c != nil && len(id) == idLen && binary.BigEndian.Uint64(id) == g.changeID && c.term == e.GetTerm() {
		g.change = nil
		c.done(nil, nil)
	}
	return nil
}

// changes reports whether a commit index covers a change of members that the durable one does not. It has to be durable before
// anybody hears of it: of two members one that has heard of its removal grants no votes by rights, and never leads,
// while the other one, if it forgets that, would wait for its vote.
func (g *group) changes(hard *pb.HardState) bool {
	for i := g.store.hard.GetCommit() + 1; i <= hard.GetCommit() && i <= g.store.last(); i++ {
		if i >= g.store.first() && g.store.entries[i-g.store.first()].GetType() != pb.EntryNormal {
			return true
		}
	}
	return false
}

// refused finds out that raft has put an empty entry in the place of a change of members.
// Only the first entry of a term is empty otherwise, and comes before all proposals.
func (g *group) refused(entries []*pb.Entry) {
	for _, e := range entries {
		if c := g.change; c != nil && e.GetType() == pb.EntryNormal && len(e.GetData()) == 0 && e.GetTerm() == c.term {
			g.change = nil
			c.done(nil, ErrBusy)
		}
	}
}

// serve answers reads that the state is new enough for.
func (g *group) serve(states []raft.ReadState) {
	for _, s := range states {
		if r := g.reads[binary.BigEndian.Uint64(s.RequestCtx)]; r != nil {
			r.index = s.Index
		}
	}
	for _, id := range sorted(g.reads) {
		if r := g.reads[id]; r.index > 0 && r.index <= g.applied {
			delete(g.reads, id)
			r.done(nil)
		}
	}
}

// follow takes over who leads, and gives up on what only a leader could have ended.
func (g *group) follow(st raft.BasicStatus, tell func(group, term uint64, leader Replica)) {
	leading := st.RaftState == raft.StateLeader
	changed := st.GetTerm() != g.term || Replica(st.Lead) != g.leader
	if g.leading && (!leading || st.GetTerm() != g.term) {
		g.fail(ErrUncertain, &NotLeader{Replica(st.Lead)})
	}
	if !leading {
		clear(g.behind)
	}
	g.leading, g.term, g.leader = leading, st.GetTerm(), Replica(st.Lead)
	if changed {
		tell(g.id, g.term, g.leader)
	}
}

// fail answers all that wait.
func (g *group) fail(proposals, reads error) {
	waiting := g.waiting
	g.waiting = nil
	for _, w := range waiting {
		w.done(nil, reads) // nothing was done
	}
	for _, id := range sorted(g.proposals) {
		p := g.proposals[id]
		delete(g.proposals, id)
		p.done(nil, proposals)
	}
	for _, id := range sorted(g.reads) {
		r := g.reads[id]
		delete(g.reads, id)
		r.done(reads)
	}
	if c := g.change; c != nil {
		g.change = nil
		c.done(nil, proposals)
	}
	for _, to := range sorted(g.out) {
		g.out[to].close()
		delete(g.out, to)
	}
}

// beforeElections is for how many elections' time the ends of the log are known.
const beforeElections = 3

// noteEnd notes where the log ends at a tick.
func (g *group) noteEnd(ticks int) {
	if g.ends = append(g.ends, g.store.last()); len(g.ends) > ticks {
		g.ends = g.ends[1:]
	}
}

// before returns where the log ended at the first tick that is known. What a follower had then it may have had to drop.
func (g *group) before() uint64 {
	if len(g.ends) == 0 {
		return g.store.last()
	}
	return min(g.ends[0], g.store.last())
}

// cut returns the point before which the log is not needed any more.
func (g *group) cut(keepEntries, keepBytes int) (point, bool) {
	s := g.store
	if len(s.entries) <= 2*keepEntries && s.bytes <= 2*keepBytes {
		return point{}, false
	}
	i, bytes := len(s.entries), 0
	for i > 0 && len(s.entries)-i < keepEntries && bytes < keepBytes {
		i--
		bytes += len(s.entries[i].GetData())
	}
	to := min(g.machine.Durable(), s.start.index+uint64(i), g.applied)
	if len(s.entries) <= keepLonger*keepEntries && s.bytes <= keepLonger*keepBytes {
		to = g.needed(to)
	}
	if to <= max(s.start.index, g.cutTo) {
		return point{}, false
	}
	g.cutTo = to
	for len(g.confs) > 1 && g.confs[1].index <= to {
		g.confs = g.confs[1:]
	}
	term, err := s.Term(to)
	return point{to, term, g.confs[0].conf}, err == nil
}

// quiet is raft's log: what matters is told by Config.Leader, and a panic is one.
type quiet struct{}

func (quiet) Debug(...any)            {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Info(...any)             {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warning(...any)          {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Error(...any)            {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Fatal(v ...any)          { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
