package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// perfData is a file that a Java virtual machine has mapped for its counters,
// /tmp/hsperfdata_USER/PID. Every JVM that starts removes those of its user for
// which it sees no process; for a JVM outside of the task's pid namespace that is
// nearly always so. A file that is removed while the task is dumped would be
// missed at the restore, so a checkpoint carries it.
type perfData struct {
	Path    string `json:"path"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Content []byte `json:"content"`
}

const (
	// maxPerfData is much more than a JVM uses by default (32 KiB). A larger file is
	// not one of its counters.
	maxPerfData = 1 << 20
	// maxAllPerfData bounds those of all processes of a task: this process is not to
	// grow as a user likes.
	maxAllPerfData = 16 << 20
)

// perfDataPath is where such a file is that is still there.
var perfDataPath = regexp.MustCompile(`^/tmp/hsperfdata_[^/\n]+/[0-9]+$`)

// isPerfData tells whether such a file is mapped.
func isPerfData(m linux.Mapping) bool { return m.Rights == "rw-s" && perfDataPath.MatchString(m.Path) }

// perfDataOf reads the files that the processes of a stopped tree have mapped, each
// of them once.
func perfDataOf(tree []linux.Stat) ([]perfData, error) {
	var out []perfData
	total := 0
	seen := map[string]bool{}
	for _, p := range tree {
		for m, err := range procs.Maps(p.PID) {
			if linux.Gone(err) {
				break
			}
			if err != nil {
				return nil, err
			}
			if seen[m.Path] || !isPerfData(m) {
				continue
			}
			seen[m.Path] = true
			d := perfData{Path: m.Path}
			if err := d.read(procs.Mapped(p.PID, m)); err != nil {
				return nil, fmt.Errorf("read %s: %w", d.Path, err)
			}
			if len(d.Content) > maxPerfData {
				continue
			}
			if total += len(d.Content); total > maxAllPerfData {
				return nil, fmt.Errorf("%w: the files in /tmp/hsperfdata_* that it has mapped take more than %d bytes", proc.ErrNotCheckpointable, maxAllPerfData)
			}
			out = append(out, d)
		}
	}
	return out, nil
}

// read reads the file that is mapped, whatever is at its path.
func (d *perfData) read(mapped string) error {
	f, err := os.Open(mapped)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	d.UID, d.GID = st.Uid, st.Gid
	d.Content, err = io.ReadAll(io.LimitReader(f, maxPerfData+1))
	return err
}

// pathsOf returns where the files are.
func pathsOf(list []perfData) []string {
	var out []string
	for _, d := range list {
		out = append(out, d.Path)
	}
	return out
}

// missing returns those of the files that are gone.
func missing(list []perfData) (out []perfData) {
	for _, d := range list {
		if _, err := os.Lstat(d.Path); errors.Is(err, os.ErrNotExist) {
			out = append(out, d)
		}
	}
	return out
}

// putBack makes the files that are gone again, with the rights of their owners and
// no others: the directory is theirs. What a user's task has mapped may be another's
// file, which has a second name there; that user gets nothing written as the other.
func putBack(list []perfData, spec proc.Spec) error {
	for _, d := range missing(list) {
		dir := filepath.Dir(d.Path)
		if !strings.HasPrefix(dir, "/tmp/hsperfdata_") || filepath.Dir(dir) != "/tmp" {
			return fmt.Errorf("%s is not a file of a JVM's counters", d.Path)
		}
		owner := linux.Credentials{UID: d.UID, GID: d.GID}
		if spec.UID != 0 {
			owner = spec.Credentials()
		}
		err := linux.AsUser(owner, d.write)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("put back the counters of a JVM: %w", err)
		}
	}
	return nil
}

// write makes the file.
func (d perfData) write() error {
	dir := filepath.Dir(d.Path)
	if err := unix.Mkdir(dir, 0o755); err != nil && err != unix.EEXIST {
		return &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(at)
	fd, err := unix.Openat(at, filepath.Base(d.Path), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: d.Path, Err: err}
	}
	f := os.NewFile(uintptr(fd), d.Path)
	_, err = io.Copy(f, bytes.NewReader(d.Content))
	return errors.Join(err, f.Close())
}
