package reopen

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// A Record says which files the paths in the images of a dump meant.
type Record struct {
	// Files are by their ids in files.img.
	Files map[uint64]linux.FileIdentity `json:"files"`
	// Home is the directory of the task, by which a checkpoint that was made
	// elsewhere is known.
	Home linux.FileIdentity `json:"home"`
}

// Observe makes the record of a tree that was just dumped to the directory and
// still stands as it was dumped. home is the directory of the task.
func Observe(dir, home string) (*Record, error) {
	t, err := scan(dir)
	if err != nil {
		return nil, err
	}
	r := &Record{Files: make(map[uint64]linux.FileIdentity, len(t.paths))}
	for _, p := range t.paths {
		if len(p.uses) == 0 {
			continue
		}
		u := p.uses[0] // all uses of one id are of one file
		id, err := identifyPath(filepath.Join("/proc", fmt.Sprint(u.pid), u.link))
		if err != nil {
			return nil, fmt.Errorf("look at %s, which process %d has (%s): %w", p.name, u.pid, u.link, err)
		}
		r.Files[p.id] = id
	}
	if r.Home, err = identifyPath(home); err != nil {
		return nil, fmt.Errorf("look at the task's directory: %w", err)
	}
	return r, nil
}

// MadeAt reports whether the record is of the task that has this directory now.
// Another task, which was moved here, has another directory.
func (r *Record) MadeAt(home string, sameBoot bool) (bool, error) {
	now, err := identifyPath(home)
	return err == nil && r.Home.Differs(now, sameBoot) == "", err
}

// identifyPath follows links.
func identifyPath(link string) (linux.FileIdentity, error) {
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return linux.FileIdentity{}, err
	}
	defer unix.Close(fd)
	return linux.IdentifyFile(fd)
}
