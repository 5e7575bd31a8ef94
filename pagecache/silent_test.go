package pagecache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	case <-time.After(2 * time.Minute): // the machine may be busy
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

// TestCloseAndReadHangs: an end waits for a read that nobody answers, but not for ever, and says what it is.
func TestCloseAndReadHangs(t *testing.T) {
	c, err := newCache(Config{Method: Cachestat, Own: true}, loadCounters)
	skipMissing(t, err)
	c.ending = 100 * time.Millisecond
	f, err := os.Open(testkit.File(t, diskDir(t), "far", 1<<20, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reads, answers := make(chan struct{}), make(chan struct{})
	pinned := make(chan error, 1)
	go func() {
		_, err := c.Pin(t.Context(), f, Range{Len: 1 << 20}, func(int64) {
			close(reads)
			<-answers
		})
		pinned <- err
	}()
	<-reads
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		if !errors.Is(err, ErrHangs) || !strings.Contains(err.Error(), "far is being read") {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute): // the machine may be busy
		t.Error("an end waits for a read that nobody answers")
	}
	close(answers)
	if err := <-pinned; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	testkit.Await(t, "all to be let go", func() bool { return c.Pinned() == 0 })
}
