package solo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// pipedDir is where headrace run keeps what is piped to it. Not /tmp: it must outlive a reboot
// as the task does. Not the state directory: users must not be able to fill that.
const pipedDir = "/var/tmp"

// pipedPrefix begins the names of what is piped to tasks of the daemon with a state
// directory: nobody else's is to be removed by it.
func pipedPrefix(stateDir string) string {
	if real, err := filepath.EvalSymlinks(stateDir); err == nil {
		stateDir = real
	}
	return fmt.Sprintf("headrace-stdin-%.8x-", sha256.Sum256([]byte(filepath.Clean(stateDir))))
}

// MakePiped makes a file for what is piped to a task of the daemon with an absolute state
// directory. Once the task is accepted the daemon removes it, when the task has ended for
// good. Before that it belongs to whoever makes it, and is locked while it is open: one that
// nobody has open, and no task has, is removed when the daemon starts.
func MakePiped(stateDir string) (*os.File, error) {
	f, err := os.CreateTemp(pipedDir, pipedPrefix(stateDir)+"*")
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(os.NewSyscallError("flock", err), f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// KeepPiped gives a file of MakePiped a second name, durably, by which it is its owner's and no daemon removes it.
func KeepPiped(f *os.File) (path string, err error) {
	path = filepath.Join(pipedDir, strings.Replace(filepath.Base(f.Name()), "headrace-stdin-", "headrace-kept-", 1))
	if err := os.Link(f.Name(), path); err != nil {
		return "", err
	}
	return path, linux.SyncDir(pipedDir)
}

// isPiped tells whether a path is that of something piped to a task of this daemon.
func (c *core) isPiped(path string) bool {
	return filepath.Dir(path) == pipedDir && filepath.Clean(path) == path &&
		strings.HasPrefix(filepath.Base(path), pipedPrefix(c.cfg.StateDir))
}

// pipedUsed is how often what is piped to tasks is made to look used.
const pipedUsed = 24 * time.Hour

// usePiped does so when it is due: what nobody has used for long (30 days with systemd) is taken out of /var/tmp, and a task
// may wait longer. Times of modification stay, by which a restore knows a file.
func (c *core) usePiped() {
	now := c.clk.boot()
	if c.pipedAt != 0 && now-c.pipedAt < pipedUsed {
		return
	}
	c.pipedAt = now
	var paths []string
	for _, t := range c.tasks.all {
		if c.isPiped(t.spec.Stdin) && t.readsPiped() {
			paths = append(paths, t.spec.Stdin)
		}
	}
	c.background(func(context.Context) func() {
		for _, path := range paths {
			used := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, used, unix.AT_SYMLINK_NOFOLLOW); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.log.Warn("what was piped to a task may be cleaned up before it is read", "path", path, "err", err)
			}
		}
		return nil
	})
}

// readsPiped tells whether the task may still read what was piped to it.
func (t *task) readsPiped() bool { return !t.rec.State.Final() || t.rec.Checkpoint != nil }

// dropPiped removes what was piped to a task that has ended for good. If that fails, it is
// tried again when the daemon starts.
func (l *life) dropPiped(t *task) {
	path, uid := t.spec.Stdin, t.spec.UID
	if !l.isPiped(path) {
		return
	}
	l.background(func(context.Context) func() {
		// A user may have named the file of another one.
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Uid != uid {
			return nil
		}
		if err := os.Remove(path); err != nil {
			l.log.Warn("what was piped to a task cannot be removed", "path", path, "err", err)
		}
		return nil
	})
}

// sweepPiped removes what no task will read: what was piped to one that has ended for good,
// or has never been accepted, because whoever kept it was killed before that. What is older than
// the records may belong to a task of others, which were moved away and may be put back, and what a task
// names that has a directory and is not in them, to that. The tasks must be there, and no new ones may come.
func (c *core) sweepPiped() {
	wanted := map[string]bool{}
	ids, err := c.rt.Tasks()
	if err != nil {
		c.log.Warn("what was piped to no task is not looked for", "err", err)
		return
	}
	for _, id := range ids {
		if c.tasks.all[id] != nil {
			continue
		}
		if spec, err := c.rt.SpecOf(id); err == nil {
			wanted[spec.Stdin] = true
		}
	}
	for _, t := range c.tasks.all {
		if t.readsPiped() {
			wanted[t.spec.Stdin] = true
		}
	}
	paths, _ := filepath.Glob(filepath.Join(pipedDir, pipedPrefix(c.cfg.StateDir)+"*")) // the pattern is right
	for _, path := range paths {
		if st, err := os.Lstat(path); wanted[path] || err != nil || st.ModTime().UnixMilli() < c.ledger.madeMs {
			continue
		}
		err := removeUnlocked(path)
		if err != nil && !errors.Is(err, linux.ErrLocked) && !errors.Is(err, fs.ErrPermission) { // it is being made, or another user's
			c.log.Warn("what was piped to no task cannot be removed", "path", path, "err", err)
		}
	}
}

// removeUnlocked removes a file that nobody has locked.
func removeUnlocked(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return linux.ErrLocked
	}
	if err != nil {
		return os.NewSyscallError("flock", err)
	}
	return os.Remove(path)
}
