package solo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/report"
	"headrace/warm"
	"headrace/wire"
)

// warmPause is the time between two messages of WatchWarm; warmLook how long
// nothing may change before it is looked again why a request waits.
const (
	warmPause = 200 * time.Millisecond
	warmLook  = time.Second
)

var errNoWarming = errors.New("this daemon keeps no files in memory; start it without --no-warm")

// Warm accepts a request to keep files in memory.
func (s *dataService) Warm(ctx context.Context, q *wire.WarmRequest) (*wire.WarmStatus, error) {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkWarm(q); err != nil {
		return nil, coded(err)
	}
	e, err := s.warming.add(ctx, by, warmRecord{Job: headrace.JobID(q.Job), Budget: q.Budget, Paths: q.Paths})
	if err != nil {
		return nil, coded(err)
	}
	status, err := s.warmStatus(warm.RequestID(e.rec.ID), by.viewer())
	if err != nil {
		return nil, coded(err)
	}
	return status, nil
}

func checkWarm(q *wire.WarmRequest) error {
	if err := checkInputPaths(q.Paths); err != nil {
		return err
	}
	if q.Budget < 0 {
		return refusal("a budget of %d bytes; give a number, or 0 for as much as there is", q.Budget)
	}
	return checkLabels(&wire.RunRequest{Job: q.Job})
}

// warmCaller is the caller, if anything is kept in memory here.
func (s *dataService) warmCaller(ctx context.Context) (caller, error) {
	by, err := callerOf(ctx)
	if err == nil && s.warming == nil {
		err = connect.NewError(connect.CodeFailedPrecondition, errNoWarming)
	}
	return by, err
}

// WatchWarm sends how a request stands until nothing more can be done for it.
func (s *dataService) WatchWarm(ctx context.Context, q *wire.WatchWarmRequest, stream *connect.ServerStream[wire.WarmStatus]) error {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return err
	}
	id := warm.RequestID(q.Id)
	if e := s.warming.entry(id); e != nil {
		if !by.viewer().sees(e.rec.UID) {
			return noRequest(q.Id)
		}
		if err := s.warming.awaitFound(ctx, e); err != nil {
			return coded(err)
		}
	}
	var seen uint64
	for {
		status, version, err := s.awaitWarm(ctx, id, by.viewer(), seen)
		if err != nil {
			return coded(err)
		}
		if err := stream.Send(status); err != nil {
			return err
		}
		if slices.Contains([]string{"full", "done", "released"}, status.State) {
			return nil
		}
		seen = version
		select {
		case <-time.After(warmPause):
		case <-ctx.Done():
			return coded(context.Cause(ctx))
		}
	}
}

// awaitFound waits until it is known which files a request is about.
func (w *warming) awaitFound(ctx context.Context, e *warmEntry) error {
	select {
	case <-e.found:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ctx.Done():
		return errStopping
	}
}

// awaitWarm waits for a change, but not for long: of what a request waits for
// nobody tells.
func (s *dataService) awaitWarm(ctx context.Context, id warm.RequestID, v viewer, seen uint64) (*wire.WarmStatus, uint64, error) {
	short, cancel := context.WithTimeout(ctx, warmLook)
	defer cancel()
	stop := context.AfterFunc(s.warming.ctx, cancel)
	defer stop()
	st, err := s.warming.engine.Watch(short, id, seen)
	switch {
	case err == nil && !v.sees(st.UID):
		return nil, 0, noRequest(string(id))
	case err == nil:
		return s.wireWarm(st), st.Version, nil
	case ctx.Err() != nil:
		return nil, 0, ctx.Err()
	case s.warming.ctx.Err() != nil:
		return nil, 0, errStopping
	}
	status, err := s.warmStatus(id, v)
	return status, seen, err
}

func noRequest(id string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no request %q; headrace warm lists yours", id))
}

func (w *warming) entry(id warm.RequestID) *warmEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[id]
}

// warmStatus is how a request stands now.
func (s *dataService) warmStatus(id warm.RequestID, v viewer) (*wire.WarmStatus, error) {
	st, err := s.warming.engine.Status(id)
	if err == nil && v.sees(st.UID) {
		return s.wireWarm(st), nil
	}
	if e := s.warming.entry(id); e != nil && v.sees(e.rec.UID) {
		return s.wireEntry(e), nil
	}
	return nil, noRequest(string(id))
}

// ListWarm lists the caller's requests, and what is kept for their tasks.
func (s *dataService) ListWarm(ctx context.Context, _ *wire.ListWarmRequest) (*wire.ListWarmResponse, error) {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return nil, err
	}
	list := &wire.ListWarmResponse{}
	listed := map[warm.RequestID]bool{}
	all := map[warm.RequestID]warm.Status{}
	stood := s.warming.engine.List()
	for _, st := range stood {
		all[st.ID] = st
	}
	for _, e := range s.warming.sorted() {
		rec := s.warming.recordOf(e)
		id := warm.RequestID(rec.ID)
		listed[id] = true
		if !by.viewer().sees(rec.UID) {
			continue
		}
		status := s.wireEntry(e)
		if st, ok := all[id]; ok {
			status = s.wireWarm(st)
		}
		for _, p := range rec.Paths[:min(len(rec.Paths), maxProblems)] {
			status.Paths = append(status.Paths, shown(p))
		}
		list.Requests = append(list.Requests, status)
	}
	for _, st := range stood {
		if !listed[st.ID] && by.viewer().sees(st.UID) {
			list.Requests = append(list.Requests, s.wireWarm(st))
		}
	}
	return list, nil
}

// wireEntry shows a request that the engine does not know.
func (s *dataService) wireEntry(e *warmEntry) *wire.WarmStatus {
	m := &wire.WarmStatus{State: "queued"}
	s.fillEntry(m, e)
	select {
	case <-e.found:
		if e.count == 0 {
			m.State = "done" // there is nothing that it could keep
		}
	default:
	}
	s.fillBudget(m)
	return m
}

// fillEntry adds what only the record knows.
func (s *dataService) fillEntry(m *wire.WarmStatus, e *warmEntry) {
	rec := s.warming.recordOf(e)
	m.Id, m.Job, m.User, m.SubmittedMs = rec.ID, string(rec.Job), userName(rec.UID), rec.SubmittedMs
	select {
	case <-e.found:
	default:
		return
	}
	m.Files, m.Bytes, m.Resident = e.count, e.bytes, e.resident
	m.Failed += e.problems.count
	m.Failures = append(slices.Clone(e.problems.first), m.Failures...)
	m.Failures = m.Failures[:min(len(m.Failures), maxProblems)]
}

func (s *dataService) fillBudget(m *wire.WarmStatus) {
	m.Budget, m.BudgetUsed = s.cache.Budget(), s.cache.Pinned()
}

// wireWarm shows how a request stands.
func (s *dataService) wireWarm(st warm.Status) *wire.WarmStatus {
	m := &wire.WarmStatus{
		Id: string(st.ID), Job: jobName(st.Job, st.UID), User: userName(st.UID), State: warmState(st),
		Files: int64(st.Files), Bytes: st.Bytes, Pinned: st.Pinned, Migrated: st.Migrated,
		NotFit: st.NotFit, NotFitReason: shown(st.NotFitReason), Failed: uint32(st.FailedFiles),
		Current: shown(st.Current), Followed: st.Resident, Left: st.Left, Used: st.Read,
	}
	for _, f := range st.Failures {
		m.Failures = append(m.Failures, &wire.PathProblem{Path: shown(f.Path), Reason: shown(f.Reason)})
	}
	if m.State == "full" {
		m.NotFit, m.Left = m.NotFit+m.Left, 0
		m.NotFitReason = s.warming.fullReason(st.Waits)
	}
	if e := s.warming.entry(st.ID); e != nil {
		s.fillEntry(m, e)
	}
	s.fillBudget(m)
	return m
}

// fullReason says what there is no more of. What else the engine says names what
// others read.
func (w *warming) fullReason(waits string) string {
	if why, refused := strings.CutPrefix(waits, "waits for room: "); refused {
		return why
	}
	if strings.HasPrefix(waits, "its own limit") {
		return waits
	}
	n := w.engine.Counters()
	if n.PinnedBlocks >= n.MaxBlocks {
		return fmt.Sprintf("%d pieces of files are kept, as many as a process may; raise vm.max_map_count", n.PinnedBlocks)
	}
	return fmt.Sprintf("the budget of %s is used up", report.Bytes(n.Budget))
}

func warmState(st warm.Status) string {
	switch {
	case st.Ended:
		return "released"
	case st.Done:
		return "done"
	case st.Full:
		return "full"
	case st.Current != "", st.Migrated > 0, st.Pinned > 0:
		return "warming"
	}
	return "queued"
}

// jobName is the job as its user calls it.
func jobName(key headrace.JobID, uid uint32) string {
	return strings.TrimSuffix(string(key), string(jobKey(uid, "")))
}

// Evict ends requests and drops files from memory.
func (s *dataService) Evict(ctx context.Context, q *wire.EvictRequest) (*wire.EvictResponse, error) {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return nil, err
	}
	if len(q.Ids) > maxWarmRequests {
		return nil, coded(refusal("%d ids; give at most %d", len(q.Ids), maxWarmRequests))
	}
	res := &wire.EvictResponse{}
	if len(q.Ids) == 0 || len(q.Paths) > 0 {
		if err := checkInputPaths(q.Paths); err != nil {
			return nil, coded(err)
		}
	}
	if err := s.endRequests(by, q.Ids, res); err != nil {
		return nil, coded(err)
	}
	if len(q.Paths) > 0 {
		if err := s.evictFiles(ctx, by, q.Paths, res); err != nil {
			return nil, coded(err)
		}
	}
	return res, nil
}

// endRequests ends all of them, or none if one is not the caller's.
func (s *dataService) endRequests(by caller, ids []string, res *wire.EvictResponse) error {
	var entries []*warmEntry
	var others []warm.RequestID
	for _, id := range ids {
		status, err := s.warmStatus(warm.RequestID(id), by.viewer())
		if err != nil {
			return err
		}
		res.Released += status.Pinned
		if e := s.warming.entry(warm.RequestID(id)); e != nil {
			entries = append(entries, e)
		} else {
			others = append(others, warm.RequestID(id))
		}
	}
	for _, id := range others {
		if _, err := s.warming.engine.Remove(id); err == nil {
			res.Requests++
		}
	}
	res.Requests += uint32(len(entries))
	if len(entries) == 0 {
		return nil
	}
	return s.warming.forget(entries...)
}

// evictFiles has the caller's requests give files up.
func (s *dataService) evictFiles(ctx context.Context, by caller, paths []string, res *wire.EvictResponse) error {
	cred, err := by.credentials()
	if err != nil {
		return err
	}
	end, err := s.searches.begin(ctx, cred.UID)
	if err != nil {
		return err
	}
	defer end()
	var files []string
	var bad problems
	err = linux.AsUser(cred, func() error {
		return fileset.Find(ctx, paths, fileset.Visitor{
			File:    func(f fileset.File) error { files = append(files, f.Path); return nil },
			Problem: func(p *fileset.Problem) error { bad.add(p.Path, p); return nil },
		})
	})
	if err != nil {
		return err
	}
	before := s.warming.evicted()
	did, err := s.warming.engine.Evict(ctx, cred, by.viewer().all, files)
	if recErr := s.warming.noteEvicted(before, paths, did.Ended, res); err == nil {
		err = recErr
	}
	if err != nil {
		return err
	}
	res.Bytes, res.Files, res.Kept = did.Bytes, int64(did.Files), did.Kept
	for _, f := range did.Failures {
		bad.first = append(bad.first, &wire.PathProblem{Path: shown(f.Path), Reason: shown(f.Reason)})
	}
	res.Failed, res.Failures = bad.count+uint32(did.FailedFiles), bad.first
	return nil
}

// evicted is how much each request has given up.
func (w *warming) evicted() map[warm.RequestID]int64 {
	all := map[warm.RequestID]int64{}
	for _, st := range w.engine.List() {
		all[st.ID] = st.Evicted
	}
	return all
}

// noteEvicted forgets the requests that have ended, and records in the others
// what they have given up since, so that it is not read again after a restart.
func (w *warming) noteEvicted(before map[warm.RequestID]int64, paths []string, ended []warm.Status, res *wire.EvictResponse) error {
	var over []*warmEntry
	for _, st := range ended {
		if e := w.entry(st.ID); e != nil {
			over = append(over, e)
		}
	}
	res.Requests += uint32(len(ended))
	errs := []error{w.forget(over...)}
	for id, now := range w.evicted() {
		if e := w.entry(id); e != nil && now > before[id] {
			errs = append(errs, w.change(e, func(r *warmRecord) {
				r.Except = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(r.Except), paths...))))
			}))
		}
	}
	return errors.Join(errs...)
}

// pinsFor tells what of an open file is kept in memory, and for whom, as far as the
// viewer may know.
func (s *dataService) pinsFor(v viewer) func(f *os.File) (bytes int64, by []string) {
	type inode struct{ dev, ino uint64 }
	pins := map[inode]warm.Pin{}
	if s.warming != nil {
		for _, p := range s.warming.engine.Pins() {
			pins[inode{p.Dev, p.Ino}] = p
		}
	}
	users := map[uint32]string{}
	return func(f *os.File) (int64, []string) {
		var st unix.Stat_t
		if len(pins) == 0 || unix.Fstat(int(f.Fd()), &st) != nil {
			return 0, nil
		}
		p := pins[inode{uint64(st.Dev), st.Ino}]
		return min(p.Bytes, st.Size), s.holderNames(v, p.By, users) // not the rest of the last page
	}
}

// somebodyElse is whose tasks are not the viewer's to see.
const somebodyElse = "somebody else"

// holderNames names holders; users remembers what they are called.
func (s *dataService) holderNames(v viewer, by []warm.Holder, users map[uint32]string) []string {
	var names []string
	for _, h := range by {
		if !v.sees(h.UID) {
			if !slices.Contains(names, somebodyElse) {
				names = append(names, somebodyElse)
			}
			continue
		}
		name := string(h.Request)
		if input := s.warming.inputName(h.Job); input != "" {
			name = input
		} else if h.Job != "" {
			name = "job " + jobName(h.Job, h.UID)
		}
		if users[h.UID] == "" {
			users[h.UID] = userName(h.UID)
		}
		if name += " of " + users[h.UID]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
