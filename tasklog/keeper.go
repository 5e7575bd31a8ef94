package tasklog

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/vfs"
)

// Task is a task whose logs are kept.
type Task struct {
	ID   string
	UID  uint32
	User string // for the notice
	// Stdout and Stderr are paths; neither file needs to be there.
	Stdout, Stderr string
	// Progress is the file in which the task says how far it is, in a few bytes; empty:
	// it has none.
	Progress string
	Ended    bool
	// Limit is what the logs of all tasks of its user may hold, in bytes.
	Limit int64
}

// Keeper keeps logs within limits. It must not be used by two goroutines at once.
type Keeper struct {
	// Reserve is how much of the file system is to stay free, in bytes; 0: [vfs.KeptFree].
	Reserve int64
	// Open is a directory of removed logs that were open for writing; empty: there is none.
	Open string

	// ended is what the logs of ended tasks hold. Their owner may still write to them,
	// so they are looked at again, some at a time.
	ended map[string]seen
	round int
	// noHoles: the file system cannot give back parts of files; nothing is done.
	noHoles bool
	leases  leases
}

// seen is what logs held when they were last looked at.
type seen struct {
	bytes int64
	round int
}

const (
	// endedAtOnce is of how many ended tasks the logs are looked at in each round.
	endedAtOnce = 1000
	// maxProgress is what a file of Task.Progress may hold on the disk, in bytes.
	maxProgress = 64 << 10
)

// Cut says that logs of a task were cut.
type Cut struct {
	Task   string
	Before int64 // bytes on the disk
	Why    string
}

// Keep looks at the logs of all tasks, those that have ended in the order in which
// they ended, and cuts those of users that have too much. dir is on the file system
// that is to keep its reserve. What cannot be done is in the error; the rest is
// done. ErrNoHoles is reported once.
func (k *Keeper) Keep(dir string, tasks []Task) ([]Cut, error) {
	oerr := k.emptyOpen()
	if k.noHoles {
		return nil, oerr
	}
	missing, err := k.missing(dir)
	if err != nil {
		return nil, err
	}
	logs, limits := k.look(tasks, missing > 0)
	keep := plan(logs, func(uid uint32) int64 { return limits[uid] }, missing)
	var cuts []Cut
	wrong := []error{oerr}
	for i, t := range tasks {
		if t.Progress != "" && (!t.Ended || k.ended[t.ID].round == k.round) && use(t.Progress) > maxProgress {
			wrong = append(wrong, k.shorten(t.Progress, t.UID))
		}
		if keep[i] >= logs[i].bytes {
			continue
		}
		why := fmt.Sprintf("what was here is dropped: the logs of %s's tasks held more than they may (limit log-bytes)", t.User)
		if missing > 0 {
			why = "what was here is dropped: the disk with the logs was nearly full, and those of " + t.User + " held most of it"
		}
		if err := k.cutTask(t, keep[i], why); errors.Is(err, ErrNoHoles) {
			k.noHoles = true
			return cuts, err
		} else if err != nil {
			wrong = append(wrong, err)
			continue
		}
		delete(k.ended, t.ID)
		if use(t.Stdout)+use(t.Stderr) < logs[i].bytes { // else somebody has a lease on them
			cuts = append(cuts, Cut{Task: t.ID, Before: logs[i].bytes, Why: why})
		}
	}
	return cuts, errors.Join(wrong...)
}

// emptyOpen removes logs that are not open any more, and takes from the others what was
// written to them.
func (k *Keeper) emptyOpen() error {
	entries, err := os.ReadDir(k.Open)
	if k.Open == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(k.Open, e.Name())
		f, oerr := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		switch {
		case oerr == nil && !linux.HeldForWriting(f):
			err = errors.Join(err, os.Remove(path))
		case use(path) > 0: // that it could not be opened is a lease of who writes
			err = errors.Join(err, k.leases.with(path, func(f *os.File) error { return f.Truncate(0) }))
		}
		f.Close()
	}
	return err
}

// look measures the logs, those of ended tasks some at a time, or all.
func (k *Keeper) look(tasks []Task, all bool) ([]log, map[uint32]int64) {
	k.round++
	logs := make([]log, len(tasks))
	limits := map[uint32]int64{}
	ended := make(map[string]seen, len(k.ended))
	rounds := 1 + len(k.ended)/endedAtOnce
	for i, t := range tasks {
		was, known := k.ended[t.ID]
		if !t.Ended || !known || all || k.round-was.round >= rounds {
			was = seen{use(t.Stdout) + use(t.Stderr), k.round}
		}
		if t.Ended {
			ended[t.ID] = was
		}
		logs[i] = log{uid: t.UID, bytes: was.bytes, ended: t.Ended}
		limits[t.UID] = max(limits[t.UID], t.Limit)
	}
	k.ended = ended
	return logs, limits
}

// missing returns how much of the reserve is not free.
func (k *Keeper) missing(dir string) (int64, error) {
	free, size, err := vfs.Space(dir)
	if err != nil {
		return 0, err
	}
	return cmp.Or(k.Reserve, vfs.KeptFree(size)) - free, nil
}

// cutTask divides what a task's logs may keep between the two.
func (k *Keeper) cutTask(t Task, keep int64, why string) error {
	out, errs := use(t.Stdout), use(t.Stderr)
	small := min(out, errs, keep/2)
	var wrong []error
	for path, n := range map[string]int64{t.Stdout: out, t.Stderr: errs} {
		mine := keep - small
		if n <= keep/2 {
			mine = n
		} else if min(out, errs) > keep/2 {
			mine = keep / 2
		}
		if n > mine {
			wrong = append(wrong, k.leases.with(path, func(f *os.File) error { return cut(f, t.UID, mine, why) }))
		}
	}
	return errors.Join(wrong...)
}

// shorten leaves a progress file its first line.
func (k *Keeper) shorten(path string, uid uint32) error {
	return k.leases.with(path, func(f *os.File) error {
		if _, err := owned(f, uid); err != nil {
			return err
		}
		if err := f.Truncate(4096); err != nil {
			return fmt.Errorf("shorten a progress file: %w", err)
		}
		return nil
	})
}
