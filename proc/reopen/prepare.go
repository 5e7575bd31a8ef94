package reopen

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	img "headrace/internal/criu/image"
	"headrace/internal/linux"
	"headrace/internal/vfs"
)

// Options say how the files of a task are opened for its restore.
type Options struct {
	// User is whom the task's processes run as.
	User linux.Credentials
	// InitPID is the root of the tree, which is Headrace's own and root's.
	InitPID int
	// Record is what the files were; nil: the checkpoint has none. Then only the
	// files of root's own tasks are opened, as CRIU does it.
	Record *Record
	// SameBoot: the machine has not been restarted since the dump.
	SameBoot bool
	// Moved: the dump was made on another machine, where the same files have other
	// inodes. The user must then have the rights to open them so.
	Moved bool
	// MadeAgain are paths at which the caller may have put files of the user's in
	// the place of others.
	MadeAgain []string
	// Groups are the task's cgroups at the dump, with those that it has now in their place.
	// They are made anew: what is in them may be another file of the same name.
	Groups map[string]string
	// Own are directories of the task, closed to its user; they are opened as root.
	Own []string
	// Disk names a directory, which must not exist, in a directory that only root can
	// enter: deleted files are made in it. Set-user-id bits must not count there: they may not
	// have where the files were. Memory names the same in memory, for files that were there.
	Disk, Memory func() (string, error)
}

// other reports whether the task is of another user than the daemon's.
func (o Options) other() bool { return o.User.UID != 0 }

// Opened are the files that a restore is to open. They must stay open until it is
// over. A nil one has none.
type Opened struct {
	files   []int
	paths   []*path // what they are of
	threads map[int]int
	bound   []bound // what Bind does, and those of the task that share a port with them
	sharing []sharer
	options Options
	// Where deleted files are made.
	onDisk, inMemory room
	// toMake is how many bytes deleted files hold that are made on disk, by their numbers.
	toMake map[uint64]int64

	rehearsal bool // nothing is made, and nothing stays open
}

// Rehearse opens the files that a dumped tree has, which still stands as it was
// dumped, as a restore of the images in the directory would. What a restore would
// refuse is so found out before the tree is ended.
func Rehearse(dir string, o Options) error {
	t, err := scan(dir)
	if err != nil {
		return fmt.Errorf("read the images: %w", err)
	}
	h := &Opened{rehearsal: true}
	err = h.openAll(t, o)
	return errors.Join(err, h.Close())
}

// Prepare opens the files of the images in a directory, compares them with the
// record, and makes the images say that CRIU is to open what is open here. It
// must be called by the process that is number 1 where CRIU runs, and that runs
// CRIU. Errors are reasons not to restore; everything is closed then.
func Prepare(d *img.Dir, o Options) (*Opened, error) {
	t, err := scan(d.Path())
	if err != nil {
		return nil, fmt.Errorf("read the images: %w", err)
	}
	if o.Record == nil {
		if o.other() {
			return nil, errors.New("the checkpoint does not say which files the task had open, because an older Headrace has made it: they cannot be opened safely for another user than root")
		}
		return nil, nil
	}
	h := &Opened{options: o, threads: t.threads}
	err = h.openAll(t, o)
	if err == nil {
		h.bound, h.sharing, err = t.unbind()
	}
	if err == nil {
		err = h.tryPorts(o.User)
	}
	if err == nil {
		err = d.Replace(filesImage, t.files)
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Close closes the files, and removes what is left of deleted ones.
func (h *Opened) Close() error {
	if h == nil {
		return nil
	}
	var errs []error
	for _, fd := range h.files {
		errs = append(errs, unix.Close(fd))
	}
	errs = append(errs, h.onDisk.remove(), h.inMemory.remove())
	h.files = nil
	return errors.Join(errs...)
}

// Explain puts true paths into what CRIU has said about files.
func (h *Opened) Explain(said string) string {
	if h == nil {
		return said
	}
	// Longer numbers first: 12 begins with 1.
	for _, i := range slices.Backward(h.sorted()) {
		link := selfLink(h.files[i])[1:]
		said = strings.ReplaceAll(said, "/"+link, h.paths[i].name)
		said = strings.ReplaceAll(said, link, h.paths[i].name)
	}
	return said
}

func (h *Opened) sorted() []int {
	order := make([]int, len(h.files))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return h.files[a] - h.files[b] })
	return order
}

// selfLink returns what leads to a descriptor of this process, for CRIU too.
func selfLink(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }

func (h *Opened) openAll(t *tree, o Options) error {
	var asUser, asRoot []*path
	for _, p := range t.paths {
		if o.other() && !p.only(o.InitPID) && moreToRoot(o.Record.Files[p.id], p.name, p.access(), t.ofTask(p)) {
			return &Refusal{Path: p.name, Advice: "close it before a checkpoint", err: ErrMoreToRoot}
		}
		switch {
		case t.ofTask(p), p.ofTerminal():
		case p.remap == img.RemapGhost:
			if err := h.divert(t, p, o); err != nil {
				return err
			}
		case p.remap == img.RemapLinked, len(p.uses) == 0 && !o.other():
			// Names that CRIU has given to files of root's own task.
			if o.other() {
				return refuse(p.name, "it was deleted under this name, and has another one that is not known", "")
			}
		case p.only(o.InitPID) || o.own(p.name):
			asRoot = append(asRoot, p)
		default:
			asUser = append(asUser, p)
		}
	}
	if err := h.checkRoom(); err != nil {
		return err
	}
	if err := h.openEach(t, asRoot, o); err != nil {
		return err
	}
	if err := linux.AsUser(o.User, func() error { return h.openEach(t, asUser, o) }); err != nil {
		return err
	}
	return h.openAsRoot(o)
}

// own reports whether a path is below one of the task's own directories.
func (o Options) own(path string) bool {
	return slices.ContainsFunc(o.Own, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

func (h *Opened) openEach(t *tree, list []*path, o Options) error {
	for _, p := range list {
		fd, err := o.open(p)
		if err != nil && h.rehearsal && o.isGone(p) { // who restores puts it back before
			continue
		}
		if err != nil {
			return err
		}
		if h.rehearsal && !o.remote(p) {
			unix.Close(fd)
			continue
		}
		h.files, h.paths = append(h.files, fd), append(h.paths, p)
		// The new path is a link, and the file behind it has been checked.
		if err := t.rename(p, selfLink(fd), p.flags&^unix.O_NOFOLLOW); err != nil {
			return err
		}
	}
	return nil
}

// group returns the cgroup of now in place of that which a path is in; empty: it is in none.
func (o Options) group(path string) string { return o.Groups[filepath.Dir(path)] }

// isGone reports whether a path that may be made again is not there.
func (o Options) isGone(p *path) bool {
	_, err := os.Lstat(p.name)
	return errors.Is(err, os.ErrNotExist) && slices.Contains(o.MadeAgain, p.name)
}

// open opens what is at a path now, if that is what the task had.
func (o Options) open(p *path) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	at := p.name
	if g := o.group(at); g != "" {
		at = filepath.Join(g, filepath.Base(at))
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, at, &how)
	if errors.Is(err, unix.ENOENT) {
		if instead := o.instead(p); instead != "" {
			fd, err = unix.Openat2(unix.AT_FDCWD, instead, &how)
		}
	}
	if err != nil {
		return -1, o.cannotOpen(p, err)
	}
	if why := o.check(p, fd); why != "" {
		unix.Close(fd)
		return -1, refuse(p.name, why, "put it back as it was, or let the task start from the beginning")
	}
	return fd, nil
}

// instead returns the file of the task's cgroup of now that stands for one of a cgroup that is gone; empty: there is none. A program
// that looks up its limits when it starts, as those written in Go do, may have found those of the daemon, out of whose cgroup a task is moved.
func (o Options) instead(p *path) string {
	then := o.Record.Files[p.id]
	if then.FS != unix.CGROUP_SUPER_MAGIC && then.FS != unix.CGROUP2_SUPER_MAGIC {
		return ""
	}
	for _, group := range slices.Sorted(maps.Values(o.Groups)) {
		at := filepath.Join(group, filepath.Base(p.name))
		if now, err := identifyPath(at); err == nil && (now.Dev == then.Dev || o.Moved || !o.SameBoot) { // of the same hierarchy, where that can be known
			return at
		}
	}
	return ""
}

func (o Options) cannotOpen(p *path, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return refuse(p.name, "it is not there any more", "put it back, or let the task start from the beginning")
	case errors.Is(err, unix.ELOOP):
		return refuse(p.name, "there is a symbolic link in its path now", "put the directories back as they were, or let the task start from the beginning")
	case errors.Is(err, unix.EACCES):
		return refuse(p.name, fmt.Sprintf("user %d may not reach it any more", o.User.UID), "")
	}
	return refuse(p.name, err.Error(), "")
}

// check says why an open file is not what the task had; empty: it is.
func (o Options) check(p *path, fd int) string {
	now, err := linux.IdentifyFile(fd)
	if err != nil {
		return err.Error()
	}
	then, known := o.Record.Files[p.id]
	if !known {
		return "the checkpoint does not say which file it was"
	}
	another := o.Moved || slices.Contains(o.MadeAgain, p.name) || o.group(p.name) != ""
	if another {
		// Another file in its place, so the user's rights decide.
		then.Dev, then.Inode, then.FS, then.Handle, then.Birth = now.Dev, now.Inode, now.FS, nil, 0
		if o.Moved {
			then.UID = now.UID
		}
	}
	if why := then.Differs(now, o.SameBoot); why != "" {
		return why
	}
	if !o.other() || p.only(o.InitPID) || o.own(p.name) || !another && !then.Weak() {
		return ""
	}
	return o.mayHave(p, fd)
}

// mayHave asks the kernel, in a thread that has the user's rights, whether the
// user may have the file as the task has it.
func (o Options) mayHave(p *path, fd int) string {
	need := p.access()
	if need == 0 {
		return ""
	}
	if err := unix.Faccessat2(fd, "", need, unix.AT_EMPTY_PATH|unix.AT_EACCESS); err != nil {
		return fmt.Sprintf("user %d may not open it as the task had it: %v", o.User.UID, err)
	}
	return ""
}

// divert has a deleted file made where only root can interfere, under its own
// name.
func (h *Opened) divert(t *tree, p *path, o Options) error {
	if h.rehearsal {
		return nil
	}
	room, where := &h.onDisk, o.Disk
	if o.Record.Files[p.id].FS == unix.TMPFS_MAGIC && o.Memory != nil {
		room, where = &h.inMemory, o.Memory
	}
	if room == &h.onDisk {
		if err := h.count(t, p); err != nil {
			return err
		}
	}
	dir, err := room.sub(where, strconv.FormatUint(p.id, 10))
	if err != nil {
		return fmt.Errorf("make room for deleted files: %w", err)
	}
	return t.rename(p, filepath.Join(dir, filepath.Base(p.name)), p.flags)
}

// ErrNoRoom: there is no room for the deleted files that the task had open.
var ErrNoRoom = errors.New("no room for deleted files")

// count counts what is in the image of a deleted file.
func (h *Opened) count(t *tree, p *path) error {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(t.dir, fmt.Sprintf("ghost-file-%x.img", p.remapID)), &st); err != nil {
		return fmt.Errorf("read the images: %s, which was deleted: %w", p.name, err)
	}
	if h.toMake == nil {
		h.toMake = make(map[uint64]int64)
	}
	h.toMake[p.remapID] = st.Blocks * 512
	return nil
}

// freely is how many bytes of deleted files are made wherever there is room at all: many programs have a small one.
const freely = 1 << 20

// checkRoom returns ErrNoRoom where CRIU would take room from others. It asks nobody, and writes as root to the last byte.
func (h *Opened) checkRoom() error {
	var need int64
	for _, n := range h.toMake {
		need += n
	}
	if need <= freely {
		return nil
	}
	free, err := vfs.SpareSpace(string(h.onDisk)) // it has the state of all tasks
	if err != nil {
		return err
	}
	if need > free {
		return fmt.Errorf("%w that the task had open: they hold %d bytes, and %s may get %d more; make room on its file system", ErrNoRoom, need, filepath.Dir(string(h.onDisk)), free)
	}
	return nil
}

// A room is a directory for deleted files; empty until it is needed.
type room string

// sub makes a directory in it, and first the room itself.
func (r *room) sub(where func() (string, error), name string) (string, error) {
	if *r == "" {
		dir, err := where()
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err != nil {
			return "", err
		}
		*r = room(dir)
	}
	dir := filepath.Join(string(*r), name)
	return dir, os.Mkdir(dir, 0o700)
}

func (r room) remove() error {
	if r == "" {
		return nil
	}
	return os.RemoveAll(string(r))
}

// rename makes CRIU open another path for an entry, with flags.
func (t *tree) rename(p *path, to string, flags uint64) error {
	e := t.files.Entries[p.entry]
	reg, err := e.Message(img.FileReg)
	if err != nil {
		return err
	}
	reg = reg.SetBytes(img.RegName, []byte(to)).SetUint(img.RegFlags, flags)
	t.files.Entries[p.entry] = e.SetMessage(img.FileReg, reg)
	return nil
}

// A Refusal says that a file is not what the task had open.
type Refusal struct {
	Path, Reason, Advice string

	err error // in place of a reason
}

// Unwrap returns ErrMoreToRoot if it is that, else nil.
func (r *Refusal) Unwrap() error { return r.err }

func (r *Refusal) Error() string {
	reason := r.Reason
	if r.err != nil {
		reason = r.err.Error()
	}
	s := fmt.Sprintf("%s, which the task had open: %s", r.Path, reason)
	if r.Advice != "" {
		s += "; " + r.Advice
	}
	return s
}

func refuse(path, reason, advice string) error {
	return &Refusal{Path: path, Reason: reason, Advice: advice}
}
