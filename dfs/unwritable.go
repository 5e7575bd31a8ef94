package dfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// unwritable are the directories of a node that cannot be written now, and why. It may be used by several goroutines.
type unwritable struct {
	mu  sync.Mutex
	why map[string]error
	// ran: that of Config.Run could be written once. Who never had the right to has none.
	ran bool
}

// all returns them, in the order of their names.
func (u *unwritable) all() (all []UnwritableDir) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, dir := range slices.Sorted(maps.Keys(u.why)) {
		all = append(all, UnwritableDir{dir, u.why[dir].Error()})
	}
	return all
}

// lookAtDirectories finds out which can be written now, and tells once of each that has changed.
func lookAtDirectories(n *Node) {
	u, now, again := &n.unwritable, map[string]error{}, map[string]bool{}
	note := func(dir, means string, err error) {
		if again[dir] = err == nil; err != nil {
			now[dir] = fmt.Errorf("%s: %w: %s", means, plain(err), remedy(err))
		}
	}
	note(n.Config.Dir, "the names cannot be changed, and the node ends when they are to be", linux.Writable(n.Config.Dir))
	err := os.MkdirAll(n.Config.Run, 0o700)
	if err == nil {
		err = linux.Writable(n.Config.Run)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ran = u.ran || err == nil; u.ran || !errors.Is(err, fs.ErrPermission) {
		note(n.Config.Run, "that a disk fails cannot be noted there: if one does, restart the machine before this node", err)
	}
	for _, v := range n.Blocks.Volumes() {
		if v.Cause == nil {
			note(v.Dir, "the disk takes no blocks that are new or being written", v.Unwritable)
		}
	}
	for dir, why := range now {
		if was := u.why[dir]; was == nil || was.Error() != why.Error() {
			n.Config.Log.Error("a directory cannot be written", "dir", dir, "err", why)
		}
	}
	for dir := range u.why {
		if again[dir] { // else it is a disk that was taken out of use, which is told elsewhere
			n.Config.Log.Warn("a directory can be written again", "dir", dir)
		}
	}
	u.why = now
}

// plain takes the path off an error that is told beside it.
func plain(err error) error {
	if with, ok := errors.AsType[*fs.PathError](err); ok {
		return with.Err
	}
	return err
}

// remedy says what is to be done about a directory that cannot be written.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return "mount its file system to be written again"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "make room in its file system"
	case errors.Is(err, fs.ErrPermission):
		return "give the user as whom the node runs the right to write there"
	}
	return "put a directory there which the node may write"
}
