package prefetch

import (
	"fmt"
	"math/rand/v2"

	"headrace"
)

// model is a machine with two devices on which warming is decided by this
// package: what a daemon or a simulator does with the decisions, with the
// reference lists kept in the plainest way.
type model struct {
	r      *rand.Rand
	c      Config
	room   Room
	blocks []*modelBlock
	jobs   []*modelJob
	busy   [2]*modelMove
	n      int
	seen   map[string]int
}

type modelBlock struct {
	device           int
	bytes            int64
	pinned, resident bool
	refs             map[*modelJob]bool
}

type modelJob struct {
	id       headrace.JobID
	input    int64
	order    uint64
	limit    int64
	implicit bool
	gone     bool // has ended without saying so
	wants    []*modelBlock
	read     map[*modelBlock]bool
	skipped  map[*modelBlock]bool
}

type modelMove struct {
	j *modelJob
	b *modelBlock
}

func newModel(r *rand.Rand) *model {
	m := &model{r: r, c: Config{Order: pick(r, SmallestFirst, FIFO)}, seen: map[string]int{}}
	m.room.Budget = int64(4+r.IntN(40)) * mb
	if r.IntN(3) == 0 {
		m.room.MaxBlocks = 2 + r.IntN(8)
	}
	for range 40 {
		m.blocks = append(m.blocks, &modelBlock{device: r.IntN(2), bytes: int64(1+r.IntN(8)) * mb, resident: r.IntN(5) == 0, refs: map[*modelJob]bool{}})
	}
	return m
}

func (m *model) step() error {
	switch m.r.IntN(10) {
	case 0:
		m.arrive()
	case 1, 2, 3:
		m.readOne()
	case 4:
		m.end()
	case 5:
		m.lose()
	case 6, 7:
		m.complete(m.r.IntN(2))
	}
	for d := range m.busy {
		if err := m.serve(d); err != nil {
			return err
		}
	}
	return m.check()
}

func (m *model) arrive() {
	j := &modelJob{id: headrace.JobID(fmt.Sprint(m.n)), order: uint64(m.n), implicit: m.r.IntN(2) == 0,
		read: map[*modelBlock]bool{}, skipped: map[*modelBlock]bool{}}
	m.n++
	if m.r.IntN(4) == 0 {
		j.limit = int64(2+m.r.IntN(12)) * mb
	}
	for _, i := range m.r.Perm(len(m.blocks))[:1+m.r.IntN(8)] {
		j.wants = append(j.wants, m.blocks[i])
		j.input += m.blocks[i].bytes
	}
	m.jobs = append(m.jobs, j)
}

// readOne has a job read one of its blocks, wherever it is.
func (m *model) readOne() {
	if len(m.jobs) == 0 {
		return
	}
	j := m.jobs[m.r.IntN(len(m.jobs))]
	b := j.wants[m.r.IntN(len(j.wants))]
	j.read[b] = true
	m.seen["read"]++
	if _, drop := DropRef(Ref{Implicit: j.implicit, Read: true}); drop {
		m.unref(j, b)
	}
}

func (m *model) end() {
	if len(m.jobs) == 0 {
		return
	}
	i := m.r.IntN(len(m.jobs))
	if m.r.IntN(3) == 0 {
		m.jobs[i].gone = true
		m.seen["vanish"]++
		return
	}
	m.seen["end"]++
	m.drop(m.jobs[i])
}

// drop takes a job off all lists.
func (m *model) drop(j *modelJob) {
	for _, b := range m.blocks {
		m.unref(j, b)
	}
	for i, o := range m.jobs {
		if o == j {
			m.jobs = append(m.jobs[:i], m.jobs[i+1:]...)
			return
		}
	}
}

func (m *model) unref(j *modelJob, b *modelBlock) {
	if !b.refs[j] {
		return
	}
	delete(b.refs, j)
	if len(b.refs) == 0 && b.pinned && !m.moving(b) {
		m.release(b)
	}
}

func (m *model) release(b *modelBlock) {
	b.pinned = false
	m.room.Pinned -= b.bytes
	m.room.Blocks--
}

func (m *model) moving(b *modelBlock) bool {
	return m.busy[b.device] != nil && m.busy[b.device].b == b
}

// lose has the kernel drop or load blocks that are not pinned.
func (m *model) lose() {
	b := m.blocks[m.r.IntN(len(m.blocks))]
	if !b.pinned {
		if b.resident && len(b.refs) > 0 {
			m.seen["lost"]++
			clear(b.refs) // they ask again
		}
		b.resident = !b.resident
	}
}

// complete ends the reading of a block.
func (m *model) complete(d int) {
	mv := m.busy[d]
	if mv == nil {
		return
	}
	m.busy[d] = nil
	mv.b.resident = true
	if len(mv.b.refs) == 0 {
		m.release(mv.b)
	}
}

func (m *model) view(d int) (View, [][]*modelBlock) {
	v := View{Busy: m.busy[d] != nil, Room: m.room}
	var index [][]*modelBlock
	for _, j := range m.jobs {
		w := Job{Name: "job " + string(j.id), Input: j.input, Seq: j.order, Limit: j.limit, Held: m.held(j), Implicit: j.implicit}
		var blocks []*modelBlock
		for _, b := range j.wants {
			if b.device != d || b.refs[j] || j.skipped[b] || j.implicit && j.read[b] || len(blocks) == 3 {
				continue
			}
			blocks = append(blocks, b)
			w.Next = append(w.Next, Block{b.bytes, m.state(b)})
		}
		v.Jobs = append(v.Jobs, w)
		index = append(index, blocks)
	}
	return v, index
}

func (m *model) state(b *modelBlock) State {
	switch {
	case m.moving(b):
		return Moving
	case b.pinned:
		return Pinned
	case b.resident:
		return Resident
	}
	return Cold
}

func (m *model) held(j *modelJob) (n int64) {
	for _, b := range j.wants {
		if b.refs[j] && b.pinned {
			n += b.bytes
		}
	}
	return n
}

// serve carries out steps for a device until there is nothing to do.
func (m *model) serve(d int) error {
	for range 1000 {
		v, index := m.view(d)
		s := Next(v, m.c)
		if s.Do == Nothing {
			m.room.Waiting = false
			return nil
		}
		if s.Do == Wait {
			if m.room.Waiting = true; !m.cleanUp() {
				m.seen["full"]++
				return nil
			}
			continue
		}
		j, b := m.jobs[s.Job], index[s.Job][s.Block]
		switch s.Do {
		case Migrate:
			m.seen["migrate"]++
			b.pinned, b.refs = true, map[*modelJob]bool{j: true}
			m.busy[d] = &modelMove{j, b}
			m.room.Pinned += b.bytes
			m.room.Blocks++
		case Refer:
			m.seen["refer"]++
			b.refs[j] = true
		case Skip:
			m.seen["skip"]++
			j.skipped[b] = true
		}
		if err := m.check(); err != nil {
			return fmt.Errorf("%w after %+v", err, s)
		}
	}
	return fmt.Errorf("it never comes to rest")
}

// cleanUp reports whether somebody was dropped.
func (m *model) cleanUp() bool {
	var holders []Holder
	for _, j := range m.jobs {
		holders = append(holders, Holder{Job: j.id, Alive: !j.gone, Pinned: m.held(j)})
	}
	var gone []*modelJob
	for _, d := range CleanUp(m.room, holders) {
		gone = append(gone, m.jobs[d.Holder])
	}
	for _, j := range gone {
		m.seen["clean-up"]++
		m.drop(j)
	}
	return len(gone) > 0
}

// check holds the accounts against the blocks.
func (m *model) check() error {
	var pinned int64
	blocks := 0
	for _, b := range m.blocks {
		if !b.pinned {
			continue
		}
		pinned, blocks = pinned+b.bytes, blocks+1
		if len(b.refs) == 0 && !m.moving(b) {
			return fmt.Errorf("a block is pinned for nobody")
		}
	}
	switch {
	case pinned != m.room.Pinned || blocks != m.room.Blocks:
		return fmt.Errorf("%d bytes in %d blocks are pinned, the account says %d in %d", pinned, blocks, m.room.Pinned, m.room.Blocks)
	case pinned > m.room.Budget:
		return fmt.Errorf("%d bytes are pinned, the budget is %d", pinned, m.room.Budget)
	case m.room.MaxBlocks > 0 && blocks > m.room.MaxBlocks:
		return fmt.Errorf("%d blocks are pinned, %d may be", blocks, m.room.MaxBlocks)
	}
	for _, j := range m.jobs {
		if j.limit > 0 && m.held(j) > j.limit {
			return fmt.Errorf("job %s holds %d of %d", j.id, m.held(j), j.limit)
		}
	}
	return nil
}

// finish ends all jobs and checks that nothing is left.
func (m *model) finish() error {
	for len(m.jobs) > 0 {
		m.drop(m.jobs[0])
	}
	for d := range m.busy {
		m.complete(d)
	}
	if m.room.Pinned != 0 || m.room.Blocks != 0 {
		return fmt.Errorf("%d bytes in %d blocks are left when all jobs have ended", m.room.Pinned, m.room.Blocks)
	}
	return m.check()
}
