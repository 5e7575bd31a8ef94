package pagecache

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"headrace/internal/testkit"
)

// TestServerIsSilent: a file whose server does not answer any more holds up neither those who ask what is in memory of all files,
// nor whoever lets go of it.
func TestServerIsSilent(t *testing.T) {
	const size = 3 << 12
	c := newMethod(t, Config{Method: Cachestat})
	dir, server := startFUSE(t, "fuse")
	var watched []Watched
	for _, path := range []string{testkit.File(t, dir, "far", size, 0o600), testkit.File(t, diskDir(t), "near", size, 0o600)} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.Watch(f)
		f.Close()
		if err != nil {
			t.Fatal(filepath.Base(path), err)
		}
		watched = append(watched, w)
	}
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := func() { server.Signal(syscall.SIGCONT) }
	t.Cleanup(goOn) // else nothing could be unmounted
	done := make(chan error, 1)
	go func() {
		for range sizeEvery { // the size is asked for in one of these
			if err := c.Refresh(t.Context()); err != nil {
				done <- err
				return
			}
		}
		done <- watched[0].Close()
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("everybody waits for a server that does not answer")
		goOn()
		<-done
	}
	if n := watched[1].Resident(); n != size {
		t.Errorf("%d bytes of the file near are in memory", n)
	}
	if err := watched[1].Close(); err != nil {
		t.Error(err)
	}
	if len(c.list) != 0 {
		t.Errorf("%d files are watched still", len(c.list))
	}
	goOn()
	testkit.Await(t, "the file to be closed", func() bool {
		c.later.mu.Lock()
		defer c.later.mu.Unlock()
		return !c.later.busy
	})
}
