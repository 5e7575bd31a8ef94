package reopen

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Verify looks whether a restored tree, which stands still, has the files that were
// opened for it and runs with the rights of its user. That a check before the
// restore was enough is so not taken on trust: an error means that the tree must be
// ended.
func (h *Opened) Verify() error {
	if h == nil {
		return nil
	}
	for i, fd := range h.files {
		var want unix.Stat_t
		if err := unix.Fstat(fd, &want); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		for _, u := range h.paths[i].uses {
			if err := u.leadsTo(&want); err != nil {
				return fmt.Errorf("%s of process %d, which was to be %s, %w", u.link, u.pid, h.paths[i].name, err)
			}
		}
	}
	if !h.options.other() {
		return nil
	}
	for tid, pid := range h.threads {
		if pid == h.options.InitPID {
			continue
		}
		if err := checkRunning(pid, tid, h.options.User); err != nil {
			return fmt.Errorf("thread %d of the restored process %d %w", tid, pid, err)
		}
	}
	return nil
}

// leadsTo compares what a process has with a file. The kernel may have joined two
// mappings; then there is none with the same limits.
func (u use) leadsTo(want *unix.Stat_t) error {
	var got unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/%s", u.pid, u.link), &got)
	switch {
	case linux.Gone(err):
		return nil
	case err != nil:
		return fmt.Errorf("cannot be looked at: %w", err)
	case got.Dev != want.Dev || got.Ino != want.Ino:
		return fmt.Errorf("is another file: device %s, inode %d", linux.DeviceName(uint64(got.Dev)), got.Ino)
	}
	return nil
}

func checkRunning(pid, tid int, user linux.Credentials) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	if linux.Gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkStatus(string(b), user)
}

// checkStatus looks at the contents of /proc/PID/status.
func checkStatus(status string, user linux.Credentials) error {
	groups := append([]uint32{user.GID}, user.Groups...)
	seen := 0
	for line := range strings.Lines(status) {
		name, rest, _ := strings.Cut(line, ":")
		values := strings.Fields(rest)
		switch name {
		case "State":
			if len(values) > 0 && len(values[0]) == 1 && linux.Dead(values[0][0]) {
				return nil // it has no rights any more
			}
		case "Uid", "Gid", "Groups":
			for _, v := range values {
				id, err := strconv.ParseUint(v, 10, 32)
				if err != nil {
					return err
				}
				if name == "Uid" && uint32(id) != user.UID || name != "Uid" && !slices.Contains(groups, uint32(id)) {
					return fmt.Errorf("has %s %d", name, id)
				}
			}
			seen++
		case "CapPrm", "CapEff", "CapAmb":
			if len(values) != 1 || strings.Trim(values[0], "0") != "" {
				return fmt.Errorf("has capabilities (%s %s)", name, strings.TrimSpace(rest))
			}
			seen++
		}
	}
	if seen != 6 {
		return errors.New("does not show its rights")
	}
	return nil
}
