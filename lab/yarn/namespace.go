package yarn

import (
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// A namespace is the mount namespace that the daemons of a machine have for themselves
// in a cluster with the option Machines. The nil namespace is that of this process.
type namespace struct {
	ns *os.File
	// home is what is different on each machine, at the same path.
	home string
}

// newNamespace makes one that has a directory of its own at home. What is mounted
// elsewhere later, is mounted there too; what is mounted there is nowhere else, and
// gone when its processes are and it was closed.
func newNamespace(own, home string) (*namespace, error) {
	n := &namespace{home: home}
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
		n.ns, err = os.Open("/proc/thread-self/ns/mnt")
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// do calls f in the namespace: that is where the files are that it opens by absolute
// paths, and the processes that it starts.
func (n *namespace) do(f func() error) error {
	if n == nil {
		return f()
	}
	return onOwnThread(func() error {
		// A thread that shares its root with others cannot leave them.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("enter the namespace of a machine: %w", err)
		}
		if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("enter the namespace of a machine: %w", err)
		}
		return f()
	})
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

func (n *namespace) close() error {
	if n == nil {
		return nil
	}
	return n.ns.Close()
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
