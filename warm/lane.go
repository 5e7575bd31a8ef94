package warm

import (
	"context"
	"errors"
	"slices"
	"time"

	"headrace/disk"
	"headrace/pagecache"
	"headrace/policy/prefetch"
)

// turnFiles is how many files are opened, and read if they are small, in one turn
// at a disk: as each may cost it a seek or two, others do not wait for long.
const turnFiles = 16

// lane is what is to be done on one device. It has a goroutine while there is
// something. The engine's lock protects it.
type lane struct {
	e      *Engine
	device disk.Device
	wake   chan struct{}

	running bool
	shares  []*portion
	active  []*portion // those that may want something, in the order of their requests
	// reading is what is being read; without a request: nothing.
	reading ask
	// full: the next block waits for room.
	full bool
	// refused says why the page cache has refused a block that there was room for.
	// It is not tried again before retryAt, or something is released.
	refused string
	retryAt time.Time
	// followAt is when to look next at what is in memory, beginning with the portion
	// followFrom.
	followAt   time.Time
	followFrom int

	view viewBuffer
}

// viewBuffer is a view of a lane, and what its indices stand for.
type viewBuffer struct {
	jobs   []prefetch.Job
	blocks []prefetch.Block
	pos    []uint32
	shares []*portion
	first  []int // of each job, in pos
}

// ask is a step that the policy has ordered.
type ask struct {
	do   prefetch.Do
	why  string
	s    *portion
	r    *request
	file int
	path string
	pos  uint32
	part pagecache.Range
}

func (a *ask) alias() alias { return alias{a.path, a.part} }

// lane finds or makes the lane of a device. e.mu is held.
func (e *Engine) lane(d disk.Device) *lane {
	l := e.lanes[d.ID]
	if l == nil {
		l = &lane{e: e, device: d, wake: make(chan struct{}, 1)}
		e.lanes[d.ID] = l
	}
	if !l.running {
		l.device = d // what has this number now
	}
	return l
}

// portion finds or makes the portion of a request. e.mu is held.
func (l *lane) portion(r *request) *portion {
	for _, s := range r.shares {
		if s.lane == l {
			return s
		}
	}
	s := &portion{r: r, lane: l}
	r.shares = append(r.shares, s)
	l.shares = append(l.shares, s)
	return s
}

// activate puts a portion among those that may want something. e.mu is held.
func (l *lane) activate(s *portion) {
	if s.r.ended {
		return
	}
	if !s.active {
		s.active = true
		i, _ := slices.BinarySearchFunc(l.active, s, func(a, b *portion) int { return int(a.r.seq) - int(b.r.seq) })
		l.active = slices.Insert(l.active, i, s)
	}
	l.start()
}

// start makes sure that somebody works on the lane. e.mu is held.
func (l *lane) start() {
	if !l.running && l.e.ctx.Err() == nil {
		l.running = true
		l.e.wg.Add(1)
		go l.run()
	}
	l.kick()
}

// kick has the lane look again for something to do.
func (l *lane) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// remove takes a portion off. e.mu is held.
func (l *lane) remove(s *portion) {
	is := func(o *portion) bool { return o == s }
	l.shares = slices.DeleteFunc(l.shares, is)
	l.active = slices.DeleteFunc(l.active, is)
	s.active = false
}

// prefetchView makes the view of the lane. It is valid while e.mu is held.
func (l *lane) prefetchView() prefetch.View {
	v := &l.view
	v.jobs, v.pos, v.shares, v.first = v.jobs[:0], v.pos[:0], v.shares[:0], v.first[:0]
	v.blocks = slices.Grow(v.blocks[:0], lookahead*len(l.active)) // so that it stays in place
	l.active = slices.DeleteFunc(l.active, func(s *portion) bool {
		if l.e.silent[s.r.party()] != nil {
			return false // it is passed over
		}
		first := len(v.pos)
		l.show(s)
		if s.active = len(v.pos) > first; !s.active {
			return true
		}
		r := s.r
		v.shares, v.first = append(v.shares, s), append(v.first, first)
		v.jobs = append(v.jobs, prefetch.Job{
			Name: r.name, Input: r.Bytes, Seq: r.Seq, Limit: r.Budget, Held: r.heldBytes, Implicit: r.Implicit, Next: v.blocks[first:],
		})
		return false
	})
	return prefetch.View{Room: l.e.room(), Jobs: v.jobs}
}

// show adds the next blocks of a portion to the view: those that are moving, and the
// first one that is not.
func (l *lane) show(s *portion) {
	v := &l.view
	first := len(v.pos)
	for n := 1; n <= lookahead; n++ {
		v.pos = s.upcoming(v.pos[:first], n)
		if len(v.pos) < first+n {
			return
		}
		pos := v.pos[first+n-1]
		file := s.r.fileOf(pos)
		part := s.r.part(file, pos)
		state := l.e.blocks.state(alias{s.r.Files[file].Path, part})
		v.blocks = append(v.blocks, prefetch.Block{Bytes: wholePages(part), State: state})
		if state != prefetch.Moving {
			return
		}
	}
}

// choose asks the policy.
func (l *lane) choose() ask {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	step := prefetch.Next(l.prefetchView(), l.e.cfg.Policy)
	a := ask{do: step.Do, why: step.Reason}
	if step.Job >= 0 {
		s := l.view.shares[step.Job]
		a = s.askFor(l.view.pos[l.view.first[step.Job]+step.Block])
		a.do, a.why = step.Do, step.Reason
	}
	if a.do == prefetch.Migrate && l.refused != "" && time.Now().Before(l.retryAt) {
		a.do, a.why = prefetch.Wait, l.refused
	}
	l.setFull(a.do == prefetch.Wait)
	return a
}

// setFull notes whether the next block waits for room, and tells those who watch.
// e.mu is held.
func (l *lane) setFull(full bool) {
	if l.full == full {
		return
	}
	l.full = full
	for _, s := range l.active {
		s.r.touch()
	}
}

// run works until nothing is left to be done or followed.
func (l *lane) run() {
	defer l.e.wg.Done()
	reader := l.e.cfg.Disks.Reader(l.device, disk.Warming, "warming")
	defer reader.Close()
	for l.e.ctx.Err() == nil {
		l.follow()
		a := l.choose()
		switch a.do {
		case prefetch.Migrate:
			l.useTurn(reader, a)
			l.e.cleanUp()
		case prefetch.Refer:
			l.read(a)
		case prefetch.Skip:
			l.skip(a)
		case prefetch.Wait:
			if !l.found(a) && !l.e.cleanUp() {
				l.sleep()
			}
		case prefetch.Nothing:
			if l.rest() {
				return
			}
			l.sleep()
		}
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.running = false
}

// rest reports whether the lane's goroutine may end, and notes it.
func (l *lane) rest() bool {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	following := slices.ContainsFunc(l.shares, func(s *portion) bool {
		return len(s.following) > 0 || len(s.checking) > 0 || len(s.leased) > 0
	})
	l.running = len(l.active) > 0 || following
	return !l.running
}

// sleep waits until something may have changed.
func (l *lane) sleep() {
	select {
	case <-l.wake:
	case <-time.After(l.e.cfg.FollowUp):
	case <-l.e.ctx.Done():
	}
}

// useTurn waits for a turn at the disk and reads one block, or some small files.
// What that is is decided when the turn has come, among files that were opened before: a
// path may lead to a file server that does not answer, or to another device, and whoever has the
// turn keeps all others from the disk.
func (l *lane) useTurn(reader *disk.Reader, first ask) {
	ready := l.prepare(first)
	defer func() {
		for _, o := range ready {
			o.f.Close()
		}
	}()
	if len(ready) == 0 {
		return
	}
	turn, err := reader.Begin(l.e.ctx)
	if err != nil {
		if l.e.ctx.Err() == nil {
			l.e.cfg.Log.Error("warm: no turn at a disk", "disk", l.device.Name, "err", err)
			l.sleep()
		}
		return
	}
	var bytes int64
	defer func() { turn.End(bytes) }()
	for range turnFiles {
		a := l.choose()
		if a.do != prefetch.Migrate || bytes > 0 && bytes+a.part.Len > l.e.cfg.Block {
			return
		}
		o := ready[a.alias()]
		if o == nil {
			return
		}
		delete(ready, a.alias())
		bytes += l.readOpen(a, o, turn)
	}
}

// prepare opens the file of a block, and those of the blocks behind it that may be read in the same
// turn. What is on another device is not among them.
func (l *lane) prepare(first ask) map[alias]*opened {
	ready := map[alias]*opened{}
	var bytes int64
	for _, a := range l.behind(first) {
		if bytes += a.part.Len; bytes > l.e.cfg.Block && len(ready) > 0 {
			break
		}
		if ready[a.alias()] != nil {
			continue // the request names it twice
		}
		o, ok := l.open(a)
		if !ok {
			continue
		}
		if d, err := l.e.cfg.Devices.Of(o.f); err == nil && (d.ID != l.device.ID || d.Memory) {
			l.begin(a, o, d, nil)
			o.f.Close()
			continue
		}
		ready[a.alias()] = o
	}
	return ready
}

// behind returns a step, and such for the next blocks of the same request here.
func (l *lane) behind(first ask) (all []ask) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	all = append(all, first)
	for _, pos := range first.s.upcoming(nil, turnFiles) {
		if pos > first.pos && len(all) < turnFiles {
			a := first.s.askFor(pos)
			a.do = first.do
			all = append(all, a)
		}
	}
	return all
}

// read carries out a step for which the disk is not needed: it refers to a block that is there already.
func (l *lane) read(a ask) {
	if o, ok := l.open(a); ok {
		l.readOpen(a, o, nil)
	}
}

// readOpen reads a block of an open file, or refers to it if it is there already, and closes the file. It returns
// how many bytes were read. The turn at the disk is nil where none is needed.
func (l *lane) readOpen(a ask, o *opened, turn *disk.Turn) (bytes int64) {
	defer o.f.Close()
	device, err := l.e.cfg.Devices.Of(o.f)
	if err != nil {
		device = l.device
	}
	ctx, cancel := context.WithCancel(l.e.ctx)
	defer cancel()
	b := l.begin(a, o, device, cancel)
	if b == nil {
		return 0
	}
	kernel := readAhead(o.f, a.part)
	pin, err := l.e.cfg.Cache.Pin(ctx, o.f, a.part, func(n int64) {
		kernel.progress(n)
		if turn != nil {
			turn.Progress()
		}
		bytes += n
		l.e.progress(a.r, n)
	})
	now, ierr := identify(o.f)
	if ierr != nil {
		now = o.identity
	}
	l.finish(a, b, pin, err, now)
	return bytes
}

func (e *Engine) progress(r *request, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.migrated += n
	e.counters.Migrated += n
	r.touch()
}

// begin checks a block of a file that has just been opened. It returns the block
// if it is to be read; otherwise it has done what is to be done.
func (l *lane) begin(a ask, o *opened, d disk.Device, cancel context.CancelFunc) *block {
	e, r := l.e, a.r
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(a.s.leased, int32(a.file)) // it is open now
	if r.ended || r.state[a.pos] != remaining {
		return nil
	}
	if why := r.changedFile(a.file, o.identity); why != "" {
		e.failReason(r, a.file, why)
		return nil
	}
	if d.ID != l.device.ID {
		e.moveFile(r, a.file, d)
		return nil
	}
	if d.Memory {
		l.leave(a)
		return nil
	}
	r.begin(a.file, o.identity)
	key := blockKey{o.dev, o.ino, a.part}
	b := e.blocks.all[key]
	switch {
	case b != nil:
		e.blocks.meet(b, a.path)
		if b.pin != nil && !b.leaving && r.fits(b.bytes) {
			a.s.refer(b, a.pos)
		}
		return nil
	case a.part.Len == 0:
		l.keepAnEye(a)
		return nil
	case a.do == prefetch.Refer:
		delete(e.blocks.known, a.alias()) // the path leads elsewhere now
		return nil
	}
	bytes := wholePages(a.part)
	if room := e.room(); room.Pinned+bytes > room.Budget || room.Blocks >= room.MaxBlocks {
		return nil // another lane was faster
	}
	b = &block{key: key, bytes: bytes, cancel: cancel}
	e.blocks.add(b)
	a.s.refer(b, a.pos)
	e.blocks.meet(b, a.path)
	l.reading = a
	r.touch()
	return b
}

// finish notes what has become of a block that was to be read.
func (l *lane) finish(a ask, b *block, pin pagecache.Pinned, err error, now identity) {
	e, r := l.e, a.r
	e.mu.Lock()
	l.reading = ask{}
	r.touch()
	if err != nil {
		e.blocks.remove(b)
		e.kickAll()
		l.refusal(a, err)
		e.mu.Unlock()
		return
	}
	e.blocks.install(b, pin)
	e.counters.Blocks++
	if why := r.changedFile(a.file, now); why != "" {
		if b.bytes < wholePages(a.part) && r.held[a.pos] == b {
			r.unref(a.pos)
			r.move(a.pos, remaining)
		}
		e.failReason(r, a.file, why)
	}
	leaving := b.leaving
	e.mu.Unlock()
	if leaving {
		e.letGo([]*block{b})
	}
}

// refusal notes why a block could not be locked. e.mu is held.
func (l *lane) refusal(a ask, err error) {
	e, r := l.e, a.r
	switch {
	case r.ended || r.state[a.pos] != remaining:
	case errors.Is(err, pagecache.ErrResident):
		l.keepAnEye(a)
	case errors.Is(err, pagecache.ErrBudget), errors.Is(err, pagecache.ErrClosed),
		errors.Is(err, pagecache.ErrLockLimit) && len(e.blocks.all) > 0:
		l.refused, l.retryAt = "waits for room: "+reason(err), time.Now().Add(e.cfg.FollowUp)
	case errors.Is(err, context.Canceled):
	default:
		e.failFile(r, a.file, err)
	}
}

// keepAnEye notes that a block is in memory without our doing. e.mu is held.
func (l *lane) keepAnEye(a ask) {
	a.r.move(a.pos, resident)
	if a.part.Len > 0 {
		a.s.following = append(a.s.following, a.pos)
	}
	l.e.counters.Skipped += a.part.Len
}

// leave notes that a file is in memory for good, being of a file system that lives there. Nothing is gained by
// locking it; and what it has not, because it is sparse, would be made by that, and stay. e.mu is held.
func (l *lane) leave(a ask) {
	for pos := a.r.start[a.file]; pos < a.r.start[a.file+1]; pos++ {
		if a.r.state[pos] == remaining {
			a.r.move(pos, resident)
			l.e.counters.Skipped += a.r.part(a.file, pos).Len
		}
	}
}

// skip gives up a block that can never be locked.
func (l *lane) skip(a ask) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if !a.r.ended && a.r.state[a.pos] == remaining {
		a.r.notFitReason = a.why
		a.r.move(a.pos, notFit)
	}
}

// moveFile puts a file into the lane of the device that it really is on. e.mu is
// held.
func (e *Engine) moveFile(r *request, file int, d disk.Device) {
	s := e.lane(d).portion(r)
	if r.moved == nil {
		r.moved = map[int32]*portion{}
	}
	r.moved[int32(file)] = s
	s.take(int32(file))
}
