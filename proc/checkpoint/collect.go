package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
)

// Collect removes what no restore will need: images that were never committed,
// and all but the newest usable image (Image.Err is nil) and its chain of
// parents. If there is no usable image it leaves damaged ones alone. It fails
// and removes nothing with ErrVersion, if a newer version has written images of the
// task, and with ErrUnreadable.
//
// The task is locked only while the images get other names: to delete a gigabyte
// takes a while, and a restore of what is kept need not wait for it.
func (s *Store) Collect(task string) error {
	var aside []string
	err := s.locked(task, func() (err error) {
		aside, err = s.collect(task)
		return err
	})
	crash.Here("checkpoint.aside")
	if err = errors.Join(err, deleteAll(aside)); err != nil {
		return fmt.Errorf("collect checkpoints of task %s: %w", task, err)
	}
	return nil
}

// collect sets aside what Collect removes and returns what is to be deleted, also
// what somebody before has not come to delete. The caller has the lock.
func (s *Store) collect(task string) (aside []string, err error) {
	images, err := s.Images(task)
	if err != nil {
		return nil, err
	}
	keep := make(map[int]bool)
	for _, im := range images {
		if errors.Is(im.Err, ErrVersion) || errors.Is(im.Err, ErrUnreadable) {
			return nil, im.Err
		}
		if im.Err != nil {
			continue
		}
		clear(keep)
		for _, c := range im.chain() {
			keep[c.Seq] = true
		}
	}
	if len(keep) == 0 {
		for _, im := range images {
			keep[im.Seq] = true
		}
	}
	err = s.setAside(task, keep)
	aside, listErr := s.aside(task)
	return aside, errors.Join(err, listErr)
}

// asidePrefix begins the names of directories in a task's directory that hold images
// which are to be deleted. Nobody looks for an image there, and nobody adds to one
// without the lock.
const asidePrefix = "removed-"

// setAside unmarks all images but some and moves them into a directory of their own,
// children before their parents, so that at no time a committed image lacks its
// parent. The caller has the lock.
func (s *Store) setAside(task string, keep map[int]bool) error {
	seqs, err := s.seqs(task)
	if err != nil {
		return err
	}
	to := ""
	for _, seq := range slices.Backward(seqs) {
		if keep[seq] {
			continue
		}
		if to == "" {
			if to, err = os.MkdirTemp(s.taskDir(task), asidePrefix); err != nil {
				return err
			}
		}
		dir := s.imageDir(task, seq)
		if err := unmark(dir); err != nil {
			return err
		}
		crash.Here("checkpoint.collect")
		if err := os.Rename(dir, filepath.Join(to, seqName(seq))); err != nil {
			return err
		}
	}
	return nil
}

// aside lists the directories of images that are to be deleted.
func (s *Store) aside(task string) ([]string, error) {
	entries, err := os.ReadDir(s.taskDir(task))
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), asidePrefix) {
			dirs = append(dirs, filepath.Join(s.taskDir(task), e.Name()))
		}
	}
	return dirs, err
}

// deleteAll deletes directories that setAside has made. Others may do so as well.
func deleteAll(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// removeUncommitted removes what is left of images that nobody has committed: of dumps that were
// killed, each of which may have the size of the task; and what is left of images that were removed: two
// chains that are being removed at the same time would be more than anybody has reckoned with.
// The caller has the lock.
func (s *Store) removeUncommitted(task string) error {
	seqs, err := s.seqs(task)
	if err != nil {
		return err
	}
	committed := make(map[int]bool)
	for _, seq := range seqs {
		_, err := os.Lstat(filepath.Join(s.imageDir(task, seq), manifestName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		committed[seq] = err == nil
	}
	if err := s.stillThere(nil); err != nil {
		return err
	}
	return s.removeExcept(task, committed)
}

// removeExcept removes all images but some, and what is left of others. The caller
// has the lock.
func (s *Store) removeExcept(task string, keep map[int]bool) error {
	if err := s.setAside(task, keep); err != nil {
		return err
	}
	return s.deleteAside(task)
}

// deleteAside deletes what is left of images that were removed. The caller has the
// lock.
func (s *Store) deleteAside(task string) error {
	dirs, err := s.aside(task)
	if err != nil {
		return err
	}
	return deleteAll(dirs)
}

// Discard removes the commit marker of one image, durably: for an image that
// Verify has found damaged, so that it is neither restored nor used as a parent
// again. Images that depend on it then have an Err. Collect and Begin remove the files.
func (s *Store) Discard(task string, seq int) error {
	err := s.locked(task, func() error { return unmark(s.imageDir(task, seq)) })
	if err != nil {
		return fmt.Errorf("discard checkpoint %d of task %s: %w", seq, task, err)
	}
	return nil
}

// Remove removes all images of a task. A task that the store does not know is
// no error.
func (s *Store) Remove(task string) error {
	err := s.locked(task, func() error {
		if err := s.removeExcept(task, nil); err != nil {
			return err
		}
		if err := os.RemoveAll(s.taskDir(task)); err != nil {
			return err
		}
		return linux.SyncDir(s.Dir)
	})
	if err != nil {
		return fmt.Errorf("remove checkpoints of task %s: %w", task, err)
	}
	return nil
}

// locked calls do with the task locked, if the task has a directory.
func (s *Store) locked(task string, do func() error) error {
	if err := checkTask(task); err != nil {
		return err
	}
	lock, err := s.lock(context.Background(), task, unix.LOCK_EX)
	switch {
	case err == nil:
		defer lock.unlock()
		err = do()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	return s.stillThere(err)
}

// removeImage makes sure first that nobody takes what is left for an image.
func removeImage(dir string) error {
	if err := unmark(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// unmark removes the commit marker durably, if there is one.
func unmark(dir string) error {
	err := os.Remove(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return linux.SyncDir(dir)
}
