package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/protocol"
	"headrace/stream/scan"
	"headrace/stream/source"
)

// Engine has the streams of one machine. Its methods may be called from any
// goroutine.
type Engine struct {
	common
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	budget *budget.Budget // of links
	hellos *budget.Budget // of bytes of lists of units that come
	lists  *budget.Budget // of bytes of lists of files

	// mu guards these too.
	streams map[string]*stream
	links   map[*link]bool
	// broken are streams that could not be taken up, with the reason.
	broken map[string]error
	// newerTold is when it was last said of a user that readers of a newer version come.
	newerTold map[uint32]time.Time
}

// New opens the streams that are in cfg.Dir. Consumers that were attached when
// the last engine ended may come back; until all of a stream have, or were given
// up with Fail, it deals nothing.
func New(cfg Config) (*Engine, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	e := &Engine{
		common: common{cfg: cfg}, streams: map[string]*stream{}, links: map[*link]bool{}, broken: map[string]error{}, newerTold: map[uint32]time.Time{},
		budget: budget.Ordinary("connections to streams", maxLinks, maxLinksOthers),
		hellos: budget.Ordinary("bytes of lists", maxHellos, maxHellosOthers),
		lists:  budget.Ordinary("bytes of names of files that streams deal", maxLists, maxListsOthers),
	}
	e.scans = scan.NewSet(scan.Config{
		Lock: &e.mu, Source: cfg.Source, NoResidentFirst: cfg.NoResidentFirst, Forget: e.forget, Log: cfg.Log,
		Memory: cfg.Memory, Share: DefaultBuffer,
	})
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := e.recover(); err != nil {
		e.Close()
		return nil, err
	}
	e.work.Go(e.keepEnds)
	return e, nil
}

// endsEvery is how often it is looked at least whether a plan is to be written anew. Tests shorten it.
var endsEvery = 5 * time.Second

// keepEnds has what is learned of ends of files be durable soon, for the daemon may be killed while it reads. It
// takes a twentieth of the time at most.
func (e *Engine) keepEnds() {
	for pause := endsEvery; ; {
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		e.mu.Lock()
		streams := slices.Collect(maps.Values(e.streams))
		e.mu.Unlock()
		for _, s := range streams {
			s.keepEnds()
		}
		pause = max(endsEvery, 20*time.Since(began))
	}
}

func (e *Engine) recover() error {
	entries, err := os.ReadDir(e.cfg.Dir)
	if err != nil {
		return err
	}
	for _, d := range entries {
		dir := filepath.Join(e.cfg.Dir, d.Name())
		spec, p, err := readPlan(dir)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.RemoveAll(dir) // never acknowledged
		} else if err == nil {
			err = e.reopen(dir, spec, p)
		}
		if errors.Is(err, errNewerPlan) {
			e.cfg.Log.Warn("a stream was written by a newer version; its readers wait for a daemon that is", "stream", d.Name(), "err", err)
			e.broken[d.Name()] = err
			continue
		}
		if err != nil {
			// The others can go on; who reads this one is told.
			e.cfg.Log.Error("take up a stream", "stream", d.Name(), "err", err)
			e.broken[d.Name()] = fmt.Errorf("it could not be taken up when the daemon started: %w", err)
		}
	}
	return nil
}

// reopen takes up a stream that an earlier engine had.
func (e *Engine) reopen(dir string, spec *Spec, p *deal.Plan) error {
	j, entries, err := openJournal(dir)
	if err != nil {
		return err
	}
	s := newStream(&e.common, dir, *spec, p, j)
	if s.listed = listed(p); e.lists.Take(spec.Owner.UID, s.listed) != nil {
		s.listed = 0 // it was accepted once
	}
	for i := range entries {
		if err := s.deal.Replay(entries[i]); err != nil {
			j.f.Close()
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.deal.Await()
	e.streams[spec.ID] = s
	return nil
}

// Open makes a stream. When it returns, the stream is durable. The files are
// found and opened with the owner's rights.
func (e *Engine) Open(ctx context.Context, spec Spec) (Info, error) {
	if err := spec.check(); err != nil {
		return Info{}, err
	}
	if spec.ID == "" {
		spec.ID = rand.Text()[:12]
	}
	p, err := e.makePlan(ctx, &spec)
	if err != nil {
		return Info{}, err
	}
	opened := false
	defer func() {
		if !opened {
			e.lists.Give(spec.Owner.UID, listed(p))
		}
	}()
	spec.Paths = nil // the plan has what they mean
	if err := e.room(spec.Owner.UID, p.Units); err != nil {
		return Info{}, err
	}
	dir := filepath.Join(e.cfg.Dir, spec.ID)
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return Info{}, fmt.Errorf("%w: %s", ErrExists, spec.ID)
	} else if err != nil {
		return Info{}, err
	}
	s, err := e.create(dir, &spec, p)
	if err != nil {
		os.RemoveAll(dir)
		return Info{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return Info{}, errors.New("the daemon is ending")
	}
	e.streams[spec.ID] = s
	s.listed, opened = listed(p), true
	return s.info(), nil
}

// listed returns what it takes to remember the files of a plan, in bytes: there may be very many
// without any units, being empty.
func listed(p *deal.Plan) (n int64) {
	for i := range p.Files {
		n += int64(len(p.Files[i].Path)) + fileCost
	}
	return n
}

// room refuses a stream with which its owner would have too many units: each takes some
// bytes of memory, in lists and in journals, however little of a file is on the disk.
func (e *Engine) room(uid, units uint32) error {
	if budget.Privileged(uid) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := int64(units)
	for _, s := range e.streams {
		if s.spec.Owner.UID == uid {
			n += int64(s.plan.Units)
		}
	}
	if n > maxUserUnits {
		return &budget.Refusal{What: "blocks and files that streams deal", Limit: maxUserUnits}
	}
	return nil
}

func (e *Engine) create(dir string, spec *Spec, p *deal.Plan) (*stream, error) {
	if err := writePlan(dir, spec, p); err != nil {
		return nil, err
	}
	j, _, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	if err := linux.SyncDir(e.cfg.Dir); err != nil {
		j.f.Close()
		return nil, err
	}
	return newStream(&e.common, dir, *spec, p, j), nil
}

// makePlan finds the files, and how much of each is in memory now.
func (e *Engine) makePlan(ctx context.Context, spec *Spec) (*deal.Plan, error) {
	p := &deal.Plan{Rule: spec.Rule}
	err := e.cfg.Source.Find(ctx, spec.Owner, spec.Paths, func(path string, f source.File) (err error) {
		codec := protocol.Plain
		if spec.Rule.Split != deal.Files {
			codec, err = source.Codec(path, f)
		}
		cost := int64(len(path)) + fileCost
		if size := f.Was().Size; err == nil && codec == protocol.Plain {
			if err := spec.Rule.CheckSize(size); err != nil {
				return &fileset.Problem{Path: path, Err: err}
			}
		}
		if err == nil {
			err = e.lists.Take(spec.Owner.UID, cost)
		}
		if err != nil {
			return err
		}
		if err := p.Add(path, f.Was().Identity, codec); err != nil {
			e.lists.Give(spec.Owner.UID, cost)
			return err
		}
		file := &p.Files[len(p.Files)-1]
		file.End = f.Was().End
		if !e.cfg.NoResidentFirst {
			// Where it cannot be found out, none is.
			file.Resident, _ = f.Resident(pagecache.Range{Len: file.Size})
		}
		return nil
	})
	if err == nil && len(p.Files) == 0 {
		err = &fileset.Problem{Path: strings.Join(spec.Paths, ", "), Err: errNoFiles}
	}
	if err != nil {
		e.lists.Give(spec.Owner.UID, listed(p))
	}
	return p, err
}

// find looks a stream up; call it with the lock held.
func (e *Engine) find(id string) (*stream, error) {
	s := e.streams[id]
	if s == nil && e.awaitsNewer(id) {
		return nil, e.broken[id]
	}
	if s == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	return s, nil
}

// awaitsNewer is AwaitsNewer with the lock held.
func (e *Engine) awaitsNewer(id string) bool { return errors.Is(e.broken[id], errNewerPlan) }

// AwaitsNewer reports whether only a newer version knows what a stream deals. What is said of its consumers meanwhile is an
// error: it is to be said again to the engine that knows.
func (e *Engine) AwaitsNewer(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.awaitsNewer(id)
}

// Info tells about one stream.
func (e *Engine) Info(id string) (Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if why := e.broken[id]; why != nil {
		return Info{ID: id, Error: why.Error()}, nil
	}
	s, err := e.find(id)
	if err != nil {
		return Info{}, err
	}
	return s.info(), nil
}

// List tells about all streams, by ID.
func (e *Engine) List() []Info {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []Info
	for _, s := range e.streams {
		list = append(list, s.info())
	}
	for id, why := range e.broken {
		list = append(list, Info{ID: id, Error: why.Error()})
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Fail gives up what attempt of a consumer has been given, also one that has said that it
// ended with code 0; that counts only as long as its task is taken to have ended so. It is durable
// when Fail returns without an error; with one it is tried again until it is. The units
// go to the others, and to the next attempt.
func (e *Engine) Fail(id string, consumer, attempt int) error {
	return e.end(id, consumer, attempt, false)
}

// Done takes it that attempt of a consumer has ended with code 0 and nothing of it will come again: an
// attempt that has not said so fails.
func (e *Engine) Done(id string, consumer, attempt int) error {
	return e.end(id, consumer, attempt, true)
}

func (e *Engine) end(id string, consumer, attempt int, done bool) error {
	s, err := e.of(id, consumer)
	if err != nil {
		return err
	}
	return e.giveUp(s, uint32(consumer), uint32(attempt), done)
}

// giveUp gives an attempt up. If that cannot be made durable it goes on trying.
func (e *Engine) giveUp(s *stream, consumer, attempt uint32, done bool) error {
	first := s.giveUp(consumer, attempt, done)
	if first == nil || errors.Is(first, ErrUnknown) {
		return first
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.work.Go(func() {
			for err := first; err != nil && !errors.Is(err, ErrUnknown); err = s.giveUp(consumer, attempt, done) {
				select {
				case <-e.ctx.Done():
					return
				case <-time.After(giveUpPause):
				}
			}
		})
	}
	return first
}

// Absent says that an attempt of a consumer has no processes, and comes back from a
// checkpoint, if at all: the others need not wait until it says what it has, nor for what it would
// give back.
func (e *Engine) Absent(id string, consumer int, attempt int) error {
	s, err := e.of(id, consumer)
	if err == nil {
		s.absent(uint32(consumer), uint32(attempt))
	}
	return err
}

// Awaited returns the consumers without which a stream deals nothing now: an earlier engine has
// given them parts of the input, and they have not come back to say which.
func (e *Engine) Awaited(id string) []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.find(id)
	if err != nil {
		return nil
	}
	return s.deal.Awaited()
}

// of returns the stream that has a consumer.
func (e *Engine) of(id string, consumer int) (*stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.find(id)
	if err == nil && (consumer < 0 || consumer >= len(s.seats)) {
		err = fmt.Errorf("stream %s has no consumer %d", id, consumer)
	}
	return s, err
}

// Remove forgets a stream. Consumers that are attached get an error.
func (e *Engine) Remove(id string) error {
	e.mu.Lock()
	if e.broken[id] != nil {
		delete(e.broken, id)
		e.mu.Unlock()
		return e.removeDir(filepath.Join(e.cfg.Dir, id))
	}
	s, err := e.find(id)
	if err != nil {
		e.mu.Unlock()
		return err
	}
	delete(e.streams, id)
	s.Failed(errRemoved)
	s.feed.Close()
	e.mu.Unlock()
	e.lists.Give(s.spec.Owner.UID, s.listed)

	s.journalMu.Lock()
	defer s.journalMu.Unlock()
	s.journal.f.Close()
	s.journal.f = nil
	return e.removeDir(s.dir)
}

func (e *Engine) removeDir(dir string) error {
	// Without its plan a stream does not exist: one step.
	if err := os.Remove(filepath.Join(dir, planName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return linux.SyncDir(e.cfg.Dir)
}

// Close ends all reading and all connections. What is durable stays. It waits for what a file
// server or a disk does not answer, but not for ever, and then says so in the log.
func (e *Engine) Close() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.closed = true
	e.cancel()
	for l := range e.links {
		l.close()
	}
	for _, s := range e.streams {
		s.release()
	}
	e.scans.Stop()
	e.mu.Unlock()
	if !linux.Within(linux.EndTime, e.work.Wait) {
		e.cfg.Log.Warn("a connection of a stream does not end, as a file server or a disk does not answer; it is not waited for")
	}
	e.scans.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams {
		s.journal.f.Close()
	}
}

// forget tells all consumers that an arena or a file is gone.
func (e *Engine) forget(id uint32) {
	for l := range e.links {
		l.forget(id)
	}
}
