package supplement

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// A Socket is a descriptor of a socket, and whose that is. CRIU makes sockets as root, and
// root's they would stay: the kernel tells others so who are asked who is at the other end.
type Socket struct {
	linux.Descriptor
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// eachSocket calls do with the sockets that processes have. Of those that have ended there are none.
func eachSocket(tree []linux.Stat, do func(linux.Descriptor) error) error {
	for _, p := range tree {
		open, err := procs.Descriptors(p.PID)
		if linux.Gone(err) || linux.Dead(p.State) {
			continue
		}
		if err != nil {
			return err
		}
		for _, d := range open {
			if !strings.HasPrefix(d.Target, "socket:") {
				continue
			}
			if err := do(d); err != nil {
				return fmt.Errorf("look at socket %d of process %d: %w", d.FD, d.PID, err)
			}
		}
	}
	return nil
}

func socketsOf(tree []linux.Stat) ([]Socket, error) {
	list := []Socket{} // nil is a record that does not have them
	err := eachSocket(tree, func(d linux.Descriptor) error {
		var st unix.Stat_t
		err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", d.PID, d.FD), &st)
		d.Target = "" // it has another number when it comes back
		list = append(list, Socket{d, st.Uid, st.Gid})
		return err
	})
	slices.SortFunc(list, func(a, b Socket) int { return cmp.Or(a.PID-b.PID, a.FD-b.FD) })
	return list, err
}

// giveBackSockets gives the sockets of a restored tree to whom they belonged, and looks
// whether there are others. A record of an older Headrace has none.
func (r Record) giveBackSockets(tree []linux.Stat) error {
	for _, s := range r.Sockets {
		if err := s.giveBack(); err != nil {
			return fmt.Errorf("give socket %d of process %d back to user %d: %w", s.FD, s.PID, s.UID, err)
		}
	}
	now, err := socketsOf(tree)
	if err == nil && r.Sockets != nil && !slices.Equal(now, r.Sockets) {
		err = errors.New("the restored tree has other sockets than were dumped, or they belong to others")
	}
	return err
}

// giveBack changes the owner of the socket itself too, not only of its inode (sockfs_setattr).
func (s Socket) giveBack() error {
	fd, err := s.Duplicate()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.NewSyscallError("fchown", unix.Fchown(fd, int(s.UID), int(s.GID)))
}
