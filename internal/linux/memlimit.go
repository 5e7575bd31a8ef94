package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// CgroupMemory is the tightest memory limit over this process.
type CgroupMemory struct {
	// Dir is the cgroup whose limit it is; empty if there is no limit.
	Dir string
	// Limit is the limit in bytes, and Free what can still be used of it by memory
	// that cannot be reclaimed: the page cache of its tasks counts as free.
	Limit, Free int64
}

// OwnMemory looks at the memory cgroup of this process and all above it (v1 and v2), many times a second: it finds out once a second which
// cgroups those are, which takes most of the time. The zero value is ready. It may be used by several goroutines.
//
// v2 throttles processes past memory.high so that they hardly run: it counts as
// a limit like memory.max.
type OwnMemory struct {
	mu      sync.Mutex
	cgroups []memoryCgroup
	found   time.Time
}

// Cgroup returns the limit that leaves least.
func (o *OwnMemory) Cgroup() (CgroupMemory, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.found) < time.Second {
		if c, err := tightest(o.cgroups); err == nil { // else it has been moved to another one, and its own was removed
			return c, nil
		}
	}
	var err error
	if o.cgroups, err = ownMemoryCgroups("/"); err != nil {
		return CgroupMemory{}, err
	}
	o.found = time.Now()
	return tightest(o.cgroups)
}

// memoryCgroup is one that may limit this process's memory.
type memoryCgroup struct {
	dir, path string // as the process sees it, and where it is read
	v2        bool
}

// ownMemoryCgroups finds the cgroups of this process and all above them.
func ownMemoryCgroups(root string) (all []memoryCgroup, err error) {
	proc := ProcFS(filepath.Join(root, "proc"))
	mounts, err := proc.Mounts("self")
	if err != nil {
		return nil, err
	}
	own, err := proc.Cgroups("self")
	if err != nil {
		return nil, err
	}
	for _, h := range memoryHierarchies(mounts, own) {
		for dir := h.start(root); ; dir = path.Dir(dir) {
			all = append(all, memoryCgroup{dir, filepath.Join(root, dir), h.v2})
			if dir == h.mount || len(dir) <= len(h.mount) {
				break
			}
		}
	}
	return all, nil
}

func tightest(cgroups []memoryCgroup) (least CgroupMemory, err error) {
	for _, g := range cgroups {
		c, err := g.read()
		if err != nil {
			return CgroupMemory{}, err
		}
		if c.Limit > 0 && (least.Dir == "" || c.Free < least.Free) {
			c.Dir = g.dir
			least = c
		}
	}
	return least, nil
}

// A memoryHierarchy is a mounted cgroup hierarchy that may limit memory.
type memoryHierarchy struct {
	mount string // where it is mounted
	own   string // this process's cgroup, below mount; "" if it is not known
	v2    bool
}

// memoryHierarchies finds them among the mounts.
func memoryHierarchies(mounts []Mount, cgroups Cgroups) []memoryHierarchy {
	var found []memoryHierarchy
	for _, m := range mounts {
		h := memoryHierarchy{mount: m.Point, v2: m.HasCgroups("")}
		own := cgroups.Of("")
		switch {
		case h.v2:
		case m.HasCgroups("memory"):
			own = cgroups.Of("memory")
		default:
			continue
		}
		// The mount may show only a part of the hierarchy.
		if below, ok := strings.CutPrefix(own, strings.TrimSuffix(m.Root, "/")); ok {
			h.own = below
		}
		found = append(found, h)
	}
	return found
}

// start returns the directory to begin with: the mount itself where a namespace hides
// which cgroup the process is in.
func (h memoryHierarchy) start(root string) string {
	dir := path.Join(h.mount, h.own)
	if _, err := os.Stat(filepath.Join(root, dir)); err != nil || strings.Contains(h.own, "..") {
		return h.mount
	}
	return dir
}

// read reads one cgroup. Without a limit, or without the controller, Limit is 0.
func (g memoryCgroup) read() (CgroupMemory, error) {
	limits, usage, prefix := []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_"
	if g.v2 {
		limits, usage, prefix = []string{"memory.max", "memory.high"}, "memory.current", ""
	}
	var c CgroupMemory
	for _, name := range limits {
		v, err := cgroupNumber(filepath.Join(g.path, name))
		if err != nil {
			return c, err
		}
		if v >= 0 && v < unlimited && (c.Limit == 0 || v < c.Limit) {
			c.Limit = max(v, 1) // a limit of 0 is one
		}
	}
	if c.Limit == 0 {
		return c, nil
	}
	used, err := cgroupNumber(filepath.Join(g.path, usage))
	if err != nil {
		return c, err
	}
	stat, err := readKernel(filepath.Join(g.path, "memory.stat"))
	if err != nil {
		return c, err
	}
	c.Free = min(max(0, c.Limit-max(0, used)+reclaimable(string(stat), prefix)), c.Limit)
	return c, nil
}

// unlimited: v1 shows the largest number of whole pages.
const unlimited = 1 << 60

// cgroupNumber reads a file with one number; it is -1 for "max" and where there
// is no such file.
func cgroupNumber(name string) (int64, error) {
	b, err := readKernel(name)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(b))
	if text == "max" {
		return -1, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%s: %q is no number of bytes", name, text)
	}
	return v, nil
}

// reclaimable returns the page cache in the text of memory.stat.
func reclaimable(stat, prefix string) int64 {
	var sum int64
	for line := range strings.Lines(stat) {
		key, val, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key != prefix+"active_file" && key != prefix+"inactive_file" {
			continue
		}
		if v, err := strconv.ParseInt(val, 10, 64); err == nil && v > 0 && v < unlimited {
			sum = min(sum+v, unlimited)
		}
	}
	return sum
}
