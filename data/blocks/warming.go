package blocks

import (
	"context"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/warm"
	"headrace/wire"
	"headrace/wire/convert"
)

// want is a block that a job of the cluster will read.
type want struct {
	user, job string
	headrace.BlockID
}

func wantOf(j *wire.JobRef, id headrace.BlockID) want { return want{j.GetUser(), j.GetJob(), id} }

const jobPrefix = "cluster:"

// jobKey names a job of the cluster for the engine.
func (k want) jobKey() headrace.JobID {
	return headrace.JobID(jobPrefix + k.user + "/" + k.job)
}

func (k want) request() warm.RequestID {
	return warm.RequestID(string(k.jobKey()) + "/" + k.BlockID.String())
}

// IsJob reports whether a job of the engine is one of the cluster. Whether it has ended
// the manager knows.
func IsJob(job headrace.JobID) bool { return strings.HasPrefix(string(job), jobPrefix) }

// warming is a block that is to be kept in memory for a job. Blocks.mu guards it.
type warming struct {
	facts *wire.JobFacts
	block headrace.Block // without hosts
	place uint32
	// given: the engine has a request for it, of the replica with this inode.
	given bool
	inode inode
	files []warm.File
	// read are the parts that the job has read; see pagecache.ReadWatched.
	read []uint64
	// at is when to look for its replica, or at it, again; asked when the engine was asked
	// last.
	at, asked time.Time
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

func (w *warming) due(now time.Time) bool { return !now.Before(w.at) }

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

// keep has a block kept in memory for a job. How it stands with it is told once more. b.mu
// is held.
func (b *Blocks) keep(k want, facts *wire.JobFacts, block headrace.Block, place uint32) {
	w := b.wanted[k]
	if w == nil {
		w = &warming{now: planned}
		b.wanted[k] = w
	}
	// What has come to nothing is tried again: that is why it is named again.
	if w.block.Generation != block.Generation || w.block.Bytes != block.Bytes || w.now.state >= wire.KeptState_KEPT_STATE_READ {
		b.release(k, w)
		w.at, w.now, w.read = time.Time{}, planned, nil
	}
	w.facts, w.block, w.place, w.round, w.told = facts, block, place, b.round, outcome{}
}

// cool ends what is done for a block. b.mu is held.
func (b *Blocks) cool(k want, w *warming) {
	b.release(k, w)
	delete(b.wanted, k)
}

// release takes a request back from the engine.
func (b *Blocks) release(k want, w *warming) {
	if w.given {
		w.given = false
		b.cfg.Engine.Remove(k.request()) // if it is there: an engine that was closed has none
	}
}

// begin hands a block to the engine, or looks whether its replica is still the one that the
// engine has. b.mu is held.
func (b *Blocks) begin(ctx context.Context, k want, w *warming, now time.Time) {
	w.at = now.Add(againAfter)
	if b.cfg.Engine == nil {
		w.now = outcome{wire.KeptState_KEPT_STATE_FAILED, text(b.cfg.Refusal)}
		return
	}
	r, err := b.cfg.Replicas.Find(ctx, w.block)
	if err != nil {
		b.fail(k, w, err)
		return
	}
	defer r.Data.Close()
	found, _, err := inodeOf(r.Data)
	if err == nil && w.given && found == w.inode && slices.Equal(r.Files, w.files) {
		w.at = now.Add(checkAfter)
		return
	}
	b.release(k, w)
	q := b.requestOf(k, w, r)
	if err == nil {
		err = b.cfg.Engine.Add(q)
	}
	if err != nil {
		b.fail(k, w, err)
		return
	}
	w.given, w.inode, w.files, w.at, w.now = true, found, q.Files, now.Add(checkAfter), planned
}

// fail notes why a block cannot be read. It is tried again, for as long as the manager
// does not have another node read it. b.mu is held.
func (b *Blocks) fail(k want, w *warming, err error) {
	b.release(k, w)
	w.now = outcome{wire.KeptState_KEPT_STATE_FAILED, reason(err)}
}

// requestOf asks for the data of a block and its checksums.
func (b *Blocks) requestOf(k want, w *warming, c *Copy) warm.Request {
	return warm.Request{
		ID: k.request(), Job: k.jobKey(), Owner: b.cfg.Owner,
		Bytes: w.facts.Input, Seq: uint64(w.facts.SubmittedMs), Implicit: w.facts.Implicit, Files: c.Files,
	}
}

// settledFor is how long after something has come to an end it is asked about again.
const settledFor = 5 * time.Second

// ask brings what is known of a request up to date. b.mu is held.
func (b *Blocks) ask(k want, w *warming, now time.Time) {
	if !w.given || w.now != planned && now.Before(w.asked.Add(settledFor)) {
		return
	}
	w.asked = now
	st, err := b.cfg.Engine.Brief(k.request())
	if err != nil { // the engine has been closed
		return
	}
	if w.now = outcomeOf(&st); w.now.state == wire.KeptState_KEPT_STATE_FAILED {
		b.release(k, w)
		w.at = now.Add(againAfter)
	}
}

func outcomeOf(st *warm.Status) outcome {
	switch {
	case st.FailedFiles > 0:
		why := "it could not be read"
		if len(st.Failures) > 0 {
			why = text(st.Failures[0].Reason)
		}
		return outcome{wire.KeptState_KEPT_STATE_FAILED, why}
	case st.NotFit > 0:
		return outcome{wire.KeptState_KEPT_STATE_NOT_FIT, text(st.NotFitReason)}
	case !st.Done:
		return planned
	case st.Read > 0:
		return outcome{state: wire.KeptState_KEPT_STATE_READ}
	case st.Resident > st.Pinned:
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
	for k, w := range b.wanted {
		b.ask(k, w, now)
		w.telling = w.now
		if w.telling == w.told && !all {
			continue
		}
		at := key{k.user, k.job, k.Pool, w.now}
		m := found[at]
		if m == nil {
			m = &wire.KeptBlocks{Job: w.facts.Job, State: w.now.state, Reason: w.now.reason, Blocks: &wire.BlocksToKeep{}}
			found[at], list = m, append(list, m)
		}
		convert.AddToKeep(m.Blocks, w.block, w.place)
	}
	return list
}

// jobs tells what is known of all jobs for which something is kept. b.mu is held.
func (b *Blocks) jobs() (list []*wire.JobFacts) {
	seen := map[headrace.JobID]bool{}
	for k, w := range b.wanted {
		if id := k.jobKey(); !seen[id] {
			seen[id] = true
			list = append(list, w.facts)
		}
	}
	return list
}

// bytes returns how much is to be read still, and how much is locked for jobs of the
// cluster. b.mu is held.
func (b *Blocks) bytes() (queued, pinned int64) {
	for _, w := range b.wanted {
		switch w.now.state {
		case wire.KeptState_KEPT_STATE_PLANNED:
			queued += w.block.Bytes
		case wire.KeptState_KEPT_STATE_PINNED:
			pinned += w.block.Bytes
		}
	}
	return queued, pinned
}
