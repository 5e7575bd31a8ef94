package yarn

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// A namespace is where the daemons of a machine are, for themselves: a mount namespace in
// a cluster with the option Machines, a network namespace in one with the option HDFS. The
// nil namespace is that of this process.
type namespace struct {
	mnt *os.File // nil: that of this process
	net *os.File // nil: that of this process
	// home is what is different on each machine, at the same path.
	home string
}

// A bind is a directory that a machine has at another place too.
type bind struct{ own, at string }

// mount gives the namespace mounts of its own, with what it alone has, home first. What
// is mounted elsewhere later, is mounted there too; what is mounted there is nowhere else,
// and gone when its processes are and it was closed.
func (n *namespace) mount(binds ...bind) error {
	n.home = binds[0].at
	return linux.OnOwnThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace, which takes root: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("keep mounts of a machine apart: %w", err)
		}
		for _, b := range binds {
			if err := unix.Mount(b.own, b.at, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("mount %s at %s: %w", b.own, b.at, err)
			}
		}
		n.mnt, err = os.Open("/proc/thread-self/ns/mnt")
		return err
	})
}

// do calls f in the namespace: that is where the files are that it opens by absolute
// paths, the sockets that it makes, and the processes that it starts.
func (n *namespace) do(f func() error) error {
	if n == nil {
		return f()
	}
	return linux.OnOwnThread(func() error {
		if err := n.enter(); err != nil {
			return fmt.Errorf("enter the namespace of a machine: %w", err)
		}
		return f()
	})
}

// enter takes the thread there for good.
func (n *namespace) enter() error {
	if n.net != nil {
		if err := unix.Setns(int(n.net.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
	}
	if n.mnt == nil {
		return nil
	}
	// A thread that shares its root with others cannot leave them.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return unix.Setns(int(n.mnt.Fd()), unix.CLONE_NEWNS)
}

// mounts returns those in dir there, but not that of home.
func (n *namespace) mounts(dir string) ([]string, error) {
	if n == nil {
		return nil, nil
	}
	var points []string
	err := n.do(func() (err error) {
		points, err = linux.ProcFS("").MountedIn("thread-self", dir)
		return err
	})
	return slices.DeleteFunc(points, func(p string) bool { return p == n.home }), err
}

func (n *namespace) close() (err error) {
	if n == nil {
		return nil
	}
	for _, f := range []*os.File{n.mnt, n.net} {
		if f != nil {
			f.Close()
		}
	}
	return nil
}
