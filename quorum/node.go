package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	// firstIndex is where the log of a new group begins: its first members and the empty
	// state are the snapshot of that place, so who joins later needs a snapshot, always.
	firstIndex     = 1
	incomingSuffix = ".incoming"
)

// Node holds the replicas of this node. It is driven: nothing happens but in its methods,
// which one goroutine calls at a time; see Driver for one that does. Functions given to
// it are called inside of Work and of the method that they were given to, and must not
// call the node.
type Node struct {
	config  Config
	lock    io.Closer
	journal *journal
	groups  map[uint64]*group
	order   []*group // by number
	// late is what is to be written with the next frame, but for which none is written.
	late    []byte
	streams uint64
	// received are groups with a whole snapshot.
	received []*group
	err      error
}

// Open starts a node with the groups that it has.
func Open(config Config) (*Node, error) {
	c := config.withDefaults()
	if err := errors.Join(c.FS.MkdirAll(c.Dir), c.FS.SyncDir(path.Dir(c.Dir))); err != nil {
		return nil, err
	}
	lock, err := c.FS.Lock(path.Join(c.Dir, "LOCK"))
	if err != nil {
		return nil, err
	}
	n := &Node{config: c, lock: lock, groups: map[uint64]*group{},
		journal: &journal{fs: c.FS, dir: c.Dir, segmentSize: c.SegmentSize, point: c.point, fault: c.fault}}
	if err := n.load(); err != nil {
		return nil, errors.Join(err, n.journal.close(), lock.Close())
	}
	return n, nil
}

func (n *Node) load() error {
	names, err := n.config.FS.List(n.config.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, incomingSuffix) {
			if err := n.config.FS.Remove(path.Join(n.config.Dir, name)); err != nil {
				return err
			}
		}
	}
	if err := openJournal(n.journal); err != nil {
		return err
	}
	for _, id := range sorted(n.journal.groups) {
		if err := n.add(id, n.journal.groups[id]); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) add(id uint64, s *storage) error {
	g, err := n.start(id, s)
	if err != nil {
		return err
	}
	n.groups[id] = g
	i, _ := slices.BinarySearchFunc(n.order, id, func(g *group, id uint64) int { return cmp.Compare(g.id, id) })
	n.order = slices.Insert(n.order, i, g)
	return nil
}

// Create makes this node's replica of a group, with an empty machine. All first members are
// given the same list of them; one that joins is given none, and is then added by the
// leader with Change.
func (n *Node) Create(id uint64, replica Replica, members []Replica) error {
	switch {
	case n.err != nil:
		return n.err
	case n.groups[id] != nil:
		return fmt.Errorf("quorum: group %d is here already", id)
	case replica == 0 || replica.Node() == 0 || len(members) > 0 && !slices.Contains(members, replica):
		return ErrChange
	}
	b := putRecord(newBatch(), recGroup, id, uint64(replica), 0)
	if len(members) > 0 {
		p := point{firstIndex, 1, &pb.ConfState{}}
		for _, m := range members {
			p.conf.Voters = append(p.conf.Voters, uint64(m))
		}
		b = putPoint(b, recStart, id, p)
		b = putHard(b, id, &pb.HardState{Term: new(uint64(1)), Commit: new(uint64(firstIndex))})
	}
	if err := n.journal.write(b); err != nil {
		return n.stop(err)
	}
	n.config.point("quorum.created")
	return n.add(id, n.journal.groups[id])
}

// Drop forgets a replica that is no member any more. The machine is the caller's.
func (n *Node) Drop(id uint64) error {
	g := n.groups[id]
	switch {
	case n.err != nil:
		return n.err
	case g == nil:
		return ErrNoGroup
	}
	g.fail(ErrUncertain, &NotLeader{})
	n.discard(g)
	delete(n.groups, id)
	n.order = slices.DeleteFunc(n.order, func(o *group) bool { return o == g })
	// What was to be written late may be about this group.
	if err := n.journal.write(putRecord(append(newBatch(), n.late...), recGone, id)); err != nil {
		return n.stop(err)
	}
	n.late = nil
	return nil
}

// stop makes the node say nothing any more.
func (n *Node) stop(err error) error {
	if n.err == nil {
		n.err = fmt.Errorf("%w: %w", ErrStopped, err)
		for _, g := range n.order {
			g.fail(n.err, n.err)
		}
	}
	return n.err
}

// Err returns why the node says nothing any more, or nil.
func (n *Node) Err() error { return n.err }

// Close ends the node; what waits for an answer gets ErrStopped.
func (n *Node) Close() error {
	n.stop(errors.New("closed"))
	for _, g := range n.order {
		n.discard(g)
	}
	return errors.Join(n.journal.close(), n.lock.Close())
}

// Tick says that time has passed.
func (n *Node) Tick() {
	for _, g := range n.order {
		if n.err == nil {
			g.raft.Tick()
			n.remind(g)
			g.waits(patience * n.config.ElectionTicks)
			g.noteEnd(beforeElections * n.config.ElectionTicks)
		}
	}
}

// Step takes a message from another node. One that makes no sense is dropped: it may be old.
func (n *Node) Step(m Message) error {
	g := n.groups[m.Group]
	switch {
	case n.err != nil:
		return n.err
	case g == nil || m.To != g.store.replica:
		return nil
	case m.Kind == Chunk:
		if err := n.chunk(g, m); err != nil {
			// The disk has no room for it, or worse. The log will say so if it is worse.
			n.discard(g)
		}
	case m.Kind == Got:
		n.got(g, m)
	case m.Kind == Raft:
		p := &pb.Message{}
		if err := proto.Unmarshal(m.Payload, p); err == nil && foreign[p.GetType()] && Replica(p.GetFrom()) == m.From {
			g.raft.Step(p)
		}
	}
	return nil
}

// leads returns the group if this node leads it.
func (n *Node) leads(id uint64) (*group, error) {
	g := n.groups[id]
	switch {
	case n.err != nil:
		return nil, n.err
	case g == nil:
		return nil, ErrNoGroup
	case !g.leading:
		return nil, &NotLeader{g.leader}
	}
	return g, nil
}

// Propose has a group agree on a command. done gets the machine's answer once the command is
// durable on a majority and applied here, or an error: after ErrUncertain it may take effect.
func (n *Node) Propose(id uint64, data []byte, done func(answer []byte, err error)) {
	g, err := n.leads(id)
	switch {
	case err != nil:
		done(nil, err)
	case len(data) > n.config.MaxProposal:
		done(nil, ErrTooLarge)
	case len(g.waiting)+len(g.proposals) >= n.config.MaxPending:
		done(nil, ErrBusy)
	default:
		g.waiting = append(g.waiting, waiting{data, done})
	}
}

// Read calls done when the machine has all that was answered before Read was called,
// anywhere. What it says then is linearizable.
func (n *Node) Read(id uint64, done func(error)) {
	g, err := n.leads(id)
	switch {
	case err != nil:
		done(err)
	case len(g.reads) >= n.config.MaxPending:
		done(ErrBusy)
	case n.config.fault.readsAlone:
		done(nil)
	default:
		g.read(done)
	}
}

// Transfer asks a member to lead in this one's place.
func (n *Node) Transfer(id uint64, to Replica) error {
	g, err := n.leads(id)
	if err == nil {
		g.raft.TransferLeader(uint64(to))
	}
	return err
}

// Work does what there is to do, in one round: what all groups have to make durable, with one
// fsync; then messages go out, commands are applied and answers given. It reports
// whether there is more.
func (n *Node) Work() (more bool, err error) {
	if n.err != nil {
		return false, n.err
	}
	var rounds []*round
	for _, g := range n.order {
		g.propose()
		g.endJoint()
		if g.raft.HasReady() {
			r := &round{g: g, ready: g.raft.Ready(), status: g.raft.BasicStatus()}
			r.changes = g.changes(r.ready.HardState)
			rounds = append(rounds, r)
		}
	}
	steps := []func([]*round) error{n.sendEntries, n.applyDurable, n.persist, n.receive, n.send, n.apply}
	if n.config.fault.answersEarly {
		steps = []func([]*round) error{n.send, n.apply, n.persist, n.receive}
	}
	for _, step := range steps {
		if err := step(rounds); err != nil {
			return false, n.stop(err)
		}
	}
	for _, r := range rounds {
		r.g.raft.Advance(r.ready)
		r.g.serve(r.ready.ReadStates)
		r.g.follow(r.status, n.config.Leader)
		if p, ok := r.g.cut(n.config.KeepEntries, n.config.KeepBytes); ok {
			n.late = putPoint(n.late, recStart, r.g.id, p)
		}
		more = more || r.g.raft.HasReady()
	}
	for _, g := range n.received {
		n.discard(g) // it was taken over, or is too old
	}
	n.received = nil
	return more, nil
}

// round is what one group has to do now.
type round struct {
	g        *group
	ready    raft.Ready
	status   raft.BasicStatus
	applied  bool
	changes  bool // of members are known to be agreed on since now
	commands []Entry
	answers  [][]byte
	err      error
}

// persist makes durable what has to be.
func (n *Node) persist(rounds []*round) error {
	b, must := append(newBatch(), n.late...), false
	for _, r := range rounds {
		g, rd := r.g, r.ready
		if !raft.IsEmptyHardState(rd.HardState) {
			g.hard = rd.HardState
		}
		snapshot := !raft.IsEmptySnap(rd.Snapshot)
		if !rd.MustSync && !snapshot && !r.changes {
			continue
		}
		must = true
		if snapshot {
			b = putPoint(b, recRestoring, g.id, snapshotPoint(rd.Snapshot))
		}
		hard := g.hard
		if snapshot {
			// What the snapshot says is committed is not what this log has there: until the log
			// begins behind it, entries of the same numbers may be others.
			hard = proto.CloneOf(hard)
			hard.Commit = new(g.store.hard.GetCommit())
		}
		if !n.config.fault.forgetsHard {
			b = putHard(b, g.id, hard)
		}
		if len(rd.Entries) > 0 && !snapshot { // entries behind a snapshot follow with receive
			b = putEntries(b, g.id, rd.Entries)
		}
		g.refused(rd.Entries)
	}
	if !must {
		return nil
	}
	n.late = nil
	return n.journal.write(b)
}

// receive takes over snapshots.
func (n *Node) receive(rounds []*round) error {
	for _, r := range rounds {
		if raft.IsEmptySnap(r.ready.Snapshot) {
			continue
		}
		if err := n.restore(r.g, r.ready.Snapshot); err != nil {
			return err
		}
		if len(r.ready.Entries) > 0 {
			if err := n.journal.write(putEntries(newBatch(), r.g.id, r.ready.Entries)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendEntries sends a leader's entries before they are durable here, so that its fsync and
// those of the others take place at the same time (Ongaro's thesis, 10.2.1). Its own
// copy counts only when it is durable, which raft hears of with Advance. Its term has to be.
func (n *Node) sendEntries(rounds []*round) error {
	for _, r := range rounds {
		if h := r.g.store.hard; r.status.GetTerm() != h.GetTerm() || r.status.GetVote() != h.GetVote() {
			continue
		}
		for i, m := range r.ready.Messages {
			switch t := m.GetType(); {
			case t == pb.MsgApp && !r.changes:
				n.post(r.g, m)
			case t == pb.MsgSnap: // while the state is the one that it is about
				n.offer(r.g, m)
			default:
				continue
			}
			r.ready.Messages[i] = nil
		}
	}
	n.config.point("quorum.entries.sent")
	return nil
}

func (n *Node) post(g *group, m *pb.Message) {
	n.config.Send(Message{Kind: Raft, Group: g.id, From: g.store.replica, To: Replica(m.GetTo()), Payload: marshal(m)})
}

func (n *Node) send(rounds []*round) error {
	for _, r := range rounds {
		for _, m := range r.ready.Messages {
			switch {
			case m == nil: // sent already
			case m.GetType() == pb.MsgSnap:
				n.offer(r.g, m)
			case foreign[m.GetType()]:
				n.post(r.g, m)
			}
		}
	}
	n.config.point("quorum.sent")
	return nil
}

// applyDurable applies what is durable here already, so that it need not wait for what came
// later.
func (n *Node) applyDurable(rounds []*round) error {
	var early []*round
	for _, r := range rounds {
		c, e := r.ready.CommittedEntries, r.ready.Entries
		if len(c) > 0 && raft.IsEmptySnap(r.ready.Snapshot) && (len(e) == 0 || c[len(c)-1].GetIndex() < e[0].GetIndex()) {
			early = append(early, r)
		}
	}
	return n.apply(early)
}

// apply has machines apply what was agreed, several at a time, and gives answers.
func (n *Node) apply(rounds []*round) error {
	var wait sync.WaitGroup
	turns := make(chan struct{}, n.config.Workers)
	rounds = slices.DeleteFunc(slices.Clone(rounds), func(r *round) bool { return r.applied })
	for _, r := range rounds {
		r.applied = true
		if r.commands = r.g.take(r.ready.CommittedEntries); len(r.commands) == 0 {
			continue
		}
		if n.config.Workers == 1 || len(rounds) == 1 {
			r.answers, r.err = r.g.machine.Apply(r.commands)
			continue
		}
		turns <- struct{}{}
		wait.Go(func() {
			r.answers, r.err = r.g.machine.Apply(r.commands)
			<-turns
		})
	}
	wait.Wait()
	n.config.point("quorum.applied")
	for _, r := range rounds {
		if r.err != nil {
			return fmt.Errorf("quorum: group %d: apply: %w", r.g.id, r.err)
		}
		if err := r.g.finish(r.ready.CommittedEntries, r.commands, r.answers); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns the keys of a map in order, so that nothing depends on that of maps.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
