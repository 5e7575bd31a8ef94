package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/lab/belong"
)

// A device is a file system on a loop device over a file in memory: storage that
// is fast until it is throttled.
type device struct {
	Dir   string // where it is mounted
	major uint32
	minor uint32
}

// String returns the number as the cgroup files want it.
func (d *device) String() string { return fmt.Sprintf("%d:%d", d.major, d.minor) }

// AddDevice makes one of the given size: the file in the scratch memory, the
// mount in s. Both are undone by the scratches' removal.
func (s *Scratch) AddDevice(name string, bytes int64, memory *Scratch) (*device, error) {
	image := filepath.Join(memory.Dir, name+".img")
	if err := makeSparse(image, bytes); err != nil {
		return nil, err
	}
	mkfs := tool("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal",
		"-E", "nodiscard,lazy_itable_init=0", image)
	if out, err := mkfs.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a file system on %s: %w: %s", image, err, strings.TrimSpace(string(out)))
	}
	node, err := attachLoop(image)
	if err != nil {
		return nil, fmt.Errorf("attach %s to a loop device: %w", image, err)
	}
	d := &device{Dir: filepath.Join(s.Dir, name)}
	if err := os.Mkdir(d.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount(node, d.Dir, "ext4", unix.MS_NOATIME, ""); err != nil {
		return nil, fmt.Errorf("mount %s at %s: %w", node, d.Dir, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(node, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", node, err)
	}
	d.major, d.minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	return d, nil
}

func makeSparse(path string, bytes int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(bytes), f.Close())
}

// attachLoop returns the node of a loop device over the file. Another process may
// take the free one first; then the next is tried.
func attachLoop(path string) (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	for range 16 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("find a free loop device: %w", err)
		}
		node := fmt.Sprintf("/dev/loop%d", n)
		dev, err := os.OpenFile(node, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &unix.LoopConfig{Fd: uint32(file.Fd())})
		dev.Close()
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		return node, err
	}
	return "", errors.New("every free loop device was taken by others")
}

// dropLoops lifts the throttles of the loop devices whose file lies in dir and
// detaches them.
func dropLoops(dir string) error {
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		backing, err := os.ReadFile(name)
		path := strings.TrimSuffix(strings.TrimSpace(string(backing)), " (deleted)")
		if err != nil || !belong.Below(dir, path) {
			continue
		}
		block := filepath.Dir(filepath.Dir(name))
		if number, err := os.ReadFile(filepath.Join(block, "dev")); err == nil {
			errs = append(errs, liftThrottle(strings.TrimSpace(string(number))))
		}
		errs = append(errs, detachLoop("/dev/"+filepath.Base(block)))
	}
	return errors.Join(errs...)
}

func detachLoop(node string) error {
	dev, err := os.Open(node)
	if err != nil {
		return err
	}
	defer dev.Close()
	err = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
	if err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detach %s: %w", node, err)
	}
	return nil
}
