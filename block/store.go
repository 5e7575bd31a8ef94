package block

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headrace/disk"
	"headrace/internal/crash"
	"headrace/internal/vfs"
)

// Config says where and how blocks are kept. The zero value of all but Dirs works.
type Config struct {
	// Dirs are the directories of the disks, one for each.
	Dirs []string
	// Known are those of Dirs that have had a store before: where there is none now a disk is not mounted, and left out.
	Known []string
	// Pool names the file system that the blocks are of: a disk with those of another one is refused (ErrForeign). Empty: nobody asks.
	Pool string
	// Unnamed are those of Dirs that may not say of which file system they are, since an earlier version has made them: they become Pool's.
	Unnamed []string
	// FS is the file system that they are in: vfs.OS, if it is nil.
	FS vfs.FS
	// Turns deals out the disks to readers; nil: everybody reads at once. Devices finds
	// out what is below a directory.
	Turns   *disk.Scheduler
	Devices *disk.Devices
	// KeepFree is the share of a disk at which it takes no more new blocks (default
	// 0.05, but for one in the place of a damaged one), Reserve the share that is left to nobody but the recovery of blocks that
	// are there (default 0.01): blocks of a few bytes more may get into it.
	KeepFree, Reserve float64
	// Memory is about how many bytes readers may hold in extents (default 256 MB). Those who wait for
	// the disk hold none.
	Memory int64
	// Patience is how long nothing at all may end on a disk that is waited for before it counts as broken (default 2 min). One operation may take
	// five times as long.
	Patience time.Duration
	// Since tells the time in which nothing of a disk that the kernel had has been lost from others, when the disk with that directory is opened: the machine has not ended,
	// nor was the disk unmounted, nor has it failed. 0: that is not known, as without Since. What was flushed in the same time is here still.
	Since func(dir string) uint64
	// Failures tells how often a disk has been taken out of use before; nil: nobody knows.
	Failures func(dir string) uint64
	// SyncOnClose makes each block durable when it is closed. Otherwise, as in HDFS, a
	// power failure may take what nobody has synced.
	SyncOnClose bool
	// Damaged hears once of each replica that cannot be read as it was written, Out of
	// each disk that is taken out of use; in goroutines of their own. Open and Close wait for Out.
	Damaged func(Info, error)
	Out     func(dir string, cause error)
	Log     *slog.Logger
	// OneByOne has disks opened, and looked through, one after the other: for simulations, where nothing is left to chance.
	OneByOne bool

	piece  int64                    // of new disks, for tests
	point  func(string)             // hears of crash points, for tests
	better func(a, b *replica) bool // in place of better, for tests
}

// Block names a generation of a block.
type Block struct {
	ID    int64
	Stamp uint64
}

// State is that of a replica, as HDFS has them.
type State uint8

const (
	// Temporary: a copy from another node that is not complete. A restart drops it.
	Temporary State = iota + 1
	// Writing: a client writes it, or has been cut off and may come back.
	Writing
	// Waiting: it was being written when this process, or the machine, ended. It has what
	// survived, and waits for its writer or for recovery.
	Waiting
	// Recovering: somebody was promised that no older generation writes to it.
	Recovering
	// Final: closed.
	Final
)

// String returns the name for people.
func (s State) String() string {
	return [...]string{"deleted", "temporary", "being written", "waiting to be recovered", "under recovery", "final"}[s]
}

// Info is what is known of a replica.
type Info struct {
	Block
	// File is the user's file, Dir the disk.
	File uint64
	Dir  string
	// Length is what readers see, and Capacity the most that the block may have.
	Length, Capacity int64
	State            State
	// Damaged: some of it cannot be read.
	Damaged bool
	// Whole: of one that was Waiting, it has all that was flushed, because nothing of its disk was lost meanwhile (Config.Since).
	Whole bool
	// Suspect: it was closed shortly before the process ended, has not been read since, and what the disk did not have may be lost, too: bytes may
	// be missing. Who reads it finds out.
	Suspect bool
}

// Store is the blocks on the disks of this machine. Its methods may be called from any
// goroutine.
type Store struct {
	Config
	held atomic.Int64 // bytes of memory that readers have
	table
}

// table is what is known of the blocks, and who uses them.
type table struct {
	mu      sync.Mutex
	volumes []*volume // replaced as a whole
	blocks  map[int64]*replica
	copies  map[int64]*replica // temporary ones of blocks that have another replica
	// behind has replicas on disks that are out of use in whose place others have come, which may be older, and may be gone again.
	behind  map[int64][]*replica
	readers int64
	closed  bool
	touched touched
}

// replica is one block in its region.
type replica struct {
	file *combined
	// io is held by whoever changes the replica, one at a time, before combined.mu and
	// Store.mu.
	io sync.Mutex
	// spilled is the end of what may have been written, confirmed what is durable for
	// certain; both are guarded by io.
	spilled   int64
	confirmed mark

	// What follows changes with io and Store.mu held, and is read with either.

	head   header
	state  State // 0: deleted
	whole  bool  // Info.Whole
	writer *Writer
	// visible is what readers see.
	visible mark
	// recovery is the generation for which it is Recovering, before the state that it had until then.
	recovery uint64
	before   State
	// cuts counts how often bytes were taken away from under readers.
	cuts int

	// What follows is guarded by Store.mu.

	readers int
	damaged bool
	// suspect: it was closed shortly before the end of a process, and perhaps of the
	// machine. Then bytes may be missing that nobody had made durable.
	suspect bool
	// beside is how many bytes the replica of its generation had that was there when this one was begun.
	beside int64
	// promised is what its volume counts as promised to it, counted whether it counts it at all.
	promised int64
	counted  bool
}

// show has readers see a replica up to a mark; io and Store.mu are held.
func (r *replica) show(to mark) {
	if r.counted {
		r.file.v.used += to.length - r.visible.length
	}
	r.visible = to
}

// count has the volume count a replica that is there, or no longer; Store.mu is held.
func (r *replica) count(there bool) {
	if r.counted == there {
		return
	}
	v, n := r.file.v, int64(1)
	if !there {
		n = -1
	}
	r.counted = there
	v.replicas += n
	v.used += n * r.visible.length
	if r.damaged {
		v.damaged += n
	}
}

// hurt notes whether a replica is damaged; Store.mu is held.
func (r *replica) hurt(is bool) {
	if r.damaged == is {
		return
	}
	r.damaged = is
	if v := r.file.v; r.counted && is {
		v.damaged++
	} else if r.counted {
		v.damaged--
	}
}

func (r *replica) info() Info {
	return Info{Block: Block{r.head.block, r.head.stamp}, File: r.head.file, Dir: r.file.v.dir, Length: r.visible.length,
		Capacity: r.head.capacity, State: r.state, Damaged: r.damaged, Whole: r.whole, Suspect: r.suspect}
}

// at is a point at which a test may end the process.
func (s *Store) at(point string) {
	crash.Here("block." + point)
	if s.point != nil {
		s.point(point)
	}
}

// Open opens the stores in all directories, making those that are not there, and finds
// out what they have. A disk that cannot be used is left out and told of, unless it is
// the last.
func Open(c Config) (*Store, error) {
	c.FS = cmp.Or[vfs.FS](c.FS, vfs.OS{})
	c.KeepFree, c.Reserve = cmp.Or(c.KeepFree, 0.05), cmp.Or(c.Reserve, 0.01)
	c.Memory, c.Patience = cmp.Or(c.Memory, 256<<20), cmp.Or(c.Patience, 2*time.Minute)
	c.Log, c.piece = cmp.Or(c.Log, slog.New(slog.DiscardHandler)), cmp.Or(c.piece, Piece)
	if c.better == nil {
		c.better = better
	}
	if c.Devices == nil {
		c.Devices = &disk.Devices{}
	}
	s := &Store{Config: c, table: table{blocks: map[int64]*replica{}, copies: map[int64]*replica{}, behind: map[int64][]*replica{}}}
	for _, dir := range c.Dirs {
		s.volumes = append(s.volumes, s.newVolume(dir))
	}
	errs := s.each(s.load)
	usable := false
	for i, v := range s.volumes {
		if errs[i] == nil {
			usable = true
		} else if v.lock == nil && errors.Is(errs[i], vfs.ErrLocked) || errors.Is(errs[i], ErrForeign) {
			s.Close()
			return nil, errs[i] // a mistake, not a broken disk
		} else {
			v.unseen, v.away = errs[i], errors.Is(errs[i], ErrNotMounted)
			v.takeOut(errs[i])
			<-v.told
		}
	}
	if !usable {
		s.Close()
		return nil, errors.Join(append(errs, ErrOut)...)
	}
	return s, nil
}

// each does the same to all disks at once, or to one after the other.
func (s *Store) each(do func(*volume) error) []error {
	volumes := s.disks()
	errs := make([]error, len(volumes))
	var all sync.WaitGroup
	for i, v := range volumes {
		all.Go(func() { errs[i] = do(v) })
		if s.OneByOne {
			all.Wait()
		}
	}
	all.Wait()
	return errs
}

// Close notes what is where, so that the next Open is quick, and gives the disks up.
// Writers and readers must have been closed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	err := s.Snapshot()
	for _, v := range s.disks() {
		if v.index.file != nil && v.err() == nil {
			v.index.file.Close()
		}
		if v.lock != nil && !v.closing {
			err = errors.Join(err, v.lock.Close())
		}
		if v.err() != nil {
			<-v.told
		}
	}
	return err
}

// Snapshot writes a new index of each disk. What has changed since the last one is read
// again after a crash; who calls it every few minutes keeps that short. Files that are
// not being written are made durable for it.
func (s *Store) Snapshot() error {
	var errs []error
	for _, v := range s.disks() {
		if v.lock != nil && v.err() == nil {
			errs = append(errs, s.snapshot(v))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) snapshot(v *volume) error {
	s.mu.Lock()
	scrubbed := v.scrubbed
	var files []*combined
	for _, c := range v.files {
		files = append(files, c)
	}
	s.mu.Unlock()
	slices.SortFunc(files, func(a, b *combined) int { return cmp.Compare(a.id, b.id) })
	return v.index.renew(v, scrubbed, s.at, func(put func([]header) error) error {
		for _, c := range files {
			if err := s.snapshotFile(c, put); err != nil {
				return err
			}
		}
		return nil
	})
}

// snapshotFile hands over the headers of a file, if nothing changes it.
func (s *Store) snapshotFile(c *combined, put func([]header) error) error {
	c.mu.Lock()
	busy, changes := c.busy > 0, c.changes
	c.mu.Unlock()
	if busy {
		return nil
	}
	if !c.v.index.knows(c.id) {
		h, err := c.use(0)
		if err == nil {
			err = h.sync()
			h.release()
		}
		if err != nil {
			return c.v.err() // else it was removed meanwhile
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy > 0 || c.changes != changes {
		return nil
	}
	if headers := s.quiet(c); len(headers) > 0 {
		return put(headers)
	}
	return nil
}

// quiet returns the headers of a file all of whose blocks are closed and durable.
func (s *table) quiet(c *combined) (headers []header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.v.files[c.id] != c || len(c.gaps) > 0 { // the index would say that there is nothing there
		return nil
	}
	for _, r := range c.regions {
		if r.suspect || r.state != Final && r.state != 0 {
			return nil
		}
	}
	for _, r := range c.regions {
		h := r.head
		h.durable, h.settled = h.mark, h.mark
		headers = append(headers, h)
	}
	return headers
}

// Stat tells of the replica of a block.
func (s *Store) Stat(id int64) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(id)
	if err != nil {
		return Info{}, err
	}
	return r.info(), nil
}

// find looks a block up with Store.mu held.
func (s *table) find(id int64) (*replica, error) {
	r := s.blocks[id]
	switch {
	case s.closed:
		return nil, ErrClosed
	case r == nil:
		if r = s.newestBehind(id); r == nil {
			return nil, refused(ErrNotFound, id, "not on this node")
		}
	}
	if err := r.file.v.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// newestBehind returns the newest replica of a block on a disk that is out of use in whose place others have come, or nil; Store.mu is held.
func (s *table) newestBehind(id int64) (newest *replica) {
	for _, r := range s.behind[id] {
		if r.state != 0 && (newest == nil || cmp.Or(cmp.Compare(r.head.stamp, newest.head.stamp), cmp.Compare(r.visible.length, newest.visible.length)) > 0) {
			newest = r
		}
	}
	return newest
}

// Behind tells of the newest replica of a block on a disk that is out of use in whose place another one has come, as it was when that disk failed, and why it is out: nil if there is none.
// What disks have that could not be opened (Volume.Unseen) is not known.
func Behind(s *Store, id int64) (i Info, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.newestBehind(id)
	if r == nil {
		return i, nil
	}
	return r.info(), r.file.v.err()
}

// hold finds a block and locks it for a change.
func (s *table) hold(id int64) (*replica, error) {
	for {
		s.mu.Lock()
		r, err := s.find(id)
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		r.io.Lock()
		if r.state != 0 {
			return r, nil
		}
		r.io.Unlock() // deleted meanwhile, and perhaps made again
	}
}

// Blocks lists the replicas by block, without those of disks that are out of use.
func (s *Store) Blocks() []Info {
	s.mu.Lock()
	all := make([]Info, 0, len(s.blocks))
	for _, r := range s.blocks {
		if r.file.v.err() == nil {
			all = append(all, r.info())
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Number returns of how many blocks a replica is known in its place, in use or on a disk that is out of use. One that is only behind (Behind) is not
// counted, nor a second one of a block, such as a copy that is being made beside another.
func (s *table) Number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks)
}

// disks are those of Dirs, in their order.
func (s *table) disks() []*volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.volumes
}

// Volume is what is known of a disk.
type Volume struct {
	Dir string
	Room
	// Replicas is how many replicas there are, those included that are being made, Used how many bytes readers see of them, and Damaged how many of them cannot be read
	// as they were written: none of a disk that is out of use.
	Replicas, Used, Damaged int64
	// Cause is why it is out of use, nil if it is not.
	Cause error
	// Unwritable is why nothing can be made on it, though it is in use, as of the last Attach: no right to. That it is full Room says.
	Unwritable error
	// Identified: it has said what it is, or was made.
	Identified bool
	// Unseen is why its replicas are not known, so that ErrNotFound does not say that there are none: it could not be used from the start, or since it
	// was back.
	Unseen error
	// Gaps are where there may be some that are not known. They are read again at the next start.
	Gaps []Gap
}

// Volumes tells of the disks, in the order of Dirs.
func (s *Store) Volumes() []Volume {
	volumes := s.disks()
	all := make([]Volume, len(volumes))
	for i, v := range volumes {
		free, total, err := v.space()
		s.mu.Lock()
		gaps := slices.Clone(v.unlisted)
		for _, c := range v.torn {
			gaps = append(gaps, c.gaps...)
		}
		all[i] = Volume{Dir: v.dir, Cause: err, Identified: v.identified, Unseen: v.unseen, Gaps: gaps, Replicas: v.replicas, Used: v.used, Room: Room{Out: err != nil || v.late.Load() != 0, Total: total, Free: free - v.promised, Writers: v.writers}}
		if err == nil {
			all[i].Damaged, all[i].Unwritable = v.damaged, v.refuses
		}
		s.mu.Unlock()
	}
	return all
}

// Hangs lists the disks that do not answer: readers that have a turn (disk.Scheduler), or anybody. One that was taken out for that is among them until it answers.
func Hangs(s *Store) (all []disk.Hang) {
	if s.Turns != nil {
		all = s.Turns.Hangs()
	}
	for _, v := range s.disks() {
		late, d := v.late.Load(), v.device
		if late == 0 || slices.ContainsFunc(all, func(h disk.Hang) bool { return h.ID == d.ID }) {
			continue
		}
		d.Name = cmp.Or(d.Name, v.dir)
		all = append(all, disk.Hang{Device: d, Since: time.Unix(0, late), Silent: true, Hanging: []string{"blocks in " + v.dir}})
	}
	return all
}
