package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"headrace/proc/checkpoint"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/solo/presence"
)

// FullFor is how long a store is not written to in which a dump found no room.
const FullFor = time.Minute

// Config is a directory that holds checkpoints.
type Config struct {
	Name string
	// Dir is an absolute path; it is created, readable by its owner only.
	Dir string
	// Compress stores memory pages compressed.
	Compress bool
}

// Daemon is what the stores need of the daemon whose they are.
type Daemon struct {
	// Boot returns the time since the machine was started, Wall that of people.
	Boot func() time.Duration
	Wall func() time.Time
	// Background has work done outside the goroutine that owns the stores, and what it returns inside.
	Background func(work func(ctx context.Context) func())
	// Changed takes in that something has become of a store.
	Changed func()
	// NumberOf returns the number of a task whose name has one.
	NumberOf func(name string) (n uint64, ok bool)
	Log      *slog.Logger
}

// Stores are the checkpoint stores. One goroutine owns them: methods that others may call say so.
type Stores struct {
	// All stay the same.
	All []*Store
	presence.Stores
	// Known is how fast they are, and were that are not used now, by directory.
	Known map[string]journal.Measure
	// Renewed are the directories in which what was there was given up, as is to be done once; in those of renewing it is to be done now.
	Renewed  []string
	renewing map[string]bool
	// Last is the greatest number of a task that has left something in a store that the records did not know.
	Last uint64
	// Disks says whose turn it is at a device.
	Disks   *disk.Scheduler
	devices disk.Devices
	// promised is what dumps under way, and those that wait, are to write.
	promised []*Promise
	// Space says how many bytes checkpoints may take yet; freeSpace, but for tests.
	Space func(dir string) int64
	// patience is how long a start waits for all stores to answer.
	patience time.Duration
	daemon   Daemon
}

// Store is a checkpoint store and what is known of it.
type Store struct {
	Config
	journal.Measure
	// on is the device that it lies on, disks says whose turn it is there.
	on    disk.Device
	disks *disk.Scheduler
	// fs is the file system that it lies on, by device number. Stores on one have the same room.
	fs uint64
	// free is the room that was left at the last look, -1 while unknown; see Stores.Room. Size is that of the file system, 0 while unknown.
	free, Size int64
	// looking since lookedAt (boot time): whether it is there, and how much room it has.
	looking   bool
	lookedAt  time.Duration
	fullUntil time.Duration
}

// New returns stores that have not been looked for; see Open.
func New(all []Config, of Daemon) *Stores {
	a := &Stores{Known: map[string]journal.Measure{}, renewing: map[string]bool{}, Disks: &disk.Scheduler{Log: of.Log}, Space: freeSpace, patience: presence.Patience, daemon: of}
	for _, c := range all {
		a.All = append(a.All, &Store{Config: c, disks: a.Disks})
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
	// last is Stores.lastOf it, if the records did not know it.
	last uint64
	// speed is what was found out about it, if that was tried.
	speed journal.Measure
	err   error
}

// look finds out whether a store is there, and how much room it has; see presence.Stores.Find. It may
// be called from anywhere.
func (a *Stores) look(dir string, known journal.Measure, had []headrace.TaskID) found {
	id, err := a.Find(dir, presenceOf(known), had)
	return a.lookInto(dir, id, known, err)
}

// lookInto is look at a store that was found, or was not.
func (a *Stores) lookInto(dir, id string, known journal.Measure, err error) (f found) {
	if f.id, f.err = id, err; err != nil {
		return f
	}
	if known.ID != id {
		if f.last, f.err = a.lastOf(dir); f.err != nil {
			return f
		}
	}
	f.inMemory, f.free = presence.InMemory(dir), a.Space(dir)
	_, f.size, _ = vfs.Space(dir) // 0 if it is not known
	f.on, f.fs, f.err = lookAtStore(dir, &a.devices)
	if f.err == nil { // what was seen is the store's only if that was there all the time
		var now string
		if now, f.err = checkpoint.ID(dir); f.err == nil && now != id {
			f.err = fs.ErrNotExist
		}
	}
	return f
}

func presenceOf(known journal.Measure) presence.Known {
	return presence.Known{ID: known.ID, InMemory: known.InMemory}
}

// lastOf returns the greatest number of a task that has left something in a directory.
func (a *Stores) lastOf(dir string) (last uint64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if n, ok := a.daemon.NumberOf(e.Name()); ok {
			last = max(last, n)
		}
	}
	return last, err
}

// take takes in what a look has shown.
func (a *Stores) take(s *Store, f found) {
	s.looking = false
	was, away := a.ID(s.Dir), a.Away(s.Dir)
	if f.err != nil {
		s.free = 0
		err := presence.Unusable(s.Dir, f.err)
		a.Set(s.Dir, was, err)
		if away == nil || away.Error() != err.Error() {
			a.daemon.Log.Error("a checkpoint store cannot be used; what is in it waits", "store", s.Name, "err", err)
		}
		if away == nil {
			a.daemon.Changed()
		}
		return
	}
	a.Set(s.Dir, f.id, nil)
	a.Last = max(a.Last, f.last)
	if f.speed.Write > 0 {
		s.Measure = f.speed
	}
	s.on, s.fs, s.free, s.Size, s.ID, s.InMemory = f.on, f.fs, f.free, f.size, f.id, f.inMemory
	a.seen(s)
	a.Known[s.Dir] = s.Measure
	if a.renewing[s.Dir] {
		delete(a.renewing, s.Dir)
		a.Renewed = append(a.Renewed, s.Dir)
	}
	if away != nil {
		a.daemon.Log.Info("a checkpoint store is there", "store", s.Name, "dir", s.Dir)
	}
	if away != nil || was != f.id {
		a.daemon.Changed()
	}
}

// Open finds the stores, and how fast they are. Of those that were used before none
// keeps the daemon from starting, and none that does not answer: it is there when it does. What was in
// the directories renew is lost; see renews. Each is measured, in bytes per second, of which not enough is known, unless ctx has ended.
func (a *Stores) Open(ctx context.Context, was journal.Contents, renew []string, measure func(ctx context.Context, dir string) (write, read float64, err error)) error {
	maps.Copy(a.Known, was.Meta.Stores)
	renew = a.renews(renew, was.Meta.Renewed)
	for _, dir := range renew {
		delete(a.Known, dir)
	}
	for dir, m := range a.Known {
		a.Set(dir, m.ID, nil)
	}
	seen, inTime := make(chan func() error, len(a.All)), true
	for _, s := range a.All {
		known, had := a.Known[s.Dir], []headrace.TaskID(nil)
		for _, r := range was.Records {
			if r.HasImagesIn(s.Dir) && !slices.Contains(renew, s.Dir) {
				had = append(had, r.ID)
			}
		}
		a.begin(s, known)
		go func() { // nobody waits for its end
			f := a.look(s.Dir, known, had)
			if f.err == nil {
				f.speed = a.speed(ctx, s.Config, known, measure)
			}
			seen <- func() error {
				if inTime && f.err != nil && known.ID == "" && !errors.Is(f.err, proc.ErrNotNow) {
					return fmt.Errorf("checkpoint store %s: %w; choose a directory that can be written", s.Name, f.err)
				}
				a.take(s, f)
				return nil
			}
		}()
	}
	late := time.After(a.patience)
	for i := range a.All {
		select {
		case take := <-seen:
			if err := take(); err != nil {
				return err
			}
		case <-late:
			inTime = false
			a.daemon.Log.Warn("a checkpoint store does not answer; the daemon starts without it", "stores", len(a.All)-i)
			for range a.All[i:] {
				a.daemon.Background(func(ctx context.Context) func() { return a.takeLate(ctx, seen) })
			}
			return nil
		}
	}
	return nil
}

// renews returns the directories in which what was there is to be given up now. Settings stay as they are when the machine starts again: then
// the store that was made in its place may just not be mounted, so it is done once for as long as they are named.
func (a *Stores) renews(dirs, before []string) (now []string) {
	for _, dir := range dirs {
		if slices.Contains(before, dir) {
			a.Renewed = append(a.Renewed, dir)
			a.daemon.Log.Warn("new-store has been carried out by an earlier start, and does nothing any more: take it out of the settings. If what is there now is lost, too, start once without it and then with it",
				"new-store", dir)
			continue
		}
		a.renewing[dir] = true
		a.daemon.Log.Warn("what was in a checkpoint store is given up, as new-store says; take it out of the settings again", "new-store", dir)
		now = append(now, dir)
	}
	return now
}

// begin has a store looked for of which is known what an earlier daemon has found.
func (a *Stores) begin(s *Store, known journal.Measure) {
	s.Measure, s.looking, s.lookedAt = known, true, a.daemon.Boot()
	if s.Write <= 0 || s.Read <= 0 {
		s.Write, s.Read, s.DumpOverhead, s.RestoreOverhead = guessStore, guessStore, guessDumpOverhead, guessRestoreOverhead
	}
	a.Set(s.Dir, known.ID, fmt.Errorf("%w: checkpoint store %s has not answered yet", proc.ErrNotNow, s.Name))
}

// takeLate waits for a store that did not answer in time.
func (a *Stores) takeLate(ctx context.Context, seen <-chan func() error) func() {
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

// Named returns the store with a name; nil: there is none. It may be called from anywhere.
func (a *Stores) Named(name string) *Store {
	for _, s := range a.All {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Choose returns the store a user named, else the one where the dump is likely
// to be done first.
func (a *Stores) Choose(name string, d Dump) (*Store, error) {
	if name != "" {
		if st := a.Named(name); st != nil {
			if away := a.Away(st.Dir); away != nil {
				return nil, fmt.Errorf("%w: checkpoint store %s: %w", serve.ErrBusy, name, away)
			}
			if !a.roomy(st, d) {
				return nil, fmt.Errorf("%w: checkpoint store %s has no room for task %s; free some space in %s, or name another store", serve.ErrBusy, name, d.Task, st.Dir)
			}
			return st, nil
		}
		var names []string
		for _, s := range a.All {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("%w: there is no checkpoint store %q; there is %q", serve.ErrInput, name, names)
	}
	now := a.daemon.Boot()
	var best *Store
	var bestTime time.Duration
	for _, s := range a.All {
		view := a.View(s)
		need := s.estimate(d.Writes(s)) + view.QueueOf(d.For)
		if now < s.fullUntil || a.Away(s.Dir) != nil || !a.roomy(s, d) {
			continue
		}
		if best == nil || need < bestTime {
			best, bestTime = s, need
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: no checkpoint store has room for task %s; free some space, or kill the task", serve.ErrBusy, d.Task)
	}
	return best, nil
}

// roomy tells whether a dump has room, as far as is known.
func (a *Stores) roomy(s *Store, d Dump) bool {
	room := a.Room(s)
	return room < 0 || !d.Known || room > d.Writes(s)
}

// Full takes in that a dump found no room in a store, and returns until when (boot time) no other one goes there.
func (a *Stores) Full(s *Store) (until time.Duration) {
	s.fullUntil = a.daemon.Boot() + FullFor
	return s.fullUntil
}

// Views returns the stores that can be used now.
func (a *Stores) Views() []headrace.StoreView {
	now := a.daemon.Boot()
	out := make([]headrace.StoreView, 0, len(a.All))
	for _, s := range a.All {
		if now < s.fullUntil || a.Away(s.Dir) != nil {
			continue
		}
		out = append(out, a.View(s))
	}
	return out
}

// View shows a store to whoever decides.
func (a *Stores) View(s *Store) headrace.StoreView {
	users, others := s.disks.Queue(s.on.ID)
	return headrace.StoreView{
		Name: s.Name, Write: s.Write, Read: s.Read, DumpOverhead: s.DumpOverhead, RestoreOverhead: s.RestoreOverhead,
		Free: max(0, a.Room(s)), Queue: others, Queues: users,
	}
}

// Watch looks whether the stores are there and how much room there is, in the background: a
// file system on the network may not answer. had lists the tasks that may have something in a
// directory; it is called only where a store is not what it was.
func (a *Stores) Watch(had func(dir string) []headrace.TaskID) {
	for _, s := range a.All {
		now := a.daemon.Boot()
		if s.looking {
			if a.Away(s.Dir) == nil && now-s.lookedAt > presence.Patience {
				a.Set(s.Dir, a.ID(s.Dir), fmt.Errorf("%w: checkpoint store %s does not answer", proc.ErrNotNow, s.Name))
				a.daemon.Log.Error("a checkpoint store does not answer; what is in it waits", "store", s.Name, "dir", s.Dir)
			}
			continue
		}
		s.looking, s.lookedAt = true, now
		known := s.Measure
		a.daemon.Background(func(context.Context) func() {
			id, sure, err := a.Recognize(s.Dir, presenceOf(known))
			if !sure {
				return func() { a.lookWith(s, known, had(s.Dir)) }
			}
			f := a.lookInto(s.Dir, id, known, err)
			return func() { a.take(s, f) }
		})
		a.Known[s.Dir] = s.Measure
	}
}

// lookWith goes on with the look at a store where it matters who has something in it.
func (a *Stores) lookWith(s *Store, known journal.Measure, had []headrace.TaskID) {
	a.daemon.Background(func(context.Context) func() {
		f := a.look(s.Dir, known, had)
		return func() { a.take(s, f) }
	})
}
