package scan

import (
	"slices"

	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/source"
)

// followStep bounds how many files are opened at a time to be followed.
const followStep = 256

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

// Advance sees to it that something is being read, as long as somebody is there
// to take it: one file of each device, and batches.
func (f *Feed) Advance() {
	if f.deal.Err() != nil || f.set.closed || f.deal.Present() == 0 {
		return
	}
	f.detachDone()
	for {
		file, ok := f.deal.Units.NextFile(func(file int) bool { return f.set.scans[keyOf(&f.Plan.Files[file])] != nil })
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

// Returned takes note that a unit has to be brought again.
func (f *Feed) Returned(id uint32) {
	if a := f.attached[f.Plan.FileOf(id)]; a != nil {
		a.sc.cond.Broadcast()
	}
}

// attach attaches the stream to the scan of a file.
func (f *Feed) attach(i int) *attachment {
	if a := f.attached[i]; a != nil {
		return a
	}
	set, file := f.set, &f.Plan.Files[i]
	sc := set.scans[keyOf(file)]
	a := &attachment{Feed: f, file: i, first: file.First, sc: sc}
	if sc == nil {
		sc = newScan(f, file)
		a.sc = sc
		set.scans[sc.key] = sc
		sc.attached = append(sc.attached, a)
		set.work.Go(sc.run)
	} else {
		sc.attached = append(sc.attached, a)
		sc.mix(f.Owner.UID)
		set.work.Go(sc.survey)
		sc.cond.Broadcast()
	}
	f.attached[i] = a
	f.deal.Units.ReadFile(i)
	return a
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

// followUnit begins to follow a file. It is called without the lock.
func (f *Feed) followUnit(id uint32) {
	in, err := f.open(&f.Plan.Files[f.Plan.FileOf(id)])
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
	if f.set.closed || f.deal.Err() != nil || !f.deal.Units.Todo(id) || f.deal.Present() == 0 {
		w.Close()
		return
	}
	f.followed[id] = w
}

// arrived hands a complete unit over.
func (f *Feed) arrived(u *Unit) {
	u.Ended = true
	f.taker.Arrived(u)
}

// open opens a file of the plan.
func (f *Feed) open(file *deal.File) (source.File, error) {
	return f.set.cfg.Source.Open(file.Path, file.Identity, f.Owner)
}
