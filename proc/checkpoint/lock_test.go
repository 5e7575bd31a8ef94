package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// page returns a memory of one page.
func page(b byte) memory { return memory{"pagemap-1": {0: bytes.Repeat([]byte{b}, pageSize)}} }

// A lock is waited for, and its being taken is an error of its own.
func TestLockIsWaitedFor(t *testing.T) {
	s := openStore(t, Options{Patience: time.Minute})
	im := checkpoint(t, s, "task", page(1), BeginOptions{})
	for name, do := range map[string]func(*Store) error{
		"Open":    func(*Store) error { _, done, err := im.Open(t.Context(), ""); return closeOpened(done, err) },
		"Collect": func(s *Store) error { return s.Collect("task") },
		"Begin": func(s *Store) error {
			w, err := s.Begin("task", BeginOptions{})
			if err != nil {
				return err
			}
			return w.Abort()
		},
	} {
		held, err := s.lock(t.Context(), "task", unix.LOCK_EX)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- do(s) }()
		select {
		case err := <-got:
			t.Errorf("%s did not wait: %v", name, err)
		case <-time.After(10 * lockPoll):
		}
		held.unlock()
		if err := <-got; err != nil {
			t.Errorf("%s after the lock was free: %v", name, err)
		}
	}
}

func closeOpened(done func() error, err error) error {
	if err != nil {
		return err
	}
	return done()
}

func TestLockPatience(t *testing.T) {
	s := openStore(t, Options{Patience: 2 * lockPoll})
	im := checkpoint(t, s, "task", page(1), BeginOptions{})
	held, err := s.lock(t.Context(), "task", unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	defer held.unlock()
	if _, _, err := im.Open(t.Context(), ""); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Patience = time.Hour
	if _, _, err := im.Open(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}

// While old images are being deleted, after Collect has set them aside, the newest
// can be opened, checked and built on at once.
func TestRestoreWhileRemoving(t *testing.T) {
	s := openStore(t, Options{Patience: time.Millisecond})
	for i := range 3 {
		checkpoint(t, s, "task", page(byte(i)), BeginOptions{MaxChain: 2})
	}
	var aside []string
	err := s.locked("task", func() (err error) { aside, err = s.collect("task"); return err })
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside %q, %v", aside, err)
	}
	if left, _ := os.ReadDir(aside[0]); len(left) != 2 {
		t.Fatalf("%d images were set aside, want 2", len(left))
	}
	images, err := s.Images("task")
	if err != nil || len(images) != 1 || images[0].Seq != 3 {
		t.Fatalf("images %v, %v", images, err)
	}
	compareMemory(t, restored(t, images[0]), page(2))
	next := checkpoint(t, s, "task", page(9), BeginOptions{MaxChain: 2}) // deletes them itself
	if _, err := os.Stat(aside[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dump began beside images that are being deleted: %v", err)
	}
	if err := deleteAll(aside); err != nil {
		t.Errorf("somebody else has deleted them meanwhile: %v", err)
	}
	compareMemory(t, restored(t, next), page(9))
}

// Whoever deletes, deletes: several at a time do no harm.
func TestCollectAtTheSameTime(t *testing.T) {
	s := openStore(t, Options{})
	for i := range 6 {
		checkpoint(t, s, "task", page(byte(i)), BeginOptions{Full: true})
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.Collect("task"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	entries, err := os.ReadDir(filepath.Join(s.Dir, "task"))
	if err != nil || len(entries) != 2 { // the image and the lock
		t.Errorf("left: %v, %v", entries, err)
	}
}

// What the machine cannot do at the moment says nothing about an image: it is neither
// damaged nor passed over, nor removed.
func TestUnreadableNow(t *testing.T) {
	s := openStore(t, Options{})
	im := checkpoint(t, s, "task", page(1), BeginOptions{})
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.ESTALE} {
		err := im.corrupt("x", &os.PathError{Op: "open", Path: "x", Err: errno})
		if errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrUnreadable) || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	for _, errno := range []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP} {
		if err := im.corrupt("x", errno); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnreadable) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	withoutDescriptors(t, func() {
		if err := im.Verify(t.Context(), nil); !errors.Is(err, ErrUnreadable) || errors.Is(err, ErrCorrupt) {
			t.Errorf("Verify without descriptors: %v", err)
		}
		if err := s.Collect("task"); err == nil {
			t.Error("Collect has seen images without descriptors")
		}
	})
	if err := im.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// withoutDescriptors runs do while this process can open nothing.
func withoutDescriptors(t *testing.T, do func()) {
	var all []*os.File
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	for {
		f, err := os.Open("/")
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	defer func() {
		for _, f := range all {
			f.Close()
		}
	}()
	do()
}
