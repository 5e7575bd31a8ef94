package scan

import (
	"slices"

	"headrace/disk"
	"headrace/stream/deal"
)

func (f *Feed) keyOf(file *deal.File) key { return key{file.Identity, file.Block, f.Plan.Boot} }

// attachment is a stream's part in a scan. The lock guards it.
type attachment struct {
	*Feed
	sc       *scan
	file     int
	first    uint32
	detached bool
}

// fetching tells whether a consumer waits for a certain unit of the file.
func (a *attachment) fetching() bool {
	for id := range a.deal.Units.Fetches() {
		if id >= a.first && id < a.first+uint32(a.sc.blocks) {
			return true
		}
	}
	return false
}

// wants tells whether block i should be read for the stream now.
func (a *attachment) wants(i int) bool {
	id := a.first + uint32(i)
	return a.deal.Units.Fetched(id) || a.deal.Units.Todo(id) && a.keepsUp()
}

// keepsUp tells whether more may be read ahead for the stream. One that lags behind may not keep
// half the memory that others could use: it reads the block later. With an extent, of a quarter
// at most, it stays below.
func (a *attachment) keepsUp() bool {
	return len(a.sc.attached) == 1 || a.deal.Ready() < a.sc.quarter()
}

// readsOn tells whether any block should be read ahead for the stream that nobody reads now.
func (a *attachment) readsOn() bool {
	if !a.keepsUp() {
		return false
	}
	n := int(a.deal.Units.Remaining(a.file))
	for _, x := range a.sc.reading {
		for i := x.from; i < x.to; i++ {
			if a.deal.Units.Todo(a.first + uint32(i)) {
				n--
			}
		}
	}
	return n > 0
}

// takes tells whether some of the blocks [from, to) should be read for the stream now.
func (a *attachment) takes(from, to int) bool {
	for i := from; i < to; i++ {
		if a.wants(i) {
			return true
		}
	}
	return false
}

// scan reads one file for the streams that are attached to it. The lock
// guards it. Its cond is told when slots become free and when something may be
// wanted.
type scan struct {
	slotPool
	set    *Set
	key    key
	opener *Feed // opens the file, with its owner's rights
	file   *deal.File
	size   int64
	blocks int

	attached []*attachment
	// shared: more than one stream has been attached.
	shared bool
	// want is how many slots it was to have.
	want int
	// fillers counts those that wait for slots. tailing: one of them does so in the tail
	// of an extent.
	fillers int
	tailing bool
	// reading are the extents that are being read.
	reading []*extent
	// resident blocks were in memory when the survey looked. They are read apart,
	// by a filler that needs no turn at the disk, while warm is set.
	resident []bool
	warm     bool
	// heldCold and heldWarm count the slots in use by who filled them.
	heldCold, heldWarm int
	// surveys counts those under way.
	surveys int
	// head is where the disk filler goes on.
	head int

	// trusted is for how many extents the disk is taken to be too fast to have a
	// head. Only the disk filler uses it.
	trusted int

	device disk.Device
	seeks  bool
}

func newScan(s *Feed, f *deal.File) *scan {
	n := int(f.Units)
	return &scan{
		slotPool: newSlotPool(&s.set.memory, s.Owner.UID), set: s.set, key: s.keyOf(f), opener: s, file: f, size: f.Size, blocks: n,
		resident: make([]bool, n), want: s.slots(f),
	}
}

// gone tells whether no stream wants anything.
func (sc *scan) gone() bool { return len(sc.attached) == 0 || sc.set.closed }

// run opens the file and reads until no stream wants any of it.
func (sc *scan) run() {
	err := sc.open()
	if err == nil {
		sc.survey()
	}
	for err == nil {
		sc.fill(false)
		if sc.idle() {
			return
		}
	}
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	sc.fail(err)
	sc.close()
}

// idle waits for the other goroutines of the scan and ends it if still nobody
// wants anything.
func (sc *scan) idle() bool {
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	for sc.warm || sc.surveys > 0 {
		sc.cond.Wait()
	}
	if !sc.gone() {
		return false
	}
	sc.close()
	return true
}

// close takes the scan off the list.
func (sc *scan) close() {
	sc.leaveList()
	sc.end()
}

// leaveList sees to it that no other stream is attached.
func (sc *scan) leaveList() {
	if sc.underWay() {
		delete(sc.set.scans, sc.key)
		sc.cond.Broadcast()
	}
}

// underWay tells whether others may be attached.
func (sc *scan) underWay() bool { return sc.set.scans[sc.key] == sc }

// open opens the file and takes memory for it.
func (sc *scan) open() error {
	f, err := sc.opener.open(sc.file, sc.gone)
	if err != nil {
		return err
	}
	device, seeks, err := f.Device()
	if err != nil {
		f.Close()
		return err
	}
	if err := sc.equip(sc.key.block, sc.want, sc.gone); err != nil {
		f.Close()
		return err
	}
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	sc.device, sc.seeks, sc.input = device, seeks, newInput(sc.mem, f)
	sc.cond.Broadcast()
	return nil
}

// fail ends the stream that has opened the file. Others begin anew: each with its own
// path and its owner's rights.
func (sc *scan) fail(err error) {
	sc.leaveList()
	for len(sc.attached) > 0 {
		a := sc.attached[0]
		if a.Feed != sc.opener || err == errEnded { // it was attached when that was said already
			a.again()
			continue
		}
		a.taker.Failed(err)
		if !a.detached {
			a.detach(a.file)
		}
	}
}

// survey finds out which blocks are in memory, and has them read first.
func (sc *scan) survey() {
	sc.set.mu.Lock()
	if sc.set.cfg.NoResidentFirst || sc.ended || sc.input == nil {
		sc.set.mu.Unlock()
		return
	}
	sc.surveys++
	in := sc.input // the scan may end meanwhile
	sc.set.mu.Unlock()

	found := make([]bool, sc.blocks)
	any := in.survey(found, 0, int64(sc.key.block), sc.size)

	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	sc.surveys--
	sc.resident = found
	if any && !sc.warm {
		sc.warm = true
		sc.set.work.Go(sc.fillWarm)
	}
	sc.cond.Broadcast()
}

// fillWarm reads what is in memory.
func (sc *scan) fillWarm() {
	sc.fill(true)
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	sc.warm = false
	sc.cond.Broadcast()
}

// extent is what a filler reads at a time: blocks [from, to).
type extent struct {
	from, to int
	warm     bool
	takers   []*taker
	// slots are reserved, one more than blocks.
	slots []*slot
	// turn is the one at the disk in which bytes of it are read; nil if it needs none.
	turn   *disk.Turn
	bytes  int64
	reader *disk.Reader
}

// taker is an attachment during an extent. pending is the unit whose end is not
// known yet.
type taker struct {
	a       *attachment
	rule    deal.Rule
	pending *Unit
}

// fill reads extents until nothing is wanted: of blocks in memory when warm is
// set, else of the others.
func (sc *scan) fill(warm bool) {
	var reader *disk.Reader
	if !warm {
		reader = sc.set.cfg.Source.Reader(sc.opener.Owner.UID, sc.device, "stream: "+sc.file.Path)
		defer reader.Close()
	}
	for {
		x := sc.claim(warm)
		if x == nil {
			return
		}
		err := sc.read(x, reader)
		if err == errYields {
			err = nil
		}
		sc.settle(x, err)
	}
}

// claim waits for something to read and room for it; nil: the filler is done.
func (sc *scan) claim(warm bool) *extent {
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	for {
		if sc.gone() {
			return nil
		}
		from, to := sc.pick(warm)
		if warm && to == from {
			return nil
		}
		room := sc.roomFor(warm)
		if need := min(to-from, sc.quarter()) + 1; to > from && room >= need && !sc.tailing {
			return sc.reserve(from, min(to, from+room-1), warm)
		}
		if to > from {
			sc.waitForRoom()
		} else {
			sc.cond.Wait()
		}
	}
}

func (sc *scan) waitForRoom() {
	sc.fillers++
	sc.cond.Wait()
	sc.fillers--
}

// roomFor returns how many slots a filler may take. While there are two, each has half
// of them.
func (sc *scan) roomFor(warm bool) int {
	free := len(sc.arena.free)
	if !sc.warm {
		return free
	}
	return min(free, sc.arena.n/2-*sc.held(warm))
}

// held counts the slots that a filler has taken.
func (sc *scan) held(warm bool) *int {
	if warm {
		return &sc.heldWarm
	}
	return &sc.heldCold
}

func (sc *scan) takeFor(warm bool) *slot {
	n := sc.held(warm)
	*n++
	return sc.arena.take(func() {
		*n--
		sc.freed()
	})
}

// pick returns the next blocks that are wanted: a unit that a consumer waits for,
// else from the head on, around the end.
func (sc *scan) pick(warm bool) (from, to int) {
	want := func(i int) bool { return sc.wanted(i, warm) }
	start := -1
	for _, a := range sc.attached {
		for id := range a.deal.Units.Fetches() {
			if i := int(id) - int(a.first); i >= 0 && i < sc.blocks && want(i) {
				start = i
			}
		}
	}
	head := sc.head
	if warm {
		head = 0
	}
	if start < 0 && !slices.ContainsFunc(sc.attached, (*attachment).readsOn) {
		return 0, 0 // without going round: there may be millions of blocks
	}
	for k := 0; start < 0 && k < sc.blocks; k++ {
		if i := (head + k) % sc.blocks; want(i) {
			start = i
		}
	}
	if start < 0 {
		return 0, 0
	}
	limit := min(sc.blocks, start+max(1, int(sc.device.Extent())/sc.key.block))
	if len(sc.attached) > 1 {
		limit = min(limit, start+sc.quarter())
	}
	for to = start + 1; to < limit && want(to); to++ {
	}
	return start, to
}

func (sc *scan) wanted(i int, warm bool) bool {
	claimed := func(x *extent) bool { return x.from <= i && i < x.to }
	if (sc.resident[i] && sc.warm) != warm || slices.ContainsFunc(sc.reading, claimed) {
		return false
	}
	for _, a := range sc.attached {
		if a.wants(i) {
			return true
		}
	}
	return false
}

func (sc *scan) reserve(from, to int, warm bool) *extent {
	x := &extent{from: from, to: to, warm: warm}
	sc.reading = append(sc.reading, x)
	for range to - from + 1 {
		x.slots = append(x.slots, sc.takeFor(warm))
	}
	for _, a := range sc.attached {
		if a.takes(from, to) {
			x.takers = append(x.takers, &taker{a: a, rule: a.Plan.Rule})
		}
	}
	return x
}

// settle ends an extent.
func (sc *scan) settle(x *extent, err error) {
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	sc.reading = slices.DeleteFunc(sc.reading, func(y *extent) bool { return y == x })
	if !x.warm {
		sc.head = x.to % sc.blocks
	}
	for _, t := range x.takers {
		if t.pending != nil {
			t.pending.Cancel()
		}
	}
	for _, s := range x.slots {
		s.drop()
	}
	if err != nil && !sc.set.closed {
		sc.fail(err)
	}
	for _, t := range x.takers {
		t.a.detachDone()
		t.a.taker.Serve()
	}
	sc.cond.Broadcast()
}
