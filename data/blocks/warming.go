package blocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/pagecache"
	"headrace/warm"
	"headrace/wire"
	"headrace/wire/convert"
)

// want is a block that a job of the cluster will read.
type want struct {
	user, job string
	headrace.BlockID
}

// ofJob is the same for all blocks of a job.
func (k want) ofJob() want { return want{user: k.user, job: k.job} }

func wantOf(j *wire.JobRef, id headrace.BlockID) want { return want{j.GetUser(), j.GetJob(), id} }

const jobPrefix = "cluster:"

// jobKey names a job of the cluster for the engine.
func (k want) jobKey() headrace.JobID {
	return headrace.JobID(jobPrefix + k.user + "/" + k.job)
}

// IsJob reports whether a job of the engine is one of the cluster. Whether it has ended
// the manager knows.
func IsJob(job headrace.JobID) bool { return strings.HasPrefix(string(job), jobPrefix) }

// job is one of the cluster for which blocks are to be kept in memory. The engine has few requests for it, however
// many blocks these are. Blocks.mu guards it.
type job struct {
	facts  *wire.JobFacts
	blocks int // that are wanted for it
	// requests are those of the engine, with how many blocks each has; last is the one that further blocks
	// go to, of which given have by now.
	requests map[warm.RequestID]int
	last     warm.RequestID
	given    int
	// fresh are blocks that were found and are not given yet; changed: the engine does not know the facts yet.
	fresh   []*warming
	changed bool
}

// maxGiven is how many blocks a request is given: it remembers files that were taken out again until it ends.
const maxGiven = 1 << 16

// warming is a block that is to be kept in memory for a job. Blocks.mu guards it.
type warming struct {
	job   *job
	block headrace.Block // without hosts
	place uint32
	// request of the engine has its files, of the replica with this inode; empty: none has.
	request warm.RequestID
	inode   inode
	files   []warm.File
	// read are the parts that the job has read; see pagecache.ReadWatched.
	read []uint64
	turn
	// asked is when the engine was asked last.
	asked time.Time
	// round is the last in which the manager named it; see Blocks.round.
	round uint64

	now           outcome
	told, telling outcome
}

// outcome is how it stands with a block.
type outcome struct {
	state  wire.KeptState
	reason string
}

var planned = outcome{state: wire.KeptState_KEPT_STATE_PLANNED}

// readAs takes in what is to be kept from now on; nil: nothing has changed. b.mu is held.
func (b *Blocks) readAs(a *wire.BlocksToRead) {
	switch {
	case a.GetFull():
		b.round++
		b.whole = true
	case a.GetNumber() == 0 && b.whole: // it has all been told
		b.whole = false
		for k, w := range b.wanted {
			if w.round != b.round {
				b.cool(k, w)
			}
		}
	}
	for _, j := range a.GetLetGo() {
		for block := range convert.BlocksToKeep(j.Blocks...) {
			k := wantOf(j.Job.GetJob(), block.ID)
			if w := b.wanted[k]; w != nil {
				b.cool(k, w)
			}
		}
	}
	for _, j := range a.GetKeep() {
		if j.GetJob().GetJob() == nil {
			continue // for nobody
		}
		for block, place := range convert.BlocksToKeep(j.Blocks...) {
			b.keep(wantOf(j.Job.GetJob(), block.ID), j.Job, block, place)
		}
	}
}

// jobOf returns the job of a block, of which this is said. b.mu is held.
func (b *Blocks) jobOf(k want, facts *wire.JobFacts) *job {
	j := b.jobs[k.ofJob()]
	if j == nil {
		j = &job{facts: facts, requests: map[warm.RequestID]int{}}
		b.jobs[k.ofJob()] = j
	}
	if was := j.facts; was.Input != facts.Input || was.SubmittedMs != facts.SubmittedMs || was.Implicit != facts.Implicit {
		j.changed = true
	}
	j.facts = facts
	return j
}

// keep has a block kept in memory for a job. How it stands with it is told once more. b.mu
// is held.
func (b *Blocks) keep(k want, facts *wire.JobFacts, block headrace.Block, place uint32) {
	j, w := b.jobOf(k, facts), b.wanted[k]
	if w == nil {
		w = &warming{job: j, now: planned, turn: turn{order: b.answers}}
		b.wanted[k] = w
		j.blocks++
	}
	// What has come to nothing is tried again: that is why it is named again.
	if w.block.Generation != block.Generation || w.block.Bytes != block.Bytes || w.now.state >= wire.KeptState_KEPT_STATE_READ {
		b.release(w)
		w.turn, w.now, w.read = turn{order: b.answers}, planned, nil
	}
	w.block, w.place, w.round, w.told = block, place, b.round, outcome{}
}

// cool ends what is done for a block. b.mu is held.
func (b *Blocks) cool(k want, w *warming) {
	b.release(w)
	delete(b.wanted, k)
	if w.job.blocks--; w.job.blocks == 0 {
		delete(b.jobs, k.ofJob())
	}
}

// release takes the files of a block back from the engine. b.mu is held.
func (b *Blocks) release(w *warming) {
	if w.request == "" {
		return
	}
	b.dropped[w.request] = append(b.dropped[w.request], w.files...)
	if w.job.requests[w.request]--; w.job.requests[w.request] == 0 {
		delete(w.job.requests, w.request) // the engine ends it
		if w.job.last == w.request {
			w.job.last = ""
		}
	}
	w.request = ""
}

// begin finds a block for the engine, or looks whether its replica is still the one that the
// engine has. b.mu is held.
func (b *Blocks) begin(ctx context.Context, w *warming, now time.Time) {
	if b.cfg.Engine == nil {
		w.miss(now)
		w.now = outcome{wire.KeptState_KEPT_STATE_FAILED, text(b.cfg.Refusal)}
		return
	}
	r, err := b.cfg.Replicas.Find(ctx, w.block)
	if err != nil && ctx.Err() != nil { // there was no time for it
		return
	}
	w.miss(now)
	if err != nil {
		b.fail(w, err)
		return
	}
	defer r.Data.Close()
	found, _, err := inodeOf(r.Data)
	if err == nil && w.request != "" && found == w.inode && slices.Equal(r.Files, w.files) {
		w.found(now)
		return
	}
	b.release(w)
	if err != nil {
		b.fail(w, err)
		return
	}
	w.found(now)
	w.inode, w.files, w.now = found, r.Files, planned
	w.job.fresh = append(w.job.fresh, w)
}

// fail notes why a block cannot be read. It is tried again, for as long as the manager
// does not have another node read it. b.mu is held.
func (b *Blocks) fail(w *warming, err error) {
	b.release(w)
	w.now = outcome{wire.KeptState_KEPT_STATE_FAILED, reason(err)}
}

// hand tells the engine what it has to keep no more, and what it is to keep: of many blocks at once. b.mu is held.
func (b *Blocks) hand(now time.Time) {
	for id, files := range b.dropped {
		b.cfg.Engine.Drop(id, files) // if it is there: an engine that was closed has none
	}
	clear(b.dropped)
	for k, j := range b.jobs {
		if j.changed {
			j.changed = false
			for id := range j.requests {
				b.cfg.Engine.Put(b.requestOf(k, j, id, nil))
			}
		}
		if len(j.fresh) > 0 {
			b.give(k, j, now)
		}
	}
}

// give gives the engine the blocks of a job that have been found. b.mu is held.
func (b *Blocks) give(k want, j *job, now time.Time) {
	fresh := j.fresh
	j.fresh = nil
	if j.facts.Implicit {
		fresh = slices.DeleteFunc(fresh, func(w *warming) bool {
			done := pagecache.ReadBytes(w.read, w.block.Bytes) == w.block.Bytes // before it was found
			if done {
				w.now = outcome{state: wire.KeptState_KEPT_STATE_READ}
			}
			return done
		})
		if len(fresh) == 0 {
			return
		}
	}
	// The job's last ones first: should it begin meanwhile, it begins at the other end.
	slices.SortFunc(fresh, func(a, b *warming) int { return cmp.Compare(b.place, a.place) })
	var files []warm.File
	for _, w := range fresh {
		files = append(files, w.files...)
	}
	if j.last == "" || j.given >= maxGiven {
		b.numbers++
		j.last, j.given = warm.RequestID(fmt.Sprint(k.jobKey(), "/", b.numbers)), 0
	}
	if err := b.cfg.Engine.Put(b.requestOf(k, j, j.last, files)); err != nil {
		for _, w := range fresh {
			b.fail(w, err)
			w.miss(now)
		}
		return
	}
	j.given += len(fresh)
	j.requests[j.last] += len(fresh)
	for _, w := range fresh {
		w.request = j.last
	}
}

// requestOf asks for files, the data of blocks and their checksums.
func (b *Blocks) requestOf(k want, j *job, id warm.RequestID, files []warm.File) warm.Request {
	return warm.Request{
		ID: id, Job: k.jobKey(), Owner: b.cfg.Owner,
		Bytes: j.facts.Input, Seq: uint64(j.facts.SubmittedMs), Implicit: j.facts.Implicit, Leave: true, Files: files,
	}
}

// errLetGo: the engine has no such request any more. It is closed after the Blocks.
var errLetGo = errors.New("its request was ended on that machine by hand")

// settledFor is how long after something has come to an end it is asked about again.
const settledFor = 5 * time.Second

// ask brings what is known of the engine's files up to date. b.mu is held.
func (b *Blocks) ask(now time.Time) {
	var due []*warming
	var files []warm.FileOf
	for _, w := range b.wanted {
		if w.request == "" || w.now != planned && now.Before(w.asked.Add(settledFor)) {
			continue
		}
		due = append(due, w)
		for _, f := range w.files {
			files = append(files, warm.FileOf{Request: w.request, File: f})
		}
	}
	if len(due) == 0 {
		return
	}
	all := b.cfg.Engine.Files(files)
	for _, w := range due {
		its := all[:len(w.files)]
		all, w.asked = all[len(w.files):], now
		if slices.ContainsFunc(its, func(f warm.FileStatus) bool { return !f.Known }) {
			b.fail(w, errLetGo)
			w.miss(now)
			continue
		}
		if w.now = outcomeOf(its); w.now.state == wire.KeptState_KEPT_STATE_FAILED {
			b.release(w)
			w.miss(now)
		}
	}
}

// outcomeOf says how it stands with a block, whose files stand like that.
func outcomeOf(files []warm.FileStatus) outcome {
	all := warm.FileStatus{Done: true}
	for _, f := range files {
		if f.Failed {
			return outcome{wire.KeptState_KEPT_STATE_FAILED, text(cmp.Or(f.Reason, "it could not be read"))}
		}
		all.Pinned, all.Resident, all.Read, all.NotFit = all.Pinned+f.Pinned, all.Resident+f.Resident, all.Read+f.Read, all.NotFit+f.NotFit
		all.Done, all.Reason = all.Done && f.Done, cmp.Or(all.Reason, f.Reason)
	}
	switch {
	case all.NotFit > 0:
		return outcome{wire.KeptState_KEPT_STATE_NOT_FIT, text(all.Reason)}
	case !all.Done:
		return planned
	case all.Read > 0:
		return outcome{state: wire.KeptState_KEPT_STATE_READ}
	case all.Resident > all.Pinned:
		return outcome{state: wire.KeptState_KEPT_STATE_RESIDENT}
	}
	return outcome{state: wire.KeptState_KEPT_STATE_PINNED}
}

// reportKept tells how it stands with blocks where that has changed, or with all of all
// that are kept. b.mu is held.
func (b *Blocks) reportKept(all bool, now time.Time) []*wire.KeptBlocks {
	type key struct {
		user, job, pool string
		outcome
	}
	found := map[key]*wire.KeptBlocks{}
	var list []*wire.KeptBlocks
	b.ask(now)
	for k, w := range b.wanted {
		w.telling = w.now
		if w.telling == w.told && !all {
			continue
		}
		at := key{k.user, k.job, k.Pool, w.now}
		m := found[at]
		if m == nil {
			m = &wire.KeptBlocks{Job: w.job.facts.Job, State: w.now.state, Reason: w.now.reason, Blocks: &wire.BlocksToKeep{}}
			found[at], list = m, append(list, m)
		}
		convert.AddToKeep(m.Blocks, w.block, w.place)
	}
	return list
}

// jobFacts tells what is known of all jobs for which something is kept. b.mu is held.
func (b *Blocks) jobFacts() (list []*wire.JobFacts) {
	for _, j := range b.jobs {
		list = append(list, j.facts)
	}
	return list
}

// bytes returns how much is to be read still, and how much is locked for jobs of the
// cluster, for several jobs once. b.mu is held.
func (b *Blocks) bytes() (queued, pinned int64) {
	counted := map[headrace.BlockID]bool{}
	for k, w := range b.wanted {
		switch w.now.state {
		case wire.KeptState_KEPT_STATE_PLANNED:
			queued += w.block.Bytes
		case wire.KeptState_KEPT_STATE_PINNED:
			if !counted[k.BlockID] {
				counted[k.BlockID] = true
				pinned += w.block.Bytes
			}
		}
	}
	return queued, pinned
}
