package linux

import "syscall"

// Control calls do with the descriptor of a file or a connection, which stays open
// meanwhile, and returns its error, or that the file or the connection is closed.
func Control(of syscall.Conn, do func(fd int) error) error {
	raw, err := of.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = do(int(fd)) }); err != nil {
		return err
	}
	return inner
}
