package data

import (
	"maps"
	"strings"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/warm"
)

// Input is what something that waits will read. It is read into memory while that
// waits (ignem, section II.C.1: lead time), until LetGo.
type Input struct {
	// Key names the input; that of a stream is StreamKey.
	Key string
	// Name is who will read it, as people are told.
	Name string
	// Alive reports whether that has not ended. It is called from any goroutine.
	Alive func() bool
	Owner linux.Credentials
	Paths []string
	// Positions, for who has read some of it before, are where that is in the files that it
	// has open.
	Positions map[linux.FileID]int64
	// Bytes is the size of all of the job's input, Order its place in the sequence of
	// submission: the smallest goes first.
	Bytes int64
	Seq   uint64
}

const streamPrefix = "stream:"

// StreamKey returns the key of the input that a stream deals: what it has dealt is let
// go at once.
func StreamKey(stream string) string { return streamPrefix + stream }

// Keep has an input kept in memory, if anything is. One that is kept already, for somebody who was elsewhere in it, is
// kept from the new positions on; what is before them is let go. It does not wait for that.
func (f *Files) Keep(in Input) {
	w, key := f.warming, headrace.JobID(in.Key)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	was, again := w.inputs[key]
	if again && was.begun() == in.begun() && maps.Equal(was.Positions, in.Positions) {
		return
	}
	if again {
		was.claim.end()
	}
	c := &claim{of: w.memory, uid: in.Owner.UID}
	w.inputs[key] = keptInput{in, c}
	w.inOrder(key, func() {
		err := w.keep(key, in, was.Positions, c)
		if err != nil && w.ctx.Err() == nil && !c.over() { // else it is not to be kept any more, or otherwise
			w.log.Warn("what somebody waits to read is not read ahead", "for", in.Name, "err", err)
		}
	})
}

// begun tells whether somebody has begun to read it.
func (in *Input) begun() bool { return in.Positions != nil }

// inOrder does something for an input when all is done that was begun for it before. It does not wait. w.mu is held.
func (w *warming) inOrder(key headrace.JobID, do func()) {
	before, done := w.doing[key], make(chan struct{})
	w.doing[key] = done
	w.wg.Go(func() {
		if before != nil {
			<-before
		}
		do()
		w.mu.Lock()
		defer w.mu.Unlock()
		if close(done); w.doing[key] == done {
			delete(w.doing, key)
		}
	})
}

// keptInput is an input, and what is claimed for it.
type keptInput struct {
	Input
	claim *claim
}

// keep has the rest of an input be kept. It may be kept already, for who had these positions then.
func (w *warming) keep(key headrace.JobID, in Input, before map[linux.FileID]int64, c *claim) error {
	end, err := w.searches.Begin(w.ctx, in.Owner.UID) // each takes a thread: a daemon that starts is told of thousands at once
	if err != nil {
		return err
	}
	found, err := w.find(w.ctx, in.Owner, in.Paths, nil, c)
	end()
	if err != nil {
		return err
	}
	at, was := make([]int64, len(found.files)), make([]int64, len(found.files))
	err = linux.AsUser(in.Owner, func() error {
		if in.begun() {
			at = had(found.files, in.Positions)
		}
		if before != nil {
			was = had(found.files, before)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var rest []warm.File
	again := false // what was let go is to be kept
	for i, f := range found.files {
		if at[i] < f.Size {
			rest = append(rest, f)
		}
		again = again || at[i] < was[i]
	}
	if again || len(rest) == 0 {
		w.engine.Remove(warm.RequestID(key)) // if it is there
	}
	if len(rest) == 0 {
		return nil
	}
	err = w.engine.Put(warm.Request{
		ID: warm.RequestID(key), Job: key, Owner: in.Owner, Files: rest,
		Bytes: in.Bytes, Seq: in.Seq, Implicit: in.begun() || strings.HasPrefix(in.Key, streamPrefix),
	})
	for i, n := range at {
		w.engine.Read(key, found.files[i].Path, pagecache.Range{Len: n})
	}
	return err
}

// had returns how much of each file somebody has read: of those
// that are open what is before the position, of the others those before the last that is
// open, for files are read in their order. Where none is open nothing is known to be left. It has the rights of
// this thread.
func had(files []warm.File, positions map[linux.FileID]int64) []int64 {
	ids := make([]fileAt, len(files))
	for i, f := range files {
		ids[i].size = f.Size
		if fd, st, err := linux.Lookup(f.Path, 0, 0); err == nil { // else it is gone, or nobody but its owner may look
			unix.Close(fd)
			ids[i].id = linux.FileIDOf(&st)
		}
	}
	at, _ := reached(ids, positions)
	return at
}

// fileAt is a file of an input, and its size.
type fileAt struct {
	id   linux.FileID
	size int64
}

// reached returns how much of each file has been read by who has the given positions, as had
// tells; open: it has any of them open.
func reached(files []fileAt, positions map[linux.FileID]int64) (at []int64, open bool) {
	at = make([]int64, len(files))
	last := -1
	for i, f := range files {
		at[i] = f.size
		if pos, open := positions[f.id]; open {
			at[i], last = min(pos, f.size), i
		}
	}
	for i := range files {
		if i > last && last >= 0 {
			at[i] = 0
		}
	}
	return at, last >= 0
}

// LetGo ends the keeping of an input, if it is kept. It does not wait for that.
func (f *Files) LetGo(key string) {
	w, id := f.warming, headrace.JobID(key)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if in, kept := w.inputs[id]; kept {
		delete(w.inputs, id)
		in.claim.end()
		w.inOrder(id, func() { w.engine.Remove(warm.RequestID(id)) }) // if it is there
	}
}

// input returns the input that has a key; false: the key is that of a user's request.
func (w *warming) input(key headrace.JobID) (in Input, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept, is := w.inputs[key]
	return kept.Input, is
}

// streamRead tells the warming that a part of a file has been read for a stream.
func (w *warming) streamRead(stream, path string, r pagecache.Range) {
	if w != nil {
		w.engine.Read(headrace.JobID(StreamKey(stream)), path, r)
	}
}
