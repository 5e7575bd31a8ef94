package names

import (
	"container/heap"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"runtime/debug"
	"slices"

	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/quorum"
	"headrace/ring"
)

type envelope struct {
	at, seq int
	to      *process
	m       quorum.Message
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

// entry is a command that was agreed on, as the first replica has applied it.
type entry struct{ data, answer string }

type failure struct{ text string }

// world is nodes, a network, clients, and somebody who changes the ring, in one goroutine. All chance comes from the seed.
type world struct {
	seed      uint64
	rand      *mrand.Rand
	fault     fault
	processes []*process
	now, seq  int
	clock     int64
	calm      bool
	mail      mail
	cut       map[[2]*process]bool
	clients   []*op // what each is at
	ops       []*op
	surveys   []*meta.Survey
	agreed    map[uint64]entry
	leaders   map[uint64]quorum.Replica
	marks     map[uint64]uint64
	log       []string
	counts    map[string]int
	keep      int // entries of the log, for those who are behind: few

	plants  bool // a state is to decay, or to stray
	planted bool

	// rolling, if there is one, is the chance by which nodes are updated, and taken back, and versions are raised.
	rolling *mrand.Rand
}

func (w *world) failf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%d ", w.now)+fmt.Sprintf(format, args...))
}

const (
	simClients = 4
	simDir     = "/d" // where the names alone count
	treeDir    = "/q" // where all does
	simBlock   = 100
	simTick    = 200 // ms
	softLimit  = 20_000
	hardLimit  = 50_000
	// recoveryTime is package meta's: after it a recovery of a block is begun anew.
	recoveryTime = 90_000
)

// firstKeys are those of a new file system with two directories.
func firstKeys() meta.View {
	v := meta.NewMemory()
	c := meta.DefaultConfig()
	c.MaxAnswers, c.AnswerTime, c.MinBlockSize, c.SoftLimit, c.HardLimit = 1<<20, 1<<40, 0, softLimit, hardLimit
	meta.Format(v, c, "root", "root", 0)
	for _, dir := range []string{simDir, treeDir} {
		if _, err := meta.Apply(v, meta.Command{Caller: person, Op: &meta.Mkdirs{Path: dir, Mode: 0o755}}); err != nil {
			panic(err)
		}
	}
	return v
}

func newWorld(seed uint64, f fault, counts map[string]int) *world {
	return newWorldOf(newest, seed, f, counts)
}

// newWorldOf makes one of nodes that understand a version, which is in force.
func newWorldOf(version uint32, seed uint64, f fault, counts map[string]int) *world {
	// Raft draws its timeouts from there.
	var key [32]byte
	key[0], key[1], key[2] = byte(seed), byte(seed>>8), byte(seed>>16)
	rand.Reader = mrand.NewChaCha8(key)
	w := &world{seed: seed, rand: mrand.New(mrand.NewPCG(seed, 7)), fault: f, cut: map[[2]*process]bool{},
		agreed: map[uint64]entry{}, leaders: map[uint64]quorum.Replica{}, marks: map[uint64]uint64{}, counts: counts}
	for i := range 3 + w.rand.IntN(6) {
		w.processes = append(w.processes, &process{w: w, name: fmt.Sprintf("n%d", i), knows: version, mem: vfs.NewMem(64<<20, seed<<8|uint64(i))})
	}
	p := w.processes[0]
	r, err := firstView(Member{Name: p.name}, version, 1, 8, 3)
	if err != nil {
		panic(err)
	}
	p.store = &memory{state: &writes{}, held: seat{Replica: r.Seats[p.name], Last: r.Seats[p.name], Alone: true}, die: p.mayDie}
	for k, v := range firstKeys().Scan(nil, end) {
		p.store.state.Set(string(k), v)
	}
	p.store.state.Set(string(viewKey), r.encode())
	w.do(p, p.open)
	w.clients = make([]*op, simClients)
	return w
}

// do runs something in a process, which may die of it.
func (w *world) do(p *process, f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case died:
			p.node, p.left, p.fails, p.frozen, p.point = nil, 0, 0, false, ""
			p.life++
			p.back = w.now + 1 + w.rand.IntN(80)
		default:
			panic(r)
		}
	}()
	f()
}

// applied compares what replicas apply.
func (w *world) applied(p *process, index uint64, e entry) {
	if old, ok := w.agreed[index]; ok && old != e {
		w.failf("%s: entry %d is %q with answer %q, elsewhere %q with %q", p.name, index, e.data, e.answer, old.data, old.answer)
	}
	w.agreed[index] = e
}

// marked compares sums of states.
func (w *world) marked(p *process, k mark) {
	if old, ok := w.marks[k.Index]; ok && old != k.Sum && !w.planted {
		w.failf("%s: the sum of the state at %d is %x, elsewhere %x", p.name, k.Index, k.Sum, old)
	}
	w.marks[k.Index] = k.Sum
}

func (p *process) send(m quorum.Message) {
	w := p.w
	copies := 1
	if !w.calm {
		switch w.rand.IntN(20) {
		case 0, 1:
			copies = 0
		case 2:
			copies = 2
		}
	}
	if m.Kind == quorum.Chunk {
		w.counts["chunk"]++
	}
	who, _ := p.known.View().Number(m.To.Node())
	to := w.named(who.Name)
	if to == nil || w.cut[[2]*process{p, to}] {
		return
	}
	for range copies {
		delay := 1 + w.rand.IntN(2)
		if !w.calm && w.rand.IntN(10) == 0 {
			delay += w.rand.IntN(40)
		}
		w.seq++
		heap.Push(&w.mail, envelope{w.now + delay, w.seq, to, m})
	}
}

// named returns the process of a name, or nil.
func (w *world) named(name string) *process {
	i := slices.IndexFunc(w.processes, func(p *process) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return w.processes[i]
}

// step lets one unit of time pass.
func (w *world) step() {
	w.now++
	for len(w.mail) > 0 && w.mail[0].at <= w.now {
		e := heap.Pop(&w.mail).(envelope)
		if e.to.stalled > w.now {
			e.at = e.to.stalled
			heap.Push(&w.mail, e)
		} else if e.to.node != nil {
			w.do(e.to, func() { e.to.take(e.m) })
		}
	}
	for _, p := range w.processes {
		switch {
		case p.store == nil || p.stalled > w.now:
		case p.node == nil:
			if p.back <= w.now {
				p.mem.Restart(w.rand.IntN(2) == 0)
				if !w.calm && w.rand.IntN(4) == 0 {
					p.left = 1 + w.rand.IntN(30)
				}
				w.note("%s starts", p.name)
				w.do(p, p.open)
			}
		default:
			w.live(p)
		}
	}
}

// live does what a node's goroutines do.
func (w *world) live(p *process) {
	chance := func(n int) bool { return w.calm || w.rand.IntN(n) > 0 }
	w.do(p, func() {
		if chance(10) {
			p.node.Tick()
		}
		for i := 0; chance(5) && i < 4; i++ {
			more, err := p.node.Work()
			p.check(err)
			if !more {
				break
			}
		}
		if w.rand.IntN(6) == 0 { // the flush has two halves, and anything may happen between them
			if p.frozen {
				p.frozen = false
				p.check(p.machine.commit())
			} else {
				p.frozen = p.machine.freeze()
			}
		}
		if q := w.processes[w.rand.IntN(len(w.processes))]; q.node != nil && !w.cut[[2]*process{q, p}] && w.rand.IntN(3) == 0 {
			p.check(q.known.View().Old(p.knows))
			p.known.Learn(q.known.View())
		}
		if w.rand.IntN(4) == 0 && !p.frozen { // a state is not replaced while one is being written
			p.check(p.seats.tend(p.node, p.known.View()))
		}
		if w.plants && w.rand.IntN(10) == 0 {
			p.compare()
		}
	})
}

// trouble does something to the world.
func (w *world) trouble() {
	p, q := w.any(), w.any()
	switch w.rand.IntN(60) {
	case 0:
		if p.node != nil {
			w.do(p, func() { p.die("between steps") })
		}
	case 1, 2:
		p.left = 1 + w.rand.IntN(40)
	case 3:
		if w.rand.IntN(3) == 0 {
			p.fails = 1 + w.rand.IntN(20)
		}
	case 4:
		w.cut[[2]*process{p, q}] = true
	case 5:
		for _, q := range w.processes {
			w.cut[[2]*process{p, q}], w.cut[[2]*process{q, p}] = true, true
		}
	case 6, 7, 8, 9:
		clear(w.cut)
	case 10, 11, 12, 18:
		w.changeRing(p)
	case 13, 14:
		w.admit(p, q)
	case 17:
		if w.rand.IntN(2) == 0 {
			p = w.leading()
		}
		if p.node != nil {
			p.stalled = w.now + 20 + w.rand.IntN(60)
		}
	case 19, 20, 21, 22, 23, 24, 25, 26:
		if w.plants && !w.planted {
			w.plantSomewhere()
		}
	case 16:
		for _, p := range w.processes {
			p.point = points[w.rand.IntN(len(points))]
		}
	case 15:
		if s, err := w.status(p); err == nil && s.Leading {
			w.do(p, func() { p.node.Transfer(group, s.Voters[w.rand.IntN(len(s.Voters))]) })
		}
	}
}

func (w *world) any() *process { return w.processes[w.rand.IntN(len(w.processes))] }

func (w *world) status(p *process) (quorum.Status, error) {
	if p.node == nil {
		return quorum.Status{}, quorum.ErrNoGroup
	}
	return p.node.Status(group)
}

// leads reports whether a process believes that it leads.
func (w *world) leads(p *process) bool {
	s, err := w.status(p)
	return err == nil && s.Leading
}

// leading returns somebody who believes that he leads, or anybody.
func (w *world) leading() *process {
	p := w.any()
	for range 4 {
		if q := w.any(); w.leads(q) {
			p = q
		}
	}
	return p
}

// changeRing has something happen to a node of the ring.
func (w *world) changeRing(p *process) {
	l := w.leading()
	if !w.leads(l) {
		return
	}
	n, there := l.known.View().Table.Node(p.name)
	if !there {
		return
	}
	var e ring.Event
	segments := func() (some []uint16) {
		for s := range l.known.View().Table.Segments() {
			if w.rand.IntN(4) == 0 {
				some = append(some, uint16(s))
			}
		}
		return some
	}
	switch {
	case w.rand.IntN(5) == 0:
		e = []ring.Event{ring.Weigh{Node: p.name, Weight: uint32(1 + w.rand.IntN(3))}, ring.Level{}, ring.Abandon{Segments: segments()},
			ring.Confirm{Node: p.name, Epoch: l.known.View().Table.Epoch(), Segments: segments()}, ring.Lost{Node: p.name, Segments: segments()}}[w.rand.IntN(5)]
		if _, is := e.(ring.Level); is && w.now%2 == 0 || w.rolling != nil && w.now%4 == 0 { // few of those that are updated come to allow it
			if rack := (ring.Rack{Node: p.name, Rack: fmt.Sprint(w.now % 3)}); l.known.View().Allows(rack) {
				e = rack
			}
		}
	case n.State == ring.IsDown && w.rand.IntN(2) == 0:
		e = ring.Out{Node: p.name}
	case n.State != ring.IsUp:
		e = ring.Back{Node: p.name}
	case n.Leaving && w.rand.IntN(2) == 0:
		e = ring.Fill{Node: p.name}
	case n.Leaving:
		e = ring.Remove{Node: p.name}
	case w.rand.IntN(3) == 0:
		e = ring.Drain{Node: p.name}
	default:
		e = ring.Down{Node: p.name}
	}
	b, err := encodeEvent(e)
	if err != nil {
		w.failf("%v", err)
	}
	w.do(l, func() {
		l.node.Propose(group, b, func(b []byte, err error) {
			if err == nil && b[0] == isAnswer {
				w.counts[fmt.Sprintf("%T", e)]++
			}
		})
	})
}

// admit has a process join the ring, or come back to it.
func (w *world) admit(p, l *process) {
	if !w.leads(l) {
		l = w.leading()
	}
	if l.node == nil {
		return
	}
	b, _ := encodeMember(l.known.View().As(Member{Name: p.name, Peer: uint16(w.rand.IntN(3)), Version: p.knows}))
	w.do(l, func() {
		l.node.Propose(group, b, func(b []byte, err error) {
			if err == nil && b[0] == isOld && p.store == nil {
				w.refused(p, "as a member")
			}
			if err != nil || b[0] != isAnswer {
				return
			}
			v := l.known.View()
			if p.store == nil {
				w.counts["joined"]++
				p.store = &memory{state: &writes{}, kept: v.Encode(), die: p.mayDie}
			}
		})
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
			problem = fmt.Sprintf("%v\n%s", r, debug.Stack()) // raft has such checks
		}
	}()
	for range steps {
		w.step()
		w.trouble()
		w.roll()
		for i := range w.clients {
			if w.rand.IntN(3) == 0 {
				w.call(i)
			}
		}
	}
	w.settle()
	return w.check()
}

// settle ends all trouble, lets clients have their answers, and waits until those who vote are those who should.
func (w *world) settle() {
	w.calm = true
	clear(w.cut)
	for _, p := range w.processes {
		p.left, p.fails, p.point, p.back, p.stalled = 0, 0, "", w.now, 0
	}
	for i := range 100 {
		if i >= 60 && w.plants {
			w.putBack()
		}
		for range 25 {
			w.step()
			for i, o := range w.clients {
				if o != nil {
					w.call(i)
				}
			}
		}
		if l := w.leading(); w.leads(l) {
			for _, p := range w.processes { // who was admitted and has not heard so asks again
				if _, is := l.known.View().Members[p.name]; is && p.store == nil {
					w.admit(p, l)
				}
			}
			for _, n := range l.known.View().Table.Nodes() {
				if n.State != ring.IsUp {
					b, _ := encodeEvent(ring.Back{Node: n.Name})
					w.do(l, func() { l.node.Propose(group, b, func([]byte, error) {}) })
				}
			}
		}
		if w.rests() {
			return
		}
	}
	for _, p := range w.processes {
		s, err := w.status(p)
		j, _ := json.Marshal(s)
		w.note("%s: %s %v", p.name, j, err)
		if p.store != nil {
			v := p.known.View()
			w.note("%s: seat %+v, view of %d: leader %q seats %v numbers %v", p.name, p.store.held, v.Index, v.Leader, v.Seats, slices.Collect(maps.Keys(v.Members)))
		}
	}
	w.failf("the group does not come to rest")
}

// rests reports whether all is as it is to be in the end, and compares states.
func (w *world) rests() bool {
	if slices.ContainsFunc(w.clients, func(o *op) bool { return o != nil }) {
		return false
	}
	var leader *process
	for _, p := range w.processes {
		if w.leads(p) {
			leader = p
		}
	}
	if leader == nil {
		return false
	}
	s, _ := w.status(leader)
	v := leader.machine.agreed()
	v.Leader = leader.name
	var seats []quorum.Replica
	for _, name := range wanted(v) {
		if n, _ := v.Table.Node(name); n.State != ring.IsUp {
			return false
		}
		seats = append(seats, v.Seats[name])
	}
	slices.Sort(seats)
	slices.Sort(s.Voters)
	if !slices.Equal(seats, s.Voters) || len(s.Learners) > 0 || s.Joint || len(v.Seats) != len(seats) {
		return false
	}
	state := whole(leader)
	for _, p := range w.processes {
		if p.store == nil {
			continue
		}
		o, err := w.status(p)
		member := v.Seats[p.name] != 0
		if member && (err != nil || o.Applied != s.Applied || o.Replica != v.Seats[p.name]) || !member && err == nil {
			return false // it has not heard yet
		}
		if member && whole(p) != state && w.planted {
			if len(s.Voters) > 2 {
				return false
			}
		} else if member && whole(p) != state {
			w.failf("%s has another state than %s", p.name, leader.name)
		}
		if _, err := p.machine.check(context.Background()); member && err != nil {
			w.do(p, func() { p.check(err) })
			return false
		}
		if k := p.known.View(); k.Leader != leader.name || k.Index != v.Index {
			return false
		}
	}
	return true
}
