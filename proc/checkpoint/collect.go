package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
)

// Collect removes what no restore will need: images that were never committed,
// and all but the newest usable image (Image.Err is nil) and its chain of
// parents. If there is no usable image it leaves damaged ones alone. It fails
// with ErrVersion, and removes nothing, if a newer version has written images of
// the task.
func (s *Store) Collect(task string) error {
	if err := s.locked(task, func() error { return s.collect(task) }); err != nil {
		return fmt.Errorf("collect checkpoints of task %s: %w", task, err)
	}
	return nil
}

func (s *Store) collect(task string) error {
	images, err := s.Images(task)
	if err != nil {
		return err
	}
	keep := make(map[int]bool)
	for _, im := range images {
		if errors.Is(im.Err, ErrVersion) {
			return im.Err
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
	return s.removeExcept(task, keep)
}

// removeExcept removes children before their parents, so that at no time a
// committed image lacks its parent.
func (s *Store) removeExcept(task string, keep map[int]bool) error {
	seqs, err := s.seqs(task)
	if err != nil {
		return err
	}
	for _, seq := range slices.Backward(seqs) {
		if keep[seq] {
			continue
		}
		if err := removeImage(s.imageDir(task, seq)); err != nil {
			return err
		}
	}
	return nil
}

// Discard removes the commit marker of one image, durably: for an image that
// Verify has found damaged, so that it is neither restored nor used as a parent
// again. Images that depend on it then have an Err. Collect removes the files.
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
	lock, err := s.lock(task, unix.LOCK_EX)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.unlock()
	return do()
}

// removeImage makes sure first that nobody takes what is left for an image.
func removeImage(dir string) error {
	if err := unmark(dir); err != nil {
		return err
	}
	crash.Here("checkpoint.collect")
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
