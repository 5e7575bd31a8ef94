package dfs

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"headrace/block"
	"headrace/meta"
	"headrace/wire"
)

var (
	modelSeeds = flag.Int("modelseeds", 1000, "how many lives of a block are simulated")
	modelSeed  = flag.Uint64("modelseed", 0, "the first of them")
)

// modelFault is a mistake made on purpose.
type modelFault struct {
	lazySync, sameBoot, copiesRaw, copiesOld, trustsDamaged, healsNot bool
	// Of several disks: that one is not mounted is taken for a new one; what is on one that is out of use is taken for lost.
	knowsNoDisk, takesOutForLost bool
	// That what is here may not be the newest is not looked at.
	seesNothingNewer bool
}

// recover has the nodes agree, with steps that are lost, leaders that change and nodes that die in between, until that is noted.
func (m *model) recover() {
	m.counts["recovered"]++
	m.next++
	m.recovery = m.next
	for try := 0; ; try++ {
		if try > 200 {
			m.fatalf("no end of the recovery")
		}
		if m.calm = try > 100; m.calm {
			m.spare()
		}
		if m.oneIn(6) {
			m.next++
			m.recovery = m.next
		}
		for _, n := range m.nodes {
			switch {
			case !n.alive && m.oneIn(3):
				n.open(m)
			case n.alive && m.oneIn(25):
				m.kill(n, m.oneIn(2))
			}
		}
		if m.round() {
			m.calm = false
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
			m.fencing = true
			h.copy, h.err = n.k.fence(context.Background(), modelBlock, m.recovery, m.cut > 0)
			m.fencing = false
			m.note("fence %d at %s: %v %v", m.recovery, name, h.copy, h.err)
			if m.fault.takesOutForLost && errors.Is(h.err, block.ErrOut) {
				h.copy, h.err = &wire.BlockCopy{Block: modelBlock}, nil
			}
			if m.fault.trustsDamaged && h.copy != nil {
				h.copy.Damaged = false
			}
			if m.reap(); !n.alive {
				h.copy, h.err = nil, errors.New("it has died")
			}
		}
		said = append(said, h)
	}
	length, from, err := agree(m.record, m.recovery, m.cut, said)
	m.note("agreed: %d at %v, %v", length, from, err)
	if errors.Is(err, errUnreadable) && m.oneIn(3) {
		for _, name := range m.at {
			m.note("%s can read its sectors again", name)
			for _, d := range m.of(name).disks {
				d.bad = nil
			}
		}
	}
	if err != nil {
		m.reveal(said)
		return false
	}
	m.agreed(length, from, said)
	if m.oneIn(6) {
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
				n.has(int(length), int(length))
			}
			m.reap()
		}
		if n.alive && m.oneIn(25) {
			m.kill(n, false)
		}
	}
	if length > 0 && len(done) == 0 || m.oneIn(6) {
		return false // or it was done, and is not noted
	}
	m.commit(length, done)
	return true
}

// spare lets nothing happen any more by itself.
func (m *model) spare() {
	m.fired.Load()
	for _, n := range m.nodes {
		n.left = 0
		for _, d := range n.disks {
			d.fault = nil
		}
	}
}

// hidden reports whether a node cannot say what it has, for a disk, or a part of one, cannot be read.
func hidden(h heard) bool {
	if c := h.copy; c != nil {
		return c.Damaged && c.Length == 0
	}
	return errors.Is(h.err, syscall.EIO) || errors.Is(h.err, block.ErrOut) || errors.Is(h.err, block.ErrNotMounted)
}

// reveal has parts of disks that cannot be read, and may have all that there is, be readable when their nodes start again, or these get other disks: a recovery
// waits for one of both, as long as it takes. It has no reason to where all others answer, and one of them is sure of what it has: then nothing comes to its help.
func (m *model) reveal(said []heard) {
	for _, h := range said {
		if c := h.copy; c == nil && !hidden(h) ||
			c != nil && c.Length > 0 && !c.Damaged && c.Stamp >= m.record.Stamp && (c.State == wire.BlockCopy_WRITING || c.State == wire.BlockCopy_FINAL) {
			return
		}
	}
	for _, h := range said {
		n := m.of(h.node)
		if hidden(h) && n.alive && m.ails(n) && m.oneIn(3) {
			m.end1(n, false)
			m.cure(n)
			m.note("the disks of %s are back", n.name)
			m.counts["disks back"]++
			continue
		}
		if !hidden(h) || m.ails(n) || !n.hurt && n.synced > 0 || !m.oneIn(3) { // one that has synced it, and is not hurt, has to find it
			continue
		}
		m.fall(false, n)
		m.reap()
		readable := m.oneIn(2)
		for _, d := range n.disks {
			if len(d.bad) > 0 && !readable {
				m.replace(n, d)
			}
			d.bad = nil
		}
		if readable {
			m.note("%s can read its sectors again, and has ended", n.name)
			m.counts["revealed"]++
		} else {
			m.counts["disk replaced"]++
		}
	}
}

// promised returns how many bytes there have to be after a recovery of what is recorded, by a node that has them for certain.
func (m *model) promised() (least int, why string) {
	for _, name := range m.at {
		n := m.of(name)
		if n.hurt {
			continue
		}
		if m.synced > least {
			least, why = m.synced, "synced"
		}
		if n.kept >= m.acked && m.acked > least {
			least, why = m.acked, "acknowledged, and are at "+name
		}
	}
	if m.cut > 0 {
		least = min(least, int(m.cut))
	}
	return least, why
}

// agreed wants a good copy to be among those that go on, if one of those that have answered is good and has all that is promised, and the others
// know no more than it does: all have lost power. One that has lost its generation with it counts less than one that is damaged: nobody knows that it
// has the same bytes.
func (m *model) agreed(length int64, from []string, said []heard) {
	least, why := m.promised()
	good, sure := "", false
	for _, h := range said {
		if h.copy == nil {
			continue
		}
		sure = sure || h.copy.State == wire.BlockCopy_WRITING || h.copy.State == wire.BlockCopy_FINAL
		if n := m.of(h.node); !n.hurt && n.kept >= least && h.copy.Stamp >= m.record.Stamp {
			good = h.node
		}
	}
	if least == 0 || good == "" || sure || slices.ContainsFunc(from, func(name string) bool { return !m.of(name).hurt }) {
		return
	}
	if !slices.ContainsFunc(from, func(name string) bool { // what was written since may have mended it
		data, err := m.of(name).read(0, length)
		return err == nil && string(data) == string(m.content[:length])
	}) {
		m.fatalf("%d bytes at %v, which may be damaged, and %s has the %d that were %s", length, from, good, least, why)
	}
}

// commit compares what was agreed on with what was promised.
func (m *model) commit(length int64, at []string) {
	m.spare()
	least, why := m.promised()
	if m.cut > 0 && length > m.cut {
		m.fatalf("%d bytes are left, not %d", length, m.cut)
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
		n.kept, n.synced, n.w = int(length), int(length), nil // the end of a recovery is durable
	}
	for _, n := range m.nodes {
		if !slices.Contains(at, n.name) {
			n.kept, n.synced = 0, 0
		}
	}
	m.acked, m.synced, m.closed, m.cut = int(length), int(length), true, 0
	m.lost = length > 0 && !slices.ContainsFunc(at, func(name string) bool { return !m.of(name).hurt })
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
		m.compare(n, min(i.Length, m.record.Size))
	} else if r, err := n.k.n.Blocks.Open(block.Block{ID: modelBlock, Stamp: m.record.Stamp}, 0, 1); err == nil {
		r.Close()
		m.fatalf("%s was away, and its copy is read", n.name)
	}
}

// want wants a finished copy of what was written.
func (m *model) want(n *modelNode, length int64) {
	i, err := n.k.n.Blocks.Stat(modelBlock)
	if err != nil || i.State != block.Final || i.Stamp != m.recovery || i.Length != length {
		if n.hurt || m.shut(n) { // it was read when its machine had ended again
			return
		}
		m.fatalf("%s has %+v, %v; want %d bytes of %d", n.name, i, err, length, m.recovery)
	}
	m.same(n, length)
}

// same wants bytes of a copy to be what was written. Those of one that is damaged, or may have lost some with the power, may be missing.
func (m *model) same(n *modelNode, length int64) error {
	err := m.compare(n, length)
	if err != nil {
		m.note("%s: %v", n.name, err)
	}
	if err != nil && !n.hurt && !m.excused(n) && n.kept >= int(length) {
		m.fatalf("%s: %v", n.name, err)
	}
	return err
}

// compare compares what a node gives of the recorded generation with what was written.
func (m *model) compare(n *modelNode, length int64) error {
	data, err := n.read(m.record.Stamp, length)
	if len(data) > len(m.content) || string(data) != string(m.content[:len(data)]) {
		m.fatalf("%s has other bytes than were written", n.name)
	}
	return err
}

// live is the life of the block. It returns the promise that was broken.
func (m *model) live() (problem string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			problem = r.text
		default:
			panic(r)
		}
	}()
	m.hung = make(chan struct{})
	defer close(m.hung)
	m.begin()
	for range 25 {
		if m.trouble(); m.lost {
			m.counts["lost"]++
			return ""
		}
		switch {
		case m.closed && len(m.content) == 0:
		case m.closed && m.oneIn(8):
			m.truncate()
		case m.closed && m.oneIn(3):
			m.reopen()
		case m.closed:
		case m.oneIn(12):
			m.note("the writer dies")
			m.recover()
		case m.oneIn(8):
			m.finish()
		default:
			m.packet()
		}
	}
	m.end()
	return ""
}

// lives lets a block live where a disk that hangs is waited for.
func lives(t *testing.T, m *model) (problem string) {
	synctest.Test(t, func(*testing.T) { problem = m.live() })
	return problem
}

// end ends all trouble: what was promised comes to rest.
func (m *model) end() {
	if m.lost {
		return
	}
	begin := func() {
		m.spare()
		for _, n := range m.nodes {
			if m.ails(n) || slices.ContainsFunc(n.disks, func(d *modelDisk) bool { return d.full }) {
				m.end1(n, false)
				m.cure(n)
			}
			if !n.alive {
				n.open(m)
			}
		}
	}
	begin()
	if !m.closed {
		m.recover()
		begin()
	}
	if len(m.content) == 0 || m.lost {
		return
	}
	least, _ := m.promised()
	m.heal()
	for _, name := range m.at {
		n := m.of(name)
		good := !n.k.copyOf(modelBlock).Damaged && m.compare(n, m.record.Size) == nil
		switch {
		case good:
		case least == len(m.content) && !n.broken():
			m.fatalf("%s has no good copy in the end: %+v", name, n.k.copyOf(modelBlock))
		}
		if len(n.disks) > 1 {
			m.lookThrough(n, good)
		}
	}
}

// lookThrough has a node read all that it has: that is as good as it was, and on one disk. A copy that is still being made is given up.
func (m *model) lookThrough(n *modelNode, good bool) {
	if n.copying != nil {
		n.copying.w.Close()
		n.copying = nil
	}
	n.k.n.Blocks.Scrub(context.Background(), 1<<40)
	if err := m.compare(n, m.record.Size); good && err != nil {
		m.fatalf("%s had a good copy, and %v", n.name, err)
	}
	on := n.on()
	if len(on) > 1 && n.damages > 1 { // two copies that it found were both damaged: then one is left for the next start, also if the other one is healed
		m.end1(n, false)
		n.open(m)
		m.counts["left"]++
		on = n.on()
	}
	if len(on) > 1 && good {
		m.fatalf("%s has the block on %v", n.name, on)
	}
}

// on returns the disks with a file of the block of which all is known.
func (n *modelNode) on() (dirs []string) {
	volumes := n.k.n.Blocks.Volumes()
	for i, d := range n.disks {
		if f, err := d.mem.Open(d.path(), 0); err == nil && len(volumes[i].Gaps) == 0 {
			f.Close()
			dirs = append(dirs, d.dir)
		}
	}
	return dirs
}

// broken reports whether a node can take no copy, for it cannot read a header of the file.
func (n *modelNode) broken() bool {
	_, err := n.k.n.Blocks.Create(block.Block{ID: modelBlock + 1, Stamp: 1}, 1, 100, true)
	return errors.Is(err, block.ErrFull)
}

func newModel(seed uint64, f modelFault, counts map[string]int) *model {
	return &model{seed: seed, fault: f, r: rand.New(rand.NewPCG(seed, 7)), counts: counts}
}

// TestBlockOnThreeNodes has writers write a block to three nodes. These die and lose power at any step, within any operation of their disks and
// several at once; bits flip, and sectors cannot be read; of those that have two disks one fails, hangs, is full, is not mounted, is there again, or is replaced; pipelines are built anew, with others; copies are made beside what is there, and end late;
// writers die, and the block is recovered, cut and gone on with. What was acknowledged is there while one of the nodes has lost nothing, what
// was synced also when all have lost power, no byte is another than was written, and what is damaged is replaced. Of a copy that was damaged, or whose disk was replaced, nothing
// is promised, though it was synced and the block was closed, until all of it was read or it was made again (hurt): a good one elsewhere has to be found, also when its disk is away.
func TestBlockOnThreeNodes(t *testing.T) {
	n := *modelSeeds
	if testing.Short() {
		n /= 10
	}
	counts := map[string]int{}
	for i := range uint64(n) {
		m := newModel(*modelSeed+i, modelFault{}, counts)
		if problem := lives(t, m); problem != "" {
			for _, line := range m.log {
				t.Log(line)
			}
			t.Fatalf("seed %d (-modelseed %d -modelseeds 1): %s", m.seed, m.seed, problem)
		}
		counts["bytes"] += len(m.content)
	}
	t.Logf("%d lives: %v", n, counts)
	if counts["recovered"] < n || counts["lost"] > n/5 {
		t.Error("they are not what they were")
	}
	wanted := []string{"died within", "power lost", "all lost power", "EIO", "flipped", "copied", "healed", "joined", "two disks", "full", "not mounted", "mounted again", "replaced", "gone", "come back", "dropped"}
	for _, f := range diskFaults {
		wanted = append(wanted, f.String())
	}
	for _, k := range wanted {
		if counts[k] == 0 && n >= 100 {
			t.Errorf("no %s", k)
		}
	}
}

// TestLivesAreTheSameAgain: a seed that has failed once fails again.
func TestLivesAreTheSameAgain(t *testing.T) {
	for seed := range uint64(20) {
		a, b := newModel(seed, modelFault{}, map[string]int{}), newModel(seed, modelFault{}, map[string]int{})
		lives(t, a)
		if lives(t, b); !slices.Equal(a.log, b.log) {
			t.Errorf("seed %d: two lives", seed)
		}
	}
}

// TestAllThatIsLeftCannotBeRead: two nodes have lost a block with the power, and the third one's disk has a part that cannot be read, in which it may be. The recovery
// waits, and ends once that can be read or the disk is another one.
func TestAllThatIsLeftCannotBeRead(t *testing.T) {
	counts := map[string]int{}
	if problem := lives(t, newModel(2516, modelFault{}, counts)); problem != "" || counts["revealed"]+counts["disk replaced"] == 0 {
		t.Errorf("%q, %v", problem, counts)
	}
}

// TestFaultsAreFound: the simulation finds mistakes made on purpose.
func TestFaultsAreFound(t *testing.T) {
	for name, f := range map[string]struct {
		modelFault
		from uint64 // the life to begin with, so that it does not take long
	}{
		"a sync that does not": {modelFault{lazySync: true}, 0}, "takes what the power has left for all": {modelFault{sameBoot: true}, 0},
		"copies what it has not compared": {modelFault{copiesRaw: true}, 270}, "takes an old copy for a new one": {modelFault{copiesOld: true}, 1780},
		"recovers from what is damaged": {modelFault{trustsDamaged: true}, 4430}, "leaves what is damaged": {modelFault{healsNot: true}, 2050},
		"takes a disk that is not mounted for a new one": {modelFault{knowsNoDisk: true}, 0}, "takes what is on a disk that is out of use for lost": {modelFault{takesOutForLost: true}, 0},
		"takes what is there for the newest": {modelFault{seesNothingNewer: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(2000) {
				if problem := lives(t, newModel(f.from+i, f.modelFault, map[string]int{})); problem != "" {
					t.Logf("seed %d: %s", f.from+i, problem)
					return
				}
			}
			t.Error("not found")
		})
	}
}
