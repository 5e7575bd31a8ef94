package slowdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// fsName is how mounts of ours are called in the mount table: the type is "fuse."
// and this, the source begins with it and names the process of the server.
const fsName = "headrace-slowdisk"

// attributesLast is how long the kernel believes names and attributes.
const attributesLast = time.Second

// background is how many requests of read-ahead may wait for the head at once:
// enough for some hundred readers.
const background = 512

// A server is a mounted file system in this process.
type server struct {
	mount string
	line  *line
	fuse  *fuse.Server
}

// mountServer mounts source at the directory mount.
func mountServer(m Model, source, mount string, b *board) (*server, error) {
	name, err := mountName()
	if err != nil {
		return nil, err
	}
	below, err := fs.NewLoopbackRoot(source)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", source, err)
	}
	s := &server{mount: mount, line: startLine(m, b)}
	root := &node{LoopbackNode: below.(*fs.LoopbackNode), line: s.line}
	var extra uint64
	if m.WriteBack {
		extra = fuse.CAP_WRITEBACK_CACHE
	}
	root.RootData.RootNode = root
	last := attributesLast
	s.fuse, err = fs.Mount(mount, root, &fs.Options{
		AttrTimeout: &last, EntryTimeout: &last, NullPermissions: true,
		MountOptions: fuse.MountOptions{
			// The kernel checks permissions, because we read as root.
			AllowOther: true, Options: []string{"default_permissions"},
			DirectMountStrict: true, FsName: name, Name: fsName,
			MaxWrite: int(m.MaxRequest), MaxReadAhead: int(m.MaxRequest), MaxBackground: background, CongestionThreshold: background,
			DisableSplice: true, ExplicitDataCacheControl: true, ExtraCapabilities: extra,
		}})
	if err != nil {
		return nil, fmt.Errorf("mount the modelled disk at %s: %w", mount, err)
	}
	if err := setReadAhead(mount, m.ReadAhead); err != nil {
		return nil, errors.Join(err, s.unmount())
	}
	return s, nil
}

// mountName names this process for good, so that others can tell whether the
// server of a mount is alive.
func mountName() (string, error) {
	st, err := linux.ProcFS("").Stat(os.Getpid())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s-%d-%d", fsName, st.PID, st.Start), nil
}

// setReadAhead must come before the first file is opened.
func setReadAhead(mount string, bytes int64) error {
	var st unix.Stat_t
	if err := unix.Stat(mount, &st); err != nil {
		return &os.PathError{Op: "stat", Path: mount, Err: err}
	}
	path := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	want := strconv.FormatInt(bytes>>10, 10)
	if err := os.WriteFile(path, []byte(want), 0); err != nil {
		return fmt.Errorf("set the read-ahead: %w", err)
	}
	got, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(got)) != want {
		err = fmt.Errorf("set the read-ahead: %s has %s, want %s", path, strings.TrimSpace(string(got)), want)
	}
	return err
}

// unmount ends the service; what it has not answered fails when this process ends.
// It does not wait for the kernel to let go of the mount: a process that was started
// in a mount namespace of its own meanwhile has a copy of it, for as long as it
// likes.
func (s *server) unmount() error {
	err := unix.Unmount(s.mount, 0)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(s.mount, unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: it is no mount any more
		return fmt.Errorf("unmount %s: %w", s.mount, err)
	}
	return nil
}

// wait returns when ctx has ended or somebody else has unmounted the file system,
// which is unmounted then.
func (s *server) wait(ctx context.Context) error {
	gone := make(chan struct{})
	go func() {
		s.fuse.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return s.unmount()
	}
}

// hurry gives the threads of this process a better priority: a disk does not wait
// for a processor. Threads that are made later inherit it.
func hurry() error {
	const nice = -15
	done := map[string]bool{}
	for again := true; again; {
		again = false
		tasks, err := filepath.Glob("/proc/self/task/[0-9]*")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil || done[task] {
				continue
			}
			done[task], again = true, true
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("raise the priority of the modelled disk: %w", err)
			}
		}
	}
	return nil
}
