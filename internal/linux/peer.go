package linux

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// PeerCredentials returns who was at the other end of a unix socket when it was
// connected, as the kernel noted it (SO_PEERCRED). The pid is 0 where the process
// cannot be seen from here.
func PeerCredentials(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return nil, err
	}
	return cred, nil
}
