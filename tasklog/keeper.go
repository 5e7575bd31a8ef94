package tasklog

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Task is a task whose logs are kept.
type Task struct {
	ID   string
	UID  uint32
	User string // for the notice
	// Stdout and Stderr are paths; neither file needs to be there.
	Stdout, Stderr string
	Ended          bool
	// Limit is what the logs of all tasks of its user may hold, in bytes.
	Limit int64
}

// Keeper keeps logs within limits. It must not be used by two goroutines at once.
type Keeper struct {
	// Reserve is how much of the file system is to stay free, in bytes; 0: a
	// twentieth of it, at most 10 GB.
	Reserve int64

	ended map[string]int64 // what the logs of ended tasks hold: it does not change
	// NoHoles: the file system cannot give back parts of files; nothing is done.
	noHoles bool
}

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
	if k.noHoles {
		return nil, nil
	}
	logs, limits := k.look(tasks)
	missing, err := k.missing(dir)
	if err != nil {
		return nil, err
	}
	keep := plan(logs, func(uid uint32) int64 { return limits[uid] }, missing)
	var cuts []Cut
	var wrong []error
	for i, t := range tasks {
		if keep[i] >= logs[i].bytes {
			continue
		}
		why := fmt.Sprintf("what was here is dropped: the logs of %s's tasks held more than they may (limit log-bytes)", t.User)
		if missing > 0 {
			why = "what was here is dropped: the disk with the logs was nearly full, and those of " + t.User + " held most of it"
		}
		if err := cutTask(t, keep[i], why); errors.Is(err, ErrNoHoles) {
			k.noHoles = true
			return cuts, err
		} else if err != nil {
			wrong = append(wrong, err)
			continue
		}
		delete(k.ended, t.ID)
		cuts = append(cuts, Cut{Task: t.ID, Before: logs[i].bytes, Why: why})
	}
	return cuts, errors.Join(wrong...)
}

// look measures the logs. Those of ended tasks are measured once.
func (k *Keeper) look(tasks []Task) ([]log, map[uint32]int64) {
	logs := make([]log, len(tasks))
	limits := map[uint32]int64{}
	ended := make(map[string]int64, len(k.ended))
	for i, t := range tasks {
		n, known := k.ended[t.ID]
		if !known || !t.Ended {
			n = use(t.Stdout) + use(t.Stderr)
		}
		if t.Ended {
			ended[t.ID] = n
		}
		logs[i] = log{uid: t.UID, bytes: n, ended: t.Ended}
		limits[t.UID] = max(limits[t.UID], t.Limit)
	}
	k.ended = ended
	return logs, limits
}

// missing returns how much of the reserve is not free.
func (k *Keeper) missing(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look at the file system of the logs: %w", err)
	}
	reserve := k.Reserve
	if reserve == 0 {
		reserve = min(int64(st.Blocks)*st.Bsize/20, 10e9)
	}
	return reserve - int64(st.Bavail)*st.Bsize, nil
}

// cutTask divides what a task's logs may keep between the two.
func cutTask(t Task, keep int64, why string) error {
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
			wrong = append(wrong, cut(path, t.UID, mine, why))
		}
	}
	return errors.Join(wrong...)
}
