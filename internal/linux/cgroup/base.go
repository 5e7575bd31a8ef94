package cgroup

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Group is a task's cgroup: its directory in the hierarchy of each controller,
// empty where there is none. In version 2 they are one.
type Group struct {
	Memory  string `json:"memory,omitempty"`
	CPU     string `json:"cpu,omitempty"`
	PIDs    string `json:"pids,omitempty"`
	IO      string `json:"io,omitempty"`
	Freezer string `json:"freezer,omitempty"`
}

// Dirs returns its directories, each once.
func (g Group) Dirs() []string {
	dirs := slices.DeleteFunc([]string{g.Memory, g.CPU, g.PIDs, g.IO, g.Freezer}, func(d string) bool { return d == "" })
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Present returns what of the group is still there.
func (g Group) Present() Group {
	for _, c := range controllers {
		if dir := g.field(c); *dir != "" && !exists(*dir) {
			*dir = ""
		}
	}
	return g
}

// Replaced returns, by the directories of g, those of the same controllers in now.
func (g Group) Replaced(now Group) map[string]string {
	by := make(map[string]string, len(controllers))
	for _, c := range controllers {
		if was, is := *g.field(c), *now.field(c); was != "" && is != "" {
			by[was] = is
		}
	}
	return by
}

// field returns a directory of the group by its controller.
func (g *Group) field(controller string) *string {
	switch controller {
	case "memory":
		return &g.Memory
	case "cpu":
		return &g.CPU
	case "pids":
		return &g.PIDs
	case "io":
		return &g.IO
	case "freezer":
		return &g.Freezer
	}
	return nil
}

var controllers = []string{"memory", "cpu", "pids", "io", "freezer"}

// inVersion1 returns what version 1 calls a controller.
func inVersion1(controller string) string {
	if controller == "io" {
		return "blkio"
	}
	return controller
}

// Base is where one daemon keeps the groups of its tasks. It is safe for
// concurrent use, for one task by one caller at a time.
type Base struct {
	// group is where tasks with a limit of memory have theirs, shared where the others
	// do: their memory is not told apart, see sharedName.
	group, shared Group
	mkdir         func(string) error // makes one cgroup
	name          string
	// parents are where it is, and where other daemons may have theirs.
	parents []string

	mu sync.Mutex // held while groups are made: a base is whole before it is used
	// delegated are the controllers of version 2 that its groups have; memory is the
	// bound of all of them together in bytes, 0: none.
	delegated []string
	memory    int64
}

// sharedName is where version 2 has the groups of tasks without a limit of memory:
// below it there is no memory controller. The kernel takes pages from one memory cgroup
// after the other, whatever their age, and from those of tasks that have ended like
// from those that run. Of what many tasks read one after the other it then keeps neither
// the newest nor whole files.
const sharedName = "shared"

// Open makes, or finds, the groups of the daemon with the state directory, below
// the cgroups that it is in itself, so that limits on those hold for its tasks.
// Only where version 2 does not let a group with processes have others below it,
// they are made at the top. The error, also beside a Base, says what is missing
// and why; without rights there is no Base.
func Open(stateDir string) (*Base, error) {
	own, err := linux.CgroupDirs(os.Getpid())
	if err != nil {
		return nil, err
	}
	name, err := baseName(stateDir)
	if err != nil {
		return nil, err
	}
	return open(own, name, makeDir)
}

// baseName returns a name made of which directory it is, not of its path: daemons in different
// mount namespaces may have theirs at the same one, and each ends what it finds of
// tasks that it does not know.
func baseName(stateDir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(stateDir, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: stateDir, Err: err}
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%d:%d", st.Dev, st.Ino)
	return fmt.Sprintf("headrace-%08x", h.Sum32()), nil
}

func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func open(own map[string]string, name string, mkdir func(string) error) (*Base, error) {
	b := &Base{mkdir: mkdir, name: name}
	var problems []error
	for hierarchy, dir := range own {
		for _, c := range controllers {
			if hierarchy == "" || !slices.Contains(strings.Split(hierarchy, ","), inVersion1(c)) {
				continue
			}
			b.place(dir)
			to := filepath.Join(dir, name)
			if err := mkdir(to); err != nil {
				problems = append(problems, err)
				continue
			}
			if c == "io" && !weighsIO(to) { // what else it does is not for us
				if !slices.Contains(b.group.Dirs(), to) {
					os.Remove(to)
				}
				continue
			}
			*b.group.field(c) = to
		}
	}
	if dir, ok := own[""]; ok {
		problems = append(problems, b.openUnified(dir, name))
	}
	for _, c := range controllers {
		if *b.group.field(c) == "" && c != "io" { // who asks for a weight is told
			problems = append(problems, fmt.Errorf("no %s", c))
		}
	}
	if b.shared == (Group{}) {
		b.shared = b.group
		b.shared.Memory = ""
	}
	err := errors.Join(problems...)
	if len(b.group.Dirs()) == 0 {
		return nil, fmt.Errorf("tasks get no cgroups of their own: %w", err)
	}
	if err != nil {
		err = fmt.Errorf("cgroups of tasks: %w", err)
	}
	return b, err
}

// openUnified makes the base in version 2, for its freezer and for the controllers
// that version 1 does not have.
func (b *Base) openUnified(own, name string) error {
	var want []string
	for _, c := range controllers {
		if c != "freezer" && *b.group.field(c) == "" && HasController(own, c) {
			want = append(want, c)
		}
	}
	at := own
	if len(want) > 0 && delegate(own, want) != nil {
		at = Top(own)
		if err := delegate(at, want); err != nil {
			at, want = own, nil
		}
	}
	b.place(own)
	b.place(at)
	dir := filepath.Join(at, name)
	if err := b.mkdir(dir); err != nil {
		return err
	}
	if v1 := b.group.Freezer; v1 != "" { // which does not let a kill through
		os.Remove(v1)
	}
	b.group.Freezer = dir
	b.delegated = want
	if err := b.insist(dir, func() error { return delegate(dir, want) }); err != nil {
		b.delegated = nil
		return err
	}
	for _, c := range want {
		*b.group.field(c) = dir
	}
	if b.group.Memory != dir {
		return nil
	}
	shared := filepath.Join(dir, sharedName)
	if err := b.insist(dir, func() error { return b.makeShared(shared) }); err != nil {
		return err
	}
	b.shared = b.group
	b.shared.Memory = ""
	for _, c := range controllers {
		if at := b.shared.field(c); *at == dir {
			*at = shared
		}
	}
	return nil
}

// makeShared makes the directory below which version 2 has no memory controller.
func (b *Base) makeShared(dir string) error {
	if err := b.mkdir(dir); err != nil {
		return err
	}
	return delegate(dir, slices.DeleteFunc(slices.Clone(b.delegated), func(c string) bool { return c == "memory" }))
}

func (b *Base) place(parent string) {
	if !slices.Contains(b.parents, parent) {
		b.parents = append(b.parents, parent)
	}
}

// sweepsAtOnce bounds how often the base is made again in one go: each time another
// daemon must have started in the moment between.
const sweepsAtOnce = 20

// insist does something in a directory of the base, which it makes again if another
// daemon has swept it, empty as it was.
func (b *Base) insist(base string, do func() error) error {
	err := do()
	for try := 0; swept(err) && try < sweepsAtOnce; try++ {
		if err = b.remake(base); err == nil {
			err = do()
		}
	}
	return err
}

// swept reports whether an error is that a cgroup is not there any more, or is just
// being removed.
func swept(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// remake makes a directory of the base as it was.
func (b *Base) remake(base string) error {
	if base != b.group.Freezer && base == b.shared.Freezer {
		if err := b.remake(b.group.Freezer); err != nil {
			return err
		}
		return b.makeShared(base)
	}
	if err := b.mkdir(base); err != nil {
		return err
	}
	if base == b.group.Freezer && len(b.delegated) > 0 {
		if err := delegate(base, b.delegated); err != nil {
			return err
		}
	}
	if base == b.group.Memory && b.memory > 0 {
		return LimitMemory(base, b.memory)
	}
	return nil
}

// delegate lets groups below a directory use controllers.
func delegate(dir string, want []string) error {
	if len(want) == 0 {
		return nil
	}
	return Write(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(want, " +"))
}

// HasController reports whether a group of version 2 has a controller.
func HasController(dir, controller string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(b)), controller)
}

// Top returns the root of the hierarchy of version 2, as far as it is seen here.
func Top(dir string) string {
	for {
		up := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(up, "cgroup.controllers")); err != nil || up == dir {
			return dir
		}
		dir = up
	}
}

// LimitMemory bounds the memory of all tasks together, in bytes; 0: no more.
func (b *Base) LimitMemory(bytes int64) error {
	if b.group.Memory == "" {
		return errors.New("there is no memory cgroup")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.memory = bytes
	return b.insist(b.group.Memory, func() error { return LimitMemory(b.group.Memory, bytes) })
}

// Limits are what a task may use; zero is no limit.
type Limits struct {
	// Memory is in bytes, page cache included and swap not.
	Memory int64
	// CPUs is a share of the processors in proportion to that of others, for when
	// there are not enough.
	CPUs float64
	// PIDs is how many processes and threads there may be.
	PIDs int64
	// IOWeight is a share of the disks in proportion to that of others, from 1 to
	// 10000; 0: DefaultIOWeight, which is what the kernel gives by itself.
	IOWeight int
}

// DefaultIOWeight is the I/O weight of a group to which nobody has given one.
const DefaultIOWeight = 100

// Make makes a group for a task, or finds it. It is one for memory, too, if that is
// limited, for the task or for all together. Where the task is in a cgroup that
// somebody else has chosen (foreign), it gets none in that hierarchy. The error,
// also beside a group, says what could not be had. Without a Base there is no group.
func (b *Base) Make(name string, limits Limits, foreign []string) (Group, error) {
	if b == nil {
		return Group{}, Group{}.limit(limits)
	}
	taken := map[uint64]bool{}
	for _, dir := range foreign {
		taken[device(dir)] = true
	}
	g, problems := b.makeDirs(name, limits, taken)
	return g, errors.Join(append(problems, g.limit(limits))...)
}

// makeDirs makes the directories of a group in all hierarchies but those taken.
func (b *Base) makeDirs(name string, limits Limits, taken map[uint64]bool) (g Group, problems []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.shared
	if limits.Memory > 0 || b.memory > 0 {
		in = b.group
	}
	for _, c := range controllers {
		base := *in.field(c)
		if base == "" || taken[device(filepath.Dir(base))] { // of the same hierarchy, and always there
			continue
		}
		dir := filepath.Join(base, name)
		if err := b.insist(base, func() error { return b.mkdir(dir) }); err != nil {
			problems = append(problems, err)
			continue
		}
		*g.field(c) = dir
	}
	return g, problems
}

// device tells hierarchies apart.
func device(dir string) uint64 {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0
	}
	return uint64(st.Dev)
}

// dirs returns the directories of the base, those below others first.
func (b *Base) dirs() []string {
	dirs := append(b.group.Dirs(), b.shared.Dirs()...)
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	slices.Reverse(dirs)
	return dirs
}

// Names returns the tasks that have a group.
func (b *Base) Names() []string {
	var names []string
	dirs := b.dirs()
	for _, base := range dirs {
		entries, err := os.ReadDir(base)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(dirs, filepath.Join(base, e.Name())) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Find returns the group of a task as far as there is one.
func (b *Base) Find(name string) Group {
	below := func(g Group) Group {
		for _, c := range controllers {
			if dir := g.field(c); *dir != "" {
				*dir = filepath.Join(*dir, name)
			}
		}
		return g.Present()
	}
	g, shared := below(b.group), below(b.shared)
	for _, c := range controllers {
		if dir := g.field(c); *dir == "" {
			*dir = *shared.field(c)
		}
	}
	return g
}

// Remains ends and removes the groups of all tasks that are not known any more.
func (b *Base) Remains(known func(name string) bool) error {
	var problems []error
	for _, name := range b.Names() {
		if !known(name) {
			g := b.Find(name)
			problems = append(problems, g.Kill(), g.Remove())
		}
	}
	return errors.Join(problems...)
}

// Sweep removes what daemons have left that were killed and whose state directories
// are gone: bases beside this one in which there is nothing. The kernel refuses to
// remove others. A daemon that has no task just now makes its own again.
func (b *Base) Sweep() {
	for _, parent := range b.parents {
		entries, err := os.ReadDir(parent)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != b.name && isBase(e.Name()) {
				unix.Rmdir(filepath.Join(parent, e.Name(), sharedName))
				unix.Rmdir(filepath.Join(parent, e.Name())) // in use, or not ours to remove
			}
		}
	}
}

// isBase reports whether a name is one of baseName.
func isBase(name string) bool {
	hash, ok := strings.CutPrefix(name, "headrace-")
	_, err := strconv.ParseUint(hash, 16, 32)
	return ok && err == nil && len(hash) == 8
}

// Close removes the groups of the daemon unless tasks still have some.
func (b *Base) Close() {
	if b == nil {
		return
	}
	for _, dir := range b.dirs() {
		os.Remove(dir) // the next daemon on the state directory finds what stays
	}
}
