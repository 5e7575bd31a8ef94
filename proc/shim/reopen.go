package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/criu/image"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/reopen"
)

// Names in the task's directory.
const (
	// memoryDir is a file system in memory that only root can enter. Restores use it:
	// links and small files take long on a disk where others wait for fsync.
	memoryDir  = "memory"
	imagesDir  = "images"  // in it: what CRIU reads
	deletedDir = "deleted" // in both: what CRIU makes of files that had been deleted
)

// recordFiles adds to the supervisor's record which files the dumped tree has open,
// while it still stands. It fails when a restore would be refused.
func (j dumpJob) recordFiles(dir string) (json.RawMessage, error) {
	sv, err := parseSaved(j.Meta)
	if err != nil {
		return nil, err
	}
	if err := reopen.Check(dir, j.User, j.InitPID); err != nil {
		return nil, fmt.Errorf("%w: %w", proc.ErrNotCheckpointable, err)
	}
	if sv.Opened, err = reopen.Observe(dir, j.Dir); err != nil {
		return nil, fmt.Errorf("note which files the task has open: %w", err)
	}
	err = reopen.Rehearse(dir, reopen.Options{User: j.User, InitPID: j.InitPID, Record: sv.Opened, SameBoot: true, Own: []string{j.Dir, sv.TaskDir}})
	if err != nil {
		return nil, fmt.Errorf("%w: a restore would not find its files: %w", proc.ErrNotCheckpointable, err)
	}
	return json.Marshal(sv)
}

// showImages makes a directory for CRIU in which an image appears with its files
// opened beforehand. The caller closes both.
func (s *supervisor) showImages(spec proc.Spec, sv saved, stored string, moved bool) (*image.Dir, *reopen.Opened, error) {
	boot, err := linux.BootID()
	if err != nil {
		return nil, nil, err
	}
	memory, err := s.memoryDir()
	if err != nil {
		return nil, nil, fmt.Errorf("lay out the image for CRIU: %w", err)
	}
	d, err := image.NewDir(filepath.Join(memory, imagesDir), stored)
	if err != nil {
		return nil, nil, fmt.Errorf("lay out the image for CRIU: %w", err)
	}
	opened, err := s.openFiles(d, spec, sv, boot == sv.BootID, moved)
	if err != nil {
		return nil, nil, errors.Join(err, d.Remove())
	}
	return d, opened, nil
}

func (s *supervisor) openFiles(d *image.Dir, spec proc.Spec, sv saved, sameBoot, moved bool) (*reopen.Opened, error) {
	if err := reopen.Check(d.Path(), spec.Credentials(), sv.InitPID); err != nil {
		return nil, err
	}
	if sv.Opened == nil && spec.UID == 0 {
		fmt.Fprintln(os.Stderr, "restore: the checkpoint is of an older Headrace and does not say which files the task had open: they are opened by their paths")
	}
	if moved && sv.Opened != nil {
		here, err := sv.Opened.MadeAt(s.dir, sameBoot)
		if err != nil {
			return nil, err
		}
		moved = !here
	}
	deleted := filepath.Join(s.dir, deletedDir)
	if err := os.RemoveAll(deleted); err != nil {
		return nil, err
	}
	o := reopen.Options{
		User: spec.Credentials(), InitPID: sv.InitPID, Record: sv.Opened,
		SameBoot: sameBoot, Moved: moved,
		Own: []string{s.dir, s.knownAs}, Deleted: deleted, Memory: s.memoryForDeleted,
	}
	for _, p := range sv.PerfData {
		o.MadeAgain = append(o.MadeAgain, p.Path)
	}
	return reopen.Prepare(d, o)
}

// memoryDir mounts the file system in memory, once, in the task's mount namespace,
// with which it goes.
func (s *supervisor) memoryDir() (string, error) {
	dir := filepath.Join(s.dir, memoryDir)
	if s.hasMemoryDir {
		return dir, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if err := unix.Mount("headrace", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		return "", fmt.Errorf("mount %s: %w", dir, err)
	}
	s.hasMemoryDir = true
	return dir, nil
}

// memoryForDeleted is a directory in it that is not there yet.
func (s *supervisor) memoryForDeleted() (string, error) {
	memory, err := s.memoryDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(memory, deletedDir)
	return dir, os.RemoveAll(dir)
}
