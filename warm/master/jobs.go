package master

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unique"

	"headrace"
)

// Job is what is to be in memory for a job.
type Job struct {
	Facts
	Files []File
}

// File is a file of a job's input, as it was when it was looked up.
type File struct {
	Name string
	// Blocks in order. Nothing of it is kept but names.
	Blocks []headrace.Block
	// Near are the hosts on which the blocks will be read, as far as that is known: it may be shorter, and have empty names.
	Near []string
}

func (j *Job) validate() error {
	if j.Job == "" || j.Input < 0 || j.Budget < 0 {
		return fmt.Errorf("%w: job %q with an input of %d bytes and a budget of %d: give it an ID, and no negative sizes", ErrJob, j.Job, j.Input, j.Budget)
	}
	for _, f := range j.Files {
		for _, b := range f.Blocks {
			if b.Bytes < 0 {
				return fmt.Errorf("%w: block %v has %d bytes", ErrJob, b.ID, b.Bytes)
			}
		}
	}
	return nil
}

// Prolong gives a job a lease if it has none that is as long, and has its nodes told. It does nothing if there is no such job.
func (m *Master) Prolong(name Name, lease time.Duration) {
	if j := m.jobs[name]; j != nil && lease > j.Lease {
		f := j.Facts
		f.Lease = lease
		m.amend(j, f)
	}
}

// find returns what a job wants of a block, or nil. j may be nil.
func (m *Master) find(j *job, k key) *want {
	if b := m.blocks[k]; b != nil && j != nil {
		return b.of(j)
	}
	return nil
}

// add enters a job without blocks.
func (m *Master) add(f Facts, now time.Time) *job {
	j := &job{since: now, reads: map[string]reads{}, holes: map[string]bool{}}
	j.Facts.Name = f.Name
	m.jobs[f.Name] = j
	m.amend(j, f)
	return j
}

// amend changes what is known of a job. Its place among others changes with it, and so do
// accounts; its nodes are told, each with one of its blocks.
func (m *Master) amend(j *job, f Facts) {
	f.Submitted = time.UnixMilli(f.Submitted.UnixMilli())
	rank := j.rank
	rank.Seq = uint64(max(0, f.Submitted.UnixMilli()))
	if rank.Input = f.Input; rank.Input == 0 {
		for _, n := range j.bytes[:Read] { // what it has read does not make it come later
			rank.Input += n
		}
	}
	if j.Facts == f && j.rank.Seq == rank.Seq && j.rank.Input == rank.Input {
		return
	}
	charge := func(sign int64) {
		for _, w := range j.wants { // whose a block of several jobs is may change
			if w.node != nil && len(w.block.wants) > 1 {
				m.charge(w.block, w.node, sign)
				w.block.use(m, w.node, j.Owner, sign)
			}
		}
	}
	charge(-1)
	j.Facts, j.rank, m.freed = f, rank, true
	charge(1)
	told := map[*node]bool{}
	for _, w := range j.wants {
		if n := w.node; n != nil && !told[n] {
			told[n] = true
			n.log.Touch(w)
		}
	}
}

// file returns the number of a file, and enters it in those known. Of a job that is migrated
// several times each counts once.
func (j *job) file(name string, known map[string]uint32) uint32 {
	i, ok := known[name]
	if !ok {
		i = uint32(len(j.files))
		known[name], j.files = i, append(j.files, name)
	}
	return i
}

// want enters a block that a job wants, or what is news of one that it wants already, or does once more. One that it does not
// want yet has been taken for its owner.
func (m *Master) want(j *job, of *headrace.Block, file, at uint32) *want {
	k := keyOf(of.ID)
	b := m.blocks[k]
	if b == nil {
		b = &block{key: k, generation: of.Generation, bytes: of.Bytes}
		m.blocks[k] = b
	}
	w := b.of(j)
	if w != nil && w.state.spent() {
		m.move(w, nil, NotFit)
	}
	wanted, more := b.wanted(), false
	for _, name := range of.Hosts {
		more = b.addHost(unique.Make(name)) || more
	}
	if more && len(b.wants) > 0 {
		b.found(m)
	}
	if of.Generation > b.generation {
		b.renew(m, of)
	}
	if w == nil {
		w = &want{job: j, block: b, at: at, file: file}
		j.wants, b.wants = append(j.wants, w), append(b.wants, w)
		j.blocks[NotFit]++
		j.bytes[NotFit] += b.bytes
	}
	if more && b.wanted() || b.wanted() != wanted {
		b.watch(m, true)
	}
	w.file, w.tried, w.attempts, w.locks = file, 0, 0, false
	if w.at != at {
		w.at = at
		if w.node != nil {
			w.node.log.Touch(w)
		}
	}
	return w
}

// again has a block wanted once more of which no replica could be kept, if its owner may have so many, and reports whether it is
// wanted.
func (w *want) again(m *Master) bool {
	if !w.state.spent() {
		return true
	}
	if w.state == Read || w.job.gone || m.quota.Take(w.job.Owner, w.job.open()+1, 1) != nil {
		return false
	}
	m.move(w, nil, NotFit)
	return true
}

// found has a block tried again of which further replicas are known.
func (b *block) found(m *Master) {
	m.freed = true
	for _, w := range b.wants {
		if !w.given(m.cfg.Attempts) {
			w.again(m)
		}
	}
}

// renew changes the size of a block that has been appended to. Whoever keeps it is told, and
// where it could not be kept it is tried again.
func (b *block) renew(m *Master, is *headrace.Block) {
	type account struct {
		node  *node
		owner string
	}
	on, of := map[*node]bool{}, map[account]bool{}
	for _, w := range b.wants {
		if w.node != nil {
			on[w.node], of[account{w.node, w.job.Owner}] = true, true
			w.node.log.Touch(w)
		}
	}
	charge := func(sign int64) {
		for n := range on {
			m.charge(b, n, sign)
		}
		for a := range of {
			b.use(m, a.node, a.owner, sign)
		}
	}
	charge(-1)
	for _, w := range b.wants {
		w.waitFor(m, false, time.Time{})
		w.job.bytes[w.state] += is.Bytes - b.bytes
		if w.state == Pinned {
			w.node.lock(w.job, is.Bytes-b.bytes)
		}
	}
	b.generation, b.bytes, m.freed = is.Generation, is.Bytes, true
	charge(1)
	for _, w := range b.wants {
		w.tried, w.attempts, w.locks = 0, 0, false
		w.again(m)
	}
}

// Evict ends a job, and returns how it stood. Nothing is kept for it any more. It fails with
// ErrUnknown.
func (m *Master) Evict(name Name, now time.Time) (Status, error) {
	j := m.jobs[name]
	if j == nil {
		return Status{}, fmt.Errorf("job %s of %s: %w", name.Job, name.Owner, ErrUnknown)
	}
	s := m.status(j, now)
	s.Ended = true
	m.end(j, now)
	return s, nil
}

// End ends the jobs of which whoever runs them says that they have ended, whoever asked for their input, and returns how
// they stood. Those that users hold stay.
func (m *Master) End(ended func(headrace.JobID) bool, now time.Time) (stood []Status) {
	for name, j := range m.jobs {
		if !j.Hold && ended(name.Job) {
			s, _ := m.Evict(name, now)
			stood = append(stood, s)
		}
	}
	return stood
}

// end takes a job out. Of large ones, or many, the last blocks are let go by Tidy.
func (m *Master) end(j *job, now time.Time) {
	m.quota.Give(j.Owner, j.open()+1)
	m.many.Give(j.Owner, 1)
	delete(m.jobs, j.Name)
	m.ended[j.Name] = now
	if m.resume == j {
		m.resume, m.freed = nil, true // those behind it have not been tried yet
	}
	if !now.Equal(m.lately) {
		m.lately, m.atOnce = now, endedAtOnce
	}
	j.leave(m)
	m.atOnce = tidy(m, m.atOnce)
}

// leave has all blocks of a job be let go, by tidy.
func (j *job) leave(m *Master) {
	j.gone, j.left = true, len(j.wants)
	m.leaving = append(m.leaving, j)
}

// spentAnyhow is how many blocks and files that it is done with a job remembers beside as many as it wants.
const spentAnyhow = 1_000

// forget has a job remember no more than that of what it is done with, so that one which goes on and on does not grow. What is
// forgotten it may want anew.
func (j *job) forget(m *Master) {
	open := int(j.open())
	if j.entering > 0 || max(len(j.wants), len(j.files)) <= 2*open+m.spare {
		return
	}
	past := &job{Facts: j.Facts, rank: j.rank} // nodes may not have been told yet to let go
	wants, files, from, known := j.wants, j.files, m.from, map[string]uint32{}
	j.wants, j.files, j.ordered = make([]*want, 0, open), nil, nil
	for i, w := range wants {
		if m.resume == j && i == from {
			m.from = len(j.wants)
		}
		named := w.file != unnamed
		if !w.state.spent() {
			if named {
				w.file = j.file(files[w.file], known)
			}
			j.wants = append(j.wants, w)
			continue
		}
		if named {
			j.holes[files[w.file]] = true
		}
		w.job, past.wants = past, append(past.wants, w)
	}
	maps.DeleteFunc(j.holes, func(name string, _ bool) bool { _, is := known[name]; return !is })
	j.forgotten += len(files) - len(j.files)
	past.leave(m)
	tidy(m, endedAtOnce)
}

// endedAtOnce is how many blocks are let go with the end of their jobs, of all that end at one time: a few milliseconds.
const endedAtOnce = 2_000

// Tidy lets go of so many blocks of jobs that have ended, and reports whether there are more. Until then they count against the
// room of their nodes and the share of their owners, and not against the bounds of these.
func (m *Master) Tidy(most int) (more bool) {
	tidy(m, most)
	return len(m.leaving) > 0
}

// tidy is Tidy. It returns how many more it could have let go.
func tidy(m *Master, most int) (left int) {
	for ; most > 0 && len(m.leaving) > 0; most-- {
		j := m.leaving[0]
		if j.left == 0 {
			j.wants, m.leaving = nil, m.leaving[1:]
			continue
		}
		j.left--
		w := j.wants[j.left]
		m.move(w, nil, Read)
		b := w.block
		if b.wants = slices.DeleteFunc(b.wants, func(o *want) bool { return o == w }); len(b.wants) == 0 {
			delete(m.blocks, b.key)
		}
	}
	return most
}
