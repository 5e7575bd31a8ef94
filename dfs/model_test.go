package dfs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/wire"
)

var modelSeeds = flag.Int("modelseeds", 1000, "how many lives of a block are simulated")

// modelNode is a node with its disk.
type modelNode struct {
	name  string
	mem   *vfs.Mem
	boot  uint64
	k     *Keeper
	alive bool
	w     *block.Writer // of the pipeline
	// kept is how many bytes this node has taken for certain since its power failed last, synced what no failure takes.
	kept, synced int
}

// model is one block on three nodes, with what its writers were told. What the state knows is in record; a byte that is written again after a
// recovery is another one.
type model struct {
	t     testing.TB
	seed  uint64
	r     *rand.Rand
	nodes []*modelNode
	log   []string

	record   meta.Block
	cut      int64    // a closed block is to get this length; else 0
	at       []string // the nodes that are recorded
	recovery uint64   // the stamp of a recovery under way
	next     uint64

	content  []byte // what the writer has sent
	acked    int    // what it was told that all nodes of its pipeline have
	synced   int    // and have on the disk
	closed   bool
	recovers int
	lived    bool // acked counts: a recorded node has had no power failure since
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	for _, line := range m.log {
		m.t.Log(line)
	}
	m.t.Fatalf("seed %d: "+format, append([]any{m.seed}, args...)...)
}

func (n *modelNode) open(m *model) {
	s, err := block.Open(block.Config{Dirs: []string{"/d"}, FS: n.mem, Patience: time.Minute, Boot: n.boot})
	if err != nil {
		m.fatalf("open %s: %v", n.name, err)
	}
	n.k, n.alive, n.w = newKeeper(&Node{Blocks: s, ctx: context.Background(), Config: Config{}.filled()}), true, nil
}

func (m *model) of(name string) *modelNode {
	return m.nodes[slices.IndexFunc(m.nodes, func(n *modelNode) bool { return n.name == name })]
}

const modelBlock = 1

func (m *model) begin() {
	m.next, m.lived = 1, true
	for i := range 3 {
		n := &modelNode{name: string(rune('A' + i)), boot: 1, mem: vfs.NewMem(64<<20, m.seed*3+uint64(i))}
		n.open(m)
		m.nodes = append(m.nodes, n)
		m.at = append(m.at, n.name)
		var err error
		if n.w, err = n.k.n.Blocks.Create(block.Block{ID: modelBlock, Stamp: 1}, 1, 1<<16, false); err != nil {
			m.fatalf("create: %v", err)
		}
	}
	m.record = meta.Block{ID: modelBlock, Stamp: 1}
}

// kill ends a node's process, and with power its machine.
func (m *model) kill(n *modelNode, power bool) {
	m.note("%s dies, power %v", n.name, power)
	n.mem.Kill()
	n.mem.Restart(power)
	n.alive, n.w = false, nil
	if power {
		n.boot++
		n.kept = n.synced
	}
}

// packet sends bytes to the nodes of the pipeline, of which any may die on the way; those before have it, those behind have not.
func (m *model) packet() {
	p := make([]byte, m.r.IntN(1500))
	for i := range p {
		p[i] = byte(m.r.Uint32())
	}
	from, sync := len(m.content), m.r.IntN(4) == 0
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
		if err != nil {
			m.note("packet at %s: %v", name, err)
			all = false
			break
		}
		n.kept = len(m.content)
		if sync {
			n.synced = len(m.content)
		}
		if m.r.IntN(12) == 0 {
			m.kill(n, m.r.IntN(2) == 0)
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
	for _, name := range m.at {
		n := m.of(name)
		if !n.alive || n.w == nil || m.r.IntN(8) == 0 {
			m.note("the writer dies at the end of the block")
			m.recover()
			return
		}
		if err := n.w.Finalize(int64(len(m.content))); err != nil {
			m.fatalf("end of the block at %s: %v", name, err)
		}
		m.note("finished at %s", name)
		if m.r.IntN(10) == 0 {
			m.kill(n, m.r.IntN(2) == 0)
		}
	}
	if slices.ContainsFunc(m.at, func(name string) bool { return !m.of(name).alive }) {
		m.recover() // nobody has told that it is complete
		return
	}
	m.record.Size, m.closed = int64(len(m.content)), true
}

// repair has the writer build its pipeline anew, of those nodes that it can reach; it may die at any step.
func (m *model) repair() {
	for range 4 {
		if m.r.IntN(6) == 0 {
			m.note("the writer dies")
			m.recover()
			return
		}
		m.next++
		stamp := m.next
		var got []string
		for _, name := range m.at {
			n := m.of(name)
			if !n.alive || m.r.IntN(8) == 0 {
				continue
			}
			w, err := n.k.n.Blocks.Recover(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, stamp, int64(m.acked), int64(len(m.content)))
			m.note("pipeline %d at %s: %v", stamp, name, err)
			if err == nil {
				n.w = w
				got = append(got, name)
			}
			if m.r.IntN(15) == 0 {
				m.kill(n, m.r.IntN(2) == 0)
			}
		}
		if len(got) == 0 {
			continue
		}
		if m.r.IntN(8) == 0 {
			m.note("the writer dies before the pipeline is recorded")
			m.recover()
			return
		}
		m.record.Stamp, m.at = stamp, got
		m.record.Size = int64(m.acked)
		m.note("recorded: %d at %v from %d", stamp, got, m.acked)
		// What was not acknowledged is sent again.
		for _, name := range got {
			n := m.of(name)
			if !n.alive || n.w == nil {
				continue
			}
			if err := n.w.Write(m.content[m.acked:], int64(m.acked)); err != nil || n.w.Flush() != nil {
				return
			}
			n.kept = len(m.content)
		}
		if !slices.ContainsFunc(got, func(name string) bool { return !m.of(name).alive || m.of(name).w == nil }) {
			m.acked = len(m.content)
		}
		return
	}
	m.recover()
}

// recover has the nodes agree, with steps that are lost, leaders that change and nodes that die in between, until that is noted.
func (m *model) recover() {
	m.recovers++
	m.next++
	m.recovery = m.next
	for try := 0; ; try++ {
		if try > 200 {
			m.fatalf("no end of the recovery")
		}
		if m.r.IntN(6) == 0 {
			m.next++
			m.recovery = m.next
		}
		for _, n := range m.nodes {
			switch {
			case !n.alive && m.r.IntN(3) == 0:
				n.open(m)
				m.note("%s is back", n.name)
			case n.alive && m.r.IntN(25) == 0:
				m.kill(n, m.r.IntN(2) == 0)
			}
		}
		if m.round() {
			return
		}
	}
}

func (m *model) round() bool {
	var said []heard
	for _, name := range m.at {
		n := m.of(name)
		h := heard{node: name, err: errors.New("no answer")}
		if n.alive && m.r.IntN(5) > 0 {
			h.copy, h.err = n.k.fence(modelBlock, m.recovery)
			m.note("fence %d at %s: %v %v", m.recovery, name, h.copy, h.err)
		}
		said = append(said, h)
	}
	length, from, err := agree(m.record, m.recovery, m.cut, said)
	m.note("agreed: %d at %v, %v", length, from, err)
	if err != nil || m.r.IntN(6) == 0 {
		return false
	}
	var done []string
	for _, name := range from {
		n := m.of(name)
		if n.alive && m.r.IntN(6) > 0 {
			_, err := service{n.k}.Cut(context.Background(), &wire.CutRequest{Block: modelBlock, Recovery: m.recovery, Length: length})
			m.note("cut %d at %s: %v", m.recovery, name, err)
			if err == nil {
				done = append(done, name)
			}
		}
		if n.alive && m.r.IntN(25) == 0 {
			m.kill(n, false)
		}
	}
	if length > 0 && len(done) == 0 || m.r.IntN(6) == 0 {
		return false // or it was done, and is not noted
	}
	m.commit(length, done)
	return true
}

// commit compares what was agreed on with what was promised.
func (m *model) commit(length int64, at []string) {
	least, why := m.synced, "synced"
	if m.cut > 0 {
		if length > m.cut {
			m.fatalf("%d bytes are left, not %d", length, m.cut)
		}
		m.acked, m.synced = min(m.acked, int(m.cut)), min(m.synced, int(m.cut)) // the rest is not missed
		least = m.synced
	}
	for _, name := range m.at { // whoever has lost nothing has all that was acknowledged
		if n := m.of(name); n.kept >= m.acked && m.acked > least {
			least, why = m.acked, "acknowledged, and are at "+name
		}
	}
	if length < int64(least) {
		m.fatalf("%d bytes are left of %d that were %s", length, least, why)
	}
	if length > int64(len(m.content)) {
		m.fatalf("%d bytes of %d", length, len(m.content))
	}
	m.content = m.content[:length:length]
	m.record, m.at = meta.Block{ID: modelBlock, Stamp: m.recovery, Size: length}, at
	m.note("recovered: %d bytes at %v with %d", length, at, m.recovery)
	for _, name := range at {
		n := m.of(name)
		if !n.alive {
			n.open(m)
		}
		m.want(n, length)
		n.kept, n.synced = int(length), int(length) // the end of a recovery is durable
	}
	for _, n := range m.nodes {
		if !slices.Contains(at, n.name) {
			n.kept, n.synced = 0, 0
		}
	}
	m.acked, m.synced, m.closed, m.cut = int(length), int(length), true, 0
	if length == 0 {
		return
	}
	// Others left the block, and are brought up again with what was agreed on.
	for _, n := range m.nodes {
		if !n.alive {
			n.open(m)
		}
		if !slices.Contains(at, n.name) {
			m.tooOld(n)
		}
	}
}

// tooOld wants a copy that was left behind not to be read for what is recorded, unless its bytes are the same: the end of the recovery was not noted.
func (m *model) tooOld(n *modelNode) {
	if i, err := n.k.n.Blocks.Stat(modelBlock); err == nil && i.Stamp >= m.record.Stamp {
		m.same(n, min(i.Length, m.record.Size))
	} else if r, err := n.k.n.Blocks.Open(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, 0, 1); err == nil {
		r.Close()
		m.fatalf("%s was away, and its copy is read", n.name)
	}
}

// truncate cuts the block, which nobody writes.
func (m *model) truncate() {
	m.cut = 1 + m.r.Int64N(int64(len(m.content)))
	m.note("the block is to be cut to %d", m.cut)
	m.recover()
}

// want wants a finished copy of what was written.
func (m *model) want(n *modelNode, length int64) {
	i, err := n.k.n.Blocks.Stat(modelBlock)
	if err != nil || i.State != block.Final || i.Stamp != m.recovery || i.Length != length {
		m.fatalf("%s has %+v, %v; want %d bytes of %d", n.name, i, err, length, m.recovery)
	}
	m.same(n, length)
}

// same wants bytes of a copy to be what was written.
func (m *model) same(n *modelNode, length int64) {
	r, err := n.k.n.Blocks.Open(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, 0, length)
	if err != nil {
		m.fatalf("%s: %v", n.name, err)
	}
	defer r.Close()
	at := 0
	for {
		p, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			m.fatalf("%s: %v", n.name, err)
		}
		data := p.Data[:min(len(p.Data), int(length)-at)] // a part ends with a chunk
		if string(data) != string(m.content[at:at+len(data)]) {
			m.fatalf("%s has other bytes than were written", n.name)
		}
		at += len(data)
	}
}

// reopen has another writer go on behind the end.
func (m *model) reopen() {
	m.next++
	var got []string
	for _, name := range m.at {
		n := m.of(name)
		w, err := n.k.n.Blocks.Append(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, m.next, m.record.Size)
		m.note("append %d at %s: %v", m.next, name, err)
		if err == nil {
			n.w = w
			got = append(got, name)
		}
	}
	if len(got) == 0 {
		m.fatalf("nobody takes more")
	}
	if m.r.IntN(6) == 0 {
		m.note("the writer dies before the pipeline is recorded")
		m.recover()
		return
	}
	m.record.Stamp, m.at, m.closed = m.next, got, false
}

// TestBlockOnThreeNodes has writers write a block to three nodes, which die and lose power at any step, build their pipeline anew, die
// themselves, and has the block recovered, again and again. What was acknowledged is there while one of the nodes has lost nothing, what was synced
// always, and all copies that count are alike and are what was written.
func TestBlockOnThreeNodes(t *testing.T) {
	n := *modelSeeds
	if testing.Short() {
		n /= 10
	}
	recovered, bytes := 0, 0
	for seed := range n {
		m := &model{t: t, seed: uint64(seed), r: rand.New(rand.NewPCG(uint64(seed), 7))}
		m.begin()
		for range 25 {
			switch {
			case m.closed && len(m.content) == 0:
			case m.closed && m.r.IntN(3) == 0:
				m.truncate()
			case m.closed:
				m.closed = false
				m.reopen()
			case m.r.IntN(12) == 0:
				m.note("the writer dies")
				m.recover()
			case m.r.IntN(12) == 0:
				m.finish()
			default:
				m.packet()
			}
		}
		recovered, bytes = recovered+m.recovers, bytes+len(m.content)
	}
	t.Logf("%d recoveries, %d bytes", recovered, bytes)
	if recovered < n {
		t.Errorf("%d recoveries", recovered)
	}
}
