package linux

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerCredentials returns who was at the other end of a unix socket when it was
// connected, as the kernel noted it (SO_PEERCRED). The pid is 0 where the process
// cannot be seen from here.
func PeerCredentials(conn *net.UnixConn) (*unix.Ucred, error) {
	var cred *unix.Ucred
	err := Control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	return cred, err
}
