package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/report"
	"headrace/serve"
	"headrace/stream"
	"headrace/stream/deal"
	"headrace/wire"
)

// Found is what paths mean: how many files, of how many bytes, and how many of these
// were in memory, as far as is known.
type Found struct{ Files, Bytes, Resident int64 }

// CheckInput refuses what cannot be read, or dealt.
func (f *Files) CheckInput(q *wire.Input) error {
	if err := checkPaths(q.Paths); err != nil {
		return err
	}
	switch q.Split {
	case wire.Split_SPLIT_NONE:
		if q.Tasks > 1 {
			return serve.Refusal("%d tasks, but no split says how they share the input; give one", q.Tasks)
		}
	case wire.Split_SPLIT_LINES, wire.Split_SPLIT_FIXED, wire.Split_SPLIT_RAW, wire.Split_SPLIT_FILES:
	default:
		return serve.Refusal("split %d is unknown", q.Split)
	}
	if q.Tasks > stream.MaxConsumers {
		return serve.Refusal("%d tasks; at most %d can share an input", q.Tasks, stream.MaxConsumers)
	}
	if q.Buffer != 0 && q.Buffer < stream.MinBuffer {
		return serve.Refusal("a buffer of %s is too small; give at least %s, or nothing for the default", report.Bytes(q.Buffer), report.Bytes(stream.MinBuffer))
	}
	return checkRecord(q, f.buffer)
}

// checkRecord refuses records of a fixed size that no buffer of the request can
// hold; usual is the daemon's.
func checkRecord(q *wire.Input, usual int64) error {
	buffer := cmp.Or(q.Buffer, usual, stream.DefaultBuffer)
	if q.Split == wire.Split_SPLIT_FIXED && q.RecordSize > buffer {
		return serve.Refusal("records of %s do not fit into the buffer of %s; give a larger one, or smaller records", report.Bytes(q.RecordSize), report.Bytes(buffer))
	}
	return nil
}

// Find finds the files that a command will open itself.
func (f *Files) Find(ctx context.Context, owner linux.Credentials, paths []string) (Found, error) {
	var found Found
	err := f.searches.find(ctx, owner, paths, fileset.Visitor{File: func(file fileset.File) error {
		found.Files++
		found.Bytes = fileset.AddSizes(found.Bytes, file.Size)
		found.Resident += f.resident(file.Path, file.Size)
		return nil
	}})
	return found, asRefusal(err)
}

// resident returns how much of a file is in memory now, as far as can be known.
func (r *reading) resident(path string, size int64) int64 {
	f, err := fileset.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, err := r.cache.Resident(f, pagecache.Range{Len: size})
	if err != nil {
		return 0
	}
	return n
}

// OpenStream opens the stream that deals the input to consumers, with the usual
// buffer if none is named. It is durable.
func (f *Files) OpenStream(ctx context.Context, q *wire.Input, owner linux.Credentials, consumers int) (id string, found Found, err error) {
	limits, err := pagecache.ReadLimits()
	if err != nil {
		return "", found, err
	}
	spec := stream.Spec{Owner: owner, Paths: q.Paths, Rule: ruleOf(q), Consumers: consumers}
	if spec.Buffer, err = bufferFor(q.Buffer, f.buffer, limits); err != nil {
		return "", found, err
	}
	if err := spec.Rule.Check(); err != nil {
		return "", found, serve.Refusal("%v", err)
	}
	if err := f.streamRoom(owner.UID); err != nil {
		return "", found, err
	}
	end, err := f.searches.Begin(ctx, owner.UID)
	if err != nil {
		return "", found, err
	}
	defer end()
	info, err := f.streams.Open(ctx, spec)
	return info.ID, Found{Files: int64(info.Files), Bytes: info.Bytes}, asRefusal(err)
}

// ruleOf returns how the records of a request end.
func ruleOf(q *wire.Input) deal.Rule {
	switch q.Split {
	case wire.Split_SPLIT_LINES:
		if len(q.Delimiter) == 0 {
			return deal.Rule{Split: deal.Lines, Delimiter: []byte("\n")}
		}
		return deal.Rule{Split: deal.Lines, Delimiter: q.Delimiter}
	case wire.Split_SPLIT_FIXED:
		return deal.Rule{Split: deal.Fixed, Size: q.RecordSize}
	case wire.Split_SPLIT_FILES:
		return deal.Rule{Split: deal.Files}
	}
	return deal.Rule{Split: deal.Raw}
}

// bufferFor returns the size of a stream's buffer: what is asked for, else the usual
// one of this daemon. It is at most half of what memory there is: a daemon that
// goes past the limit of its cgroup is killed.
func bufferFor(asked, usual int64, l pagecache.Limits) (int64, error) {
	left, of := leftForBuffers(l)
	most := left / 2
	switch {
	case most < stream.MinBuffer:
		return 0, serve.Refusal("a buffer takes %s or more, and %s leaves %s, of which it may take half; wait for other jobs, have less kept by headrace warm, or start the daemon with more memory",
			report.Bytes(stream.MinBuffer), of, report.Bytes(left))
	case asked > most:
		return 0, serve.Refusal("a buffer of %s is more than half of the %s that %s leaves; give a smaller --buffer, or start the daemon with more memory",
			report.Bytes(asked), report.Bytes(left), of)
	case asked > 0:
		return asked, nil
	}
	return min(cmp.Or(usual, stream.DefaultBuffer), most), nil
}

// leftForBuffers returns what memory there is, of which buffers may take half, and whose
// it is.
func leftForBuffers(l pagecache.Limits) (left int64, of string) {
	if l.Cgroup.Dir != "" && l.Cgroup.Free < l.Memory {
		return l.Cgroup.Free, "the memory limit over the daemon"
	}
	return l.Memory, "the machine"
}

// maxStreams is how many streams an ordinary user may have open.
const maxStreams = 1000

func (f *Files) streamRoom(uid uint32) error {
	if uid == 0 {
		return nil
	}
	n := 0
	for _, info := range f.streams.List() {
		if info.UID == uid {
			n++
		}
	}
	if n >= maxStreams {
		return fmt.Errorf("%w: you have %d streams; wait until tasks that read have ended, or kill some", serve.ErrBusy, n)
	}
	return nil
}

// asRefusal tells apart what is wrong with the files, or too much, from what is wrong
// here.
func asRefusal(err error) error {
	var over *budget.Refusal
	if errors.As(err, &over) && !errors.Is(err, serve.ErrBusy) {
		return fmt.Errorf("%w: %w", serve.ErrBusy, over)
	}
	var problem *fileset.Problem
	if errors.As(err, &problem) {
		return serve.Refusal("%s", serve.Shown(err.Error()))
	}
	return err
}

// Streams returns the ids of all streams.
func (f *Files) Streams() []string {
	var ids []string
	for _, info := range f.streams.List() {
		ids = append(ids, info.ID)
	}
	return ids
}

// Dealt is what a stream has dealt to all its consumers, in bytes, and to one, in
// bytes and units.
type Dealt struct {
	All   int64 `json:"all"`
	Here  int64 `json:"here"`
	Units int   `json:"units"`
}

// Dealt returns what a stream has dealt to a consumer; nil: there is no such stream.
func (f *Files) Dealt(id string, consumer int) *Dealt {
	info, err := f.streams.Info(id)
	if err != nil {
		return nil
	}
	sum := &Dealt{All: info.DealtBytes}
	if consumer < len(info.Consumers) {
		sum.Here, sum.Units = info.Consumers[consumer].Bytes, info.Consumers[consumer].Units
	}
	return sum
}

// StreamTrouble returns why a stream has failed, empty if it has not.
func (f *Files) StreamTrouble(id string) string {
	info, err := f.streams.Info(id)
	if err != nil {
		return ""
	}
	return info.Error
}

// Awaited returns the consumers without which a stream deals nothing now; see
// stream.Engine.Awaited.
func (f *Files) Awaited(id string) []int { return f.streams.Awaited(id) }

// EndAttempt says that an attempt of a consumer is over: what it was dealt goes to the
// others, unless its task is done and it has said so; see stream.Engine.Done.
func (f *Files) EndAttempt(id string, consumer, attempt int, done bool) error {
	if done {
		return unlessUnknown(f.streams.Done(id, consumer, attempt))
	}
	return unlessUnknown(f.streams.Fail(id, consumer, attempt))
}

// AbsentAttempt says that an attempt of a consumer has no processes and may come back from a
// checkpoint; see stream.Engine.Absent.
func (f *Files) AbsentAttempt(id string, consumer, attempt int) error {
	return unlessUnknown(f.streams.Absent(id, consumer, attempt))
}

// AwaitsNewer reports whether only a newer version knows what a stream deals; see stream.Engine.AwaitsNewer.
func (f *Files) AwaitsNewer(id string) bool { return f.streams.AwaitsNewer(id) }

// RemoveStream removes a stream that nobody will read any more.
func (f *Files) RemoveStream(id string) error { return unlessUnknown(f.streams.Remove(id)) }

func unlessUnknown(err error) error {
	if errors.Is(err, stream.ErrUnknown) {
		return nil
	}
	return err
}
