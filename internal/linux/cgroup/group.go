package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// initMemory and initPIDs are added to limits for the process of Headrace that is in
// each task.
const (
	initMemory = 16 << 20
	initPIDs   = 16
)

func (g Group) limit(l Limits) error {
	var problems []error
	switch {
	case l.Memory <= 0:
	case g.Memory == "":
		problems = append(problems, errors.New("no limit of memory: there is no memory cgroup"))
	default:
		problems = append(problems, LimitMemory(g.Memory, l.Memory+initMemory))
	}
	switch {
	case l.CPUs <= 0:
	case g.CPU != "":
		problems = append(problems, weigh(g.CPU, l.CPUs))
	case l.CPUs != 1: // which is what the kernel gives by itself
		problems = append(problems, errors.New("no share of the processors: there is no cpu cgroup"))
	}
	switch {
	case l.PIDs <= 0:
	case g.PIDs == "":
		problems = append(problems, errors.New("no limit of processes: there is no pids cgroup"))
	default:
		n := l.PIDs
		if !g.SeparatePIDs() {
			n += initPIDs
		}
		problems = append(problems, Write(filepath.Join(g.PIDs, "pids.max"), strconv.FormatInt(n, 10)))
	}
	if l.IOWeight != 0 && l.IOWeight != DefaultIOWeight {
		problems = append(problems, weighIO(g.IO, l.IOWeight))
	}
	return errors.Join(problems...)
}

// memoryLimit returns the file with the limit of memory of a directory, and what stands
// there for no limit.
func memoryLimit(dir string) (path, none string) {
	if path = filepath.Join(dir, "memory.max"); exists(path) {
		return path, "max"
	}
	return filepath.Join(dir, "memory.limit_in_bytes"), "-1"
}

// LimitMemory bounds the memory of a directory, page cache included; 0: no more.
func LimitMemory(dir string, bytes int64) error {
	path, none := memoryLimit(dir)
	if bytes <= 0 {
		return Write(path, none)
	}
	return Write(path, strconv.FormatInt(bytes, 10))
}

// weigh gives a group a share of the processors: one CPU is the kernel's default.
func weigh(dir string, cpus float64) error {
	if path := filepath.Join(dir, "cpu.weight"); exists(path) {
		return Write(path, strconv.Itoa(int(math.Round(min(max(100*cpus, 1), 10000)))))
	}
	return Write(filepath.Join(dir, "cpu.shares"), strconv.Itoa(int(math.Round(min(max(1024*cpus, 2), 262144)))))
}

// ioWeights are the files with a group's I/O weight, with the ranges that they have: a
// kernel has one for each way to share out a disk that it knows.
var ioWeights = []struct {
	name                      string
	least, standard, greatest int
}{
	{"io.weight", 1, 100, 10000},
	{"io.bfq.weight", 1, 100, 1000},
	{"blkio.bfq.weight", 1, 100, 1000},
	{"blkio.weight", 10, 500, 1000},
}

// weighsIO reports whether groups like the one in a directory can have an I/O weight.
func weighsIO(dir string) bool {
	for _, f := range ioWeights {
		if dir != "" && exists(filepath.Join(dir, f.name)) {
			return true
		}
	}
	return false
}

// weighIO gives a group an I/O weight.
func weighIO(dir string, weight int) error {
	if !weighsIO(dir) {
		return errors.New("no I/O weight: the kernel has neither io.weight nor that of bfq for cgroups here")
	}
	var problems []error
	for _, f := range ioWeights {
		if path := filepath.Join(dir, f.name); exists(path) {
			problems = append(problems, Write(path, strconv.Itoa(scaleWeight(weight, f.least, f.standard, f.greatest))))
		}
	}
	return errors.Join(problems...)
}

// scaleWeight brings a weight of 1 to 10000 into another range, so that least,
// standard and greatest weight correspond.
func scaleWeight(weight, least, standard, greatest int) int {
	if weight <= DefaultIOWeight {
		return least + (weight-1)*(standard-least)/(DefaultIOWeight-1)
	}
	return standard + (min(weight, 10000)-DefaultIOWeight)*(greatest-standard)/(10000-DefaultIOWeight)
}

// Unified returns the directory of the group in version 2, or empty. A process can be
// started in it.
func (g Group) Unified() string {
	if g.Freezer != "" && exists(filepath.Join(g.Freezer, "cgroup.controllers")) {
		return g.Freezer
	}
	return ""
}

// SeparatePIDs reports whether processes can be counted apart from the rest. Then
// the first process of a task, which is not the command's, is to stay outside: it
// would die of the limit.
func (g Group) SeparatePIDs() bool {
	return g.PIDs != "" && g.PIDs != g.Memory && g.PIDs != g.CPU && g.PIDs != g.IO && g.PIDs != g.Freezer
}

// Count returns how many processes are in the group, with those in groups below it.
func (g Group) Count() (n int) {
	for _, top := range g.Dirs() {
		in := 0
		for _, dir := range tree(top) {
			pids, _ := Members(dir) // what has gone has none
			in += len(pids)
		}
		n = max(n, in)
	}
	return n
}

// tree returns a directory and those below it, which a task may have made, itself last.
func tree(top string) (dirs []string) {
	entries, _ := os.ReadDir(top) // what has gone has none
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, tree(filepath.Join(top, e.Name()))...)
		}
	}
	return append(dirs, top)
}

// Members returns the processes in one directory, by their numbers in the caller's pid
// namespace.
func Members(dir string) ([]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Add moves a process into one directory. One that has ended is no error.
func Add(dir string, pid int) error {
	err := Write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Freeze keeps everything in the group from running, whatever signals it gets but
// SIGKILL. It does not wait. False: there is no freezer.
func (g Group) Freeze() (bool, error) { return g.freeze("1", "FROZEN") }

// Frozen reports whether Freeze has taken effect on everything in the group.
func (g Group) Frozen() (bool, error) {
	if path := filepath.Join(g.Freezer, "cgroup.events"); exists(path) {
		values, err := readKeys(path)
		return values["frozen"] == 1, err
	}
	b, err := os.ReadFile(filepath.Join(g.Freezer, "freezer.state"))
	return strings.TrimSpace(string(b)) == "FROZEN", err
}

// Thaw ends Freeze. Signals that have come meanwhile take effect before anything
// runs.
func (g Group) Thaw() error {
	_, err := g.freeze("0", "THAWED")
	return err
}

func (g Group) freeze(v2, v1 string) (bool, error) {
	if g.Freezer == "" {
		return false, nil
	}
	if path := filepath.Join(g.Freezer, "cgroup.freeze"); exists(path) {
		return true, Write(path, v2)
	}
	return true, Write(filepath.Join(g.Freezer, "freezer.state"), v1)
}

// Kill ends everything in the group and in groups below it, where the kernel can do so at once (version 2,
// Linux 5.14) in one step that nothing escapes. It does not wait. A group that is
// not there any more is no error.
func (g Group) Kill() error {
	if g.Freezer != "" && exists(filepath.Join(g.Freezer, "cgroup.kill")) {
		return Write(filepath.Join(g.Freezer, "cgroup.kill"), "1")
	}
	if g.Freezer != "" && exists(g.Freezer) {
		if err := g.Thaw(); err != nil { // else a signal would not take effect
			return err
		}
	}
	for _, top := range g.Dirs() {
		for _, dir := range tree(top) {
			pids, err := Members(dir)
			if err != nil && !swept(err) {
				return err
			}
			for _, pid := range pids {
				if pid == 0 { // it is not seen from this pid namespace, and 0 would be the caller's own group
					continue
				}
				if err := linux.Signal(pid, unix.SIGKILL); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// OOMKills returns how many processes of the group the kernel has ended for lack of
// memory.
func (g Group) OOMKills() int64 {
	if g.Memory == "" {
		return 0
	}
	values, err := readKeys(either(g.Memory, "memory.events", "memory.oom_control"))
	if err != nil {
		return 0
	}
	return values["oom_kill"]
}

// Use is what the group uses, in bytes.
type Use struct {
	// Resident is anonymous and shared memory, each page once.
	Resident int64
	// Swapped is what of it is in swap; negative where that is not counted.
	Swapped int64
}

// Use reads what the group uses. False: there is no memory cgroup.
func (g Group) Use() (Use, bool) {
	if g.Memory == "" {
		return Use{}, false
	}
	values, err := readKeys(filepath.Join(g.Memory, "memory.stat"))
	if err != nil {
		return Use{}, false
	}
	u := Use{Swapped: -1}
	if anon, v2 := values["anon"]; v2 {
		u.Resident = anon + values["shmem"]
		if n, err := readNumber(filepath.Join(g.Memory, "memory.swap.current")); err == nil {
			u.Swapped = n
		}
		return u, true
	}
	u.Resident = values["total_rss"] + values["total_shmem"]
	if n, ok := values["total_swap"]; ok {
		u.Swapped = n
	}
	return u, true
}

// Relax lifts the limits of memory and pids for as long as somebody else works in
// the group, and returns what puts them back.
func (g Group) Relax() (back func() error) {
	var undo []func() error
	lift := func(path, none string) {
		old, err := os.ReadFile(path)
		if err == nil && Write(path, none) == nil {
			undo = append(undo, func() error { return Write(path, strings.TrimSpace(string(old))) })
		}
	}
	if g.Memory != "" {
		lift(memoryLimit(g.Memory))
	}
	if g.PIDs != "" {
		lift(filepath.Join(g.PIDs, "pids.max"), "max")
	}
	return func() error {
		var problems []error
		for _, f := range undo {
			problems = append(problems, f())
		}
		return errors.Join(problems...)
	}
}

// removePatience bounds the wait for processes that have ended and are still
// counted.
const removePatience = time.Second

// Remove removes the group and those below it, which must have no processes any more.
func (g Group) Remove() error {
	var problems []error
	for _, top := range g.Dirs() {
		for _, dir := range tree(top) {
			problems = append(problems, RemoveDir(dir, removePatience))
		}
	}
	return errors.Join(problems...)
}

// RemoveDir removes one directory, whose processes have ended, but which the kernel
// may still count for a while. One that is not there any more is no error.
func RemoveDir(dir string, patience time.Duration) error {
	err := os.Remove(dir)
	for begin := time.Now(); errors.Is(err, unix.EBUSY) && time.Since(begin) < patience; err = os.Remove(dir) {
		time.Sleep(time.Millisecond)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a cgroup: %w", err)
	}
	return nil
}

// Roots returns where version 1 is mounted with a controller, or, for an empty name,
// version 2.
func Roots(controller string) []string {
	mounts, _ := linux.ProcFS("").Mounts("self")
	var roots []string
	for _, m := range mounts {
		if m.HasCgroups(controller) {
			roots = append(roots, m.Point)
		}
	}
	return roots
}

// either returns the file of version 2 in a directory if it is there, else that of
// version 1.
func either(dir, v2, v1 string) string {
	if path := filepath.Join(dir, v2); exists(path) {
		return path
	}
	return filepath.Join(dir, v1)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Write writes to a file of the kernel's, which must be there: it makes none.
func Write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func readNumber(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

// readKeys reads lines of a word and a number; others are passed over.
func readKeys(path string) (map[string]int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			values[key] = n
		}
	}
	return values, nil
}
