package master

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unique"

	"headrace"
)

// Migrate has the blocks of a job read into memory; of a large one it leaves some to be placed by the next Looks. Of a job that is known, blocks that are not
// known yet are added, those that have failed are tried again, those that it has read it wants once more, and what is said of it
// counts from now on, but that it was submitted when it was asked for first, and of leases the longest. It fails with
// ErrJob and budget.ErrOver, and has changed nothing then.
func (m *Master) Migrate(q Job, now time.Time) error {
	g, err := NewMigration(q)
	for more := err == nil; more; {
		more, err = g.Step(m, math.MaxInt, now)
	}
	return err
}

// Migration is a job on its way into a Master, step by step: with the blocks of a large one others would wait for long.
type Migration struct {
	q Job
	// job is the one that it adds to; nil: there is none yet.
	job *job
	// fresh are the blocks that it adds.
	fresh map[key]struct{}
	// admitted: they have been counted, and are being entered.
	admitted bool
	// file and block are what the next step begins with, at how many blocks have been entered, number the job's for the file.
	file, block int
	at, number  uint32
	known       map[string]uint32 // numbers of files
	// taken is how many blocks count for its owner, added how many of them are there, or have been.
	taken, added int64
}

// NewMigration does what Migrate does, but that nothing is entered before Step is called. It fails with ErrJob.
func NewMigration(q Job) (*Migration, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	return &Migration{q: q}, nil
}

// next goes over so many blocks and files, and reports whether there are more.
func (g *Migration) next(most int, file func(name string), block func(*headrace.Block)) (more bool) {
	for ; most > 0 && g.file < len(g.q.Files); most-- {
		f := &g.q.Files[g.file]
		if g.block == 0 {
			file(f.Name)
		}
		if g.block < len(f.Blocks) {
			block(&f.Blocks[g.block])
			g.block++
		}
		if g.block >= len(f.Blocks) {
			g.file, g.block = g.file+1, 0
		}
	}
	return g.file < len(g.q.Files)
}

// Step goes on by so many blocks with the migration into m, the same each time, and reports whether there is more to do: then it must be called
// again. Others may be called between, also for the same job. It fails as Migrate does, and with ErrUnknown if the job was ended meanwhile.
func (g *Migration) Step(m *Master, most int, now time.Time) (more bool, err error) {
	if !g.admitted {
		if more := g.count(m, most); more {
			return true, nil
		}
		if err := g.admit(m, now); err != nil || !g.admitted {
			return err == nil, err
		}
		return true, nil
	}
	if g.job.gone {
		m.quota.Give(g.q.Owner, g.taken-g.added)
		return false, fmt.Errorf("job %s of %s has ended while its input was taken in: %w", g.q.Job, g.q.Owner, ErrUnknown)
	}
	if g.enter(m, most) {
		return true, nil
	}
	g.finish(m, now)
	return false, nil
}

// count finds out what a migration adds, and reports whether there is more to look at.
func (g *Migration) count(m *Master, most int) (more bool) {
	if j := m.jobs[g.q.Name]; j != g.job || g.fresh == nil { // also one that has ended, or come, since it was counted
		g.job, g.fresh, g.file, g.block = j, map[key]struct{}{}, 0, 0
	}
	return g.next(most, func(string) {}, func(b *headrace.Block) {
		k := keyOf(b.ID)
		if w := m.find(g.job, k); w == nil || w.state.spent() {
			g.fresh[k] = struct{}{}
		}
	})
}

// admit takes what a migration adds for its owner, and says if that is too much even without those that are gone. If the job
// itself was one of these it is not admitted yet, and to be counted again.
func (g *Migration) admit(m *Master, now time.Time) error {
	q, j := &g.q, g.job
	had, n := int64(0), int64(len(g.fresh))
	if j != nil {
		had = j.open() + 1
	} else {
		n++
	}
	take := func() error {
		if j == nil {
			return m.takeJob(q.Owner, n)
		}
		return m.quota.Take(q.Owner, had, n)
	}
	err := take()
	if err != nil && m.cleanUp(now, true) {
		if j != nil && j.gone {
			g.fresh = nil
			return nil
		}
		err = take()
	}
	if err != nil {
		return fmt.Errorf("job %s of %s: %w", q.Job, q.Owner, err)
	}
	if j == nil {
		j = m.add(q.Facts, now)
		j.adopted = true // until then what nodes have of it is as good as what is asked for
		g.added++
	}
	delete(m.ended, q.Name)
	j.since = now
	j.entering++
	g.job, g.fresh, g.admitted, g.taken, g.file, g.block = j, nil, true, n, 0, 0
	g.known = make(map[string]uint32, len(j.files)+len(q.Files))
	return nil
}

// takeJob takes a job for its owner, with n blocks, itself as one of them.
func (m *Master) takeJob(owner string, n int64) error {
	if err := m.many.Take(owner, 0, 1); err != nil {
		return err
	}
	err := m.quota.Take(owner, 0, n)
	if err != nil {
		m.many.Give(owner, 1)
	}
	return err
}

// enter enters blocks, and reports whether there are more.
func (g *Migration) enter(m *Master, most int) (more bool) {
	j := g.job
	for i := len(g.known); i < len(j.files); i++ { // others may have added some
		g.known[j.files[i]] = uint32(i)
	}
	more = g.next(most, func(name string) {
		g.number = j.file(name, g.known)
		delete(j.holes, name)
	}, func(b *headrace.Block) {
		file := &g.q.Files[g.file]
		if w := m.find(j, keyOf(b.ID)); w == nil || w.state.spent() {
			if !g.takes(m) { // it was wanted when it was counted, and has been read meanwhile
				if w == nil {
					j.holes[file.Name] = true
				}
				return
			}
			g.added++
		}
		w := m.want(j, b, g.number, g.at)
		if g.block < len(file.Near) && file.Near[g.block] != "" {
			w.near = uint8(1 + slices.Index(w.block.hosts, unique.Make(file.Near[g.block])))
		}
		g.at++
	})
	j.ordered = nil
	return more
}

// takes reports whether a migration may add one more: beside what has been counted only what its owner may have.
func (g *Migration) takes(m *Master) bool {
	if g.added == g.taken {
		if m.quota.Take(g.q.Owner, g.job.open()+1, 1) != nil {
			return false
		}
		g.taken++
	}
	return true
}

// finish has a job that is all there have its place among others, and its blocks theirs.
func (g *Migration) finish(m *Master, now time.Time) {
	j, f := g.job, g.q.Facts
	m.quota.Give(f.Owner, g.taken-g.added) // nodes may have told of some meanwhile
	j.entering--
	j.adopted = false
	if was := j.Submitted; was.UnixMilli() > 0 && was.Before(f.Submitted) {
		f.Submitted = was
	}
	f.Lease = max(f.Lease, j.Lease)
	m.amend(j, f)
	next, _ := m.plan(j, 0, m.tries, now)
	if j.untried = next < len(j.wants); j.untried {
		m.freed = true // the next Look goes on
	}
}
