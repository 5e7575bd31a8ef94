package linux

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Credentials are what the kernel checks when a file is opened.
type Credentials struct {
	UID, GID uint32
	Groups   []uint32
}

// Self returns what the process itself has.
func Self() Credentials { return Credentials{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} }

// AsUser runs f with the file-system identity of a user: whatever f opens,
// lists or looks up is checked against that user's rights. It needs root,
// except for the identity that the process has anyway.
//
// Only the file-system identity changes (setfsuid(2)), in one thread: the user
// can neither signal nor trace it. f must not start goroutines that open files:
// they would have the process's own rights. AsUser may be called from any
// goroutine; f runs in one of its own, whose thread ends with it if its
// identity could not be given back.
func AsUser(c Credentials, f func() error) error {
	if int(c.UID) == os.Geteuid() && c.UID != 0 {
		return f()
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("act as user %d: only root can", c.UID)
	}
	if c.UID == 0 {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		own, err := unix.Getgroups()
		if err == nil {
			err = become(c)
		}
		if err == nil {
			err = f()
		}
		// A thread that cannot be made root again is not given back: it ends with
		// this goroutine.
		if back(own) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// become takes over c's identity in this thread. The system calls are made
// directly, because those of the runtime change all threads.
func become(c Credentials) error {
	if err := setGroups(c.Groups); err != nil {
		return fmt.Errorf("take the groups of user %d: %w", c.UID, err)
	}
	return setFS(c.UID, c.GID)
}

func back(groups []int) error {
	if err := setFS(0, uint32(os.Getegid())); err != nil {
		return err
	}
	own := make([]uint32, len(groups))
	for i, g := range groups {
		own[i] = uint32(g)
	}
	return setGroups(own)
}

func setGroups(groups []uint32) error {
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0); e != 0 {
		return e
	}
	return nil
}

// setFS sets both ids and reads them back: these calls do not report errors.
func setFS(uid, gid uint32) error {
	const ask = ^uintptr(0)
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	g, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ask, 0, 0)
	u, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ask, 0, 0)
	if uint32(u) != uid || uint32(g) != gid {
		return fmt.Errorf("take the file rights of user %d, group %d: the kernel kept %d, %d", uid, gid, uint32(u), uint32(g))
	}
	return nil
}
