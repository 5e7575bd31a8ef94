package linux

import (
	"os"

	"golang.org/x/sys/unix"
)

// Capable reports whether this process has a capability, such as unix.CAP_IPC_LOCK, in force.
func Capable(capability uint) (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // 32 capabilities each
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, os.NewSyscallError("capget", err)
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0, nil
}
