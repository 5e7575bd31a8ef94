package data

import (
	"context"
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
	Order uint64
}

const streamPrefix = "stream:"

// StreamKey is the key of the input that a stream deals: what it has dealt is let go
// at once.
func StreamKey(stream string) string { return streamPrefix + stream }

// Keeps reports whether anything is kept in memory here; else Keep must not be
// called.
func (f *Files) Keeps() bool { return f.warming != nil }

// Keep has an input kept in memory. It searches the files.
func (f *Files) Keep(ctx context.Context, in Input) error {
	w := f.warming
	found, err := w.find(ctx, in.Owner, in.Paths, nil, maxWarmFiles)
	if err != nil || len(found.files) == 0 {
		return err
	}
	key := headrace.JobID(in.Key)
	w.mu.Lock()
	w.inputs[key] = in
	w.mu.Unlock()
	return w.engine.Add(warm.Request{
		ID: warm.RequestID(key), Job: key, Owner: in.Owner, Files: found.files,
		Bytes: in.Bytes, Order: in.Order, Implicit: strings.HasPrefix(in.Key, streamPrefix),
	})
}

// LetGo ends the keeping of an input, if it is kept.
func (f *Files) LetGo(key string) {
	w := f.warming
	w.mu.Lock()
	delete(w.inputs, headrace.JobID(key))
	w.mu.Unlock()
	w.engine.Remove(warm.RequestID(key))
}

// input is the input that has a key; false: the key is that of a user's request.
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
