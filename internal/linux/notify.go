package linux

import (
	"net"
	"os"
	"strings"
)

// NotifyReady tells systemd that a service of Type=notify answers (sd_notify(3)), and
// forgets where to tell it, so that children do not. Without systemd it does
// nothing.
func NotifyReady() error {
	const env = "NOTIFY_SOCKET"
	path := os.Getenv(env)
	os.Unsetenv(env)
	if path == "" {
		return nil
	}
	if rest, abstract := strings.CutPrefix(path, "@"); abstract {
		path = "\x00" + rest
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("READY=1"))
	return err
}
