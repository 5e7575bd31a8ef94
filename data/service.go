package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/fileset"
	"headrace/report"
	"headrace/serve"
	"headrace/warm"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// warmPause is the time between two messages of WatchWarm; warmLook how long
// nothing may change before it is looked again why a request waits.
const (
	warmPause = 200 * time.Millisecond
	warmLook  = time.Second
)

var errNoWarming = errors.New("this daemon keeps no files in memory; start it without --no-warm")

// service answers requests.
type service struct{ *Files }

// Service answers requests about files. It must stand behind serve.Interceptor.
func (f *Files) Service() wireconnect.DataServiceHandler { return &service{f} }

// Warm accepts a request to keep files in memory.
func (s *service) Warm(ctx context.Context, q *wire.WarmRequest) (*wire.WarmStatus, error) {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkWarm(q); err != nil {
		return nil, err
	}
	e, err := s.warming.add(ctx, by, record{Job: headrace.JobID(q.Job), Budget: q.Budget, Paths: q.Paths})
	if err != nil {
		return nil, err
	}
	return s.warmStatus(warm.RequestID(e.rec.ID), by.Viewer())
}

func checkWarm(q *wire.WarmRequest) error {
	if err := checkPaths(q.Paths); err != nil {
		return err
	}
	if q.Budget < 0 {
		return serve.Refusal("a budget of %d bytes; give a number, or 0 for as much as there is", q.Budget)
	}
	return serve.CheckLabel("job", q.Job)
}

// warmCaller returns the caller, if anything is kept in memory here.
func (s *service) warmCaller(ctx context.Context) (serve.Caller, error) {
	if s.warming == nil {
		return serve.Caller{}, connect.NewError(connect.CodeFailedPrecondition, errNoWarming)
	}
	return serve.CallerOf(ctx), nil
}

// WatchWarm sends how a request stands until nothing more can be done for it.
func (s *service) WatchWarm(ctx context.Context, q *wire.WatchWarmRequest, stream *connect.ServerStream[wire.WarmStatus]) error {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return err
	}
	id := warm.RequestID(q.Id)
	if e := s.warming.entry(id); e != nil {
		if !by.Viewer().Sees(e.rec.UID) {
			return noRequest(q.Id)
		}
		if err := s.warming.awaitFound(ctx, e); err != nil {
			return err
		}
	}
	var seen uint64
	for {
		status, version, err := s.awaitWarm(ctx, id, by.Viewer(), seen)
		if err != nil {
			return err
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
			return context.Cause(ctx)
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
		return serve.ErrStopping
	}
}

// awaitWarm waits for a change, but not for long: of what a request waits for
// nobody tells.
func (s *service) awaitWarm(ctx context.Context, id warm.RequestID, v serve.Viewer, seen uint64) (*wire.WarmStatus, uint64, error) {
	short, cancel := context.WithTimeout(ctx, warmLook)
	defer cancel()
	stop := context.AfterFunc(s.warming.ctx, cancel)
	defer stop()
	st, err := s.warming.engine.Watch(short, id, seen)
	switch {
	case err == nil && !v.Sees(st.UID):
		return nil, 0, noRequest(string(id))
	case err == nil:
		return s.wireWarm(s.warming.entry(id), &st), st.Version, nil
	case ctx.Err() != nil:
		return nil, 0, ctx.Err()
	case s.warming.ctx.Err() != nil:
		return nil, 0, serve.ErrStopping
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

// warmStatus returns how a request stands now.
func (s *service) warmStatus(id warm.RequestID, v serve.Viewer) (*wire.WarmStatus, error) {
	st, err := s.warming.engine.Status(id)
	e := s.warming.entry(id)
	switch {
	case err == nil && v.Sees(st.UID):
		return s.wireWarm(e, &st), nil
	case e != nil && v.Sees(e.rec.UID):
		return s.wireWarm(e, nil), nil
	}
	return nil, noRequest(string(id))
}

// ListWarm lists the caller's requests, and what is kept for their tasks.
func (s *service) ListWarm(ctx context.Context, _ *wire.ListWarmRequest) (*wire.ListWarmResponse, error) {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return nil, err
	}
	list := &wire.ListWarmResponse{}
	all := s.warming.engine.List()
	unlisted := map[warm.RequestID]*warm.Status{}
	for i := range all {
		unlisted[all[i].ID] = &all[i]
	}
	for _, e := range s.warming.sorted() {
		rec := s.warming.recordOf(e)
		id := warm.RequestID(rec.ID)
		st := unlisted[id]
		delete(unlisted, id)
		if !by.Viewer().Sees(rec.UID) {
			continue
		}
		status := s.wireWarm(e, st)
		for _, p := range rec.Paths[:min(len(rec.Paths), maxProblems)] {
			status.Paths = append(status.Paths, serve.Shown(p))
		}
		list.Requests = append(list.Requests, status)
	}
	for _, st := range all {
		if unlisted[st.ID] != nil && by.Viewer().Sees(st.UID) {
			list.Requests = append(list.Requests, s.wireWarm(nil, &st))
		}
	}
	return list, nil
}

// wireWarm shows how a request stands: e is nil for one that no user has made, st for
// one that the engine does not know.
func (s *service) wireWarm(e *warmEntry, st *warm.Status) *wire.WarmStatus {
	m := &wire.WarmStatus{State: "queued"}
	if st != nil {
		m = s.engineStatus(st)
	}
	if e != nil {
		s.fillEntry(m, e)
		if st == nil && e.isFound() && s.warming.foundOf(e).count == 0 {
			m.State = "done" // there is nothing that it could keep
		}
	}
	m.Budget, m.BudgetUsed = s.cache.Budget(), s.cache.Pinned()
	return m
}

// fillEntry adds what only the record knows.
func (s *service) fillEntry(m *wire.WarmStatus, e *warmEntry) {
	rec := s.warming.recordOf(e)
	m.Id, m.Job, m.User, m.SubmittedMs = rec.ID, string(rec.Job), serve.UserName(rec.UID), rec.SubmittedMs
	if !e.isFound() {
		return
	}
	found := s.warming.foundOf(e)
	m.Files, m.Bytes, m.Resident = found.count, found.bytes, found.resident
	m.Failed += found.problems.count
	m.Failures = append(slices.Clone(found.problems.first), m.Failures...)
	m.Failures = m.Failures[:min(len(m.Failures), maxProblems)]
}

func (s *service) engineStatus(st *warm.Status) *wire.WarmStatus {
	m := &wire.WarmStatus{
		Id: string(st.ID), Job: jobName(st.Job, st.UID), User: serve.UserName(st.UID), State: warmState(st),
		Files: int64(st.Files), Bytes: st.Bytes, Pinned: st.Pinned, Migrated: st.Migrated,
		NotFit: st.NotFit, NotFitReason: serve.Shown(st.NotFitReason), Failed: uint32(st.FailedFiles),
		Current: serve.Shown(st.Current), Followed: st.Resident, Left: st.Remaining, Used: st.Read,
	}
	for _, f := range st.Failures {
		m.Failures = append(m.Failures, &wire.PathProblem{Path: serve.Shown(f.Path), Reason: serve.Shown(f.Reason)})
	}
	if m.State == "full" {
		m.NotFit, m.Left = m.NotFit+m.Left, 0
		m.NotFitReason = s.warming.fullReason(st.Waits)
	}
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

func warmState(st *warm.Status) string {
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

// Evict ends requests and drops files from memory.
func (s *service) Evict(ctx context.Context, q *wire.EvictRequest) (*wire.EvictResponse, error) {
	by, err := s.warmCaller(ctx)
	if err != nil {
		return nil, err
	}
	if len(q.Ids) > maxWarmRequests {
		return nil, serve.Refusal("%d ids; give at most %d", len(q.Ids), maxWarmRequests)
	}
	res := &wire.EvictResponse{}
	if len(q.Ids) == 0 || len(q.Paths) > 0 {
		if err := checkPaths(q.Paths); err != nil {
			return nil, err
		}
	}
	if err := s.endRequests(by, q.Ids, res); err != nil {
		return nil, err
	}
	if len(q.Paths) > 0 {
		if err := s.evictFiles(ctx, by, q.Paths, res); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// endRequests ends all of them, or none if one is not the caller's.
func (s *service) endRequests(by serve.Caller, ids []string, res *wire.EvictResponse) error {
	var entries []*warmEntry
	var others []warm.RequestID
	for _, id := range ids {
		status, err := s.warmStatus(warm.RequestID(id), by.Viewer())
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

// evictFiles makes the caller's requests give files up.
func (s *service) evictFiles(ctx context.Context, by serve.Caller, paths []string, res *wire.EvictResponse) error {
	cred, err := by.Credentials()
	if err != nil {
		return err
	}
	end, err := s.searches.Begin(ctx, cred.UID)
	if err != nil {
		return err
	}
	defer end()
	var files []string
	c := &claim{of: s.warming.memory, uid: cred.UID}
	defer c.end()
	var bad problems
	err = s.searches.findAs(ctx, cred, paths, fileset.Visitor{
		File: func(f fileset.File) error {
			if err := c.take(fileCost(f.Path, 0)); err != nil { // links can give one file a million names
				return fmt.Errorf("%w; these are more than %d files: name fewer, or the request that keeps them", err, len(files))
			}
			files = append(files, f.Path)
			return nil
		},
		Problem: func(p *fileset.Problem) error { bad.add(p.Path, p); return nil },
	})
	if err != nil {
		return asRefusal(err)
	}
	var recErr error
	if len(files) > 0 {
		recErr = s.warming.exceptUnsettled(cred.UID, by.Viewer().All, paths, files)
	}
	did, err := s.warming.engine.Evict(ctx, cred, by.Viewer().All, files)
	if recErr = errors.Join(recErr, s.warming.noteEvicted(paths, &did, res)); err == nil {
		err = recErr
	}
	if err != nil {
		return err
	}
	res.Bytes, res.Files, res.Kept = did.Bytes, int64(did.Files), did.Kept
	for _, f := range did.Failures {
		bad.first = append(bad.first, &wire.PathProblem{Path: serve.Shown(f.Path), Reason: serve.Shown(f.Reason)})
	}
	res.Failed, res.Failures = bad.count+uint32(did.FailedFiles), bad.first
	return nil
}

// noteEvicted forgets the requests that have ended, and records in the others that have
// given something up what paths that was, so that it is not read again after a restart.
func (w *warming) noteEvicted(paths []string, did *warm.Evicted, res *wire.EvictResponse) error {
	var over []*warmEntry
	for _, st := range did.Ended {
		if e := w.entry(st.ID); e != nil {
			over = append(over, e)
		}
	}
	res.Requests += uint32(len(did.Ended))
	errs := []error{w.forget(over...)}
	for _, id := range did.Lost {
		if e := w.entry(id); e != nil {
			errs = append(errs, w.except(e, paths))
		}
	}
	return errors.Join(errs...)
}

// exceptUnsettled records that a user's requests (all users' if everyone) have given paths up, in which those files were found, if they
// may have some of these, and are looked for after a start of the daemon: the engine may not know them yet. It comes before the
// engine lets go: what it is given later is by the record.
func (w *warming) exceptUnsettled(uid uint32, everyone bool, paths, files []string) error {
	above := map[string]struct{}{} // the files, and all directories that they are in
	for _, at := range files {
		for _, known := above[at]; !known; _, known = above[at] {
			above[at] = struct{}{}
			at = filepath.Dir(at)
		}
	}
	may := func(path string) bool { _, is := above[fileset.Base(path)]; return is }
	var errs []error
	for _, e := range w.sorted() {
		w.mu.Lock()
		concerned, of := e.unsettled && e.rec.Job == "" && (everyone || e.rec.UID == uid), e.rec.Paths
		w.mu.Unlock()
		if concerned && slices.ContainsFunc(of, may) {
			errs = append(errs, w.except(e, paths))
		}
	}
	return errors.Join(errs...)
}

// except records that a request has given paths up.
func (w *warming) except(e *warmEntry, paths []string) error {
	most := pathsCost(paths)
	if err := e.claim.take(most); err != nil {
		return fmt.Errorf("what request %s has given up is read again after a restart; name the request to end it: %w", e.rec.ID, err)
	}
	return w.change(e, func(r *record) {
		before := pathsCost(r.Except)
		r.Except = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(r.Except), paths...))))
		e.claim.give(most - (pathsCost(r.Except) - before))
	})
}

// pinsFor tells what of an open file is kept in memory, and for whom it is kept or followed,
// as far as the viewer may know.
func (s *service) pinsFor(v serve.Viewer) func(path string, f *os.File) (bytes int64, by []string) {
	if s.warming == nil {
		return func(string, *os.File) (int64, []string) { return 0, nil }
	}
	type inode struct{ dev, ino uint64 }
	pins := map[inode]warm.Pin{}
	for _, p := range s.warming.engine.Pins() {
		pins[inode{p.Dev, p.Ino}] = p
	}
	users := map[uint32]string{}
	return func(path string, f *os.File) (int64, []string) {
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) != nil {
			return 0, nil
		}
		p := pins[inode{uint64(st.Dev), st.Ino}]
		by := slices.Concat(p.By, s.warming.engine.Followers(path, v.Sees))
		return min(p.Bytes, st.Size), s.holderNames(v, by, users) // not the rest of the last page
	}
}

// somebodyElse is whose tasks are not the viewer's to see.
const somebodyElse = "somebody else"

// holderNames names holders; users remembers what they are called.
func (s *service) holderNames(v serve.Viewer, by []warm.Holder, users map[uint32]string) []string {
	var names []string
	for _, h := range by {
		if !v.Sees(h.UID) {
			if !slices.Contains(names, somebodyElse) {
				names = append(names, somebodyElse)
			}
			continue
		}
		name := string(h.Request)
		if in, is := s.warming.input(h.Job); is {
			name = in.Name
		} else if h.Job != "" {
			name = "job " + jobName(h.Job, h.UID)
		}
		if users[h.UID] == "" {
			users[h.UID] = serve.UserName(h.UID)
		}
		if name += " of " + users[h.UID]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
