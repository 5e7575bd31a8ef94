package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Positions returns where the task's processes are in the regular files that they have open
// for reading: the furthest of a file's descriptors. Of who reads without moving the
// position (pread, mappings) it says nothing; processes and descriptors that go meanwhile
// are left out, and so may be those that have just come.
func (t *Task) Positions() (map[linux.FileID]int64, error) {
	children, err := machine.children()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	at := map[linux.FileID]int64{}
	for tree := children[t.c.PeerPID()]; len(tree) > 0; tree = tree[1:] {
		tree = append(tree, children[tree[0]]...)
		if err := addPositions(at, tree[0]); err != nil && !linux.Gone(err) {
			return nil, fmt.Errorf("see what process %d has open: %w", tree[0], err)
		}
	}
	return at, nil
}

// machine lists the processes of this one.
var machine = listing{read: linux.ProcFS("").All}

// listing is who is whose child, shared by all who ask at about the same time: all
// processes of a host are read for it, and the positions of all tasks are asked for at once.
type listing struct {
	read func() ([]linux.Stat, error)

	mu    sync.Mutex
	known map[int][]int // by parent; not changed any more
	ended time.Time     // when it had been read
}

// listingValid is how old a listing may be.
const listingValid = 100 * time.Millisecond

func (l *listing) children() (map[int][]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known != nil && time.Since(l.ended) < listingValid {
		return l.known, nil
	}
	all, err := l.read()
	if err != nil {
		return nil, err
	}
	l.known = make(map[int][]int, len(all))
	for _, p := range all {
		l.known[p.PPID] = append(l.known[p.PPID], p.PID)
	}
	l.ended = time.Now()
	return l.known, nil
}

func addPositions(at map[linux.FileID]int64, pid int) error {
	open, err := linux.ProcFS("").Descriptors(pid)
	if err != nil {
		return err
	}
	for _, d := range open {
		var st unix.Statx_t
		// What the kernel knows is enough: a file system of a user's would be asked else, and may not answer.
		err := unix.Statx(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/fd/%d", pid, d.FD), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st)
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue // what cannot be looked at is no input
		}
		info, err := linux.ProcFS("").FDInfo(d)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		flags, _ := strconv.ParseUint(info["flags"], 8, 64)
		pos, err := strconv.ParseInt(info["pos"], 10, 64)
		if err == nil && flags&unix.O_ACCMODE != unix.O_WRONLY {
			id := linux.FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
			at[id] = max(at[id], pos)
		}
	}
	return nil
}
