package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/needs"
)

// Portable is what must be known of a checkpoint, besides its images, for the task
// to go on on another machine.
type Portable struct {
	// TaskDir is the task's directory as its processes know it.
	TaskDir string
	// Needs are the files that the processes need at the same paths. What is below
	// TaskDir is not among them: another task's directory stands in for it.
	Needs needs.Files
}

// PortableOf reads it from the record that an image carries (checkpoint.Image.Meta).
// Only checkpoints of attached tasks have it.
func PortableOf(meta []byte) (Portable, error) {
	sv, err := parseSaved(meta)
	if err != nil {
		return Portable{}, err
	}
	if sv.Needs == nil || sv.TaskDir == "" {
		return Portable{}, errors.New("the checkpoint does not say what it needs on another machine; take a new one")
	}
	own := func(path string) bool { return path == sv.TaskDir || strings.HasPrefix(path, sv.TaskDir+"/") }
	return Portable{TaskDir: sv.TaskDir, Needs: needs.Files{
		Mapped: without(sv.Needs.Mapped, own), Open: without(sv.Needs.Open, own), Writing: without(sv.Needs.Writing, own),
	}}, nil
}

func without(list []string, drop func(string) bool) []string {
	var kept []string
	for _, s := range list {
		if !drop(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// describeNeeds adds what another machine must have.
func (sv *saved) describeNeeds(tree []linux.Stat) error {
	pids := make([]int, len(tree))
	for i, p := range tree {
		pids[i] = p.PID
	}
	found, err := needs.Observe(pids)
	if err != nil {
		return err
	}
	sv.Needs = &found
	return nil
}

// standInFor makes the task's directory appear, in this mount namespace, at the path
// of the directory of the task that is being moved here, with the files that its
// processes have open there.
func (s *supervisor) standInFor(dir string, spec proc.Spec) error {
	if !s.isolated {
		return fmt.Errorf("restore: %w: a task can be moved by root only", proc.ErrUnsupported)
	}
	if s.knownAs == dir {
		return nil
	}
	if s.knownAs != s.dir {
		return fmt.Errorf("%w: it stands in for %s already", proc.ErrState, s.knownAs)
	}
	files, err := s.openStdio(spec)
	if err != nil {
		return err
	}
	closeAll(files)
	if err := s.makeMountPoint(dir); err != nil {
		return fmt.Errorf("make the directory that the task had elsewhere: %w", err)
	}
	if err := unix.Mount(s.dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the task's directory at %s: %w", dir, err)
	}
	s.knownAs = dir
	return nil
}

// makeMountPoint makes a directory beside those of other tasks, where no user can
// put anything, unless it is there, and marks it (proc.StoodInBy).
func (s *supervisor) makeMountPoint(dir string) error {
	if dir != filepath.Clean(dir) || !filepath.IsAbs(dir) {
		return fmt.Errorf("%q is not an absolute path", dir)
	}
	parent, err := os.OpenFile(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("%w; daemons between which tasks move must have the same state directory", err)
	}
	defer parent.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(parent.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("others may write to %s", parent.Name())
	}
	// Recorded first, so that it is removed with the task.
	if err := linux.WriteFileDurably(proc.StandInFile, []byte(dir), 0o600); err != nil {
		return err
	}
	err = unix.Mkdirat(int(parent.Fd()), filepath.Base(dir), 0o711)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	mark := filepath.Join(filepath.Base(dir), proc.StoodInBy+filepath.Base(s.dir))
	fd, err := unix.Openat(int(parent.Fd()), mark, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: mark, Err: err}
	}
	return unix.Close(fd)
}
