package linux

import (
	"os"

	"golang.org/x/sys/unix"
)

// notifyEnv has the address of systemd's socket.
const notifyEnv = "NOTIFY_SOCKET"

// NotifyReady tells systemd that a service of Type=notify answers (sd_notify(3)), and
// forgets where to tell it, so that children do not. Without systemd it does
// nothing.
func NotifyReady() error {
	err := notify("READY=1", nil)
	os.Unsetenv(notifyEnv)
	return err
}

// notify sends systemd a message, with descriptors if rights has some. Without systemd it does nothing.
func notify(message string, rights []byte) error {
	path := os.Getenv(notifyEnv)
	if path == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendmsg(fd, []byte(message), rights, &unix.SockaddrUnix{Name: path}, 0) // @ at the beginning is for abstract names
}
