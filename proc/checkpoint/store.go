package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSeq keeps the names of image directories six digits long.
const maxSeq = 999999

// Options of a store. The zero value works.
type Options struct {
	// Compress stores pages compressed (zstd, its fastest level). It costs CPU
	// time, and a restore needs room for the pages elsewhere; it is for slow
	// devices and the network.
	Compress bool
	// Progress, unless nil, is called with the bytes that were read while an image is
	// verified or unpacked, every few megabytes, also from several goroutines.
	Progress func(bytes int)
	// ID is the name of the store that is meant, as Mark has given it; empty: whatever is in the directory.
	// With it Open makes no directory, and what is not found is missing only if that store is there: else
	// it is ErrNotThere, which is ErrUnreadable.
	ID string
	// Patience is how long to wait while somebody else works on images of the same
	// task; 0: DefaultPatience.
	Patience time.Duration
}

// A Store is a directory of images. It has no state but its directory; all its
// methods may be called by several goroutines and processes at once.
type Store struct {
	Dir string // absolute
	Options
}

// Open returns the store in dir, and makes the directory, with mode 0700, if it
// does not exist. It refuses a directory that others may look into. The error is ErrNotThere if
// Options.ID names another store.
func Open(dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint store: %w", err)
	}
	if o.ID != "" {
		err = is(dir, o.ID)
	} else {
		err = mkdirDurable(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint store: %w", err)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint store: %w", err)
	}
	switch uid := st.Sys().(*syscall.Stat_t).Uid; {
	case !st.IsDir():
		return nil, fmt.Errorf("checkpoint store %s is not a directory", dir)
	case int(uid) != os.Geteuid():
		return nil, fmt.Errorf("checkpoint store %s belongs to user %d, not to %d; images hold the memory of programs, so use a directory of your own", dir, uid, os.Geteuid())
	case st.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("checkpoint store %s is open to others (mode %#o); images hold the memory of programs: chmod 700 %s", dir, st.Mode().Perm(), dir)
	}
	return &Store{Dir: dir, Options: o}, nil
}

// stillThere returns err, or ErrUnreadable if the directory is not seen to be that of the store that is meant any more: its file
// system may be unmounted at any time, and what was found, or was not, then says nothing.
func (s *Store) stillThere(err error) error {
	if s.ID != "" {
		if gone := is(s.Dir, s.ID); gone != nil {
			return fmt.Errorf("%w: checkpoint store: %w", ErrUnreadable, gone)
		}
	}
	return err
}

// makeTaskDir makes a task's directory in the store, and in nothing that comes to be in its place.
func (s *Store) makeTaskDir(task string) error {
	return within(s.Dir, func(at string) error {
		if err := (&Store{Dir: at, Options: s.Options}).stillThere(nil); err != nil {
			return err
		}
		err := mkdirDurable(filepath.Join(at, task))
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			failed.Path = s.taskDir(task) // what people know it by
		}
		return err
	})
}

// checkTask allows what is safe as a file name.
func checkTask(task string) error {
	ok := task != "" && task[0] != '.' && len(task) <= 255
	for _, c := range []byte(task) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("task %q: want letters, digits, '.', '_' and '-', not beginning with '.'", task)
	}
	return nil
}

func (s *Store) taskDir(task string) string { return filepath.Join(s.Dir, task) }

func seqName(seq int) string { return fmt.Sprintf("%06d", seq) }

func (s *Store) imageDir(task string, seq int) string {
	return filepath.Join(s.Dir, task, seqName(seq))
}

// Tasks returns the names of the tasks that have a directory in the store, even
// if no image in it is committed, in alphabetical order.
func (s *Store) Tasks() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint store: %w", err)
	}
	var tasks []string
	for _, e := range entries {
		if e.IsDir() && checkTask(e.Name()) == nil {
			tasks = append(tasks, e.Name())
		}
	}
	return tasks, nil
}

// seqs returns the numbers of a task's image directories, committed or not,
// ascending; none if the task has no directory.
func (s *Store) seqs(task string) ([]int, error) {
	entries, err := os.ReadDir(s.taskDir(task))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var seqs []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.IsDir() && e.Name() == seqName(n) {
			seqs = append(seqs, n)
		}
	}
	return seqs, nil
}

func (s *Store) progress(bytes int) {
	if s.Progress != nil {
		s.Progress(bytes)
	}
}

// Free returns the number of bytes that may still be written to the store.
func (s *Store) Free() (int64, error) { return free(s.Dir) }

func free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Usage returns the number of bytes that the store's files occupy. Files that vanish
// meanwhile are not counted, and such as are moved only once.
func (s *Store) Usage() (int64, error) {
	var sum int64
	seen := make(map[uint64]bool) // inodes
	err := filepath.WalkDir(s.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var st fs.FileInfo
			if st, err = d.Info(); err == nil {
				file := st.Sys().(*syscall.Stat_t)
				if !seen[file.Ino] {
					sum += file.Blocks * 512
				}
				seen[file.Ino] = true
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("usage of checkpoint store: %w", err)
	}
	return sum, nil
}
