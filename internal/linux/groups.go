package linux

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupsDenied reports whether the user namespace of this process lets nobody change
// supplementary groups, as in containers with a single user (user_namespaces(7)).
func groupsDenied() bool {
	text, err := os.ReadFile("/proc/self/setgroups")
	return err == nil && strings.TrimSpace(string(text)) == "deny"
}

// SetGroups gives this process the supplementary groups of a user that it is about
// to become. Where they cannot be changed, it fails for all but the user that the
// process is already, who keeps the groups that they have, and for groups that
// would stay the same.
func SetGroups(uid uint32, groups []uint32) error {
	want := make([]int, len(groups))
	for i, g := range groups {
		want[i] = int(g)
	}
	err := syscall.Setgroups(want)
	if !errors.Is(err, unix.EPERM) {
		return os.NewSyscallError("setgroups", err)
	}
	if int(uid) == os.Geteuid() && groupsDenied() {
		return nil
	}
	have, gerr := os.Getgroups()
	slices.Sort(have)
	slices.Sort(want)
	if gerr == nil && slices.Equal(slices.Compact(have), slices.Compact(want)) {
		return nil
	}
	return fmt.Errorf("take the groups of user %d: %w: this container or user namespace does not allow it", uid, os.NewSyscallError("setgroups", err))
}
