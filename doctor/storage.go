package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc/checkpoint"
)

// space is what a file system holds.
type space struct {
	total, free int64
	kind        int64 // magic number
}

// spaceAt looks at the nearest directory that exists.
func spaceAt(dir string) (space, string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return space{}, dir, err
	}
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return space{total: int64(s.Blocks) * s.Bsize, free: int64(s.Bavail) * s.Bsize, kind: s.Type}, dir, nil
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, os.ErrNotExist) || parent == dir {
			return space{}, dir, &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
		dir = parent
	}
}

// storage looks at a directory that is to have room: for checkpoints, or for logs and records alone.
func (m machine) storage(name, dir string, checkpoints bool) Finding {
	var s space
	var at string
	var err error
	if !linux.Within(askTime, func() { s, at, err = spaceAt(dir) }) {
		return Finding{Name: name, Status: Missing, What: dir + " does not answer", Why: storageWhy, How: "See whether its disk or file server is well, or name another directory with --state-dir or --store."}
	}
	if err != nil {
		return Finding{Name: name, Status: Missing, What: err.Error(), Why: storageWhy, How: "Name another directory with --state-dir or --store."}
	}
	mem, err := m.procfs().MemInfo()
	if err != nil {
		return Finding{Name: name, Status: Unknown, What: err.Error(), Why: storageWhy}
	}
	wanted := mem.Total
	if !checkpoints {
		wanted = 0
	}
	return storageFinding(name, s, at, wanted)
}

// owners looks whose the stores of checkpoints are.
func owners(stateDir string, stores []string, asRoot string) Finding {
	f := Finding{Name: "owners of stores", Status: OK, What: "no store of checkpoints belongs to another daemon",
		Why: "A daemon leaves another's store alone: nothing is checkpointed there, and what it has there itself waits."}
	if len(stores) == 0 {
		stores = []string{filepath.Join(stateDir, "checkpoints")}
	}
	var what, how []string
	for _, dir := range stores {
		looked := make(chan error, 1)
		err := fmt.Errorf("%s does not answer", dir)
		if linux.Within(askTime, func() { looked <- owned(stateDir, dir) }) {
			err = <-looked
		}
		switch text, todo, _ := strings.Cut(fmt.Sprint(err), ". "); {
		case err == nil || errors.Is(err, os.ErrNotExist):
		case errors.Is(err, checkpoint.ErrForeign):
			f.Status = Missing
			what, how = append(what, text), append(how, todo)
		default:
			if f.Status == OK {
				f.Status = Unknown
			}
			if what = append(what, text); errors.Is(err, os.ErrPermission) && asRoot != "" && !slices.Contains(how, asRoot) {
				how = append(how, asRoot)
			}
		}
	}
	if len(what) > 0 {
		f.What, f.How = strings.Join(what, "; "), strings.Join(how, "\n")
	}
	return f
}

// owned looks whether a store is that of the daemon with a state directory. One that has never
// run there has no store yet.
func owned(stateDir, dir string) error {
	id, err := os.ReadFile(filepath.Join(stateDir, checkpoint.IdentityFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return checkpoint.Owned(dir, checkpoint.Owner{ID: strings.TrimSpace(string(id))})
}

const storageWhy = "A checkpoint is as large as the task's memory, and is durable only on a real disk."

// storageFinding judges the room for checkpoints of so much memory. A store in memory is one that somebody has named.
func storageFinding(name string, s space, at string, wanted int64) Finding {
	f := Finding{Name: name, Status: OK, Why: storageWhy,
		What: fmt.Sprintf("%s free of %s at %s", bytesText(s.free), bytesText(s.total), at)}
	switch {
	case name != "store" && (s.kind == unix.TMPFS_MAGIC || s.kind == unix.RAMFS_MAGIC):
		f.Status, f.What = Warning, f.What+" (in memory)"
		f.How = "Checkpoints there take the memory that they are to free, and are gone after a reboot: name a directory on a disk with --state-dir."
	case s.free < gib:
		f.Status, f.How = Missing, "Free some space there, or name another directory with --state-dir or --store."
	case s.free < wanted:
		f.Status = Warning
		f.How = fmt.Sprintf("Tasks that fill the memory (%s) do not fit: free some space, or name another directory with --state-dir or --store.", bytesText(wanted))
	}
	return f
}

func (m machine) sharedMemory() Finding {
	f := Finding{Name: "/dev/shm", Status: OK,
		Why: "A fast place for checkpoints that need not outlive a reboot, and where programs share memory that a checkpoint includes."}
	s, at, err := spaceAt(m.path("dev/shm"))
	switch {
	case err != nil:
		f.Status, f.What = Unknown, err.Error()
	case at != m.path("dev/shm") || s.kind != unix.TMPFS_MAGIC:
		f.Status, f.What = Warning, "not mounted"
		f.How = "mount -t tmpfs tmpfs /dev/shm"
	case s.total < 64*mib:
		f.Status, f.What = Warning, fmt.Sprintf("%s free of %s", bytesText(s.free), bytesText(s.total))
		f.How = "mount -o remount,size=50% /dev/shm; in docker: --shm-size"
	default:
		f.What = fmt.Sprintf("%s free of %s", bytesText(s.free), bytesText(s.total))
	}
	return f
}

func (m machine) loopDevices() Finding {
	f := Finding{Name: "loop devices", Status: OK, What: "available",
		Why: "The experiments put each store on a disk of its own."}
	file, err := os.OpenFile(m.path("dev/loop-control"), os.O_RDWR, 0)
	if err != nil {
		f.Status, f.What = Warning, err.Error()
		f.How = "modprobe loop, as root; in a container: --privileged"
		return f
	}
	file.Close()
	return f
}

func (m machine) throttling() Finding {
	f := Finding{Name: "blkio throttling", Status: OK,
		Why: "The experiments slow a store down to compare storage bandwidths."}
	if dir := m.ownCgroup("blkio", false); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "blkio.throttle.write_bps_device")); err == nil {
			f.What = "blkio (v1)"
			if err := tryCgroup(dir, nil); err != nil {
				f.Status, f.What, f.How = Warning, fmt.Sprintf("not writable: %v", err), m.cgroupHow()
			}
			return f
		}
	}
	if dir := m.ownCgroup("io", true); dir != "" {
		f.What = "io (v2)"
		list, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if !slices.Contains(strings.Fields(string(list)), "io") && m.uid != 0 {
			f.Status, f.What, f.How = Warning, "io (v2), not delegated", m.cgroupHow()
		}
		return f
	}
	f.Status, f.What = Warning, "the kernel cannot do it"
	f.How = "A kernel with CONFIG_BLK_DEV_THROTTLING."
	return f
}
