package replica

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/internal/accounts"
)

var (
	// ErrAbsent: no volume has a replica of the block.
	ErrAbsent = errors.New("there is no replica on this machine")
	// ErrNotFinalized: the block is being written, copied or recovered.
	ErrNotFinalized = errors.New("the replica is not finished")
	// ErrChanged: the replica is not what was asked for. It is of another generation, cut,
	// or no longer the same; the name node knows what the block is now.
	ErrChanged = errors.New("the replica is another one")
	// ErrRights: this process may not look.
	ErrRights = errors.New("the data node's files are closed to this process")
	// ErrVolume: a volume cannot be looked at now; a replica may be there.
	ErrVolume = errors.New("the volume cannot be looked at")
)

// problem tells what an error of the kernel about a volume means.
func (v *volume) problem(err error) error {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: %w (%w): run as root or as %s", v.dir, ErrRights, err, v.owner())
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%s: %w: a symbolic link leads elsewhere, which a data node does not make", v.dir, ErrVolume)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s: %w: there is something else where a file of the data node must be", v.dir, ErrVolume)
	}
	return fmt.Errorf("%s: %w: %w", v.dir, ErrVolume, err)
}

// owner names the user whose volume it is.
func (v *volume) owner() string {
	st, err := os.Stat(v.dir)
	if err != nil {
		return "the user of the data node"
	}
	name := accounts.Here.Shown(st.Sys().(*syscall.Stat_t).Uid)
	if _, err := accounts.ParseID(name); err == nil {
		name = "user " + name
	}
	return name + ", whose it is"
}

func missing(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// silent makes ErrVolume of an error of Ask itself.
func (v *volume) silent(err error) error {
	var s *silence
	if errors.As(err, &s) {
		return fmt.Errorf("%s: %w: %w", v.dir, ErrVolume, err)
	}
	return err
}
