package data

import (
	"strings"

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
	w.inputs[key] = in
	w.wg.Go(func() {
		if err := w.keep(key, in); err != nil && w.ctx.Err() == nil {
			w.log.Warn("what somebody waits to read is not read ahead", "for", in.Name, "err", err)
		}
		if _, kept := w.input(key); !kept { // it was let go meanwhile
			w.engine.Remove(warm.RequestID(key))
		}
	})
}

func (w *warming) keep(key headrace.JobID, in Input) error {
	found, err := w.find(w.ctx, in.Owner, in.Paths, nil, maxWarmFiles)
	if err != nil || len(found.files) == 0 {
		return err
	}
	return w.engine.Add(warm.Request{
		ID: warm.RequestID(key), Job: key, Owner: in.Owner, Files: found.files,
		Bytes: in.Bytes, Seq: in.Seq, Implicit: strings.HasPrefix(in.Key, streamPrefix),
	})
}

// LetGo ends the keeping of an input, if it is kept. It does not wait for that.
func (f *Files) LetGo(key string) {
	w, id := f.warming, headrace.JobID(key)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, kept := w.inputs[id]; kept {
		delete(w.inputs, id)
		w.wg.Go(func() { w.engine.Remove(warm.RequestID(id)) }) // if it is there
	}
}

// input returns the input that has a key; false: the key is that of a user's request.
func (w *warming) input(key headrace.JobID) (in Input, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in, is = w.inputs[key]
	return in, is
}

// streamRead tells the warming that a part of a file has been read for a stream.
func (w *warming) streamRead(stream, path string, r pagecache.Range) {
	if w != nil {
		w.engine.Read(headrace.JobID(StreamKey(stream)), path, r)
	}
}
