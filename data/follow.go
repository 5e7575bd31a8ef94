package data

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/pagecache"
)

const (
	// maxFollowed is how many files are followed at once, and maxFollowedOne how many
	// of one set.
	maxFollowed    = 8192
	maxFollowedOne = 256
	// maxFollowedBytes and maxFollowedBytesOne are how large these may be in all: what is known
	// of a sparse file takes memory as of any other. The page cache follows as much again for others.
	maxFollowedBytes    = 32 << 40
	maxFollowedBytesOne = 4 << 40
	// followStep is how many sets of a user a measurement begins to follow, and followTime how long it waits until they are
	// found.
	followStep = 256
	// followedParts: an ordinary user may have one of so many parts, and one is left to root and the daemon's own user.
	followedParts = 4
	followTime    = 5 * time.Second
)

// Follower follows how much of sets of files is in memory. A set is named by its
// key. It is safe for concurrent use.
type Follower struct {
	reading *reading

	mu   sync.Mutex
	sets map[string]*followed
	// fresh are the sets of each user that will be looked up in the next measurement, looking the users whose sets are
	// being looked up.
	fresh   map[uint32][]*followed
	looking map[uint32]bool
	files   int
	bytes   int64
	busy    bool
	within  time.Duration // followTime, but for tests
	// filesOf and bytesOf are what users have of it, with what is being looked up.
	filesOf, bytesOf *budget.Budget
}

// followed is a set of files. Of a set with too many no file is watched.
type followed struct {
	key     string
	owner   linux.Credentials
	paths   []string
	watched watched
}

type watched []watchedFile

type watchedFile struct {
	pagecache.Watched
	fileAt
}

func (files watched) bytes() (n int64) {
	for _, w := range files {
		n += w.size
	}
	return n
}

func (files watched) close() {
	for _, w := range files {
		w.Close()
	}
}

// NewFollower makes one. It uses nothing once everything is dropped.
func (f *Files) NewFollower() *Follower {
	part := func(what string, all int64) *budget.Budget {
		return budget.Ordinary(what, all/followedParts, all-all/followedParts)
	}
	return &Follower{
		reading: f.reading, sets: map[string]*followed{}, fresh: map[uint32][]*followed{}, looking: map[uint32]bool{}, within: followTime,
		filesOf: part("followed files", maxFollowed), bytesOf: part("bytes of followed files", maxFollowedBytes),
	}
}

// Follow has a set looked up in the next measurement; false: there is too much to
// follow for now.
func (f *Follower) Follow(key string, owner linux.Credentials, paths []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fresh[owner.UID]) >= followStep || f.files >= maxFollowed {
		return false
	}
	s := &followed{key: key, owner: owner, paths: paths}
	f.sets[key], f.fresh[owner.UID] = s, append(f.fresh[owner.UID], s)
	return true
}

// Drop ends the following of a set, if it is followed.
func (f *Follower) Drop(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sets[key]; s != nil {
		delete(f.sets, key)
		f.files -= len(s.watched)
		f.bytes -= s.watched.bytes()
		f.giveBack(s.owner.UID, len(s.watched), s.watched.bytes())
		s.watched.close()
	}
}

// Begin reports whether Measure is to be called: one measurement is under way at a
// time, and only if there is something to measure.
func (f *Follower) Begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy || f.files == 0 && len(f.fresh) == 0 {
		return false
	}
	f.busy = true
	return true
}

// Measure brings what is known up to date and returns how many bytes of each set
// are in memory. It searches and asks the kernel.
func (f *Follower) Measure(ctx context.Context) (map[string]int64, error) {
	f.lookUp(ctx)
	err := f.reading.cache.Refresh(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
	resident := map[string]int64{}
	for key, s := range f.sets {
		for _, w := range s.watched {
			resident[key] += w.Resident()
		}
	}
	return resident, err
}

// lookUp begins to follow what is fresh. A path may lead to a file server that does not answer, which nothing can interrupt:
// then the goroutine of that user stays until there is an answer, and further sets of the user wait for it.
func (f *Follower) lookUp(ctx context.Context) {
	f.mu.Lock()
	users, done := 0, make(chan struct{}, len(f.fresh))
	for user, sets := range f.fresh {
		if f.looking[user] {
			continue
		}
		delete(f.fresh, user)
		f.looking[user] = true
		users++
		go func() {
			for len(sets) > 0 && f.takeRoom(user) {
				s := sets[0]
				sets = sets[1:]
				f.took(s, f.reading.watch(ctx, s.owner, s.paths))
			}
			f.mu.Lock()
			delete(f.looking, user)
			if len(sets) > 0 { // these wait until there is room
				f.fresh[user] = append(sets, f.fresh[user]...)
			}
			f.mu.Unlock()
			done <- struct{}{}
		}()
	}
	f.mu.Unlock()
	timeout := time.NewTimer(f.within)
	defer timeout.Stop()
	for range users {
		select {
		case <-done:
		case <-timeout.C:
			return
		}
	}
}

// Had returns how much of a set somebody has read who is at the given positions and has asked
// for so many bytes in all, and how much of that is not in memory, as of the last Measure. Who
// has none of the files open has read all of them, or none: all, if as much was asked for. It
// reports false when the set is not followed, or none of it was measured.
func (f *Follower) Had(key string, positions map[linux.FileID]int64, asked int64) (read, cold int64, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sets[key]
	if s == nil || len(s.watched) == 0 {
		return 0, 0, false
	}
	files, size := make([]fileAt, len(s.watched)), int64(0)
	for i, w := range s.watched {
		files[i], size = w.fileAt, size+w.size
	}
	at, open := reached(files, positions)
	if !open && asked < size {
		return 0, 0, true
	}
	for i, w := range s.watched {
		read += at[i]
		cold += coldBefore(at[i], w.Blocks(nil))
	}
	return read, cold, true
}

// coldBefore returns how much of a file before a position is not in memory, at least.
func coldBefore(at int64, resident []int64) (cold int64) {
	for i, n := range resident {
		part := min(at-int64(i)*pagecache.BlockSize, pagecache.BlockSize)
		cold += max(0, part-n)
	}
	return cold
}

// takeRoom takes for a user what another set may need at most, if there is so much; took gives back what it does not.
func (f *Follower) takeRoom(uid uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files+maxFollowedOne > maxFollowed || f.bytes+maxFollowedBytesOne > maxFollowedBytes || f.filesOf.Take(uid, maxFollowedOne) != nil {
		return false
	}
	if f.bytesOf.Take(uid, maxFollowedBytesOne) != nil {
		f.filesOf.Give(uid, maxFollowedOne)
		return false
	}
	return true
}

func (f *Follower) giveBack(uid uint32, files int, bytes int64) {
	f.filesOf.Give(uid, int64(files))
	f.bytesOf.Give(uid, bytes)
}

// took takes in the files of a set.
func (f *Follower) took(s *followed, files watched) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sets[s.key] != s { // it was dropped meanwhile
		files.close()
		files = nil
	}
	f.giveBack(s.owner.UID, maxFollowedOne-len(files), maxFollowedBytesOne-files.bytes())
	s.watched = files
	f.files += len(files)
	f.bytes += files.bytes()
}

var errEnough = errors.New("enough files")

// watch begins to follow the files that paths mean, none if they are too many or too large.
// A file that cannot be opened counts as not in memory.
func (r *reading) watch(ctx context.Context, owner linux.Credentials, paths []string) (files watched) {
	var bytes int64
	err := r.searches.findAs(ctx, owner, paths, fileset.Visitor{File: func(found fileset.File) error {
		if len(files) == maxFollowedOne {
			return errEnough
		}
		f, err := fileset.Open(found.Path)
		if err != nil {
			return nil
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return nil
		}
		if bytes = fileset.AddSizes(bytes, st.Size); bytes > maxFollowedBytesOne {
			return errEnough
		}
		if w, err := r.cache.Watch(f); err == nil {
			files = append(files, watchedFile{w, fileAt{linux.FileIDOf(&st), st.Size}})
		}
		return nil
	}})
	if err != nil {
		files.close()
		return nil
	}
	return files
}
