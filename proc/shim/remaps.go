package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
)

// remapName is what CRIU calls the names that it gives with linkRemap.
var remapName = regexp.MustCompile(`^link_remap\.[0-9]+$`)

// remaps are the directories in which a dump may give files such names. The names belong to
// its image if there is one; of a CRIU that was killed they are nobody's, and would stay
// for ever.
type remaps struct {
	dirs  []*os.File
	names map[string]bool // that were there before, with their directories
	// seq is the last image before the dump, in store.
	store proc.CheckpointOptions
	task  string
	seq   int
}

// lookForRemaps is to be called before a dump. The caller closes what it returns.
func lookForRemaps(tree []linux.Stat, store proc.CheckpointOptions, task string) (r remaps, err error) {
	r = remaps{names: make(map[string]bool), store: store, task: task}
	seen := make(map[string]bool)
	err = eachRemapped(tree, func(path string, _ linux.FileID) error {
		dir := filepath.Dir(path)
		if seen[dir] {
			return nil
		}
		seen[dir] = true
		// What somebody has put in the place of a directory meanwhile is not followed: CRIU's name would not be there.
		fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return nil // nor would CRIU give a name there
		}
		r.dirs = append(r.dirs, os.NewFile(uintptr(fd), dir))
		return nil
	})
	if err == nil && len(r.dirs) > 0 {
		err = r.each(func(in *os.File, name string) error {
			r.names[filepath.Join(in.Name(), name)] = true
			return nil
		})
		if err == nil {
			r.seq, err = r.last()
		}
	}
	if err != nil {
		r.close()
	}
	return r, err
}

func (r remaps) close() {
	for _, f := range r.dirs {
		f.Close()
	}
}

// remove removes the names that a failed dump has left: those that were not there before
// it, and are of files that the task has and that were deleted under the name by which it has them. It is
// called while the tree is still stopped.
func (r remaps) remove(tree []linux.Stat) error {
	if len(r.dirs) == 0 {
		return nil
	}
	if seq, err := r.last(); err != nil || seq != r.seq {
		return err // there is an image all the same, and these are its
	}
	files := make(map[linux.FileID]bool)
	err := eachRemapped(tree, func(_ string, id linux.FileID) error {
		files[id] = true
		return nil
	})
	return errors.Join(err, r.each(func(in *os.File, name string) error {
		var st unix.Stat_t
		err := unix.Fstatat(int(in.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err == nil && (r.names[filepath.Join(in.Name(), name)] || !files[linux.FileIDOf(&st)]):
			return nil
		case err == nil:
			err = unix.Unlinkat(int(in.Fd()), name, 0)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s, which a dump that failed has left: %w", filepath.Join(in.Name(), name), err)
		}
		return nil
	}))
}

// last returns the number of the last image of the task, 0 without one.
func (r remaps) last() (int, error) {
	s, err := checkpoint.Open(r.store.Store, checkpoint.Options{ID: r.store.StoreID})
	if err != nil {
		return 0, notSeen(err)
	}
	images, err := s.Images(r.task)
	if err != nil || len(images) == 0 {
		return 0, notSeen(err)
	}
	return images[len(images)-1].Seq, nil
}

// each calls do with all names in the directories that are like CRIU's.
func (r remaps) each(do func(in *os.File, name string) error) error {
	var errs []error
	for _, in := range r.dirs {
		_, err := in.Seek(0, 0)
		var names []string
		if err == nil {
			names, err = in.Readdirnames(-1)
		}
		errs = append(errs, err)
		for _, name := range names {
			if remapName.MatchString(name) {
				errs = append(errs, do(in, name))
			}
		}
	}
	return errors.Join(errs...)
}

// eachRemapped calls do with the files that a tree has and that were deleted under the name by which
// it has them, but have another one: such as linkRemap is for.
func eachRemapped(tree []linux.Stat, do func(path string, id linux.FileID) error) error {
	for _, p := range tree {
		links, err := deletedOf(p.PID)
		if err != nil && !linux.Gone(err) {
			return err
		}
		for _, link := range links {
			var st unix.Stat_t
			if unix.Stat(link, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink == 0 {
				continue
			}
			path, err := os.Readlink(link)
			if err != nil {
				continue // closed meanwhile
			}
			if err := do(strings.TrimSuffix(path, " (deleted)"), linux.FileIDOf(&st)); err != nil {
				return err
			}
		}
	}
	return nil
}
