package quorum

import (
	"bytes"
	"container/heap"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"headrace/internal/vfs"
)

// state is a machine's: texts that grow.
type state struct {
	Index uint64
	Texts map[string]string
}

func (s state) clone() state { return state{s.Index, maps.Clone(s.Texts)} }

// machine is a state in memory that becomes durable now and then.
type machine struct {
	live, durable state
	rand          *mrand.Rand
}

func newMachine(r *mrand.Rand) *machine {
	return &machine{live: state{Texts: map[string]string{}}, durable: state{Texts: map[string]string{}}, rand: r}
}

func (m *machine) Durable() uint64 { return m.durable.Index }

func (m *machine) Apply(entries []Entry) ([][]byte, error) {
	var answers [][]byte
	for _, e := range entries {
		key, word, _ := strings.Cut(string(e.Data), " ")
		m.live.Texts[key] += word + " "
		m.live.Index = e.Index
		answers = append(answers, []byte(m.live.Texts[key]))
	}
	if m.rand.IntN(3) == 0 {
		m.durable = m.live.clone()
	}
	return answers, nil
}

func (m *machine) Snapshot() (io.ReadCloser, error) {
	b, err := json.Marshal(m.live.Texts)
	return io.NopCloser(bytes.NewReader(b)), err
}

func (m *machine) Restore(index uint64, r io.Reader) error {
	s := state{Index: index}
	if err := json.NewDecoder(r).Decode(&s.Texts); err != nil {
		return err
	}
	m.live, m.durable = s, s.clone()
	return nil
}

// died is the panic by which a process ends in the middle of anything.
type died struct{}

// promise is what a replica has told others.
type promise struct {
	term, acked, ackedTerm uint64
	votes                  map[uint64]uint64
}

// process is a node with its disk.
type process struct {
	w        *world
	id       uint32
	mem      *vfs.Mem
	node     *Node
	machines map[uint64]*machine
	left     int    // operations of the file system until it dies
	good     int    // writes and syncs until one fails
	point    string // or where
	back     int    // when it starts again
}

type envelope struct {
	at, seq int
	m       Message
}

type mail []envelope

func (q mail) Len() int { return len(q) }
func (q mail) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q mail) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *mail) Push(x any)   { *q = append(*q, x.(envelope)) }
func (q *mail) Pop() any {
	e := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return e
}

// op is one call of a client.
type op struct {
	group     uint64
	key, word string // no word: a read
	call, end int64
	output    string
	known     bool
	process   *process
}

// failure is what a world has found.
type failure struct{ text string }

// world is nodes, a network and clients, in one goroutine. All chance comes from the seed.
type world struct {
	seed      uint64
	rand      *mrand.Rand
	fault     fault
	processes []*process
	groups    uint64
	segment   int64
	now, seq  int
	clock     int64
	calm      bool
	mail      mail
	cut       map[[2]uint32]bool
	ops       []*op
	waiting   int
	promises  map[[2]uint64]*promise // by group and replica
	leaders   map[[2]uint64]Replica  // by group and term
	replicas  map[[2]uint64]uint32   // newest replica of a node, by group and node
	seen      map[[2]uint64]uint64   // the last change that has a replica as a member
	confs     map[uint64]uint64      // the newest change of a group
	members   map[uint64][]uint64    // and who are members then
	log       []string
	counts    map[string]int
}

func (w *world) failf(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%d ", w.now)+fmt.Sprintf(format, args...))
}

func newWorld(seed uint64, f fault, counts map[string]int) *world {
	r := mrand.New(mrand.NewPCG(seed, 2))
	// Raft draws its timeouts from there.
	var key [32]byte
	key[0], key[1], key[2] = byte(seed), byte(seed>>8), byte(seed>>16)
	rand.Reader = mrand.NewChaCha8(key)
	w := &world{seed: seed, rand: r, fault: f, groups: uint64(1 + r.IntN(3)), segment: int64(400 + r.IntN(2000)), cut: map[[2]uint32]bool{}, counts: counts,
		promises: map[[2]uint64]*promise{}, leaders: map[[2]uint64]Replica{}, replicas: map[[2]uint64]uint32{},
		seen: map[[2]uint64]uint64{}, confs: map[uint64]uint64{}, members: map[uint64][]uint64{}}
	for i := range 3 + r.IntN(3) {
		p := &process{w: w, id: uint32(i + 1), mem: vfs.NewMem(64<<20, seed<<8|uint64(i)), machines: map[uint64]*machine{}}
		w.processes = append(w.processes, p)
		w.do(p, p.open)
	}
	for g := uint64(1); g <= w.groups; g++ {
		var members []Replica
		for i := range 3 {
			members = append(members, NewReplica(uint32((int(g)+i)%len(w.processes)+1), 1))
		}
		for _, m := range members {
			w.process(m.Node()).create(g, m, members)
		}
	}
	return w
}

func (w *world) process(node uint32) *process { return w.processes[node-1] }

// do runs something in a process, which may die of it.
func (w *world) do(p *process, f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case died:
			p.node, p.left, p.good, p.point = nil, 0, 0, ""
			p.back = w.now + 1 + w.rand.IntN(60)
			for _, m := range p.machines {
				m.live = m.durable.clone()
			}
			for _, o := range w.ops {
				if o.process == p {
					o.process = nil
					w.waiting--
				}
			}
		default:
			panic(r)
		}
	}()
	f()
}

func (p *process) die(where string) {
	p.w.note("node %d dies %s", p.id, where)
	p.mem.Kill()
	panic(died{})
}

func (p *process) open() {
	fs := &vfs.Faulty{FS: p.mem, Fail: func(o vfs.Op) error {
		if p.left > 0 {
			if p.left--; p.left == 0 {
				p.die("before " + o.Kind + " " + o.Name)
			}
		}
		if p.good > 0 && (o.Kind == "sync" || o.Kind == "write" || o.Kind == "syncdir") {
			if p.good--; p.good == 0 {
				p.w.counts["disk error"]++
				p.w.note("node %d: %s fails", p.id, o.Kind)
				return syscall.EIO
			}
		}
		return nil
	}}
	n, err := Open(Config{Dir: "/q", FS: fs, Send: p.send, SegmentSize: p.w.segment, KeepEntries: 4, MaxProposal: 100, ChunkSize: 16,
		Workers: 1, Leader: p.leader, fault: p.w.fault,
		Machine: func(g uint64) (Machine, error) {
			if p.machines[g] == nil {
				p.machines[g] = newMachine(p.w.rand)
			}
			return p.machines[g], nil
		},
		point: func(name string) {
			p.w.counts[name]++
			if name == p.point {
				p.w.counts["died "+name]++
				p.die("at " + name)
			}
		}})
	if errors.Is(err, syscall.EIO) {
		p.die("of a disk error")
	}
	if err != nil {
		p.w.failf("node %d does not start: %v", p.id, err)
	}
	p.node = n
	for _, g := range n.order {
		p.keeps(g)
	}
}

// keeps checks that a replica has not forgotten what it told others.
func (p *process) keeps(g *group) {
	pr := p.w.promises[[2]uint64{g.id, uint64(g.store.replica)}]
	if pr == nil {
		return
	}
	h := g.store.hard
	vote, voted := pr.votes[h.GetTerm()]
	switch {
	case h.GetTerm() < pr.term:
		p.w.failf("node %d group %d: term %d, but %d was told", p.id, g.id, h.GetTerm(), pr.term)
	case voted && h.GetVote() != vote:
		p.w.failf("node %d group %d: vote in term %d for %d, but %d was told", p.id, g.id, h.GetTerm(), h.GetVote(), vote)
	case pr.ackedTerm == h.GetTerm() && g.store.last() < pr.acked:
		p.w.failf("node %d group %d: log ends at %d, but %d was told", p.id, g.id, g.store.last(), pr.acked)
	}
}

// create makes a replica, and again after a crash if it was not made.
func (p *process) create(g uint64, r Replica, members []Replica) {
	p.w.replicas[[2]uint64{g, uint64(p.id)}] = uint32(r >> 32)
	p.machines[g] = newMachine(p.w.rand)
	err := p.node.Create(g, r, members)
	if errors.Is(err, syscall.EIO) {
		p.die("of a disk error")
	}
	if err != nil {
		p.w.failf("create: %v", err)
	}
}

func (p *process) leader(g, term uint64, leader Replica) {
	p.w.note("node %d: group %d term %d leader %d", p.id, g, term, leader.Node())
	if leader == 0 {
		return
	}
	at := [2]uint64{g, term}
	if known := p.w.leaders[at]; known != 0 && known != leader {
		p.w.failf("group %d has two leaders in term %d", g, term)
	}
	p.w.leaders[at] = leader
}

// send gives a message to the network.
func (p *process) send(m Message) {
	w := p.w
	if m.From.Node() != p.id {
		w.failf("node %d sends as %x", p.id, m.From)
	}
	if m.Kind == Raft {
		p.promised(m)
	}
	if m.Kind == Chunk {
		w.counts["chunk"]++
	}
	copies := 1
	if !w.calm {
		switch w.rand.IntN(20) {
		case 0, 1:
			copies = 0
		case 2:
			copies = 2
		}
	}
	for range copies {
		delay := 1 + w.rand.IntN(2)
		if !w.calm && w.rand.IntN(10) == 0 {
			delay += w.rand.IntN(40)
		}
		w.seq++
		heap.Push(&w.mail, envelope{w.now + delay, w.seq, m})
	}
}

// promised notes what a message promises.
func (p *process) promised(m Message) {
	r := &pb.Message{}
	if err := proto.Unmarshal(m.Payload, r); err != nil {
		p.w.failf("%v", err)
	}
	if t := r.GetType(); t == pb.MsgPreVote || t == pb.MsgPreVoteResp {
		return // they bind nobody
	}
	at := [2]uint64{m.Group, uint64(m.From)}
	pr := p.w.promises[at]
	if pr == nil {
		pr = &promise{votes: map[uint64]uint64{}}
		p.w.promises[at] = pr
	}
	pr.term = max(pr.term, r.GetTerm())
	vote := uint64(0)
	switch {
	case r.GetType() == pb.MsgVote:
		vote = r.GetFrom()
	case r.GetType() == pb.MsgVoteResp && !r.GetReject():
		vote = r.GetTo()
	case r.GetType() == pb.MsgAppResp && !r.GetReject():
		if r.GetTerm() > pr.ackedTerm {
			pr.acked, pr.ackedTerm = 0, r.GetTerm()
		}
		pr.acked = max(pr.acked, r.GetIndex())
	}
	if vote == 0 {
		return
	}
	if old := pr.votes[r.GetTerm()]; old != 0 && old != vote {
		p.w.failf("node %d group %d votes twice in term %d", p.id, m.Group, r.GetTerm())
	}
	pr.votes[r.GetTerm()] = vote
}

// step lets one unit of time pass.
func (w *world) step() {
	w.now++
	for len(w.mail) > 0 && w.mail[0].at <= w.now {
		m := heap.Pop(&w.mail).(envelope).m
		p := w.process(m.To.Node())
		if p.node != nil && !w.cut[[2]uint32{m.From.Node(), p.id}] {
			w.do(p, func() { p.node.Step(m) })
		}
	}
	for _, p := range w.processes {
		if p.node == nil {
			if p.back <= w.now {
				w.restart(p)
			}
			continue
		}
		if w.calm || w.rand.IntN(10) > 0 {
			w.do(p, p.node.Tick)
		}
		if w.calm || w.rand.IntN(5) > 0 {
			w.work(p)
		}
	}
}

func (w *world) work(p *process) {
	w.do(p, func() {
		for range 4 {
			more, err := p.node.Work()
			if errors.Is(err, ErrStopped) && errors.Is(err, syscall.EIO) {
				p.die("of a disk error")
			}
			if err != nil {
				w.failf("node %d: %v", p.id, err)
			}
			if !more {
				break
			}
		}
	})
	if p.node == nil {
		return
	}
	for _, g := range p.node.order {
		c := g.confs[len(g.confs)-1]
		if c.index < w.confs[g.id] || c.index == 0 {
			continue
		}
		w.confs[g.id], w.members[g.id] = c.index, membersOf(c.conf)
		for _, m := range w.members[g.id] {
			w.seen[[2]uint64{g.id, m}] = c.index
		}
	}
}

func membersOf(c *pb.ConfState) []uint64 {
	all := slices.Concat(c.GetVoters(), c.GetLearners(), c.GetVotersOutgoing(), c.GetLearnersNext())
	slices.Sort(all)
	return slices.Compact(all)
}

func (w *world) restart(p *process) {
	power := w.rand.IntN(2) == 0
	w.note("node %d starts, power lost: %v", p.id, power)
	p.mem.Restart(power)
	if !w.calm && w.rand.IntN(4) == 0 {
		p.left = 1 + w.rand.IntN(30)
	}
	w.do(p, p.open)
}

// removed reports whether a replica was a member and will never be one again.
func (w *world) removed(g uint64, r Replica) bool {
	seen, ok := w.seen[[2]uint64{g, uint64(r)}]
	return ok && seen < w.confs[g] && !slices.Contains(w.members[g], uint64(r))
}

var points = []string{"quorum.restore.before", "quorum.restore.after", "quorum.reclaim.moved", "quorum.roll.created",
	"quorum.roll.durable", "quorum.created", "quorum.log.before", "quorum.log.written", "quorum.log.synced", "quorum.entries.sent", "quorum.sent", "quorum.applied"}

// trouble does something to the world.
func (w *world) trouble() {
	p := w.processes[w.rand.IntN(len(w.processes))]
	switch w.rand.IntN(60) {
	case 0:
		if p.node != nil {
			w.do(p, func() { p.die("between steps") })
		}
	case 1:
		p.left = 1 + w.rand.IntN(40)
	case 2:
		p.point = points[w.rand.IntN(len(points))]
	case 3:
		for _, p := range w.processes { // where few come by
			p.point = points[w.rand.IntN(5)]
		}
	case 16:
		if w.rand.IntN(3) > 0 {
			return
		}
		p.good = 1 + w.rand.IntN(20)
	case 4:
		q := w.processes[w.rand.IntN(len(w.processes))]
		w.cut[[2]uint32{p.id, q.id}] = true
		w.note("cut from %d to %d", p.id, q.id)
	case 5:
		for _, q := range w.processes {
			w.cut[[2]uint32{p.id, q.id}], w.cut[[2]uint32{q.id, p.id}] = true, true
		}
		w.note("cut off %d", p.id)
	case 6, 7, 8, 9:
		clear(w.cut)
	case 10, 11, 12, 13, 14:
		w.change(p, uint64(1+w.rand.IntN(int(w.groups))))
	case 15:
		g := uint64(1 + w.rand.IntN(int(w.groups)))
		if p.node == nil || p.node.groups[g] == nil {
			return
		}
		if s, _ := p.node.Status(g); s.Leading {
			w.do(p, func() { p.node.Transfer(g, s.Voters[w.rand.IntN(len(s.Voters))]) })
		}
	}
}

// change changes the members of a group that p leads.
func (w *world) change(p *process, g uint64) {
	if p.node == nil {
		return
	}
	s, err := p.node.Status(g)
	if err != nil || !s.Leading {
		return
	}
	q := w.processes[w.rand.IntN(len(w.processes))]
	if len(s.Learners) > 0 {
		q = w.process(s.Learners[0].Node())
	}
	if q.node == nil {
		return
	}
	r := NewReplica(q.id, max(1, w.replicas[[2]uint64{g, uint64(q.id)}]))
	var steps []MemberStep
	switch {
	case slices.Contains(s.Learners, r):
		steps = []MemberStep{{Replica: r}}
		if w.rand.IntN(2) == 0 { // in somebody's place
			steps = append(steps, MemberStep{Replica: s.Voters[w.rand.IntN(len(s.Voters))], Remove: true})
		}
	case slices.Contains(s.Voters, r):
		if len(s.Voters) < 3 {
			return
		}
		steps = []MemberStep{{Replica: r, Remove: true}}
	default:
		if w.removed(g, r) || q.node.groups[g] == nil {
			w.do(q, func() {
				if q.node.groups[g] != nil {
					err := q.node.Drop(g)
					if errors.Is(err, syscall.EIO) {
						q.die("of a disk error")
					}
					if err != nil {
						w.failf("drop: %v", err)
					}
				}
				if w.removed(g, r) {
					r = NewReplica(q.id, uint32(r>>32)+1)
				}
				q.create(g, r, nil)
			})
			if q.node == nil || q.node.groups[g] == nil {
				return
			}
		}
		steps = []MemberStep{{Replica: r, Learner: true}}
	}
	w.do(p, func() {
		p.node.Change(g, steps, func(err error) {
			w.note("change of group %d %v: %v", g, steps, err)
			if err == nil {
				w.counts["change"]++
				if len(steps) > 1 {
					w.counts["joint change"]++
				}
			}
		})
	})
}

// call lets a client ask somebody something: often one of those who believe they lead.
func (w *world) call(group uint64) {
	here := func(p *process) bool { return p.node != nil && p.node.groups[group] != nil }
	p := w.processes[w.rand.IntN(len(w.processes))]
	for range 3 {
		if q := w.processes[w.rand.IntN(len(w.processes))]; here(q) && q.node.groups[group].leading {
			p = q
		}
	}
	if !here(p) {
		return
	}
	w.clock++
	o := &op{group: group, key: string(rune('a' + w.rand.IntN(2))), call: w.clock, process: p}
	end := func(output string, err error) {
		if o.process == nil {
			return
		}
		o.process = nil
		w.waiting--
		w.clock++
		o.end = w.clock
		var notLeader *NotLeader
		switch {
		case err == nil:
			o.output, o.known = output, true
		case errors.As(err, &notLeader) || errors.Is(err, ErrBusy):
			o.group = 0 // nothing was done
		}
	}
	w.ops = append(w.ops, o)
	w.waiting++
	w.do(p, func() {
		if w.rand.IntN(3) > 0 {
			o.word = fmt.Sprintf("w%d", len(w.ops))
			p.node.Propose(o.group, []byte(o.key+" "+o.word), func(answer []byte, err error) { end(string(answer), err) })
			return
		}
		m := p.machines[o.group]
		p.node.Read(o.group, func(err error) { end(m.live.Texts[o.key], err) })
	})
}

// run is the life of a world. It returns what is wrong.
func (w *world) run(steps int) (problem string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			problem = r.text
		default:
			panic(fmt.Sprintf("seed %d: %v", w.seed, r))
		}
	}()
	for range steps {
		w.step()
		w.trouble()
		if w.waiting < 10 {
			w.call(uint64(1 + w.rand.IntN(int(w.groups))))
		}
	}
	w.settle()
	return w.check()
}

// settle ends all trouble and waits until all have come to the same.
func (w *world) settle() {
	w.calm = true
	clear(w.cut)
	for _, p := range w.processes {
		p.left, p.good, p.point = 0, 0, ""
		p.back = w.now
	}
	for range 40 {
		for range 25 {
			w.step()
		}
		if w.equal() {
			return
		}
	}
	for _, p := range w.processes {
		for g := uint64(1); g <= w.groups; g++ {
			s, err := p.node.Status(g)
			w.note("node %d group %d: %+v %v members %x", p.id, g, s, err, w.members[g])
		}
	}
	w.failf("the groups do not come to rest")
}

// equal reports whether all members are as far as each other, and then compares states.
func (w *world) equal() bool {
	for g := uint64(1); g <= w.groups; g++ {
		var all []*group
		leads := false
		for _, m := range w.members[g] {
			r := w.process(Replica(m).Node()).node.groups[g]
			if r == nil || uint64(r.store.replica) != m {
				w.failf("group %d: member %x is not there", g, m)
			}
			all = append(all, r)
			leads = leads || r.leading
		}
		for _, r := range all {
			if !leads || r.applied != all[0].applied || r.applied != r.store.last() || !slices.Equal(membersOf(r.confs[len(r.confs)-1].conf), w.members[g]) {
				return false
			}
		}
		for _, r := range all {
			a, b := r.machine.(*machine).live, all[0].machine.(*machine).live
			if !maps.Equal(a.Texts, b.Texts) {
				w.failf("group %d: two states:\n%v\n%v", g, a, b)
			}
		}
	}
	return true
}

// final is the state of a group at the end.
func (w *world) final(g uint64) state {
	return w.process(Replica(w.members[g][0]).Node()).machines[g].live
}

// withChance lets worlds replace Raft's chance, and puts the real one back.
func withChance(t testing.TB) {
	real := rand.Reader
	t.Cleanup(func() { rand.Reader = real })
}
