package master

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unique"

	"headrace"
)

var (
	seeds = flag.Int("seeds", 300, "how many worlds are simulated")
	seed  = flag.Uint64("seed", 0, "the first of them")
)

var t0 = time.Unix(1_700_000_000, 0)

func id(n int) headrace.BlockID { return headrace.BlockID{Pool: "BP-1", Number: int64(n)} }

// entry is a block that a node keeps for a job.
type entry struct {
	Name
	block headrace.BlockID
}

// slave is a node that does what it is told: one block at a time, the smallest job's first.
type slave struct {
	name         string
	load         Load
	session, seq uint64
	joined       bool
	kept         map[entry]*Held
	facts        map[Name]Facts
	unreported   map[entry]bool
	full         map[entry]bool // of the parts of a full answer that have come; nil: none is coming
	failed       map[entry]Report
}

func (s *slave) orders(o Orders) {
	if o.Full {
		s.full = map[entry]bool{}
	}
	for _, f := range o.Jobs {
		s.facts[f.Name] = f
	}
	for _, r := range o.Remove {
		s.drop(entry{r.Name, r.Block})
	}
	for _, r := range o.Add {
		e := entry{r.Name, r.Block}
		if h := s.kept[e]; h == nil || h.Generation != r.Generation {
			s.kept[e] = &Held{State: Planned}
			delete(s.failed, e)
		}
		s.kept[e].Ref = r
		s.unreported[e] = true
		if s.full != nil {
			s.full[e] = true
		}
	}
	if o.Seq == s.seq && s.full != nil { // that was all
		for e := range s.kept {
			if !s.full[e] {
				s.drop(e)
			}
		}
		s.full = nil
	}
	s.seq = o.Seq
}

func (s *slave) drop(e entry) {
	delete(s.kept, e)
	delete(s.unreported, e)
	delete(s.failed, e)
}

// sorted returns the entries of a map in the order of their names.
func sorted[V any](of map[entry]V) []entry {
	return slices.SortedFunc(maps.Keys(of), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Job, b.Job), cmp.Compare(a.block.Number, b.block.Number))
	})
}

// pinned are the blocks that are locked, each once.
func (s *slave) pinned() (bytes int64, blocks map[headrace.BlockID]bool) {
	blocks = map[headrace.BlockID]bool{}
	for e, h := range s.kept {
		if h.State == Pinned && !blocks[e.block] {
			blocks[e.block] = true
			bytes += h.Bytes
		}
	}
	return bytes, blocks
}

// work does what can be done about the next block; false: nothing.
func (s *slave) work(w *world) bool {
	used, pinned := s.pinned()
	order := slices.SortedFunc(maps.Keys(s.kept), func(a, b entry) int {
		return cmp.Or(cmp.Compare(s.facts[a.Name].Input, s.facts[b.Name].Input), s.facts[a.Name].Submitted.Compare(s.facts[b.Name].Submitted),
			cmp.Compare(s.kept[a].At, s.kept[b].At), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Owner, b.Owner))
	})
	waits := false
	for _, e := range order {
		h := s.kept[e]
		at := place{e.block, s.name}
		if _, failed := s.failed[e]; failed || h.State == Pinned || h.State == Resident && w.resident[at] {
			continue
		}
		switch {
		case pinned[e.block]:
			h.State = Pinned
		case w.broken[at]:
			s.failed[e] = Report{e.Name, e.block, h.Generation, Failed, "it is broken"}
		case h.Bytes > s.load.Budget:
			s.failed[e] = Report{e.Name, e.block, h.Generation, NotFit, "it is too large"}
		case w.resident[at]:
			h.State = Resident
		case used+h.Bytes > s.load.Budget:
			if h.State == Planned {
				waits = true // and the queue behind it, but for what is in memory
				continue
			}
			h.State = Planned
		case waits:
			continue
		default:
			h.State = Pinned
		}
		s.unreported[e] = true
		return true
	}
	return false
}

type place struct {
	block headrace.BlockID
	node  string
}

// wish is what a job of the world wants.
type wish struct {
	Job
	read map[headrace.BlockID]bool
	// spent has what the master may have forgotten since it was asked for.
	spent map[headrace.BlockID]bool
	// known: the master has been told by Migrate, and not been started again since.
	known, dead bool
}

// world is a master with its nodes and jobs, and says itself what must be.
type world struct {
	t        *testing.T
	r        *rand.Rand
	m        *Master
	cfg      Config
	now      time.Time
	session  uint64
	slaves   []*slave
	blocks   []headrace.Block
	jobs     map[Name]*wish
	count    int
	resident map[place]bool
	broken   map[place]bool
	watches  map[headrace.BlockID][]string // as told by Config.Watch
	did      map[string]int
}

func newWorld(t *testing.T, seed uint64, did map[string]int) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 11)), now: t0, did: did, jobs: map[Name]*wish{},
		resident: map[place]bool{}, broken: map[place]bool{}, watches: map[headrace.BlockID][]string{}}
	for i := range 4 {
		w.slaves = append(w.slaves, &slave{name: fmt.Sprintf("n%d", i), load: Load{Budget: int64(10 + w.r.IntN(40)), Speed: 10}})
		w.slaves[i].restart()
	}
	for i := range 16 {
		b := headrace.Block{ID: id(i), Generation: 1, Bytes: w.r.Int64N(12)}
		for _, n := range w.r.Perm(5)[:w.r.IntN(4)] {
			b.Hosts = append(b.Hosts, fmt.Sprintf("dn%d", n)) // dn4 has no node
			w.broken[place{b.ID, fmt.Sprintf("n%d", n)}] = w.r.IntN(10) == 0
		}
		w.blocks = append(w.blocks, b)
	}
	w.cfg = Config{
		JobShare: []float64{0.3, 0.9}[w.r.IntN(2)], OwnerShare: 0.7, PerJob: 1000,
		Alive: func(j Name) bool {
			w.did["asked"]++
			return w.jobs[j] != nil && !w.jobs[j].dead
		},
		Resident: func(b headrace.BlockID, yield func(string, int64)) {
			for at, is := range w.resident {
				if is && at.block == b {
					yield(at.node, w.blocks[b.Number].Bytes)
				}
			}
		},
		Watch: func(b headrace.BlockID, hosts []string) { w.watches[b] = hosts },
	}
	w.start()
	return w
}

// start is that of a master.
func (w *world) start() {
	w.m = New(w.cfg, w.now)
	w.m.tries, w.m.spare = 3+w.r.IntN(20), w.r.IntN(16)-12
}

// restart is the start of a node's daemon.
func (s *slave) restart() {
	s.kept, s.facts, s.unreported, s.failed = map[entry]*Held{}, map[Name]Facts{}, map[entry]bool{}, map[entry]Report{}
}

func (w *world) join(s *slave) error {
	w.session++
	s.session, s.seq, s.joined, s.full = w.session, 0, true, nil
	var held []Held
	for _, e := range sorted(s.kept) {
		held = append(held, *s.kept[e])
	}
	return w.m.Join(s.name, s.session, []string{"d" + s.name}, s.load, slices.Collect(maps.Values(s.facts)), held, w.now)
}

func (w *world) step() error {
	w.now = w.now.Add(time.Second)
	s := w.slaves[w.r.IntN(len(w.slaves))]
	b := w.blocks[w.r.IntN(len(w.blocks))].ID
	switch w.r.IntN(19) {
	case 0, 1:
		return w.migrate()
	case 2:
		return w.end()
	case 3, 4, 5:
		s.work(w)
	case 6, 7, 8:
		return w.report(s, w.r.IntN(3) > 0)
	case 9, 10, 11:
		return w.order(s, 1+w.r.IntN(6), true)
	case 12:
		if w.r.IntN(3) > 0 {
			return w.join(s)
		}
		w.did["leave"]++
		s.joined = false
		w.m.Leave(s.name)
		if w.r.IntN(2) == 0 {
			s.restart()
		}
	case 13:
		at := place{b, s.name}
		w.resident[at] = !w.resident[at]
	case 14:
		return w.read(b)
	case 15:
		w.look()
	case 16:
		s.load.Budget = int64(10 + w.r.IntN(40))
	case 17:
		if w.r.IntN(8) == 0 {
			return w.restart()
		}
	case 18:
		if w.r.IntN(4) == 0 {
			w.did["append"]++
			w.blocks[b.Number].Generation++
			w.blocks[b.Number].Bytes = w.r.Int64N(12)
		}
	}
	return nil
}

// look is that of the master. What jobs are done with by then it may forget.
func (w *world) look() {
	had := map[*job]int{}
	for name, j := range w.m.jobs {
		had[j] = len(j.wants)
		for _, v := range j.wants {
			if x := w.jobs[name]; x != nil && v.state.spent() {
				x.spent[v.block.id()] = true
			}
		}
	}
	w.m.Look(w.now)
	for j, n := range had {
		if !j.gone && len(j.wants) < n {
			w.did["forget"]++
		}
	}
}

// any is one of the jobs for which that is so, or nil.
func (w *world) any(is func(*wish) bool) *wish {
	all := slices.SortedFunc(maps.Values(w.jobs), func(a, b *wish) int { return cmp.Compare(a.Job.Job, b.Job.Job) })
	if all = slices.DeleteFunc(all, func(x *wish) bool { return !is(x) }); len(all) == 0 {
		return nil
	}
	return all[w.r.IntN(len(all))]
}

func (w *world) migrate() error {
	var x *wish
	if w.r.IntN(3) == 0 {
		x = w.any(func(*wish) bool { return true })
	}
	if x != nil {
		w.did["migrate again"]++
	} else {
		w.count++
		f := Facts{Name: Name{fmt.Sprint("owner", w.r.IntN(3)), headrace.JobID(fmt.Sprint("job", w.count))}, Submitted: w.now, Implicit: w.r.IntN(2) == 0}
		if w.r.IntN(3) == 0 {
			f.Budget = int64(w.r.IntN(40))
		}
		if w.r.IntN(3) == 0 {
			f.Input = int64(w.r.IntN(200))
		}
		x = &wish{Job: Job{Facts: f}, read: map[headrace.BlockID]bool{}, spent: map[headrace.BlockID]bool{}}
		w.jobs[f.Name] = x
		w.did["migrate"]++
	}
	file := File{Name: fmt.Sprint("/data/", len(x.Files))}
	for _, i := range w.r.Perm(len(w.blocks))[:w.r.IntN(6)] {
		file.Blocks = append(file.Blocks, w.blocks[i])
	}
	x.Files = append(x.Files, file)
	clear(x.read) // it is all wanted again
	clear(x.spent)
	x.known, x.dead = true, false
	g, err := NewMigration(x.Job)
	for more := err == nil; more; {
		more, err = g.Step(w.m, 1+w.r.IntN(20), w.now)
	}
	return err
}

func (w *world) end() error {
	x := w.any(func(*wish) bool { return true })
	if x == nil {
		return nil
	}
	switch w.r.IntN(4) {
	case 0:
		w.did["vanish"]++
		x.dead = true
	case 1:
		w.did["evict"]++
		delete(w.jobs, x.Name)
		if _, err := w.m.Evict(x.Name, w.now); x.known && err != nil && !x.dead {
			return err
		}
	default:
		w.did["end"]++
		delete(w.jobs, x.Name)
		w.m.End(func(id headrace.JobID) bool { return id == x.Job.Job }, w.now)
	}
	return nil
}

func (w *world) report(s *slave, works bool) error {
	if !s.joined {
		return nil
	}
	var all []Report
	for _, e := range sorted(s.unreported) {
		if f, failed := s.failed[e]; failed {
			w.did["failed"]++
			all = append(all, f)
		} else {
			all = append(all, Report{Name: e.Name, Block: e.block, Generation: s.kept[e].Generation, State: s.kept[e].State})
		}
	}
	clear(s.unreported)
	return w.m.Report(s.name, s.session, s.load, all, nil, w.now)
}

func (w *world) order(s *slave, most int, lossy bool) error {
	if !s.joined {
		return nil
	}
	o, err := w.m.Orders(s.name, s.session, s.seq, most)
	if err == nil && (!lossy || w.r.IntN(4) > 0) {
		s.orders(o)
	}
	return err
}

// read has a job read a block on some node.
func (w *world) read(b headrace.BlockID) error {
	s := w.slaves[w.r.IntN(len(w.slaves))]
	x := w.any(func(x *wish) bool { return w.m.find(w.m.jobs[x.Name], keyOf(b)) != nil })
	if x == nil || !s.joined {
		return nil
	}
	w.did["read"]++
	if x.Implicit {
		x.read[b] = true
	}
	return w.m.Report(s.name, s.session, s.load, []Report{{Name: x.Name, Block: b, State: Read}}, nil, w.now)
}

// restart is a new master; what nodes keep for jobs stays as it is until they are told otherwise.
func (w *world) restart() error {
	w.did["restart"]++
	w.start()
	clear(w.watches)
	for _, x := range w.jobs {
		x.known = false
		clear(x.read)
	}
	at := w.r.IntN(2) == 0 // all come back before anything else
	for _, s := range w.slaves {
		if !s.joined {
			continue
		}
		if !at {
			s.joined = false
			continue
		}
		before := maps.Clone(s.kept)
		if err := w.join(s); err != nil {
			return err
		}
		for range 40 {
			if err := w.order(s, 3, false); err != nil {
				return err
			}
		}
		kept := map[entry]bool{}
		for e := range s.kept {
			kept[e] = true
		}
		for e := range before {
			// Another node that keeps it for the same job may have come first.
			twice := slices.ContainsFunc(w.slaves, func(o *slave) bool { return o != s && o.joined && o.kept[e] != nil })
			if !kept[e] && !twice {
				return fmt.Errorf("%s lets %v go after a restart of the master", s.name, e)
			}
		}
	}
	return nil
}

// settle lets everything come to rest: until a round, in which everybody is asked, changes nothing. It
// takes longer than Config.Grace, for after that jobs that nobody knows make room for others.
func (w *world) settle() error {
	const grace, most = 61, 1000
	for round := 1; ; round++ {
		w.now = w.now.Add(time.Second)
		w.look()
		rests := !w.m.freed && w.m.resume == nil
		for _, s := range w.slaves {
			for s.joined {
				seq := s.seq
				if err := w.order(s, 8, false); err != nil {
					return err
				}
				if seq == s.seq {
					break
				}
				rests = false
			}
			for s.joined && s.work(w) {
				rests = false
			}
			if err := w.report(s, true); err != nil {
				return err
			}
		}
		if rests && !w.m.freed && round > grace {
			break
		} else if round == most {
			return fmt.Errorf("it does not come to rest in %d rounds", most)
		}
	}
	for name, x := range w.jobs {
		if x.dead && w.m.jobs[name] == nil {
			w.did["cleaned up"]++
			delete(w.jobs, name)
		}
	}
	return nil
}

// check compares the master and its nodes with what must be.
func (w *world) check() error {
	if err := w.accounts(); err != nil {
		return err
	}
	for _, s := range w.slaves {
		if err := w.same(s); err != nil {
			return err
		}
	}
	for _, b := range w.blocks {
		var want []string
		if known := w.m.blocks[keyOf(b.ID)]; known != nil && known.wanted() {
			for _, h := range known.hosts {
				want = append(want, h.Value())
			}
		}
		if got := w.watches[b.ID]; !slices.Equal(got, want) {
			return fmt.Errorf("of %v what is in memory of %v is to be known, it was told %v", b.ID, want, got)
		}
	}
	for name, x := range w.jobs {
		if j := w.m.jobs[name]; x.known && j == nil {
			return fmt.Errorf("job %v is not known", name)
		} else if j != nil {
			if err := w.job(j, x); err != nil {
				return fmt.Errorf("job %v: %w", name, err)
			}
		}
	}
	for name, j := range w.m.jobs {
		if w.jobs[name] == nil && !j.adopted {
			return fmt.Errorf("job %v has ended and is known", name)
		}
	}
	return nil
}

// same: a node keeps what the master thinks it keeps, and as it thinks.
func (w *world) same(s *slave) error {
	n := w.m.nodes[s.name]
	if (n != nil) != s.joined {
		return fmt.Errorf("%s has joined: %v", s.name, s.joined)
	}
	if n == nil {
		return nil
	}
	want := map[entry]State{}
	for v := range n.wants {
		want[entry{v.job.Name, v.block.id()}] = v.state
	}
	got := map[entry]State{}
	for e, h := range s.kept {
		got[e] = h.State
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("%s keeps %v, and is to keep %v", s.name, got, want)
	}
	return nil
}

// job looks at one job and its blocks.
func (w *world) job(j *job, x *wish) error {
	wants := map[headrace.BlockID]bool{}
	for _, f := range x.Files {
		for _, b := range f.Blocks {
			wants[b.ID] = true
		}
	}
	var sums [states]int64
	for _, v := range j.wants {
		sums[v.state] += v.block.bytes
		b := v.block.id()
		if !wants[b] {
			return fmt.Errorf("it never wanted %v", b)
		}
		delete(wants, b)
		if x.known && (v.state == Read) != x.read[b] {
			return fmt.Errorf("%v: %d, and it was read: %v", b, v.state, x.read[b])
		}
		if v.state == NotFit {
			if err := w.noRoom(j, v); err != nil {
				return err
			}
		}
		if v.state == Failed {
			for _, h := range v.block.hosts {
				if n := w.m.hosts[h]; n != nil && !w.broken[place{b, n.name}] && v.block.bytes <= 9 {
					return fmt.Errorf("%v has failed, and %s has it", b, n.name)
				}
			}
		}
	}
	maps.DeleteFunc(wants, func(b headrace.BlockID, _ bool) bool { return x.spent[b] })
	if x.known && len(wants) > 0 {
		return fmt.Errorf("it wants %v, too", wants)
	}
	s := w.m.status(j, w.now)
	forgotten := []int64{s.Read - sums[Read], s.NotFit - sums[NotFit] - sums[refused], s.Failed - sums[Failed]}
	if s.Left != sums[Planned] || s.Pinned != sums[Pinned] || s.Resident != sums[Resident] || slices.Min(forgotten) < 0 ||
		s.Blocks == len(j.wants) && slices.Max(forgotten) > 0 || s.Bytes != s.Left+s.Pinned+s.Resident+s.Read+s.NotFit+s.Failed {
		return fmt.Errorf("its status is %+v, by its blocks %v", s, sums)
	}
	return nil
}

// owns returns what is locked somewhere for an owner's jobs, or is to be for one of those jobs, each once.
func (w *world) owns(owner string, of func(*job) bool) map[place]int64 {
	all := map[place]int64{}
	for _, j := range w.m.jobs {
		for _, v := range j.wants {
			if j.Owner == owner && (v.state == Pinned || v.state == Planned && of(j)) {
				all[place{v.block.id(), v.node.name}] = v.block.bytes
			}
		}
	}
	return all
}

// noRoom: a block that is on no node cannot be on one.
func (w *world) noRoom(j *job, v *want) error {
	var budget, held int64
	for _, n := range w.m.nodes {
		budget += n.load.Budget
	}
	for _, x := range j.wants {
		if x.state == Planned || x.state == Pinned {
			held += x.block.bytes
		}
	}
	owns := w.owns(j.Owner, func(o *job) bool { return !w.m.cfg.before(j, o) })
	owner := int64(0)
	for _, bytes := range owns {
		owner += bytes
	}
	most := int64(float64(budget) * w.cfg.JobShare)
	if j.Budget > 0 {
		most = min(most, j.Budget)
	}
	for i, h := range v.block.hosts {
		n := w.m.hosts[h]
		if n == nil || v.tried&(1<<i) != 0 {
			continue
		}
		used, kept := int64(0), false
		counted := map[*block]bool{}
		for x := range n.wants {
			kept = kept || x.block == v.block
			_, as := n.charged(w.m, x.block)
			if counts := x.state == Pinned || as == Planned && (x.job == j || w.m.cfg.before(x.job, j)); counts && !counted[x.block] {
				counted[x.block] = true
				used += x.block.bytes
			}
		}
		used += n.unread(w.m, j)
		_, own := owns[place{v.block.id(), n.name}]
		over := held+v.block.bytes > most || !own && owner+v.block.bytes > int64(float64(budget)*w.cfg.OwnerShare)
		switch {
		case over:
		case kept:
			return fmt.Errorf("%v does not fit (%s), and %s keeps it for another job", v.block.id(), j.why, n.name)
		case used+v.block.bytes <= n.load.Budget:
			return fmt.Errorf("%v of %d does not fit (%s), and %s has %d of %d", v.block.id(), v.block.bytes, j.why, n.name, used, n.load.Budget)
		}
	}
	return nil
}

// overlooked: unless the next Look looks for nodes, there is none for any block.
func (w *world) overlooked() error {
	for name, j := range w.m.jobs {
		for _, v := range j.wants {
			if v.state == NotFit {
				if err := w.noRoom(j, v); err != nil {
					return fmt.Errorf("nothing is looked for: job %v: %w", name, err)
				}
			}
		}
	}
	return nil
}

// accounts adds everything up once more.
func (w *world) accounts() error {
	held := int64(0)
	for _, j := range w.m.jobs {
		var blocks [states]int
		for _, v := range j.wants {
			blocks[v.state]++
			if here := v.state == Planned || v.state == Pinned || v.state == Resident; here != (v.node != nil) {
				return fmt.Errorf("a block is %d on %v", v.state, v.node)
			}
			if v.node != nil {
				_, listed := v.node.wants[v]
				has := slices.ContainsFunc(v.block.hosts, func(h unique.Handle[string]) bool { return slices.Contains(v.node.hosts, h) })
				if !listed || !has || w.m.nodes[v.node.name] != v.node {
					return fmt.Errorf("%v is on %s: listed %v, has a replica %v", v.block.id(), v.node.name, listed, has)
				}
			}
			if v.job != j || v.block.of(j) != v || w.m.blocks[v.block.key] != v.block {
				return fmt.Errorf("the list of %v is wrong", v.block.id())
			}
		}
		for s, n := range blocks {
			if counted := j.blocks[s]; counted != n && (counted < n || !State(s).spent()) {
				return fmt.Errorf("job %v has %v, counted %v", j.Name, blocks, j.blocks)
			}
			if !State(s).spent() {
				held += int64(n)
			}
		}
		held++
	}
	if all, _ := w.m.quota.Taken(); all != held {
		return fmt.Errorf("%d blocks are counted, there are %d", all, held)
	}
	for i := range 3 {
		var owned, counted int64
		name := fmt.Sprint("owner", i)
		for _, bytes := range w.owns(name, func(*job) bool { return true }) {
			owned += bytes
		}
		if o := w.m.owners[name]; o != nil {
			counted = o.pinned + o.queued
		}
		if owned != counted {
			return fmt.Errorf("the jobs of %s have %d, by the owner's account %d", name, owned, counted)
		}
	}
	for _, n := range w.m.nodes {
		var sums [states]int64
		done := map[*block]bool{}
		for _, s := range []State{Pinned, Planned, Resident} {
			for v := range n.wants {
				if v.state == s && !done[v.block] {
					done[v.block] = true
					sums[s] += v.block.bytes
				}
			}
		}
		locked := map[*job]int64{}
		for v := range n.wants {
			if v.state == Pinned {
				locked[v.job] += v.block.bytes
			}
		}
		maps.DeleteFunc(locked, func(_ *job, bytes int64) bool { return bytes == 0 })
		if !maps.Equal(locked, n.locked) {
			return fmt.Errorf("%s has pinned %v, by its accounts %v", n.name, locked, n.locked)
		}
		all := func(of map[*job]int64) (sum int64) {
			for _, b := range of {
				sum += b
			}
			return sum
		}
		if queued, resident := all(n.queued), all(n.resident); sums[Pinned] != n.pinned || sums[Planned] != queued || sums[Resident] != resident {
			return fmt.Errorf("%s has %d pinned, %d planned and %d resident, by its accounts %d, %d and %d",
				n.name, sums[Pinned], sums[Planned], sums[Resident], n.pinned, queued, resident)
		}
	}
	return nil
}

// TestAgainstWorld has jobs, nodes and masters come and go, and answers get lost. When all has come
// to rest, nodes keep what the master thinks they do, what fits is in memory, and when all jobs have
// ended, nothing is kept anywhere.
func TestAgainstWorld(t *testing.T) {
	did := map[string]int{}
	for i := range uint64(*seeds) {
		seed := *seed + i
		w := newWorld(t, seed, did)
		for step := range 300 {
			err := w.step()
			if err == nil {
				err = w.accounts()
			}
			if err == nil && !w.m.freed && w.m.resume == nil {
				err = w.overlooked()
			}
			if err == nil && step%60 == 59 {
				if err = w.settle(); err == nil {
					err = w.check()
				}
			}
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		for name := range maps.Clone(w.m.jobs) {
			if _, err := w.m.Evict(name, w.now); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.settle(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := w.m.Totals()
		got.Nodes, got.Budget = 0, 0
		if all, owners := w.m.quota.Taken(); got != (Totals{}) || all != 0 || owners != 0 || len(w.m.owners) != 0 {
			t.Fatalf("seed %d: %+v is left, %d blocks of %d owners, accounts of %d", seed, got, all, owners, len(w.m.owners))
		}
		for _, s := range w.slaves {
			if s.joined && len(s.kept) > 0 {
				t.Fatalf("seed %d: %s keeps %v", seed, s.name, s.kept)
			}
		}
	}
	for _, what := range []string{"migrate", "migrate again", "evict", "end", "vanish", "leave", "failed", "read", "restart", "append", "asked", "cleaned up", "forget"} {
		if did[what] < *seeds/3 {
			t.Errorf("only %d cases of %s in %v", did[what], what, did)
		}
	}
}
