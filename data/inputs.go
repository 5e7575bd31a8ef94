package data

import (
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

// Keep has an input kept in memory, if anything is and it is not kept already. It
// does not wait for that.
func (f *Files) Keep(in Input) {
	w, key := f.warming, headrace.JobID(in.Key)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, kept := w.inputs[key]; kept {
		return
	}
	c := &claim{of: w.memory, uid: in.Owner.UID}
	w.inputs[key] = keptInput{in, c}
	w.wg.Go(func() {
		err := w.keep(key, in, c)
		if _, kept := w.input(key); !kept { // it was let go meanwhile
			w.engine.Remove(warm.RequestID(key))
			return
		}
		if err != nil && w.ctx.Err() == nil {
			w.log.Warn("what somebody waits to read is not read ahead", "for", in.Name, "err", err)
		}
	})
}

// keptInput is an input, and what is claimed for it.
type keptInput struct {
	Input
	claim *claim
}

func (w *warming) keep(key headrace.JobID, in Input, c *claim) error {
	end, err := w.searches.Begin(w.ctx, in.Owner.UID) // each takes a thread: a daemon that starts is told of thousands at once
	if err != nil {
		return err
	}
	found, err := w.find(w.ctx, in.Owner, in.Paths, nil, c)
	end()
	if err != nil {
		return err
	}
	files, begun := found.files, in.Positions != nil
	var read []int64
	if begun {
		err := linux.AsUser(in.Owner, func() error {
			files, read = unread(files, in.Positions)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	err = w.engine.Add(warm.Request{
		ID: warm.RequestID(key), Job: key, Owner: in.Owner, Files: files,
		Bytes: in.Bytes, Seq: in.Seq, Implicit: begun || strings.HasPrefix(in.Key, streamPrefix),
	})
	for i, n := range read {
		w.engine.Read(key, files[i].Path, pagecache.Range{Len: n})
	}
	return err
}

// unread returns which files are left to be read, and how much of each has been: of those
// that are open what is before the position, of the others those before the last that is
// open, for files are read in their order. Where none is open nothing is known to be left. It has the rights of
// this thread.
func unread(files []warm.File, positions map[linux.FileID]int64) (rest []warm.File, read []int64) {
	ids := make([]fileAt, len(files))
	for i, f := range files {
		ids[i].size = f.Size
		if fd, st, err := linux.Lookup(f.Path, 0, 0); err == nil { // else it is gone, or nobody but its owner may look
			unix.Close(fd)
			ids[i].id = linux.FileIDOf(&st)
		}
	}
	at, _ := reached(ids, positions)
	for i, f := range files {
		if at[i] < f.Size {
			rest, read = append(rest, f), append(read, at[i])
		}
	}
	return rest, read
}

// fileAt is a file of an input, and its size.
type fileAt struct {
	id   linux.FileID
	size int64
}

// reached returns how much of each file has been read by who has the given positions, as unread
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
		w.wg.Go(func() { w.engine.Remove(warm.RequestID(id)) }) // if it is there
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
