package yarn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// A machine is what a NodeManager and its node daemon have for themselves in a
// cluster with the option Machines: a mount namespace. The nil machine is the one
// that all of this process are on.
type machine struct {
	ns *os.File
	// home is what is different on each machine, at the same path.
	home string
}

// newMachine makes a machine that has a directory of its own at home. What is mounted
// elsewhere later, is mounted on the machine too; what is mounted on the machine is
// nowhere else, and gone when its processes are and it was closed.
func newMachine(own, home string) (*machine, error) {
	m := &machine{home: home}
	err := onOwnThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace, which takes root: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("keep mounts of a machine apart: %w", err)
		}
		if err := unix.Mount(own, home, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", own, home, err)
		}
		m.ns, err = os.Open("/proc/thread-self/ns/mnt")
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// do calls f on the machine: that is where the files are that it opens by absolute
// paths, and the processes that it starts.
func (m *machine) do(f func() error) error {
	if m == nil {
		return f()
	}
	return onOwnThread(func() error {
		// A thread that shares its root with others cannot leave them.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("enter a machine: %w", err)
		}
		if err := unix.Setns(int(m.ns.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("enter a machine: %w", err)
		}
		return f()
	})
}

// mounts are those on the machine in dir, but not that of home.
func (m *machine) mounts(dir string) ([]string, error) {
	if m == nil {
		return nil, nil
	}
	var points []string
	err := m.do(func() (err error) {
		points, err = linux.ProcFS("").MountedIn("thread-self", dir)
		return err
	})
	return slices.DeleteFunc(points, func(p string) bool { return p == m.home }), err
}

func (m *machine) close() error {
	if m == nil {
		return nil
	}
	return m.ns.Close()
}

// onOwnThread calls f on a thread that ends with it, so that what f does to the thread
// changes nothing else.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread does not end, and /proc/self is about it. It is kept
			// until f is done on another.
			done <- onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f() // without an unlock the thread ends with the goroutine
	}()
	return <-done
}

// at is a path as processes of the node know it; path is where others find it.
func (n *node) at(name string) string {
	if n.machine == nil {
		return n.path(name)
	}
	return filepath.Join(n.machine.home, name)
}

// makeMachines gives each node one.
func (c *Cluster) makeMachines() error {
	home := filepath.Join(c.Dir, "machine")
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	for _, n := range c.nodes {
		var err error
		if n.machine, err = newMachine(n.path(""), home); err != nil {
			return errors.Join(err, c.closeMachines())
		}
	}
	return nil
}

func (c *Cluster) closeMachines() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.machine.close())
		n.machine = nil
	}
	return errors.Join(errs...)
}
