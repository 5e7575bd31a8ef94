package main

import (
	"net"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestSignalTwice: what cleans up when it is told to end goes on with that when it is
// told so twice at once.
func TestSignalTwice(t *testing.T) {
	r := startHere(t, t.TempDir(), "manager", "--listen", "127.0.0.1:0", "--token-file", filepath.Join(t.TempDir(), "token"))
	r.said("the manager is up")
	text, _ := r.errOut.read()
	conn, err := net.Dial("tcp", regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(text)[1])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // it may be about to ask something: for that the manager waits a moment
	for range 2 {
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // the first one has been taken by now, most likely
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it did not end by itself: %v", err)
	}
}
