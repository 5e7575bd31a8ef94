package solo

import (
	"context"
	"strings"

	"headrace"
	"headrace/pagecache"
	"headrace/warm"
)

// The inputs of waiting tasks are read into memory while they wait (ignem,
// section II.C.1: lead time). A task that opens its files itself has a request of
// its own, which ends with it. The tasks of a stream have one together; what the
// stream has dealt is let go at once.

const (
	ofTask   = "task:"
	ofStream = "stream:"
)

// inputKey names the request for the task's input.
func (t *task) inputKey() string {
	if id := t.streamOf(); id != "" {
		return ofStream + id
	}
	return ofTask + string(t.rec.ID)
}

// warmSoon has the input of a task warmed if the decision of this turn leaves it
// waiting.
func (l *loop) warmSoon(t *task) {
	if t.rec.Input != nil && !t.rec.Input.NoWarm && l.warming != nil {
		l.atEnd = append(l.atEnd, func() { l.warmInput(t) })
	}
}

func (l *loop) warmInput(t *task) {
	key := t.inputKey()
	// Of the tasks of a stream the first has the paths.
	if t.rec.State != headrace.Pending || t.op != nil || l.warmed[key] || len(t.rec.Input.Paths) == 0 || l.streamBegun(t.streamOf()) {
		return
	}
	l.warmed[key] = true
	in, cred, order := t.rec.Input, t.spec.Credentials(), t.rec.Order
	w := l.warming
	l.later(func() { // the board has to show the task first: see inputAlive
		l.background(func(ctx context.Context) func() {
			found, err := w.find(ctx, cred, in.Paths, nil, maxWarmFiles)
			if err == nil && len(found.files) > 0 {
				err = w.engine.Add(warm.Request{
					ID: warm.RequestID(key), Job: headrace.JobID(key), Owner: cred, Files: found.files,
					Bytes: in.Bytes, Order: order, Implicit: in.Stream != "",
				})
			}
			if err != nil && ctx.Err() == nil {
				l.log.Warn("the input of a waiting task is not read ahead", "id", t.rec.ID, "err", err)
			}
			return func() {
				if !l.warmed[key] {
					l.cool(key) // it has ended meanwhile
				}
			}
		})
	})
}

// streamBegun tells whether a task of the stream has started: then the stream
// reads by itself.
func (l *loop) streamBegun(id string) bool {
	if id == "" {
		return false
	}
	for _, t := range l.active {
		if t.streamOf() == id && t.rec.Starts > 0 {
			return true
		}
	}
	return false
}

// coolInput lets go of the input of a task that has ended.
func (l *loop) coolInput(t *task) {
	if t.rec.Input == nil || !l.warmed[t.inputKey()] {
		return
	}
	if id := t.streamOf(); id != "" {
		for _, other := range l.active {
			if other != t && other.streamOf() == id {
				return
			}
		}
	}
	delete(l.warmed, t.inputKey())
	l.cool(t.inputKey())
}

func (l *loop) cool(key string) {
	w := l.warming
	l.background(func(context.Context) func() {
		w.engine.Remove(warm.RequestID(key)) // if it is there
		return nil
	})
}

// streamRead tells the warming that a part of a file has been read for a stream.
func (w *warming) streamRead(stream, path string, r pagecache.Range) {
	if w != nil {
		w.engine.Read(headrace.JobID(ofStream+stream), path, r)
	}
}

// inputAlive tells whether the tasks of such a request have not ended; is is false
// for requests of users.
func (w *warming) inputAlive(job headrace.JobID) (alive, is bool) {
	if id, ok := strings.CutPrefix(string(job), ofTask); ok {
		t, found := w.board.get(headrace.TaskID(id), viewer{all: true})
		return found && !t.rec.State.Final(), true
	}
	id, ok := strings.CutPrefix(string(job), ofStream)
	if !ok {
		return false, false
	}
	for _, t := range w.board.list(viewer{all: true}, false) {
		if in := t.rec.Input; in != nil && in.Stream == id {
			return true, true
		}
	}
	return false, true
}

// inputName is what to call the holder of such a request, empty for another one.
func (w *warming) inputName(job headrace.JobID) string {
	if id, ok := strings.CutPrefix(string(job), ofTask); ok {
		return "task " + id
	}
	if id, ok := strings.CutPrefix(string(job), ofStream); ok {
		return "job " + w.board.jobOf(id)
	}
	return ""
}
