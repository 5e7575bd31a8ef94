package slowdisk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// parentCommand makes the test binary start a disk and wait to be killed.
const parentCommand = "test-parent"

// TestMain makes the test binary serve as the program of a disk too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Command:
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			if err := Main(ctx, os.Args[2:], os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case parentCommand:
			d, err := Start(context.Background(), Options{Source: os.Args[2]})
			if err != nil {
				fmt.Println("failed:", err)
				os.Exit(1)
			}
			fmt.Println(d.Dir())
			io.Copy(io.Discard, os.Stdin)
			os.Exit(2)
		}
	}
	// A program with the race detector sleeps for a second before it ends.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	os.Exit(m.Run())
}

// quick returns a disk on which little time is lost.
func quick() Model {
	m := HardDisk()
	m.Seek, m.Rotation, m.Bandwidth = 4*time.Millisecond, 2*time.Millisecond, 400e6
	return m
}

func needDisk(t testing.TB) {
	t.Helper()
	if err := Check(); err != nil {
		t.Skip(err)
	}
}

// startDisk serves source until the end of the test.
func startDisk(t testing.TB, m Model, source string) *Disk {
	t.Helper()
	needDisk(t)
	d, err := Start(t.Context(), Options{Model: m, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if isMounted(t, d.Dir()) {
			t.Errorf("%s is still mounted", d.Dir())
		}
		if !isGone(d.Dir()) {
			t.Errorf("%s is still there", d.Dir())
		}
	})
	return d
}

func isMounted(t testing.TB, dir string) bool {
	t.Helper()
	table, err := linux.ProcFS("").Mounts("self")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(table, func(m linux.Mount) bool { return m.Point == dir })
}

// makeFile writes random bytes; they are on the disk and not in memory when it
// returns.
func makeFile(t testing.TB, path string, size int) []byte {
	t.Helper()
	rnd := rand.NewChaCha8([32]byte{byte(size)})
	data := make([]byte, size)
	rnd.Read(data)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFilesAreAsBelow(t *testing.T) {
	source := t.TempDir()
	data := makeFile(t, filepath.Join(source, "data"), 3*mib+1234)
	if err := os.Chmod(filepath.Join(source, "data"), 0o640); err != nil {
		t.Fatal(err)
	}
	d := startDisk(t, quick(), source)
	path := filepath.Join(d.Dir(), "data")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	below, err := os.Stat(filepath.Join(source, "data"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode() != below.Mode() || info.Size() != below.Size() ||
		info.Sys().(*syscall.Stat_t).Ino != below.Sys().(*syscall.Stat_t).Ino {
		t.Errorf("%+v, %v; below it is %+v", info, err, below)
	}
	direct, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(direct)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		off := rnd.Int64N(int64(len(data)) + 5000)
		want := data[min(off, int64(len(data))):]
		got := make([]byte, 1+rnd.IntN(200000))
		want = want[:min(len(got), len(want))]
		n, err := f.ReadAt(got, off)
		if err != nil && err != io.EOF || !bytes.Equal(got[:n], want) {
			t.Fatalf("%d bytes at %d: %d bytes, %v", len(got), off, n, err)
		}
		// Past the page cache every request comes to us as it is.
		got = make([]byte, len(got)+page)
		skip := i % 3
		n, err = unix.Pread(direct, got[skip:skip+len(want)], off)
		if err != nil || !bytes.Equal(got[skip:skip+n], want[:n]) || n < len(want) {
			t.Fatalf("direct: %d bytes at %d: %d bytes, %v", len(want), off, n, err)
		}
	}
	if s := d.Stats(); s.Buffered != 0 && directWorks(t, source) {
		t.Errorf("O_DIRECT was not used: %+v", s)
	}
	if n := cached(t, filepath.Join(source, "data")); n != 0 && directWorks(t, source) {
		t.Errorf("%d pages are in memory twice", n)
	}
}

// directWorks reports whether the file system of dir takes O_DIRECT.
func directWorks(t *testing.T, dir string) bool {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_DIRECT, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// cached returns how many pages of a file are in memory.
func cached(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := linux.CachedPages(int(f.Fd()), 0, 1<<40)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The page cache treats the files as those of a disk: what was read stays, also
// after the file was closed, until it is dropped; and it can be locked.
func TestPageCache(t *testing.T) {
	source := t.TempDir()
	data := makeFile(t, filepath.Join(source, "data"), mib)
	d := startDisk(t, quick(), source)
	path := filepath.Join(d.Dir(), "data")
	const pages = mib / page
	readAll := func() {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read other bytes, or %v", err)
		}
	}
	if n := cached(t, path); n != 0 {
		t.Errorf("%d pages cached before the first read", n)
	}
	readAll()
	if n := cached(t, path); n != pages {
		t.Errorf("%d pages cached after it was read and closed, want %d", n, pages)
	}
	d.Reset()
	readAll()
	if s := d.Stats(); s != (Stats{}) {
		t.Errorf("reading again from memory: %+v", s)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	drop := func() {
		t.Helper()
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
	}
	drop()
	if n := cached(t, path); n != 0 {
		t.Errorf("%d pages cached after they were dropped", n)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, mib, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	if err := unix.Mlock(mapped); err != nil {
		t.Skipf("no locked memory here: %v", err)
	}
	drop()
	if n := cached(t, path); n != pages {
		t.Errorf("%d pages cached of those that are locked, want %d", n, pages)
	}
	if s := d.Stats(); s.Read != mib {
		t.Errorf("locking has read %d bytes, want %d", s.Read, mib)
	}
}

func TestWritesPassThrough(t *testing.T) {
	source := t.TempDir()
	d := startDisk(t, quick(), source)
	data := makeFile(t, filepath.Join(d.Dir(), "new"), 2*mib+77)
	s := d.Stats()
	if want := int64(len(data)); s.Written != want || s.Read != 0 {
		t.Errorf("%+v, want %d bytes written", s, want)
	}
	if least := d.Model().Service(s.Written, true); s.Busy < least {
		t.Errorf("busy for %v, want at least %v", s.Busy, least)
	}
	if got, err := os.ReadFile(filepath.Join(source, "new")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("other bytes below, or %v", err)
	}
	path := filepath.Join(d.Dir(), "renamed")
	if err := os.Rename(filepath.Join(d.Dir(), "new"), path); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("end")
	if err := errors.Join(err, f.Truncate(mib), f.Close(), os.Link(path, path+"2"), os.Mkdir(filepath.Join(d.Dir(), "dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(source, "renamed2")); err != nil || !bytes.Equal(got, data[:mib]) {
		t.Errorf("%d bytes below, or %v", len(got), err)
	}
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(source, "renamed")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed, but below: %v", err)
	}
}

// With a cache many small writes, which end within pages, are few requests, and nothing is read for them that was
// never written. What is there already is read where a part of a page is written.
func TestWriteBack(t *testing.T) {
	m := quick()
	m.WriteBack = true
	source := t.TempDir()
	d := startDisk(t, m, source)
	data := make([]byte, 4*mib-100)
	rand.NewChaCha8([32]byte{1}).Read(data)
	f, err := os.OpenFile(filepath.Join(d.Dir(), "data"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 4*mib); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(data); at += 64512 {
		if _, err := f.WriteAt(data[at:min(at+64512, len(data))], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	same := func() {
		t.Helper()
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(source, "data"))
		if err != nil || !bytes.Equal(got[:len(data)], data) || len(got) != 4*mib {
			t.Errorf("%d bytes below, or others, or %v", len(got), err)
		}
	}
	same()
	s := d.Stats()
	if s.Read != 0 || s.Written < int64(len(data)) || s.Requests > 20 {
		t.Errorf("%+v", s)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	data[1000]++
	if _, err := f.WriteAt(data[1000:1001], 1000); err != nil {
		t.Fatal(err)
	}
	same()
	if read := d.Stats().Read; read < 4096 {
		t.Errorf("%d bytes were read for a part of a page", read)
	}
}

// What is made while the head is bypassed costs nothing, however slow the disk is, and what
// comes after it costs what it would have.
func TestBypass(t *testing.T) {
	slow := HardDisk()
	slow.Bandwidth = 1e5 // of which a busy machine does more
	d := startDisk(t, slow, t.TempDir())
	path := filepath.Join(d.Dir(), "data")
	d.Bypass(true)
	began := time.Now()
	data := makeFile(t, path, 20*mib)
	if took, modelled := time.Since(began), slow.Service(20*mib, true); took > modelled/2 {
		t.Errorf("took %v, with the head %v", took, modelled)
	}
	if s := d.Stats(); s != (Stats{}) {
		t.Errorf("counted: %+v", s)
	}
	if err := os.Truncate(path, 100_000); err != nil {
		t.Fatal(err)
	}
	d.Bypass(false)
	began = time.Now()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, data[:100_000]) {
		t.Fatalf("read other bytes, or %v", err)
	}
	least := slow.Service(100_000, true)
	if took, s := time.Since(began), d.Stats(); took < least || s.Read != 100_000 || s.Busy < least {
		t.Errorf("took %v, want at least %v; %+v", took, least, s)
	}
}

// A copy costs a read and a write, also where the file system below could do it
// by itself.
func TestCopyTakesModelTime(t *testing.T) {
	source := t.TempDir()
	data := makeFile(t, filepath.Join(source, "a"), mib)
	d := startDisk(t, quick(), source)
	in, err := os.Open(filepath.Join(d.Dir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(d.Dir(), "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for left := mib; left > 0; {
		n, err := unix.CopyFileRange(int(in.Fd()), nil, int(out.Fd()), nil, left, 0)
		if err != nil || n == 0 {
			t.Fatalf("copy_file_range: %d, %v", n, err)
		}
		left -= n
	}
	if got, err := os.ReadFile(filepath.Join(source, "b")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("another copy below, or %v", err)
	}
	if s := d.Stats(); s.Read != mib || s.Written != mib {
		t.Errorf("%+v, want %d bytes read and written", s, mib)
	}
}

// The kernel checks who may read what, though the server is root.
func TestPermissions(t *testing.T) {
	source := t.TempDir()
	makeFile(t, filepath.Join(source, "secret"), 100)
	if err := os.Chmod(filepath.Join(source, "secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	makeFile(t, filepath.Join(source, "open"), 100)
	if err := os.Chmod(source, 0o755); err != nil {
		t.Fatal(err)
	}
	d := startDisk(t, quick(), source)
	if err := os.Chmod(filepath.Dir(d.Dir()), 0o1777); err != nil {
		t.Fatal(err)
	}
	for name, fine := range map[string]bool{"secret": false, "open": true} {
		cat := exec.Command("cat", filepath.Join(d.Dir(), name))
		cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cat.CombinedOutput()
		if (err == nil) != fine {
			t.Errorf("%s as nobody: %v: %q", name, err, out)
		}
	}
}

// Where the file system below refuses O_DIRECT, it works and says so.
func TestWithoutDirectReads(t *testing.T) {
	needDisk(t)
	source := t.TempDir()
	if err := unix.Mount("ramfs", source, "ramfs", 0, ""); err != nil {
		t.Skipf("no ramfs here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(source, unix.MNT_DETACH) })
	if directWorks(t, source) {
		t.Skip("ramfs takes O_DIRECT here")
	}
	data := makeFile(t, filepath.Join(source, "data"), mib+5)
	d := startDisk(t, quick(), source)
	if got, err := os.ReadFile(filepath.Join(d.Dir(), "data")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("other bytes, or %v", err)
	}
	if s := d.Stats(); s.Buffered != 1 {
		t.Errorf("%d files without O_DIRECT, want 1", s.Buffered)
	}
}
