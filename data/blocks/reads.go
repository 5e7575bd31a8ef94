package blocks

import (
	"cmp"
	"slices"

	"headrace/pagecache"
	"headrace/wire"
)

// reads is what a job has read here, in bytes of its blocks, each once.
type reads struct {
	job           *wire.JobRef
	now           readBytes
	told, telling readBytes
}

// readBytes are those that were kept in memory when they were read, and those that were read
// before that.
type readBytes struct{ memory, disk int64 }

// countReads takes in which parts of blocks others have read since. Who it was the kernel does
// not say, nor does HDFS: what one job alone wants, that one has read; of what several want
// nobody knows, so that it counts for no job, and all of it for the first job that wants it still: after as many readers
// as there are jobs none does. It stands before how it stands with blocks is asked: what was read while a block
// came into memory counts as from the disk. b.mu is held.
func (b *Blocks) countReads() {
	type reading struct {
		parts []uint64
		warm  int64 // what the manager was told before of what is in memory
	}
	read, wants := map[want]reading{}, map[want][]want{} // by block
	for id, at := range b.watched {
		if file, ok := at.file.(pagecache.ReadWatched); ok {
			if parts := file.TakeReads(); parts != nil {
				read[want{BlockID: id}] = reading{parts, at.told}
			}
		}
	}
	if len(read) == 0 {
		return
	}
	for k := range b.wanted {
		id := want{BlockID: k.BlockID}
		if _, is := read[id]; is {
			wants[id] = append(wants[id], k)
		}
	}
	for id, by := range wants {
		still := slices.DeleteFunc(slices.Clone(by), func(k want) bool {
			w := b.wanted[k]
			return pagecache.ReadBytes(w.read, w.block.Bytes) == w.block.Bytes
		})
		if len(still) == 0 {
			still = by
		}
		b.hasRead(slices.MinFunc(still, b.compare), read[id].parts, read[id].warm, len(by) == 1)
	}
}

// compare orders jobs as the engine serves them.
func (b *Blocks) compare(x, y want) int {
	f, g := b.wanted[x].job.facts, b.wanted[y].job.facts
	return cmp.Or(cmp.Compare(f.Input, g.Input), cmp.Compare(f.SubmittedMs, g.SubmittedMs), cmp.Compare(x.job, y.job), cmp.Compare(x.user, y.user))
}

// hasRead notes that a job has read parts of a block, of which so much was in memory, and which count as its own if it alone wants it. What it has read all of is let go if it
// asked for that. b.mu is held.
func (b *Blocks) hasRead(k want, parts []uint64, warm int64, alone bool) {
	w := b.wanted[k]
	before := pagecache.ReadBytes(w.read, w.block.Bytes)
	if more := len(parts) - len(w.read); more > 0 {
		w.read = append(w.read, make([]uint64, more)...)
	}
	for i, p := range parts {
		w.read[i] |= p
	}
	read := pagecache.ReadBytes(w.read, w.block.Bytes)
	if alone {
		b.count(k, w, read-before, warm)
	}
	if read == w.block.Bytes && read > before && w.request != "" && w.job.facts.Implicit {
		for _, f := range w.files {
			b.cfg.Engine.Read(k.jobKey(), f.Path, pagecache.Range{Off: f.Off, Len: f.Size})
		}
		w.asked = w.asked.Add(-settledFor) // it stands otherwise now
	}
}

// count notes how much more of a block its job has read, of which so much was in memory. That alone tells where it came from as long as
// it does not stand with the block as it was asked for: the manager may have placed it here because it is in memory, and the job
// may begin at once. b.mu is held.
func (b *Blocks) count(k want, w *warming, n, warm int64) {
	r := b.reads[k.ofJob()]
	if r == nil {
		r = &reads{job: w.job.facts.Job}
		b.reads[k.ofJob()] = r
	}
	switch state := w.now.state; {
	case state == wire.KeptState_KEPT_STATE_PINNED, state == wire.KeptState_KEPT_STATE_RESIDENT, warm >= w.block.Bytes:
		r.now.memory += n
	default:
		r.now.disk += n
	}
}

// reportReads tells what jobs have read, where that has changed, or all of it. b.mu is held.
func (b *Blocks) reportReads(all bool) (list []*wire.JobReads) {
	for _, r := range b.reads {
		if r.telling = r.now; r.telling != r.told || all {
			list = append(list, &wire.JobReads{Job: r.job, Memory: r.now.memory, Disk: r.now.disk})
		}
	}
	return list
}

// toldReads notes that the last report has arrived. Of jobs for which nothing is kept any more
// what they have read is forgotten. b.mu is held.
func (b *Blocks) toldReads() {
	if len(b.reads) == 0 {
		return
	}
	wanted := map[want]bool{}
	for k := range b.wanted {
		wanted[k.ofJob()] = true
	}
	for key, r := range b.reads {
		if r.told = r.telling; r.told == r.now && !wanted[key] {
			delete(b.reads, key)
		}
	}
}
