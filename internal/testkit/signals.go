package testkit

import (
	"os"
	"os/signal"
	"testing"
)

// Unignore lets programs that the test starts get a signal which this process was told
// to ignore, as nohup does with SIGHUP. What has a handler is not ignored by children.
func Unignore(t testing.TB, sig os.Signal) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, sig)
	t.Cleanup(func() { signal.Stop(heard) })
}
