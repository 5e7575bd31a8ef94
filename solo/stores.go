package solo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/disk"
	"headrace/internal/vfs"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/solo/presence"
)

const (
	storeFullFor = time.Minute
	// measureValid is how long a measured bandwidth is used by later daemons.
	measureValid = 24 * time.Hour
	// guessStore is the bandwidth, in bytes per second, of a store that could not
	// be measured.
	guessStore = 100e6
	// The fixed costs before any dump has been seen, as measured for CRIU on small
	// processes.
	guessDumpOverhead    = 150 * time.Millisecond
	guessRestoreOverhead = 150 * time.Millisecond
	// Dumps below smallDump tell about the overhead, those above bigDump about the
	// bandwidth.
	smallDump = 8 << 20
	bigDump   = 32 << 20
)

// stores are the checkpoint stores.
type stores struct {
	all []*store
	presence.Stores
	// known is how fast they are, and were that are not used now, by directory.
	known map[string]journal.Measure
	// renewed are the directories in which what was there was given up, as is to be done once; in those of renewing it is to be done now.
	renewed  []string
	renewing map[string]bool
	// last is the greatest number of a task that has left something in a store that the records did not know.
	last uint64
	// disks says whose turn it is at a device.
	disks   *disk.Scheduler
	devices disk.Devices
	// promised is what dumps under way, and those that wait, are to write.
	promised []*promise
	// space says how many bytes checkpoints may take yet; freeSpace, but for tests.
	space func(dir string) int64
	// patience is how long a start waits for all stores to answer.
	patience time.Duration
	clk      clock
	log      *slog.Logger
}

// store is a checkpoint store and what is known of it.
type store struct {
	StoreConfig
	journal.Measure
	// on is the device that it lies on, disks says whose turn it is there.
	on    disk.Device
	disks *disk.Scheduler
	// fs is the file system that it lies on, by device number. Stores on one have the same room.
	fs uint64
	// free is the room that was left at the last look, -1 while unknown; see stores.room. size is that of the file system, 0 while unknown.
	free, size int64
	// looking since lookedAt (boot time): whether it is there, and how much room it has.
	looking   bool
	lookedAt  time.Duration
	fullUntil time.Duration
}

func newStores(cfg *Config, clk clock) *stores {
	a := &stores{known: map[string]journal.Measure{}, renewing: map[string]bool{}, disks: &disk.Scheduler{Log: cfg.Log}, space: freeSpace, patience: presence.Patience, clk: clk, log: cfg.Log}
	for _, c := range cfg.Stores {
		a.all = append(a.all, &store{StoreConfig: c, disks: a.disks})
	}
	return a
}

// found is what a look at a store has shown.
type found struct {
	id       string
	inMemory bool
	on       disk.Device
	fs       uint64
	free     int64
	size     int64
	// last is lastOf the store, if the records did not know it.
	last uint64
	// speed is what was found out about it, if that was tried.
	speed journal.Measure
	err   error
}

// look finds out whether a store is there, and how much room it has; see presence.Stores.Find. It may
// be called from anywhere.
func (a *stores) look(dir string, known journal.Measure, had []headrace.TaskID) found {
	id, err := a.Find(dir, presenceOf(known), had)
	return a.lookInto(dir, id, known, err)
}

// lookInto is look at a store that was found, or was not.
func (a *stores) lookInto(dir, id string, known journal.Measure, err error) (f found) {
	if f.id, f.err = id, err; err != nil {
		return f
	}
	if known.ID != id {
		if f.last, f.err = lastOf(dir); f.err != nil {
			return f
		}
	}
	f.inMemory, f.free = presence.InMemory(dir), a.space(dir)
	_, f.size, _ = vfs.Space(dir) // 0 if it is not known
	f.on, f.fs, f.err = lookAtStore(dir, &a.devices)
	return f
}

func presenceOf(known journal.Measure) presence.Known {
	return presence.Known{ID: known.ID, InMemory: known.InMemory}
}

// take takes in what a look has shown.
func (a *stores) take(u *turn, s *store, f found) {
	if a.taken(s, f) {
		u.redecide, u.metaChanged = true, true
	}
}

// taken is take for the store alone, and reports whether something has become of it since the last look.
func (a *stores) taken(s *store, f found) (changed bool) {
	s.looking = false
	was, away := a.ID(s.Dir), a.Away(s.Dir)
	if f.err != nil {
		s.free = 0
		a.Set(s.Dir, was, f.err)
		if away == nil || away.Error() != f.err.Error() {
			a.log.Error("a checkpoint store cannot be used; what is in it waits", "store", s.Name, "err", f.err)
		}
		return away == nil
	}
	a.Set(s.Dir, f.id, nil)
	a.last = max(a.last, f.last)
	if f.speed.Write > 0 {
		s.Measure = f.speed
	}
	s.on, s.fs, s.free, s.size, s.ID, s.InMemory = f.on, f.fs, f.free, f.size, f.id, f.inMemory
	a.seen(s)
	a.known[s.Dir] = s.Measure
	if a.renewing[s.Dir] {
		delete(a.renewing, s.Dir)
		a.renewed = append(a.renewed, s.Dir)
	}
	if away != nil {
		a.log.Info("a checkpoint store is there", "store", s.Name, "dir", s.Dir)
	}
	return away != nil || was != f.id
}

// open finds the stores, and how fast they are. Of those that were used before none
// keeps the daemon from starting, and none that does not answer: it is there when it does. What was in
// the directories renew is lost; see renews.
func (a *stores) open(u *turn, was journal.Contents, renew []string, img Images) error {
	maps.Copy(a.known, was.Meta.Stores)
	renew = a.renews(renew, was.Meta.Renewed)
	for _, dir := range renew {
		delete(a.known, dir)
	}
	for dir, m := range a.known {
		a.Set(dir, m.ID, nil)
	}
	seen, inTime := make(chan func() error, len(a.all)), true
	for _, s := range a.all {
		known, had := a.known[s.Dir], []headrace.TaskID(nil)
		for _, r := range was.Records {
			if r.HasImagesIn(s.Dir) && !slices.Contains(renew, s.Dir) {
				had = append(had, r.ID)
			}
		}
		a.begin(s, known)
		go func() { // nobody waits for its end
			f := a.look(s.Dir, known, had)
			if f.err == nil {
				f.speed = a.speed(u.driver.ctx, s.StoreConfig, known, img)
			}
			seen <- func() error {
				if inTime && f.err != nil && known.ID == "" && !errors.Is(f.err, proc.ErrNotNow) {
					return fmt.Errorf("checkpoint store %s: %w; choose a directory that can be written", s.Name, f.err)
				}
				a.take(u, s, f)
				return nil
			}
		}()
	}
	late := time.After(a.patience)
	for i := range a.all {
		select {
		case take := <-seen:
			if err := take(); err != nil {
				return err
			}
		case <-late:
			inTime = false
			a.log.Warn("a checkpoint store does not answer; the daemon starts without it", "stores", len(a.all)-i)
			for range a.all[i:] {
				u.driver.run(func(ctx context.Context) func() { return a.takeLate(ctx, seen) })
			}
			return nil
		}
	}
	return nil
}

// renews returns the directories in which what was there is to be given up now. Settings stay as they are when the machine starts again: then
// the store that was made in its place may just not be mounted, so it is done once for as long as they are named.
func (a *stores) renews(dirs, before []string) (now []string) {
	for _, dir := range dirs {
		if slices.Contains(before, dir) {
			a.renewed = append(a.renewed, dir)
			a.log.Warn("new-store has been carried out by an earlier start, and does nothing any more: take it out of the settings. If what is there now is lost, too, start once without it and then with it",
				"new-store", dir)
			continue
		}
		a.renewing[dir] = true
		a.log.Warn("what was in a checkpoint store is given up, as new-store says; take it out of the settings again", "new-store", dir)
		now = append(now, dir)
	}
	return now
}

// begin has a store looked for of which is known what an earlier daemon has found.
func (a *stores) begin(s *store, known journal.Measure) {
	s.Measure, s.looking, s.lookedAt = known, true, a.clk.boot()
	if s.Write <= 0 || s.Read <= 0 {
		s.Write, s.Read, s.DumpOverhead, s.RestoreOverhead = guessStore, guessStore, guessDumpOverhead, guessRestoreOverhead
	}
	a.Set(s.Dir, known.ID, fmt.Errorf("%w: checkpoint store %s has not answered yet", proc.ErrNotNow, s.Name))
}

// takeLate waits for a store that did not answer in time.
func (a *stores) takeLate(ctx context.Context, seen <-chan func() error) func() {
	select {
	case take := <-seen:
		return func() { take() } // it fails only in time; now the store is looked for like others
	case <-ctx.Done():
		return nil
	}
}

func lookAtStore(dir string, devices *disk.Devices) (on disk.Device, fs uint64, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return on, 0, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return on, 0, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&0o077 != 0 {
		return on, 0, fmt.Errorf("%s can be read by others, but checkpoints hold secrets: chmod 700 it", dir)
	}
	on, err = devices.Of(f)
	return on, st.Dev, err
}

// freeSpace returns how many bytes checkpoints may take yet, -1 if that is not known.
func freeSpace(dir string) int64 {
	spare, err := vfs.SpareSpace(dir)
	if err != nil {
		return -1
	}
	return spare
}

// speed returns the bandwidths of a store that is there: what is known of them, when that is recent, else what comes of
// trying. It may be called from anywhere.
func (a *stores) speed(ctx context.Context, s StoreConfig, known journal.Measure, img Images) journal.Measure {
	age := a.clk.wall().Sub(time.UnixMilli(known.MeasuredMs))
	if known.Write > 0 && known.Read > 0 && age >= 0 && age < measureValid {
		return known
	}
	write, read, err := img.Measure(ctx, s.Dir)
	if err != nil || write <= 0 || read <= 0 {
		a.log.Warn("a checkpoint store could not be measured", "store", s.Name, "dir", s.Dir, "err", err)
		write, read = guessStore, guessStore
	}
	a.log.Info("checkpoint store", "store", s.Name, "dir", s.Dir, "write", int64(write), "read", int64(read))
	return journal.Measure{
		Write: write, Read: read, DumpOverhead: guessDumpOverhead, RestoreOverhead: guessRestoreOverhead, MeasuredMs: a.clk.wall().UnixMilli(),
	}
}

// named returns the store with a name; nil: there is none.
func (a *stores) named(name string) *store {
	for _, s := range a.all {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// choose returns the store a user named, else the one where the dump is likely
// to be done first.
func (a *stores) choose(name string, t *task) (*store, error) {
	if name != "" {
		if st := a.named(name); st != nil {
			if away := a.Away(st.Dir); away != nil {
				return nil, fmt.Errorf("%w: checkpoint store %s: %w", serve.ErrBusy, name, away)
			}
			if !a.roomy(st, t) {
				return nil, fmt.Errorf("%w: checkpoint store %s has no room for task %s; free some space in %s, or name another store", serve.ErrBusy, name, t.rec.ID, st.Dir)
			}
			return st, nil
		}
		var names []string
		for _, s := range a.all {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("%w: there is no checkpoint store %q; there is %q", serve.ErrInput, name, names)
	}
	now, serves := a.clk.boot(), t.rec.UID
	if t.hosted() { // what its scheduler orders
		serves = 0
	}
	var best *store
	var bestTime time.Duration
	for _, s := range a.all {
		view := a.view(s)
		need := s.estimate(t.writes(s)) + view.QueueOf(serves)
		if now < s.fullUntil || a.Away(s.Dir) != nil || !a.roomy(s, t) {
			continue
		}
		if best == nil || need < bestTime {
			best, bestTime = s, need
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: no checkpoint store has room for task %s; free some space, or kill the task", serve.ErrBusy, t.rec.ID)
	}
	return best, nil
}

// roomy tells whether a dump of a task has room, as far as is known.
func (a *stores) roomy(s *store, t *task) bool {
	room := a.room(s)
	return room < 0 || !t.known || room > t.writes(s)
}

// estimate returns how long a dump of so many bytes takes.
func (s *store) estimate(dirty int64) time.Duration {
	return s.DumpOverhead + transfer(dirty, s.Write)
}

func transfer(bytes int64, bandwidth float64) time.Duration {
	if bandwidth <= 0 {
		return time.Hour
	}
	return time.Duration(float64(bytes) / bandwidth * float64(time.Second))
}

// learnDump corrects the measured values by a dump that happened. Dumps that
// wrote little of a large memory say nothing about the bandwidth.
func (s *store) learnDump(stored, total int64, took time.Duration) {
	switch {
	case total <= smallDump:
		s.DumpOverhead = learnOverhead(s.DumpOverhead, took-transfer(stored, s.Write))
	case stored >= bigDump && stored >= total/2:
		s.Write = learnBandwidth(s.Write, stored, took-s.DumpOverhead, took)
	}
}

func (s *store) learnRestore(read int64, took time.Duration) {
	switch {
	case read <= smallDump:
		s.RestoreOverhead = learnOverhead(s.RestoreOverhead, took-transfer(read, s.Read))
	case read >= bigDump:
		s.Read = learnBandwidth(s.Read, read, took-s.RestoreOverhead, took)
	}
}

func learnOverhead(known, sample time.Duration) time.Duration {
	return time.Duration(ewma(float64(known), float64(max(sample, time.Millisecond))))
}

func learnBandwidth(known float64, bytes int64, net, gross time.Duration) float64 {
	if net < gross/4 {
		net = gross / 4
	}
	if net <= 0 {
		return known
	}
	return ewma(known, float64(bytes)/net.Seconds())
}

// views returns the stores that can be used now.
func (a *stores) views() []headrace.StoreView {
	now := a.clk.boot()
	out := make([]headrace.StoreView, 0, len(a.all))
	for _, s := range a.all {
		if now < s.fullUntil || a.Away(s.Dir) != nil {
			continue
		}
		out = append(out, a.view(s))
	}
	return out
}

func (a *stores) view(s *store) headrace.StoreView {
	users, others := s.disks.Queue(s.on.ID)
	return headrace.StoreView{
		Name: s.Name, Write: s.Write, Read: s.Read, DumpOverhead: s.DumpOverhead, RestoreOverhead: s.RestoreOverhead,
		Free: max(0, a.room(s)), Queue: others, Queues: users,
	}
}

// missing returns why a task that waits cannot be brought back now: what is kept of it,
// or is to be removed before it starts, is in a store that is not there.
func (a *stores) missing(t *task) error {
	switch {
	case t.rec.State == headrace.Checkpointed && t.rec.Checkpoint != nil:
		return a.Away(t.rec.Checkpoint.Dir)
	case t.rec.State == headrace.Pending:
		for _, dir := range t.rec.ImageDirs {
			if away := a.Away(dir); away != nil {
				return away
			}
		}
	}
	return nil
}

// watch looks whether the stores are there and how much room there is, in the background: a
// file system on the network may not answer. had lists the tasks that may have something in a
// directory; it is called only where a store is not what it was.
func (a *stores) watch(u *turn, had func(dir string) []headrace.TaskID) {
	for _, s := range a.all {
		now := a.clk.boot()
		if s.looking {
			if a.Away(s.Dir) == nil && now-s.lookedAt > presence.Patience {
				a.Set(s.Dir, a.ID(s.Dir), fmt.Errorf("%w: checkpoint store %s does not answer", proc.ErrNotNow, s.Name))
				a.log.Error("a checkpoint store does not answer; what is in it waits", "store", s.Name, "dir", s.Dir)
			}
			continue
		}
		s.looking, s.lookedAt = true, now
		known := s.Measure
		u.background(func(context.Context) func() {
			id, sure, err := a.Recognize(s.Dir, presenceOf(known))
			if !sure {
				return func() { a.lookWith(u, s, known, had(s.Dir)) }
			}
			f := a.lookInto(s.Dir, id, known, err)
			return func() { a.take(u, s, f) }
		})
		a.known[s.Dir] = s.Measure
	}
}

// lookWith goes on with the look at a store where it matters who has something in it.
func (a *stores) lookWith(u *turn, s *store, known journal.Measure, had []headrace.TaskID) {
	u.background(func(context.Context) func() {
		f := a.look(s.Dir, known, had)
		return func() { a.take(u, s, f) }
	})
}
