package scan

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/source"
)

const (
	// followStep bounds how many files of a stream are opened at a time to be followed.
	followStep = 256
	// maxFollowed is how large the files that are followed for a user may be, in bytes, and maxFollowedOthers
	// those for all but root and the daemon's own together, a quarter of what the page cache follows. A file counts as
	// followedFile more than it has, as it takes a descriptor too; above maxFollowedOne, being sparse, it is not
	// followed.
	maxFollowed, maxFollowedOthers = 4 << 40, 16 << 40
	followedFile, maxFollowedOne   = 2 << 30, 1<<40 + followedFile
)

// patience is after how many looks, a second from one to the next, a stream whose
// consumers wait for memory that others keep has some of its own.
const patience = 3

// Taker is a stream, which takes what is read for it. All is called with the lock
// held.
type Taker interface {
	// Arrived takes a complete unit; it is the taker's.
	Arrived(u *Unit)
	// Empty: a unit turned out to have no records.
	Empty(id uint32)
	// Failed: its files cannot be read, or its records not be dealt.
	Failed(err error)
	// Serve is called when there may be room to read more.
	Serve()
}

// Spec says what a stream reads.
type Spec struct {
	Plan  *deal.Plan
	Owner linux.Credentials
	// Buffer is the shared memory of each scan, in bytes.
	Buffer    int64
	Consumers int
}

// Feed brings the units of one stream into memory: it attaches the stream to scans of
// files with blocks, has batches of small files read, and reads compressed files. Its
// methods are called with the lock held.
type Feed struct {
	Spec
	set   *Set
	deal  *deal.Dealer
	taker Taker

	attached map[int]*attachment
	batcher  *batcher
	// followed are files whose residency is followed, by unit.
	followed map[uint32]pagecache.Watched
	// learned: ends of files of the plan are known that were not, since Learned was called last.
	learned bool
	// apart: it shares no scans, because it has starved in one. arrivals counts units,
	// seen those at the last look, and starved the looks since one has come.
	apart                   bool
	arrivals, seen, starved int
}

// Feed makes a feed for t, whose units d deals. It is called without the lock.
// Nothing is read before Advance.
func (s *Set) Feed(spec Spec, d *deal.Dealer, t Taker) *Feed {
	f := &Feed{
		Spec: spec, set: s, deal: d, taker: t,
		attached: map[int]*attachment{}, followed: map[uint32]pagecache.Watched{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[f] = true
	return f
}

// Close ends the feed.
func (f *Feed) Close() {
	delete(f.set.feeds, f)
	f.Release()
	f.set.Trim()
}

// Release ends all reading until Advance or Fetch.
func (f *Feed) Release() {
	for file := range f.attached {
		f.detach(file)
	}
	if f.batcher != nil {
		f.batcher.stop()
		f.batcher = nil
	}
	for id := range f.followed {
		f.unfollow(id)
	}
}

// gone tells whether nobody is there to take anything.
func (f *Feed) gone() bool { return f.deal.Err() != nil || f.set.closed || f.deal.Present() == 0 }

// Advance sees to it that something is being read, as long as somebody is there
// to take it: one file of each device, and batches.
func (f *Feed) Advance() {
	if f.gone() {
		return
	}
	f.detachDone()
	if f.starved > patience && f.blocked() {
		return // what it would begin might have the memory first
	}
	for {
		file, ok := f.deal.Units.NextFile(func(file int) bool { return f.joinable(file) != nil })
		if !ok {
			break
		}
		f.attach(file)
	}
	if f.deal.Units.Batches() > 0 && f.batcher == nil {
		f.startBatcher()
	}
}

// Fetch has one unit of a block or a batch brought, which the dealer has among its
// fetches.
func (f *Feed) Fetch(id uint32) {
	if i := f.Plan.FileOf(id); f.Plan.Files[i].Block > 0 {
		f.attach(i).sc.cond.Broadcast()
	} else if f.batcher == nil {
		f.startBatcher()
	} else {
		f.batcher.cond.Broadcast()
	}
}

// Returned takes note that units have to be brought again.
func (f *Feed) Returned() {
	for _, a := range f.attached {
		a.sc.cond.Broadcast()
	}
}

// attach attaches the stream to a scan of a file: to one that is under way if it may,
// else to one of its own.
func (f *Feed) attach(i int) *attachment {
	if a := f.attached[i]; a != nil {
		return a
	}
	file := &f.Plan.Files[i]
	a := &attachment{Feed: f, file: i, first: file.First, sc: f.joinable(i)}
	f.attached[i] = a
	f.deal.Units.ReadFile(i)
	if a.sc != nil {
		f.set.work.Go(a.join)
		return a
	}
	a.sc = newScan(f, file)
	a.sc.attached = append(a.sc.attached, a)
	if !f.apart {
		f.set.scans[a.sc.key] = a.sc
	}
	f.set.work.Go(a.sc.run)
	return a
}

// slots returns how many the buffer has for a file of blocks.
func (f *Feed) slots(file *deal.File) int {
	return max(4, min(int(f.Buffer)/file.Block, int(file.Units)+2))
}

// joinable returns the scan of a file that is under way, if it has as much memory as the
// stream was promised; else nil.
func (f *Feed) joinable(i int) *scan {
	file := &f.Plan.Files[i]
	if sc := f.set.scans[f.keyOf(file)]; sc != nil && !f.apart && sc.want >= f.slots(file) {
		return sc
	}
	return nil
}

func (a *attachment) gone() bool { return a.detached || a.set.closed }

// join attaches the stream to a scan that is under way, once it is seen that its owner
// may still open the file, by the path that was given, and that it is the one that the scan
// reads. It is called without the lock.
func (a *attachment) join() {
	var was fileset.Was
	in, err := a.open(&a.Plan.Files[a.file], a.gone)
	if err == nil {
		defer in.Close() // and not before: the number of its device is not given to another one meanwhile
		was = in.Was()
	}
	set, sc := a.set, a.sc
	set.mu.Lock()
	defer set.mu.Unlock()
	for err == nil && !a.gone() && sc.underWay() && sc.input == nil {
		sc.cond.Wait()
	}
	switch {
	case a.gone():
	case err != nil:
		a.taker.Failed(err)
	case !sc.underWay():
		a.again()
	case sc.input.Was().Dev != was.Dev:
		// The device had that one's number when the stream was opened, and has another one now.
		a.apart = true
		a.again()
	default:
		sc.attached = append(sc.attached, a)
		sc.shared = true
		sc.mix(a.Owner.UID)
		set.work.Go(sc.survey)
		sc.cond.Broadcast()
	}
}

// again attaches the stream to another scan of the file.
func (a *attachment) again() {
	a.detach(a.file)
	a.attach(a.file)
}

// detachDone ends the attachments that nothing is wanted from.
func (f *Feed) detachDone() {
	for i, a := range f.attached {
		if f.deal.Units.Remaining(i) == 0 && !a.fetching() {
			f.detach(i)
		}
	}
}

func (f *Feed) detach(i int) {
	a := f.attached[i]
	delete(f.attached, i)
	a.detached = true
	a.sc.attached = slices.DeleteFunc(a.sc.attached, func(b *attachment) bool { return a == b })
	a.sc.cond.Broadcast()
	f.deal.Units.LeaveFile(i)
}

// starves tells whether consumers of the stream have waited for a while, and what they wait
// for cannot be read because others that read the same file, or what the stream itself
// has read ahead, keep all the memory. It is called at regular times.
func (f *Feed) starves() bool {
	short := f.arrivals == f.seen && f.deal.Hungry()
	if f.seen = f.arrivals; !short || !f.blocked() && !slices.ContainsFunc(slices.Collect(maps.Values(f.attached)), (*attachment).short) {
		f.starved = 0
		return false
	}
	f.starved++
	return f.starved > patience
}

func (a *attachment) short() bool { return a.sc.shared && a.sc.fillers > 0 }

// blocked tells whether what brings a unit that one consumer waits for has no memory,
// while others read for whoever comes: nobody may come.
func (f *Feed) blocked() bool {
	for id := range f.deal.Units.Fetches() {
		if i := f.Plan.FileOf(id); f.Plan.Files[i].Block == 0 {
			if f.batcher != nil && f.batcher.short {
				return true
			}
		} else if a := f.attached[i]; a != nil && a.sc.short {
			return true
		}
	}
	return false
}

// relieve helps a stream that starves.
func (f *Feed) relieve() {
	if !f.blocked() {
		f.part()
		return
	}
	for i, a := range f.attached {
		if !a.fetching() {
			f.detach(i)
		}
	}
	if f.batcher != nil && !f.batcher.short {
		f.batcher.stop()
		f.batcher = nil
	}
	f.deal.Release()
	f.taker.Serve()
}

// part has the stream read by itself what it reads together with others.
func (f *Feed) part() {
	f.apart = true
	for _, a := range slices.Collect(maps.Values(f.attached)) {
		if a.sc.shared {
			a.again()
		}
	}
}

// Resident returns how much of a file that is dealt whole is in memory, as far as is
// known.
func (f *Feed) Resident(id uint32, file int) int64 {
	if w := f.followed[id]; w != nil {
		return w.Resident()
	}
	return f.Plan.Files[file].Resident
}

// Dealt takes note that a unit has been dealt: what is in memory of its file is of no
// interest any more.
func (f *Feed) Dealt(id uint32) { f.unfollow(id) }

func (f *Feed) unfollow(id uint32) {
	if w := f.followed[id]; w != nil {
		w.Close()
		delete(f.followed, id)
		f.set.following.Give(f.Owner.UID, f.followCost(id))
	}
}

// toFollow returns the next whole files that are not followed yet.
func (f *Feed) toFollow() (ids []uint32) {
	for id := range f.deal.Units.NextWholes() {
		if f.followed[id] == nil && len(ids) < followStep {
			ids = append(ids, id)
		}
	}
	return ids
}

// followUnit begins to follow a file, if its owner may follow another one. It is called without the lock.
func (f *Feed) followUnit(id uint32) {
	cost := f.followCost(id)
	if cost > maxFollowedOne || f.set.following.Take(f.Owner.UID, cost) != nil {
		return
	}
	kept := false
	defer func() {
		if !kept {
			f.set.following.Give(f.Owner.UID, cost)
		}
	}()
	in, err := f.openNow(&f.Plan.Files[f.Plan.FileOf(id)], f.gone)
	if err != nil {
		return // whoever gets the file will say so
	}
	defer in.Close()
	w, err := in.Watch()
	if err != nil {
		return
	}
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	if f.gone() || !f.deal.Units.Todo(id) || f.followed[id] != nil {
		w.Close()
		return
	}
	f.followed[id], kept = w, true
}

// followCost returns what it takes to follow a file of the plan.
func (f *Feed) followCost(id uint32) int64 {
	return f.Plan.Files[f.Plan.FileOf(id)].Size + followedFile
}

// arrived hands a complete unit over.
func (f *Feed) arrived(u *Unit) {
	f.arrivals++
	u.Ended = true
	f.taker.Arrived(u)
}

// open opens a file of the plan, and waits for what passes unless it is gone by then, as openNow.
func (f *Feed) open(file *deal.File, gone func() bool) (source.File, error) {
	for told := false; ; told = true {
		in, err := fileset.OutlastLease(f.set.ctx, func() (source.File, error) { return f.openNow(file, gone) })
		switch early := f.early(err); {
		case !early && !linux.Lacking(err):
			return in, err
		case told:
		case early:
			f.set.cfg.Log.Warn("a file is not there yet; its file system may be about to be mounted", "err", err)
		default:
			f.set.cfg.Log.Warn("there is too little of something to open a file; it is tried again", "err", err)
		}
		select {
		case <-f.set.ctx.Done():
			return nil, err
		case <-time.After(mountPause):
		}
	}
}

// passes tells whether a file may be opened a little later: another program has a lease on
// it, its file system is not mounted yet, or there is too little of something.
func (f *Feed) passes(err error) bool {
	return errors.Is(err, fileset.ErrLeased) || f.early(err) || linux.Lacking(err)
}

// early tells whether a file that was found before this boot is missing shortly after it.
func (f *Feed) early(err error) bool {
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESTALE)
	return missing && f.Plan.Boot != "" && time.Now().Before(f.set.mounted)
}

// openNow opens a file of the plan without waiting for other programs. It waits while the user has too many files
// open, with those that stand in the kernel as a file server does not answer; errEnded: it is gone by then, which
// is called with the lock.
func (f *Feed) openNow(file *deal.File, gone func() bool) (source.File, error) {
	was, err := f.mayOpen(file, gone)
	if err != nil {
		return nil, err
	}
	in, err := f.set.cfg.Source.Open(file.Path, was, f.Owner)
	if err != nil {
		f.set.open.Give(f.Owner.UID, 1)
		return nil, err
	}
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.ends(file, in.Was().End) // it may have come into memory since the stream was opened
	return &openFile{in, f}, nil
}

// mayOpen waits until a file may be opened, and tells what it was.
func (f *Feed) mayOpen(file *deal.File, gone func() bool) (fileset.Was, error) {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	for ; !gone(); f.set.room.Wait() {
		if f.set.open.Take(f.Owner.UID, 1) != nil {
			continue
		}
		was := fileset.Was{Identity: file.Identity, End: file.End}
		if f.Plan.Boot != "" {
			was.Dev = 0
		}
		return was, nil
	}
	return fileset.Was{}, errEnded
}

// openFile counts among those of its user until it is closed.
type openFile struct {
	source.File
	f *Feed
}

// Close may have to wait for a file server, as everything else.
func (o *openFile) Close() error {
	defer o.f.set.open.Give(o.f.Owner.UID, 1)
	return o.File.Close()
}

// learn has the end of a file be known that is open, and has just been read in a turn at the disk: whoever opens
// it later compares with that. A small file has been read to its end by then.
func (f *Feed) learn(in source.File, file *deal.File) error {
	if err := in.Learn(); err != nil {
		return err
	}
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.ends(file, in.Was().End)
	return nil
}

func (f *Feed) ends(file *deal.File, end uint64) {
	if end != 0 && file.End != end {
		file.End, f.learned = end, true
	}
}

// Learned tells whether ends of files have come to be known since it was called last.
func (f *Feed) Learned() bool {
	learned := f.learned
	f.learned = false
	return learned
}
