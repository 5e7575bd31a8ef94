package linux

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestNotifyReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	if err := NotifyReady(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := conn.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("told %q, %v", b[:n], err)
	}
	if v, there := os.LookupEnv("NOTIFY_SOCKET"); there {
		t.Errorf("children would tell %s, too", v)
	}
	if err := NotifyReady(); err != nil {
		t.Errorf("without systemd: %v", err)
	}
}
