package reopen

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"google.golang.org/protobuf/encoding/protowire"

	img "headrace/internal/criu/image"
)

type fieldNumber = protowire.Number

const filesImage = "files.img"

// tree is what the images of a dump say of files.
type tree struct {
	dir     string
	files   *img.File
	paths   []*path          // what is opened by its path, in the order of files.img
	byID    map[uint64]*path // the same by their ids
	sockets []*socket        // in the order of files.img
	socket  map[uint64]*socket
	alias   map[uint64]uint64 // pipes with names and terminals: the id of what has their path
	pids    []int
	threads map[int]int // process of each thread
}

// path is an entry of files.img that CRIU opens by its path.
type path struct {
	entry int // in files.img
	id    uint64
	name  string
	flags uint64
	mode  uint64
	uses  []use
	// remap is how the file is made first, where its path does not lead to it; -1: it
	// is not.
	remap    int
	remapID  uint64
	terminal bool // it is a terminal's
	fifo     bool
}

// use is one way in which a process has a file.
type use struct {
	pid int
	// link is what leads to the file below /proc/PID.
	link string
	// access is unix.R_OK and so on: the rights that were needed to have it so.
	access uint32
}

// scan reads the images in a directory.
func scan(dir string) (*tree, error) {
	t := &tree{dir: dir, byID: map[uint64]*path{}, socket: map[uint64]*socket{}, alias: map[uint64]uint64{}, threads: map[int]int{}}
	for _, step := range []func() error{t.readFiles, t.readRemaps, t.readTree, t.readUses} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) read(name string) (*img.File, error) { return img.Read(filepath.Join(t.dir, name)) }

func (t *tree) readFiles() error {
	f, err := t.read(filesImage)
	if err != nil {
		return err
	}
	t.files = f
	for i, e := range f.Entries {
		id, _ := e.Uint(img.FileID)
		switch kind, _ := e.Uint(img.FileType); kind {
		case img.TypeReg:
			reg, err := e.Message(img.FileReg)
			if err != nil {
				return fmt.Errorf("%s: %w", filesImage, err)
			}
			name, _ := reg.Bytes(img.RegName)
			p := &path{entry: i, id: id, name: string(name), remap: -1}
			p.flags, _ = reg.Uint(img.RegFlags)
			p.mode, _ = reg.Uint(img.RegMode)
			t.paths, t.byID[id] = append(t.paths, p), p
		case img.TypeInet, img.TypeUnix:
			s := &socket{entry: i, kind: kind}
			t.sockets, t.socket[id] = append(t.sockets, s), s
		case img.TypeFifo:
			err = t.readAlias(e, img.FileFifo, img.FifoRegID)
		case img.TypeTTY:
			err = t.readAlias(e, img.FileTTY, img.TTYRegID)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filesImage, err)
		}
	}
	return nil
}

func (t *tree) readAlias(e img.Message, field, idField fieldNumber) error {
	m, err := e.Message(field)
	if err != nil {
		return err
	}
	id, _ := e.Uint(img.FileID)
	if to, ok := m.Uint(idField); ok {
		t.alias[id] = to
	}
	return nil
}

// readIfThere reads the entries of an image that a dump has only if it needs it.
func (t *tree) readIfThere(name string) ([]img.Message, error) {
	f, err := t.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return f.Entries, nil
}

func (t *tree) readRemaps() error {
	entries, err := t.readIfThere("remap-fpath.img")
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, _ := e.Uint(img.RemapOrigID)
		p := t.byID[id]
		if p == nil {
			return fmt.Errorf("remap-fpath.img: no file has the id %d", id)
		}
		kind, _ := e.Uint(img.RemapType)
		p.remap = int(kind)
		p.remapID, _ = e.Uint(img.RemapID)
	}
	return nil
}

func (t *tree) readTree() error {
	f, err := t.read("pstree.img")
	if err != nil {
		return err
	}
	for _, e := range f.Entries {
		pid, _ := e.Uint(img.PstreePID)
		t.pids = append(t.pids, int(pid))
		threads, err := e.Uints(img.PstreeThread)
		if err != nil {
			return fmt.Errorf("pstree.img: %w", err)
		}
		for _, tid := range append(threads, pid) {
			t.threads[int(tid)] = int(pid)
		}
	}
	return nil
}

// readUses finds out by which descriptors, mappings and so on processes have the
// files. Processes that have ended have no images but that of their end.
func (t *tree) readUses() error {
	tables := map[uint64]bool{} // of descriptors; several processes may share one
	for _, pid := range t.pids {
		for _, read := range []func(int) error{
			func(pid int) error { return t.readDescriptors(pid, tables) }, t.readPlaces, t.readMappings,
		} {
			if err := read(pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, e := range t.files.Entries {
		id, _ := e.Uint(img.FileID)
		p := t.byID[t.alias[id]]
		if p == nil {
			continue
		}
		kind, _ := e.Uint(img.FileType)
		p.terminal, p.fifo = p.terminal || kind == img.TypeTTY, p.fifo || kind == img.TypeFifo
	}
	return nil
}

// use notes a use of the file with an id. Other kinds of descriptors have ids of
// the same range.
func (t *tree) use(id uint64, u use) {
	if to, ok := t.alias[id]; ok {
		id = to
	}
	if p := t.byID[id]; p != nil {
		p.uses = append(p.uses, u)
	}
}

func (t *tree) readDescriptors(pid int, seen map[uint64]bool) error {
	ids, err := t.read(fmt.Sprintf("ids-%d.img", pid))
	if err != nil {
		return err
	}
	if len(ids.Entries) == 0 {
		return fmt.Errorf("ids-%d.img is empty", pid)
	}
	table, _ := ids.Entries[0].Uint(img.IDsFiles)
	if seen[table] {
		return nil
	}
	seen[table] = true
	f, err := t.read(fmt.Sprintf("fdinfo-%d.img", table))
	if err != nil {
		return err
	}
	for _, e := range f.Entries {
		id, _ := e.Uint(img.FdinfoID)
		fd, _ := e.Uint(img.FdinfoFD)
		u := use{pid: pid, link: fmt.Sprintf("fd/%d", fd)}
		if p := t.byID[id]; p != nil {
			u.access = access(p.flags)
		} else {
			u.access = unix.R_OK | unix.W_OK // CRIU opens named pipes for both, to fill them
		}
		t.use(id, u)
		if s := t.socket[id]; s != nil {
			s.at = append(s.at, held{PID: pid, FD: int(fd)})
		}
	}
	return nil
}

// access returns what a descriptor with such flags needed.
func access(flags uint64) uint32 {
	switch {
	case flags&unix.O_PATH != 0:
		return 0
	case flags&unix.O_ACCMODE == unix.O_RDONLY:
		return unix.R_OK
	case flags&unix.O_ACCMODE == unix.O_WRONLY:
		return unix.W_OK
	}
	return unix.R_OK | unix.W_OK
}

// readPlaces reads working directory and root.
func (t *tree) readPlaces(pid int) error {
	f, err := t.read(fmt.Sprintf("fs-%d.img", pid))
	if err != nil {
		return err
	}
	for _, e := range f.Entries {
		cwd, _ := e.Uint(img.FSCwd)
		root, _ := e.Uint(img.FSRoot)
		t.use(cwd, use{pid, "cwd", unix.X_OK})
		t.use(root, use{pid, "root", unix.X_OK})
	}
	return nil
}

func (t *tree) readMappings(pid int) error {
	f, err := t.read(fmt.Sprintf("mm-%d.img", pid))
	if err != nil {
		return err
	}
	for _, e := range f.Entries {
		exe, _ := e.Uint(img.MMExe)
		t.use(exe, use{pid, "exe", unix.X_OK})
		vmas, err := e.Messages(img.MMVMA)
		if err != nil {
			return fmt.Errorf("mm-%d.img: %w", pid, err)
		}
		for _, vma := range vmas {
			status, _ := vma.Uint(img.VMAStatus)
			if status&(img.VMAPrivFile|img.VMAShrdFile) == 0 || status&img.VMAMemfd != 0 {
				continue
			}
			id, _ := vma.Uint(img.VMAShmID)
			start, _ := vma.Uint(img.VMAStart)
			end, _ := vma.Uint(img.VMAEnd)
			flags, _ := vma.Uint(img.VMAFDFlags)
			t.use(id, use{pid, fmt.Sprintf("map_files/%x-%x", start, end), access(flags)})
		}
	}
	return nil
}

// only reports whether only that process has the file.
func (p *path) only(pid int) bool {
	for _, u := range p.uses {
		if u.pid != pid {
			return false
		}
	}
	return len(p.uses) > 0
}

// access returns what all uses together needed.
func (p *path) access() uint32 {
	var a uint32
	for _, u := range p.uses {
		a |= u.access
	}
	if p.fifo {
		a |= unix.R_OK | unix.W_OK
	}
	return a
}

// ofTask reports whether the path is one below /proc of a process of the task. It
// exists only when CRIU has made that process, and nobody else can put anything
// there; what would lead out of /proc is not taken.
func (t *tree) ofTask(p *path) bool {
	pid, parts, ok := processOf(p.name)
	if !ok {
		return false
	}
	if _, known := t.threads[pid]; !known && p.remap != img.RemapProcfs {
		return false
	}
	for i, part := range parts {
		switch part {
		case "cwd", "root", "exe":
			return false
		case "fd", "map_files", "ns":
			if i < len(parts)-1 {
				return false
			}
		}
	}
	return true
}

// processOf returns the number of a process that a path below /proc has, and the path from there on.
func processOf(name string) (pid int, parts []string, ok bool) {
	rest, ok := strings.CutPrefix(name, "/proc/")
	if !ok {
		return 0, nil, false
	}
	parts = strings.Split(rest, "/")
	pid, err := strconv.Atoi(parts[0])
	return pid, parts, err == nil
}

// ofTerminal reports whether the path is that of a terminal which CRIU makes
// anew. The kernel gives these paths, nobody else can. The paths of
// masters and of /dev/tty stay because CRIU looks for the other side beside them.
func (p *path) ofTerminal() bool {
	if p.terminal && (p.name == "/dev/ptmx" || p.name == "/dev/tty") {
		return true
	}
	index, ok := strings.CutPrefix(p.name, "/dev/pts/")
	_, err := strconv.ParseUint(index, 10, 31)
	return ok && err == nil && p.terminal
}
