package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"headrace"
	"headrace/data/blocks"
	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/serve"
	"headrace/warm"
)

const (
	// maxWarmRequests is how many one user may have at a time.
	maxWarmRequests = 1000
	// sweepEvery is how often it is looked whether jobs have ended, and sweepPause
	// how long after a change of some task at the earliest.
	sweepEvery = 10 * time.Second
	sweepPause = 200 * time.Millisecond
	// againFirst is how soon after a restart the files of a request are looked for once more of which some were
	// not found: file systems and user databases may come later than the daemon. Each further pause is four times as
	// long, up to againLast.
	againFirst = 10 * time.Second
	againLast  = time.Hour
)

// warming keeps files in memory for those who have asked. A nil warming keeps
// none. What users have asked for is recorded; inputs are not.
type warming struct {
	engine   *warm.Engine
	cache    pagecache.Cache
	searches *searches
	memory   *budget.Budget // for what is known of files
	records  *records
	jobs     Jobs
	again    time.Duration // againFirst
	log      *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	entries map[warm.RequestID]*warmEntry
	inputs  map[headrace.JobID]keptInput
	// doing is closed when what was begun last for an input is done.
	doing map[headrace.JobID]chan struct{}
}

// warmEntry is a request of a user. The warming's mu protects the record, and the files that were found once
// found is closed.
type warmEntry struct {
	rec   record
	claim *claim
	// found is closed when it is known which files it is about, as far as they are there.
	found chan struct{}
	// unsettled: its files are looked for after a start of the daemon, or will be once more.
	unsettled bool
	foundFiles
}

func (e *warmEntry) isFound() bool {
	select {
	case <-e.found:
		return true
	default:
		return false
	}
}

// foundFiles is what paths mean.
type foundFiles struct {
	files []warm.File
	count int64
	bytes int64
	// resident is what of it was in memory, as far as the owner may know.
	resident int64
	except   int64 // files that it has given up
	problems problems
	memory   int64 // that is claimed for them
}

// openWarming takes up the requests that are recorded; start begins to work on
// them.
func openWarming(r *reading, c *Config) (*warming, error) {
	records, known, err := openRecords(c.Requests)
	if err != nil {
		return nil, err
	}
	w := &warming{
		cache: r.cache, searches: &r.searches, memory: r.searches.memory, records: records, jobs: c.Jobs, log: c.Log,
		again:   cmp.Or(c.again, againFirst),
		entries: map[warm.RequestID]*warmEntry{}, inputs: map[headrace.JobID]keptInput{}, doing: map[headrace.JobID]chan struct{}{},
	}
	w.engine, err = warm.New(warm.Config{
		Cache: r.cache, Disks: r.disks, Devices: r.devices, Policy: c.Warm, Alive: w.alive, Spare: spare, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	for _, rec := range known {
		e := &warmEntry{rec: rec, claim: &claim{of: w.memory, uid: rec.UID}, found: make(chan struct{}), unsettled: true}
		w.entries[warm.RequestID(rec.ID)] = e
		if err := e.claim.take(pathsCost(rec.Paths) + pathsCost(rec.Except)); err != nil {
			w.log.Warn("a request takes more memory than its user may have", "id", rec.ID, "err", err)
		}
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// start begins; it must be called once all jobs are known.
func (w *warming) start() {
	if w == nil {
		return
	}
	for _, e := range w.sorted() {
		w.wg.Go(func() { w.takeUp(e) }) // each for itself: that of another user may be on a file server that is away
	}
	w.wg.Go(w.follow)
}

func (w *warming) close() {
	if w == nil {
		return
	}
	w.cancel()
	if !linux.Within(linux.EndTime, w.wg.Wait) {
		w.log.Warn("a file server does not answer where files of requests are looked for; it is not waited for")
	}
	if err := w.engine.Close(); err != nil {
		w.log.Warn("warming does not end", "err", err)
	}
}

// sorted returns the entries in the order of submission.
func (w *warming) sorted() []*warmEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*warmEntry, 0, len(w.entries))
	for _, e := range w.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *warmEntry) int { return cmp.Compare(a.rec.Seq, b.rec.Seq) })
	return all
}

// takeUp goes on with a request from before the restart.
func (w *warming) takeUp(e *warmEntry) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e.unsettled = false
	}()
	all := w.takeUpOnce(e)
	if !e.isFound() {
		return // the daemon ends
	}
	for pause := w.again; !all && pause <= againLast; pause *= 4 {
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
			return
		}
		if w.entry(warm.RequestID(e.rec.ID)) != e {
			return // it has been ended
		}
		all = w.takeUpOnce(e)
	}
}

// takeUpOnce looks for the files of a request, and gives the engine those that are there: again, where it has given
// some up meanwhile. It reports false if some could not be looked at.
func (w *warming) takeUpOnce(e *warmEntry) (all bool) {
	for {
		rec := w.recordOf(e)
		all = w.takeUpAs(e, rec)
		if slices.Equal(w.recordOf(e).Except, rec.Except) {
			return all
		}
	}
}

// takeUpAs is takeUpOnce by what is recorded.
func (w *warming) takeUpAs(e *warmEntry, rec record) (all bool) {
	before := w.foundOf(e)
	end, err := w.searches.Begin(w.ctx, rec.UID)
	if err != nil {
		return true
	}
	defer end()
	found, cred, err := w.findAgain(&rec, e.claim)
	if err != nil {
		if w.ctx.Err() != nil {
			return true
		}
		w.log.Warn("the files of a request cannot be found again", "id", rec.ID, "err", err)
		if e.isFound() {
			return false // what has been found before stays
		}
		found.problems.add(rec.Paths[0], err)
	}
	e.claim.give(before.memory)
	if w.nowFound(e, found) {
		w.engine.Remove(warm.RequestID(rec.ID)) // where some of them have come later
		if err := w.give(e, cred); err != nil {
			w.log.Error("a request cannot be taken up again", "id", rec.ID, "err", err)
		}
	}
	all = found.problems.count == 0
	if all && found.count == 0 && found.except > 0 { // as where the engine has it and gives all up
		if err := w.forget(e); err != nil {
			w.log.Error("a request of which nothing is left is not forgotten", "id", rec.ID, "err", err)
		}
	}
	return all
}

// nowFound notes which files a request is about, and reports whether they are others than before.
func (w *warming) nowFound(e *warmEntry, found foundFiles) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if changed = !e.isFound() || found.count != e.count || found.bytes != e.bytes; changed {
		e.foundFiles = found
	} else {
		e.memory, e.problems = found.memory, found.problems
	}
	if !e.isFound() {
		close(e.found)
	}
	return changed
}

// foundOf returns which files a request is about, as far as that is known.
func (w *warming) foundOf(e *warmEntry) foundFiles {
	w.mu.Lock()
	defer w.mu.Unlock()
	return e.foundFiles
}

func (w *warming) recordOf(e *warmEntry) record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return e.rec
}

func (w *warming) findAgain(rec *record, c *claim) (foundFiles, linux.Credentials, error) {
	cred, err := serve.Caller{UID: rec.UID, GID: rec.GID}.Credentials()
	if err != nil {
		return foundFiles{}, cred, err
	}
	except := map[string]bool{}
	if len(rec.Except) > 0 {
		var taken int64
		defer func() { c.give(taken) }()
		visitor := fileset.Visitor{
			File: func(f fileset.File) error {
				n := fileCost(f.Path, 0)
				if err := c.take(n); err != nil {
					return err
				}
				taken += n
				except[f.Path] = true
				return nil
			},
			Problem: func(*fileset.Problem) error { return nil },
		}
		if err := w.searches.findAs(w.ctx, cred, rec.Except, visitor); err != nil {
			return foundFiles{}, cred, err
		}
	}
	found, err := w.find(w.ctx, cred, rec.Paths, except, c)
	return found, cred, err
}

// find looks paths up with somebody's rights. Files that cannot be opened are
// problems. What it takes to remember the files is claimed.
func (w *warming) find(ctx context.Context, cred linux.Credentials, paths []string, except map[string]bool, c *claim) (foundFiles, error) {
	var found foundFiles
	err := w.searches.findAs(ctx, cred, paths, fileset.Visitor{
		File: func(f fileset.File) error {
			if except[f.Path] {
				found.except++
				return nil
			}
			n := fileCost(f.Path, f.Size)
			if err := c.take(n); err != nil {
				return err
			}
			found.memory += n
			return found.add(w.cache, f)
		},
		Problem: func(p *fileset.Problem) error { found.problems.add(p.Path, p); return nil },
	})
	if err != nil {
		c.give(found.memory)
		return foundFiles{problems: found.problems}, err
	}
	return found, nil
}

func (found *foundFiles) add(cache pagecache.Cache, file fileset.File) error {
	size := file.Size
	var resident int64
	f, err := fileset.Open(file.Path)
	switch {
	case err == nil:
		// That the kernel does not tell is no problem: the file is looked at again.
		resident, _ = cache.Resident(f, pagecache.Range{Len: size})
		f.Close()
	case errors.Is(err, fs.ErrNotExist):
		return nil // it has vanished
	case !errors.Is(err, fileset.ErrLeased):
		found.problems.add(file.Path, err)
		return nil
	}
	found.files = append(found.files, warm.File{Path: file.Path, Size: size})
	found.count++
	found.bytes = fileset.AddSizes(found.bytes, size)
	found.resident += resident
	return nil
}

// add accepts a request.
func (w *warming) add(ctx context.Context, by serve.Caller, rec record) (*warmEntry, error) {
	cred, err := by.Credentials()
	if err != nil {
		return nil, err
	}
	end, err := w.searches.Begin(ctx, cred.UID)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := w.mayAdd(cred.UID); err != nil {
		return nil, err
	}
	e := &warmEntry{rec: rec, claim: &claim{of: w.memory, uid: cred.UID}, found: make(chan struct{})}
	if err := w.accept(ctx, e, cred); err != nil {
		e.claim.end()
		return nil, err
	}
	w.mu.Lock()
	w.entries[warm.RequestID(e.rec.ID)] = e
	w.mu.Unlock()
	if err := w.give(e, cred); err != nil {
		return nil, errors.Join(err, w.forget(e))
	}
	return e, nil
}

// accept finds the files of a request, and records it.
func (w *warming) accept(ctx context.Context, e *warmEntry, cred linux.Credentials) (err error) {
	rec := &e.rec
	if err := e.claim.take(pathsCost(rec.Paths)); err != nil {
		return err
	}
	if e.foundFiles, err = w.find(ctx, cred, rec.Paths, nil, e.claim); err != nil {
		return asRefusal(err)
	}
	switch {
	case e.count > 0:
	case len(e.problems.first) > 0:
		return serve.Refusal("%s: %s", e.problems.first[0].Path, e.problems.first[0].Reason)
	default:
		return serve.Refusal("%s: there are no files in it", serve.Shown(rec.Paths[0]))
	}
	close(e.found)
	rec.UID, rec.GID, rec.SubmittedMs = cred.UID, cred.GID, time.Now().UnixMilli()
	rec.Seen = rec.Job != "" && w.jobs.Live()[rec.job()]
	return w.records.add(rec)
}

// mayAdd refuses a request of a user who has too many.
func (w *warming) mayAdd(uid uint32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	requests := 0
	for _, e := range w.entries {
		if e.rec.UID == uid {
			requests++
		}
	}
	if requests >= maxWarmRequests {
		return fmt.Errorf("%w: %d requests of yours keep files in memory; end some with headrace warm --evict", serve.ErrBusy, requests)
	}
	return nil
}

// give hands a request to the engine, unless it has been ended meanwhile.
func (w *warming) give(e *warmEntry, cred linux.Credentials) error {
	w.mu.Lock()
	rec, files := e.rec, e.files
	e.files = nil // the engine has them now
	w.mu.Unlock()
	id := warm.RequestID(rec.ID)
	if len(files) == 0 {
		return nil
	}
	q := warm.Request{ID: id, Owner: cred, Files: files, Seq: rec.Seq, Budget: rec.Budget, Hold: rec.Job == ""}
	if rec.Job != "" {
		q.Job = rec.job().key()
	}
	if err := w.engine.Add(q); err != nil {
		return err
	}
	w.mu.Lock()
	gone := w.entries[id] != e
	w.mu.Unlock()
	if gone {
		w.engine.Remove(id)
	}
	return nil
}

// forget ends a request for good.
func (w *warming) forget(entries ...*warmEntry) error {
	var ids []string
	w.mu.Lock()
	for _, e := range entries {
		ids = append(ids, e.rec.ID)
		delete(w.entries, warm.RequestID(e.rec.ID))
		e.claim.end()
	}
	w.mu.Unlock()
	for _, id := range ids {
		w.engine.Remove(warm.RequestID(id)) // if it is there
	}
	return w.records.remove(ids...)
}

// alive answers the engine. A job that has not begun is alive.
func (w *warming) alive(jobs []headrace.JobID) map[headrace.JobID]bool {
	alive := map[headrace.JobID]bool{}
	w.mu.Lock()
	for _, e := range w.entries {
		if e.rec.Job != "" && !e.rec.Seen {
			alive[e.rec.job().key()] = true
		}
	}
	w.mu.Unlock()
	for live := range w.jobs.Live() { // it goes through all tasks: once for all jobs
		alive[live.key()] = true
	}
	for _, job := range jobs {
		if blocks.IsJob(job) {
			alive[job] = true // the manager says when it has ended
		} else if in, is := w.input(job); is {
			alive[job] = in.Alive()
		}
	}
	return alive
}

// follow ends requests with their jobs.
func (w *warming) follow() {
	wake, take, stop := w.jobs.Watch()
	defer stop()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := w.sweep(take()); err != nil {
			w.log.Error("requests whose jobs have ended", "err", err)
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-w.ctx.Done():
			return
		}
		select {
		case <-time.After(sweepPause):
		case <-w.ctx.Done():
			return
		}
	}
}

// sweep notes which jobs have begun, and ends the requests of those that have
// ended. Some may have come and gone since the last time: changed has
// these.
func (w *warming) sweep(changed []Submission) error {
	var jobs, over []*warmEntry
	for _, e := range w.sorted() {
		if w.recordOf(e).Job != "" {
			jobs = append(jobs, e)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	live := w.jobs.Live()
	var errs []error
	for _, e := range jobs {
		rec := w.recordOf(e)
		lives := live[rec.job()]
		begun := lives || rec.Seen || slices.ContainsFunc(changed, rec.isFor)
		switch {
		case begun && !lives:
			over = append(over, e)
		case begun && !rec.Seen:
			errs = append(errs, w.change(e, func(r *record) { r.Seen = true }))
		}
	}
	for _, e := range over {
		w.log.Info("the job has ended, its files are not kept in memory any more", "request", e.rec.ID, "job", e.rec.Job)
	}
	return errors.Join(append(errs, w.forget(over...))...)
}

// isFor tells whether something that has come after the request is of its job.
func (r *record) isFor(s Submission) bool { return s.Job == r.job() && s.AtMs >= r.SubmittedMs }

func (r *record) job() Job { return Job{UID: r.UID, Name: r.Job} }

// change changes a record durably, if the request is still there.
func (w *warming) change(e *warmEntry, do func(*record)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entries[warm.RequestID(e.rec.ID)] != e {
		return nil
	}
	do(&e.rec)
	return w.records.put(&e.rec)
}

// spare tells how much more may be locked now.
func spare() (int64, error) {
	l, err := pagecache.ReadLimits()
	return pagecache.Spare(l), err
}
