package data

import (
	"context"
	"errors"
	"sync"

	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
)

const (
	// maxFollowed is how many files are followed at once, and maxFollowedOne how many
	// of one set.
	maxFollowed    = 8192
	maxFollowedOne = 256
	// followStep is how many sets a measurement begins to follow.
	followStep = 256
)

// Follower follows how much of sets of files is in memory. A set is named by its
// key. It is safe for concurrent use.
type Follower struct {
	reading *reading

	mu    sync.Mutex
	sets  map[string]*followed
	fresh []*followed // will be looked up in the next measurement
	files int
	busy  bool
}

// followed is a set of files. Of a set with too many no file is watched.
type followed struct {
	key     string
	owner   linux.Credentials
	paths   []string
	watched []pagecache.Watched
	dropped bool
}

// NewFollower makes one. It uses nothing once everything is dropped.
func (f *Files) NewFollower() *Follower {
	return &Follower{reading: f.reading, sets: map[string]*followed{}}
}

// Follow has a set looked up in the next measurement; false: there is too much to
// follow for now.
func (f *Follower) Follow(key string, owner linux.Credentials, paths []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fresh) >= followStep || f.files >= maxFollowed {
		return false
	}
	s := &followed{key: key, owner: owner, paths: paths}
	f.sets[key], f.fresh = s, append(f.fresh, s)
	return true
}

// Drop ends the following of a set, if it is followed.
func (f *Follower) Drop(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sets[key]
	if s == nil {
		return
	}
	delete(f.sets, key)
	s.dropped = true
	f.files -= len(s.watched)
	s.close()
}

func (s *followed) close() {
	for _, w := range s.watched {
		w.Close()
	}
	s.watched = nil
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
	f.mu.Lock()
	fresh := f.fresh
	f.fresh = nil
	f.mu.Unlock()
	for _, s := range fresh {
		f.took(s, f.reading.watch(ctx, s.owner, s.paths))
	}
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

// took takes in the files of a set.
func (f *Follower) took(s *followed, files []pagecache.Watched) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.watched = files
	if s.dropped {
		s.close()
		return
	}
	f.files += len(files)
}

var errEnough = errors.New("enough files")

// watch begins to follow the files that paths mean, none if they are too many. A
// file that cannot be opened counts as not in memory.
func (r *reading) watch(ctx context.Context, cred linux.Credentials, paths []string) []pagecache.Watched {
	var list []pagecache.Watched
	err := linux.AsUser(cred, func() error {
		return fileset.Find(ctx, paths, fileset.Visitor{File: func(f fileset.File) error {
			if len(list) == maxFollowedOne {
				return errEnough
			}
			if w := r.watchFile(f.Path); w != nil {
				list = append(list, w)
			}
			return nil
		}})
	})
	if err != nil {
		for _, w := range list {
			w.Close()
		}
		return nil
	}
	return list
}

func (r *reading) watchFile(path string) pagecache.Watched {
	f, err := fileset.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	w, err := r.cache.Watch(f)
	if err != nil {
		return nil
	}
	return w
}
