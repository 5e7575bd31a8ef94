package master

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"headrace"
)

// Status is how a job stands. All sizes are bytes; each of Bytes is in one of Left to Failed.
type Status struct {
	Facts
	// Adopted: nodes have told of it, nobody has migrated it since; its files are not known.
	Adopted, Ended bool

	Files, Blocks int
	Bytes         int64

	// Left is still to be read by nodes, or by those who read it now; Pinned is locked in their memory, Resident is in it
	// without being locked. Read has been read by the job, which needs it no more.
	Left, Pinned, Resident, Read int64
	// NotFit is on no node. NotFitReason is that of the last such block. Untried: for some of them it has not been looked
	// for a node yet.
	NotFit       int64
	NotFitReason string
	Untried      bool
	// Failed is of blocks of which no replica could be read. Failures has the first failures,
	// also of blocks that another replica was found for.
	Failed       int64
	FailedBlocks int
	Failures     []Failure

	// Warmed has been pinned for it, also if it was let go since.
	Warmed int64
	// FirstRead is when the job began to read, or when a job that was adopted was said to have read; zero: not yet. Lead is from
	// its submission until then, or until now; 0 of one that was adopted and has read.
	FirstRead time.Time
	Lead      time.Duration
	// FromMemory and FromDisk is what it has read, as nodes have reported.
	FromMemory, FromDisk int64
}

// Failure is a block that a node could not keep, and why.
type Failure struct {
	// File is empty if it is not known.
	File         string
	Block        headrace.BlockID
	Node, Reason string
}

// keptFailures is how many failures of a job are told.
const keptFailures = 20

// Status tells how a job stands. It fails with ErrUnknown.
func (m *Master) Status(name Name, now time.Time) (Status, error) {
	j := m.jobs[name]
	if j == nil {
		return Status{}, fmt.Errorf("job %s of %s: %w", name.Job, name.Owner, ErrUnknown)
	}
	return m.status(j, now), nil
}

// Ended reports whether a job has ended lately.
func (m *Master) Ended(name Name) bool {
	_, is := m.ended[name]
	return is
}

// Names yields the jobs that there are.
func (m *Master) Names() iter.Seq[Name] { return maps.Keys(m.jobs) }

// List tells how those jobs stand, in the order of their submission.
func (m *Master) List(now time.Time, which func(Name) bool) (all []Status) {
	for name, j := range m.jobs {
		if which(name) {
			all = append(all, m.status(j, now))
		}
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Owner, b.Owner))
	})
	return all
}

func (m *Master) status(j *job, now time.Time) Status {
	s := Status{
		Facts: j.facts(), Adopted: j.adopted, Untried: j.untried, Files: len(j.files) + j.forgotten,
		Left: j.bytes[Planned] + j.waiting, Pinned: j.bytes[Pinned], Resident: j.bytes[Resident], Read: j.bytes[Read],
		NotFit: j.bytes[NotFit] + j.bytes[refused] - j.waiting, Failed: j.bytes[Failed], FailedBlocks: j.blocks[Failed], Failures: slices.Clone(j.failures),
		Warmed: j.warmed, FirstRead: j.read, FromMemory: j.before.memory, FromDisk: j.before.disk,
	}
	for i, n := range j.bytes {
		s.Bytes += n
		s.Blocks += j.blocks[i]
	}
	if s.NotFit > 0 {
		s.NotFitReason = j.why
	}
	until := now
	if !j.read.IsZero() {
		until = j.read
	}
	if !j.taken || j.read.IsZero() {
		s.Lead = max(0, until.Sub(j.Submitted))
	}
	for _, r := range j.reads {
		s.FromMemory += r.memory
		s.FromDisk += r.disk
	}
	return s
}

// KeptFor yields the jobs for which a block is locked in the memory of a node, in no order.
func (m *Master) KeptFor(id headrace.BlockID) iter.Seq[Name] {
	return func(yield func(Name) bool) {
		b := m.blocks[keyOf(id)]
		if b == nil {
			return
		}
		for _, w := range b.wants {
			if w.state == Pinned && !w.job.gone && !yield(w.job.Name) {
				return
			}
		}
	}
}

// Within reports whether there is a job with blocks, and all of them are among these.
func (m *Master) Within(name Name, blocks map[headrace.BlockID]bool) bool {
	j := m.jobs[name]
	return j != nil && len(j.wants) > 0 && !slices.ContainsFunc(j.wants, func(w *want) bool { return !blocks[w.block.id()] })
}

// Totals are for metrics.
type Totals struct {
	Nodes, Jobs, Adopted, Blocks int
	// Budget is what nodes have for warming together, in bytes; Pinned of it is taken, Queued will be.
	Budget, Pinned, Queued int64
}

// Totals returns what there is.
func (m *Master) Totals() Totals {
	t := Totals{Nodes: len(m.nodes), Jobs: len(m.jobs), Blocks: len(m.blocks)}
	for _, j := range m.jobs {
		if j.adopted {
			t.Adopted++
		}
	}
	for _, n := range m.nodes {
		t.Budget += n.load.Budget
		t.Pinned += n.pinned
		for _, bytes := range n.queued {
			t.Queued += bytes
		}
	}
	return t
}

// Place is a block of a file, and the host, as the file system names it, on which it is kept
// for a job or will be; empty: on none.
type Place struct {
	Bytes int64
	Host  string
}

// Places returns where the blocks of one of a job's files are, in their order: those after the first from, at most so many,
// and how many come after them. There are none if the job has no such file. It fails with ErrUnknown. It takes time in proportion
// to these blocks, but for the first time after a Migrate, which takes it to all of the job.
func (m *Master) Places(name Name, file string, from, most int) (places []Place, rest int, err error) {
	j := m.jobs[name]
	if j == nil {
		return nil, 0, fmt.Errorf("job %s of %s: %w", name.Job, name.Owner, ErrUnknown)
	}
	all := j.inOrder()[file]
	all = all[min(from, len(all)):]
	for _, pos := range all[:min(most, len(all))] {
		w := j.wants[pos]
		places = append(places, Place{w.block.bytes, w.host(m)})
	}
	return places, len(all) - len(places), nil
}

// inOrder returns which wants are of each file, in their order.
func (j *job) inOrder() map[string][]uint32 {
	if j.ordered != nil {
		return j.ordered
	}
	files := make([][]uint32, len(j.files))
	for pos, w := range j.wants {
		if w.file != unnamed {
			files[w.file] = append(files[w.file], uint32(pos))
		}
	}
	j.ordered = make(map[string][]uint32, len(files))
	for i, of := range files {
		slices.SortFunc(of, func(a, b uint32) int { return cmp.Compare(j.wants[a].at, j.wants[b].at) })
		if !j.holes[j.files[i]] { // else what comes behind one is not where it seems to be
			j.ordered[j.files[i]] = of
		}
	}
	return j.ordered
}

// host returns the host of the replica that is kept for w.
func (w *want) host(m *Master) string {
	for _, h := range w.block.hosts {
		if w.node != nil && m.hosts[h] == w.node {
			return h.Value()
		}
	}
	return ""
}
