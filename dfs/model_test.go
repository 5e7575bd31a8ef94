package dfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"headrace/block"
	"headrace/internal/vfs"
	"headrace/meta"
)

// modelNode is a node with its disks.
type modelNode struct {
	name  string
	disks []*modelDisk
	home  *modelDisk // that with what it has of the block
	boot  uint64
	k     *Keeper
	alive bool
	w     *block.Writer // of the pipeline
	// kept is how many bytes this node has taken for certain since its power failed last, synced what no failure takes.
	kept, synced int
	hurt         bool // some of it may not be as it was written, or not readable: nothing is promised of it
	struck       bool // a disk has failed within what is being done
	damages      int  // how often something of it was damaged
	copying      *copying

	left         int // operations of its disk until it dies, and who at the same moment
	with         []*modelNode
	dying, power bool
}

// model is one block on three nodes, with what its writers were told. What the state knows is in record; a byte that is written again after a
// recovery is another one.
type model struct {
	seed  uint64
	fault modelFault
	r     *rand.Rand
	nodes []*modelNode
	log   []string
	calm  bool          // nobody dies
	fired atomic.Int64  // disks that have failed: what they have done is seen once this is, for who hangs does not come back
	hung  chan struct{} // closed at the end

	record   meta.Block
	cut      int64      // a closed block is to get this length; else 0
	ordered  meta.Block // as the block was closed when it was opened again last, and may have been ordered to be copied
	fencing  bool       // a node is being fenced
	at       []string   // the nodes that are recorded
	recovery uint64     // the stamp of a recovery under way
	next     uint64

	content []byte // what the writer has sent
	acked   int    // what it was told that all nodes of its pipeline have
	synced  int    // and have on the disk
	closed  bool
	lost    bool // there is no good copy any more, which nobody has promised
	counts  map[string]int
}

func (m *model) note(format string, args ...any) {
	m.fired.Load()
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// broken is the end of a life in which a promise was broken.
type broken struct{ text string }

func (m *model) fatalf(format string, args ...any) { panic(broken{fmt.Sprintf(format, args...)}) }

func (m *model) of(name string) *modelNode {
	return m.nodes[slices.IndexFunc(m.nodes, func(n *modelNode) bool { return n.name == name })]
}

func (m *model) recorded(n *modelNode) bool { return slices.Contains(m.at, n.name) }

func (m *model) oneIn(n int) bool { return m.r.IntN(n) == 0 }

const (
	modelBlock    = 1
	modelCapacity = 1 << 16
	modelFile     = "/files/01/0000000000000001.blocks"
	modelSector   = 512
)

func (m *model) begin() {
	m.next = 1
	m.calm = true
	two := rand.New(rand.NewPCG(m.seed, 8))
	for i := range 3 {
		n := &modelNode{name: string(rune('A' + i)), boot: 1, disks: []*modelDisk{{dir: "/d", mem: vfs.NewMem(64<<20, m.seed*3+uint64(i))}}}
		if m.seed%2 == 1 && two.IntN(3) > 0 {
			n.disks = append(n.disks, &modelDisk{dir: "/e", mem: vfs.NewMem(64<<20, ^(m.seed*3 + uint64(i)))})
			m.counts["two disks"]++
		}
		n.open(m)
		m.nodes = append(m.nodes, n)
		m.at = append(m.at, n.name)
		var err error
		if n.w, err = n.k.n.Blocks.Create(block.Block{ID: modelBlock, Stamp: 1}, 1, modelCapacity, false); err != nil {
			m.fatalf("create: %v", err)
		}
		n.has(0, 0)
	}
	m.calm = false
	m.record = meta.Block{ID: modelBlock, Stamp: 1}
}

// trouble does something to nodes, their disks, and copies.
func (m *model) trouble() {
	for _, n := range m.nodes {
		if len(n.disks) > 1 && m.oneIn(3) {
			m.diskTrouble(n)
		}
	}
	n := m.nodes[m.r.IntN(len(m.nodes))]
	switch m.r.IntN(16) {
	case 0:
		all, power := m.some(), !m.oneIn(4)
		m.note("%d nodes die at once, power %v", len(all), power)
		if len(all) == len(m.nodes) && power {
			m.counts["all lost power"]++
		}
		m.fall(power, all...)
		m.reap()
	case 1, 2:
		n.left, n.with = 1+m.r.IntN(30), nil
		if m.oneIn(2) {
			n.with = m.some()
		}
	case 3, 12:
		m.damage(n)
	case 4, 5:
		m.beginCopy(n)
	case 6, 7:
		m.endCopy(n)
	case 8, 9:
		m.readOne(n)
	case 10, 11, 13:
		m.heal()
	case 14, 15:
		m.drop(n)
	}
	for _, n := range m.nodes {
		if !n.alive && m.oneIn(2) {
			n.open(m)
		}
	}
}

// packet sends bytes to the nodes of the pipeline, of which any may die on the way; those before have it, those behind have not.
func (m *model) packet() {
	p := make([]byte, m.r.IntN(1500))
	for i := range p {
		p[i] = byte(m.r.Uint32())
	}
	from, sync := len(m.content), m.oneIn(4)
	m.content = append(m.content, p...)
	all := true
	for _, name := range m.at {
		n := m.of(name)
		if !n.alive || n.w == nil {
			all = false
			break
		}
		again := min(from, m.r.IntN(600)) // of a chunk that was not full
		err := n.w.Write(m.content[from-again:], int64(from-again))
		if err == nil {
			err = n.w.Flush()
		}
		if err == nil && sync {
			err = n.w.Sync()
		}
		if err == nil && sync {
			n.has(len(m.content), len(m.content))
		} else if err == nil {
			n.has(len(m.content), n.synced)
		}
		if m.reap(); err != nil {
			m.note("packet at %s: %v", name, err)
			all = false
			break
		}
		if m.oneIn(12) {
			m.kill(n, m.oneIn(2))
		}
		if !n.alive { // and has not said so
			all = false
			break
		}
	}
	m.note("packet of %d at %d, sync %v: all %v", len(p), from, sync, all)
	if all {
		m.acked = len(m.content)
		if sync {
			m.synced = m.acked
		}
		return
	}
	m.repair()
}

// finish ends the block, at some nodes or at all.
func (m *model) finish() {
	if m.acked < len(m.content) || len(m.content) == 0 {
		return
	}
	failed := false
	for _, name := range m.at {
		n := m.of(name)
		if !n.alive || n.w == nil || m.oneIn(8) {
			m.closeAnew()
			return
		}
		err := n.w.Finalize(int64(len(m.content)))
		if err != nil && !m.excused(n) && !n.home.full {
			m.fatalf("end of the block at %s: %v", name, err)
		}
		m.note("finished at %s: %v", name, err)
		failed = failed || err != nil
		n.w = nil
		if m.reap(); m.oneIn(10) {
			m.kill(n, m.oneIn(2))
		}
	}
	if failed || slices.ContainsFunc(m.at, func(name string) bool { return !m.of(name).alive }) {
		m.closeAnew() // nobody has told that it is complete
		return
	}
	m.record.Size, m.closed = int64(len(m.content)), true
}

// closeAnew has a writer, whose pipeline broke when all was acknowledged but the end, close the block at whoever is left; or it dies.
func (m *model) closeAnew() {
	m.next++
	var got []string
	for _, name := range m.at {
		n := m.of(name)
		if m.oneIn(8) {
			break
		}
		if !n.alive {
			continue
		}
		err := n.k.n.Blocks.Complete(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, m.next, int64(len(m.content)))
		m.note("complete %d at %s: %v", m.next, name, err)
		if err == nil {
			n.has(len(m.content), len(m.content))
			n.w = nil
			got = append(got, name)
		}
		m.reap()
	}
	if len(got) == 0 || m.oneIn(8) {
		m.note("the writer dies at the end of the block")
		m.recover()
		return
	}
	m.record, m.at, m.closed = meta.Block{ID: modelBlock, Stamp: m.next, Size: int64(len(m.content))}, got, true
}

// repair has the writer build its pipeline anew, of those nodes that it can reach and perhaps another one; it may die at any step.
func (m *model) repair() {
	for range 4 {
		if m.oneIn(6) {
			m.note("the writer dies")
			m.recover()
			return
		}
		m.next++
		stamp := m.next
		var got []string
		for _, name := range append(slices.Clone(m.at), m.joining()...) {
			n := m.of(name)
			if !n.alive || m.oneIn(8) {
				continue
			}
			w, err := n.k.n.Blocks.Recover(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, stamp, int64(m.acked), int64(len(m.content)))
			m.note("pipeline %d at %s: %v", stamp, name, err)
			if m.reap(); err == nil && n.alive {
				n.w = w
				got = append(got, name)
			}
			if m.oneIn(15) {
				m.kill(n, m.oneIn(2))
			}
		}
		if len(got) == 0 {
			continue
		}
		if m.oneIn(8) {
			m.note("the writer dies before the pipeline is recorded")
			m.recover()
			return
		}
		m.record.Stamp, m.at = stamp, got
		m.record.Size = int64(m.acked)
		m.note("recorded: %d at %v from %d", stamp, got, m.acked)
		m.sendAgain()
		return
	}
	m.recover()
}

// sendAgain sends what was not acknowledged to a new pipeline.
func (m *model) sendAgain() {
	for _, name := range m.at {
		n := m.of(name)
		if !n.alive || n.w == nil {
			continue
		}
		err := n.w.Write(m.content[m.acked:], int64(m.acked))
		if err == nil {
			err = n.w.Flush()
		}
		if err == nil {
			n.has(len(m.content), n.synced)
		}
		if m.reap(); err != nil {
			return
		}
	}
	if !slices.ContainsFunc(m.at, func(name string) bool { return !m.of(name).alive || m.of(name).w == nil }) {
		m.acked = len(m.content)
	}
}

// truncate cuts the block, which nobody writes.
func (m *model) truncate() {
	m.cut = 1 + m.r.Int64N(int64(len(m.content)))
	m.note("the block is to be cut to %d", m.cut)
	m.recover()
}

// reopen has another writer go on behind the end, at nodes that have all of the block. Not all writers take a new generation.
func (m *model) reopen() {
	m.next++
	stamp, before := m.next, m.at
	if m.oneIn(3) {
		stamp = m.record.Stamp
	}
	var got []string
	tried := false
	for _, name := range m.at {
		n := m.of(name)
		if !n.alive || !m.complete(n) {
			continue
		}
		tried = true
		w, err := n.k.n.Blocks.Append(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, stamp, m.record.Size)
		m.note("append %d at %s: %v", stamp, name, err)
		if err != nil && !m.excused(n) && !n.home.full && !n.hurt && n.kept >= len(m.content) {
			m.fatalf("%s takes no more: %v", name, err)
		}
		if err == nil {
			n.w = w
			n.hurt = n.hurt || n.kept < len(m.content) // nobody has read it since the power failed: there may be a hole
			got = append(got, name)
		}
		m.reap()
	}
	if !tried {
		return
	}
	m.closed, m.ordered = false, m.record
	if len(got) == 0 || m.oneIn(6) || stamp == m.record.Stamp && len(got) < len(before) {
		m.note("the writer dies before the pipeline is recorded")
		m.recover()
		return
	}
	m.record.Stamp, m.at = stamp, got
}
