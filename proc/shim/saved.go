package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/needs"
	"headrace/proc/reopen"
	"headrace/proc/supplement"
)

// saved is what a checkpoint carries besides CRIU's images: the supervisor's own
// knowledge of the task.
type saved struct {
	Version int    `json:"version"`
	BootID  string `json:"boot_id"`
	InitPID int    `json:"init_pid"`
	// Asked is proc.CheckpointOptions.Asked; 0: there was none, or an older Headrace made the checkpoint.
	Asked time.Duration `json:"asked,omitempty"`
	// IDs are all process, thread, group and session ids in the images; a restore
	// needs them free.
	IDs         []int      `json:"ids"`
	SelfStopped []int      `json:"self_stopped,omitempty"`
	Usage       proc.Usage `json:"usage"`
	// Pipes are CRIU's names of the standard streams that are pipes from outside;
	// empty for those that are not.
	Pipes [3]string `json:"pipes"`
	// Files are the regular files that were open for writing, or mapped for it.
	Files []openFile `json:"files"`
	// CommandGroup is the command's process group; 0: unknown.
	CommandGroup int `json:"command_group,omitempty"`
	// CommandExit is how the command had ended when the task was dumped, in the last
	// moments of init; empty: it had not.
	CommandExit json.RawMessage `json:"command_exit,omitempty"`
	// TaskDir is the task's directory as its processes know it.
	TaskDir string `json:"task_dir,omitempty"`
	// Group is the task's own cgroup, Cgroups are others that it was put in.
	Group   cgroup.Group `json:"group,omitzero"`
	Cgroups []string     `json:"cgroups,omitempty"`
	// Needs are of an attached task, which may go on on another machine.
	Needs *needs.Files `json:"needs,omitempty"`
	// PerfData are the counters of Java virtual machines.
	PerfData []perfData `json:"perf_data,omitempty"`
	// Supplement is what CRIU's images lack.
	Supplement supplement.Record `json:"supplement"`
	// Processor are the extensions of the processor that it ran on.
	Processor []string `json:"processor,omitempty"`
	// Opened says which files were open; nil: an older Headrace made the checkpoint.
	Opened *reopen.Record `json:"opened,omitempty"`
}

// savedVersion is raised with everything that a restore must not pass over. 2: options of sockets and groups that they are in.
const savedVersion = 2

// openFile is a file as it was at the checkpoint.
type openFile struct {
	Path string `json:"path"`
	// An older Headrace has noted its device and its inode only.
	linux.FileIdentity
	// Mount is where what it is on was mounted; empty: an older Headrace did not say.
	Mount string    `json:"mount,omitempty"`
	Size  int64     `json:"size"`
	MTime time.Time `json:"mtime"`
	// Log is standard output or error: what was written since can be cut off. Own: it
	// is in the task's directory, where its user can put nothing else in its place.
	Log bool `json:"log,omitempty"`
	Own bool `json:"own,omitempty"`

	// fd is a descriptor of it, of a process that is being dumped; or mapped leads to it, where none has it open any more.
	fd     linux.Descriptor
	mapped string
}

// describe collects what the supervisor knows of the task.
func (t *task) describe() (saved, error) {
	st, err := t.stats()
	if err != nil {
		return saved{}, err
	}
	boot, err := linux.BootID()
	if err != nil {
		return saved{}, err
	}
	cpu, err := procs.Processor()
	if err != nil {
		return saved{}, err
	}
	pipes, err := t.stdio.names()
	if err != nil {
		return saved{}, err
	}
	_, group := t.life.command()
	spec := t.life.spec()
	return saved{Version: savedVersion, BootID: boot, InitPID: t.processes.init(), Usage: st.Usage, Pipes: pipes,
		CommandGroup: group, TaskDir: t.home.knownAs, SelfStopped: slices.Collect(maps.Keys(t.stops.own)),
		Group: spec.Own, Cgroups: spec.Cgroups, Processor: cpu.Flags}, nil
}

// observe adds what is seen of a tree that stands still.
func (sv *saved) observe(tree []linux.Stat, j dumpJob) error {
	mounts, err := procs.Mounts("self")
	if err != nil {
		return err
	}
	ids, files := make(map[int]bool), make(map[[2]uint64]openFile)
	for _, p := range tree {
		ids[p.PID], ids[p.PGID], ids[p.SID] = true, true, true
		err := procs.ThreadStates(p.PID, func(tid int, _ byte) bool { ids[tid] = true; return true })
		if err == nil {
			err = filesForWriting(p.PID, mounts, files)
		}
		if err != nil && !linux.Gone(err) {
			return err
		}
	}
	markLogs(files, j.Dir, j.Logs)
	sv.IDs = slices.Sorted(maps.Keys(ids))
	sv.Files = slices.SortedFunc(maps.Values(files), func(a, b openFile) int { return strings.Compare(a.Path, b.Path) })
	if sv.PerfData, err = perfDataOf(tree); err != nil {
		return err
	}
	if b, err := os.ReadFile(filepath.Join(j.Dir, commandExit)); err == nil && json.Valid(b) {
		sv.CommandExit = b
	}
	if j.Attached {
		if err := sv.describeNeeds(tree); err != nil { // then it can be restored here only
			fmt.Fprintf(os.Stderr, "find out what the task needs on another machine: %v\n", err)
		}
	}
	sv.Supplement, err = supplement.Take(tree)
	return err
}

// groups returns the cgroups of now by those of the checkpoint. Programs read in them how
// much they may have, a Java virtual machine again and again.
func (sv *saved) groups(now proc.Spec) map[string]string {
	groups := sv.Group.Replaced(now.Own)
	for _, was := range sv.Cgroups {
		for _, is := range now.Cgroups {
			if filepath.Dir(is) == filepath.Dir(was) { // of the same hierarchy, on machines that are set up alike
				groups[was] = is
			}
		}
	}
	return groups
}

// runsHere returns why the programs cannot go on with this processor: they have found another one, and what it can do, and may use that at
// any time. What is in its registers may not even fit here.
func (sv *saved) runsHere(fs linux.ProcFS) error {
	cpu, err := fs.Processor()
	if err != nil {
		return err
	}
	if missing := cpu.Lacks(sv.Processor); len(missing) > 0 {
		return fmt.Errorf("the processor has not what that of the checkpoint had (%s): restore it on one that has, or let the task start from the beginning", strings.Join(missing, " "))
	}
	return nil
}

// filesForWriting adds the regular files that a process has open for writing, or writes to through a mapping alone: most programs close
// what they have mapped. What is in files without a name CRIU keeps.
func filesForWriting(pid int, mounts []linux.Mount, to map[[2]uint64]openFile) error {
	open, err := procs.Descriptors(pid)
	if err != nil {
		return err
	}
	for _, d := range open {
		link := fmt.Sprintf("/proc/%d/fd/%d", pid, d.FD)
		var st unix.Stat_t
		if unix.Stat(link, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if writing, err := procs.ForWriting(d); err != nil || !writing {
			continue
		}
		if err := addFile(openFile{Path: d.Target, fd: d}, link, st, mounts, to); err != nil {
			return err
		}
	}
	for m, err := range procs.Maps(pid) {
		if err != nil {
			return err
		}
		link := procs.Mapped(pid, m)
		var st unix.Stat_t
		if !m.Writable() || !m.Shared() || m.Inode == 0 || isPerfData(m) || unix.Stat(link, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink == 0 {
			continue
		}
		if err := addFile(openFile{Path: m.Path, mapped: link}, link, st, mounts, to); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file that a link leads to, unless it is there.
func addFile(as openFile, link string, st unix.Stat_t, mounts []linux.Mount, to map[[2]uint64]openFile) error {
	key := [2]uint64{uint64(st.Dev), st.Ino}
	if _, ok := to[key]; ok {
		return nil
	}
	f, err := lookAt(link)
	if linux.Gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", as.Path, err)
	}
	f.Path, f.Mount, f.fd, f.mapped = as.Path, mountOf(as.Path, mounts), as.fd, as.mapped
	to[key] = f
	return nil
}

// lookAt looks at the file that a link leads to.
func lookAt(link string) (openFile, error) {
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return openFile{}, err
	}
	defer unix.Close(fd)
	return fileOf(fd)
}

// fileOf looks at an open file.
func fileOf(fd int) (f openFile, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return f, err
	}
	f.Size, f.MTime = st.Size, time.Unix(st.Mtim.Unix())
	f.FileIdentity, err = linux.IdentifyFile(fd)
	return f, err
}

// mountOf returns where what a path is on is mounted. An automounter is none: it is there
// before and after.
func mountOf(path string, mounts []linux.Mount) (point string) {
	for _, m := range mounts {
		below := strings.TrimSuffix(m.Point, "/") + "/"
		if m.Type != "autofs" && len(m.Point) > len(point) && strings.HasPrefix(path, below) {
			point = m.Point
		}
	}
	return point
}

// syncFiles makes durable what the task has written to the files that it has
// open, or mapped: CRIU keeps no page of those. A task that is restored after a power failure would otherwise go on
// behind output that is gone: CRIU does not check the size of a file that is
// open for appending.
func (sv saved) syncFiles() error {
	for _, f := range sv.Files {
		if err := f.sync(); err != nil {
			return fmt.Errorf("make the task's files durable: %s: %w", f.Path, err)
		}
	}
	return nil
}

// sync makes durable what was written to the file. It uses the descriptor, or the mapping,
// itself, since the path may be the user's to change. Files of the kernel's, as
// below /proc, cannot be synced and need not be.
func (f openFile) sync() error {
	fd, err := f.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil && err != unix.EINVAL && err != unix.EROFS {
		return os.NewSyscallError("fsync", err)
	}
	return nil
}

func (f openFile) open() (fd int, err error) {
	if f.mapped == "" {
		return f.fd.Duplicate()
	}
	if fd, err = unix.Open(f.mapped, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return -1, &os.PathError{Op: "open", Path: f.mapped, Err: err}
	}
	return fd, nil
}

// markLogs marks the task's logs, which are its own if they are in its directory.
func markLogs(files map[[2]uint64]openFile, dir string, logs []string) {
	for _, path := range logs {
		own := !filepath.IsAbs(path)
		if own {
			path = filepath.Join(dir, path)
		}
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			continue
		}
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if f, ok := files[key]; ok {
			f.Log, f.Own = true, own
			files[key] = f
		}
	}
}

// Knows returns checkpoint.ErrVersion if this program does not know the version of a checkpoint's own record (Portable.Version).
func Knows(version int) error {
	if version > savedVersion {
		return fmt.Errorf("%w: its own record has version %d, this program knows %d", checkpoint.ErrVersion, version, savedVersion)
	}
	return nil
}

func parseSaved(b []byte) (saved, error) {
	var sv saved
	if err := json.Unmarshal(b, &sv); err != nil {
		return sv, fmt.Errorf("the checkpoint's own record: %w", err)
	}
	if err := Knows(sv.Version); err != nil {
		return sv, err
	}
	if sv.Version < 1 {
		return sv, errors.New("the checkpoint's own record has no version")
	}
	if sv.InitPID < 2 {
		return sv, errors.New("the checkpoint's own record names no root process")
	}
	return sv, nil
}

// errChanged: a file of the task is not any more what it was at the checkpoint, which can
// therefore not be used.
var errChanged = errors.New("has changed since the checkpoint")

// rewind puts the files of a task that has run on after the checkpoint back to
// what they were. Only its logs can be cut; if anything else that it had open
// for writing has changed, which is errChanged, the checkpoint must not be used, for the
// task would write twice what it has written once. Other errors say that a file cannot be
// looked at now: what it is on may not be mounted yet.
func (sv saved) rewind(spec proc.Spec) error {
	boot, err := linux.BootID()
	if err != nil {
		return err
	}
	sameBoot := boot == sv.BootID
	for _, f := range sv.Files {
		if f.Log {
			continue
		}
		// It is the user's to say what stands there now.
		if err := spec.As(func() error { return f.check(sameBoot) }); err != nil {
			return fmt.Errorf("%s, which the task was writing: %w", f.Path, err)
		}
	}
	for _, f := range sv.Files {
		if f.Log {
			as := spec.As
			if f.Own {
				as = func(cut func() error) error { return cut() }
			}
			if err := as(func() error { return f.cut(sameBoot, spec.SharedOutput && !f.Own) }); err != nil {
				return fmt.Errorf("log %s: %w", f.Path, err)
			}
		}
	}
	return nil
}

// check compares the file with what is at its path now.
func (f openFile) check(sameBoot bool) error {
	fd, _, err := linux.Lookup(f.Path, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return f.missing(err)
	}
	defer unix.Close(fd)
	now, err := fileOf(fd)
	if err == nil && (f.differs(now, sameBoot) || now.Size != f.Size || !now.MTime.Equal(f.MTime)) {
		err = errChanged
	}
	return err
}

// differs reports whether another file is there now.
func (f openFile) differs(now openFile, sameBoot bool) bool {
	then := f.FileIdentity
	if then.Type == 0 {
		then.Type, then.UID, then.FS = now.Type, now.UID, now.FS
	}
	return then.Differs(now.FileIdentity, sameBoot) != ""
}

// missing returns what it means that the file cannot be found: errChanged, where it is
// certain that it is not there any more.
func (f openFile) missing(err error) error {
	certain := errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EINVAL) || errors.Is(err, linux.ErrKernelFile) // something else is there
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		mounts, merr := procs.Mounts("self")
		certain = merr == nil && (f.Mount == "" || f.Mount == mountOf(f.Path, mounts))
	}
	if certain {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return fmt.Errorf("cannot be looked at: %w", err)
}

// cut shortens a log to its size at the checkpoint, unless others write to it, with the rights of this thread,
// which should be the user's: the path may be the user's to change, and the inode of
// a file that was removed becomes that of another. The file is checked after it is
// open.
func (f openFile) cut(sameBoot, shared bool) error {
	file, err := linux.OpenRegularFor(f.Path, os.O_WRONLY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return f.missing(err)
	}
	defer file.Close()
	now, err := fileOf(int(file.Fd()))
	if err != nil {
		return err
	}
	if f.differs(now, sameBoot) || now.Size < f.Size {
		return errChanged
	}
	if shared {
		return nil // what the task writes again stands there twice
	}
	return file.Truncate(f.Size)
}
