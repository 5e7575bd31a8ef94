package vfs

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fs FS, name string, flags int) File {
	t.Helper()
	f, err := fs.Open(name, os.O_RDWR|flags)
	must(t, err)
	return f
}

func content(t testing.TB, f File) []byte {
	t.Helper()
	n, err := f.Size()
	must(t, err)
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}

// TestAsTheRealOne does the same at random to real files and to those in memory.
func TestAsTheRealOne(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		mem := NewMem(1<<24, seed)
		must(t, mem.MkdirAll(dir))
		name := func() string { return filepath.Join(dir, string(rune('a'+r.IntN(3)))) }
		for step := range 100 {
			var results [2]string
			n, off, size, op := name(), r.Int64N(3*pageSize), r.Int64N(3*pageSize), r.IntN(9)
			to, p := name(), bytes.Repeat([]byte{byte(step + 1)}, int(size))
			for i, fs := range []FS{OS{}, mem} {
				results[i] = doBoth(t, fs, op, n, to, off, size, p)
			}
			if results[0] != results[1] {
				t.Fatalf("seed %d step %d: operation %d: really %q, in memory %q", seed, step, op, results[0], results[1])
			}
		}
		for _, n := range []string{"a", "b", "c"} {
			os.Remove(filepath.Join(dir, n))
		}
	}
}

func doBoth(t *testing.T, fs FS, op int, name, to string, off, size int64, p []byte) string {
	outcome := func(err error) string {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return errno.Error()
		}
		must(t, err)
		return ""
	}
	switch op {
	case 0:
		return outcome(fs.Rename(name, to))
	case 1:
		return outcome(fs.Remove(name))
	case 2:
		names, err := fs.List(filepath.Dir(name))
		must(t, err)
		return string(bytes.Join([][]byte{[]byte(filepath.Join(names...))}, nil))
	}
	flags := os.O_RDWR
	if op >= 6 {
		flags |= os.O_CREATE
	}
	f, err := fs.Open(name, flags)
	if err != nil {
		return outcome(err)
	}
	defer f.Close()
	switch op {
	case 3:
		must(t, f.Truncate(size))
	case 4:
		must(t, f.Allocate(off, size+1))
	case 5:
		must(t, f.Punch(off, size+1))
	default:
		_, err := f.WriteAt(p, off)
		must(t, err)
	}
	return string(content(t, f))
}

func TestPowerFailure(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		m := NewMem(1<<20, seed)
		must(t, m.MkdirAll("/d"))
		must(t, m.SyncDir("/"))
		f := open(t, m, "/d/kept", os.O_CREATE)
		old := bytes.Repeat([]byte("o"), 2*pageSize)
		_, err := f.WriteAt(old, 0)
		must(t, err)
		must(t, f.Sync())
		must(t, m.SyncDir("/d"))
		_, err = f.WriteAt(bytes.Repeat([]byte("n"), 2*pageSize), 0)
		must(t, err)
		open(t, m, "/d/x", os.O_CREATE)
		open(t, m, "/d/y", os.O_CREATE)
		must(t, m.Remove("/d/kept"))
		m.Kill()
		if _, err := f.WriteAt(old, 0); !errors.Is(err, ErrDead) {
			t.Fatalf("a dead process writes: %v", err)
		}
		if _, err := m.List("/d"); !errors.Is(err, ErrDead) {
			t.Fatalf("a dead process lists: %v", err)
		}
		m.Restart(seed%4 != 0)
		names, err := m.List("/d")
		must(t, err)
		if seed%4 == 0 {
			if filepath.Join(names...) != "x/y" {
				t.Fatalf("after the end of a process there are %v", names)
			}
			continue
		}
		seen[filepath.Join(names...)]++
		if g, err := m.Open("/d/kept", os.O_RDWR); err == nil {
			c := content(t, g)
			for p := 0; p < len(c); p += sector {
				if s := c[p : p+sector]; !bytes.Equal(s, bytes.Repeat(s[:1], sector)) || s[0] != 'o' && s[0] != 'n' {
					t.Fatal("a sector is torn")
				}
			}
			seen["first "+string(c[0])+" last "+string(c[len(c)-1])]++
			seen["within a page "+string(c[0])+string(c[sector])]++
		}
	}
	for _, want := range []string{"kept", "kept/x", "kept/y", "kept/x/y", "x", "y", "x/y", "first o last n", "first n last o", "within a page on", "within a page no"} {
		if seen[want] == 0 {
			t.Errorf("never happened: %s", want)
		}
	}
}

func TestDurableSurvives(t *testing.T) {
	for seed := range uint64(100) {
		m := NewMem(1<<20, seed)
		must(t, m.MkdirAll("/d/e"))
		must(t, m.SyncDir("/"))
		must(t, m.SyncDir("/d"))
		f := open(t, m, "/d/e/new", os.O_CREATE)
		_, err := f.WriteAt([]byte("content"), 5000)
		must(t, err)
		must(t, f.Sync())
		must(t, m.Rename("/d/e/new", "/d/e/f"))
		must(t, m.SyncDir("/d/e"))
		m.Kill()
		m.Restart(true)
		if c := content(t, open(t, m, "/d/e/f", 0)); string(c[5000:]) != "content" {
			t.Fatalf("%q", c)
		}
	}
}

func TestRoom(t *testing.T) {
	m := NewMem(10*pageSize, 1)
	f := open(t, m, "/f", os.O_CREATE)
	if n, err := f.WriteAt(make([]byte, 11*pageSize), 0); n != 10*pageSize || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%d, %v", n, err)
	}
	must(t, f.Punch(0, 4*pageSize))
	if err := f.Allocate(10*pageSize, 5*pageSize); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	must(t, f.Allocate(10*pageSize, 4*pageSize))
	if free, _, _ := m.Space("/"); free != 0 {
		t.Errorf("%d free", free)
	}
	must(t, m.Remove("/f"))
	if free, _, _ := m.Space("/"); free != 0 {
		t.Errorf("%d free while it is open", free)
	}
	must(t, f.Close())
	if free, _, _ := m.Space("/"); free != 10*pageSize {
		t.Errorf("%d free", free)
	}
}

func TestLocks(t *testing.T) {
	for name, fs := range map[string]FS{filepath.Join(t.TempDir(), "l"): OS{}, "/l": NewMem(0, 1)} {
		l, err := fs.Lock(name)
		must(t, err)
		if _, err := fs.Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("locked twice: %v", err)
		}
		must(t, l.Close())
		l, err = fs.Lock(name)
		must(t, err)
		must(t, l.Close())
	}
}

func TestFaulty(t *testing.T) {
	var kinds []string
	var fail error
	f := &Faulty{FS: NewMem(1<<20, 1), Fail: func(op Op) error { kinds = append(kinds, op.Kind); return fail }}
	g := open(t, f, "/f", os.O_CREATE)
	fail = &Short{N: 2, Err: syscall.ENOSPC}
	if n, err := g.WriteAt([]byte("four"), 0); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%d, %v", n, err)
	}
	fail = syscall.EIO
	_, rerr := g.ReadAt(make([]byte, 1), 0)
	_, lerr := f.List("/")
	_, _, serr := f.Space("/")
	for _, err := range []error{rerr, lerr, serr, g.Sync(), g.Truncate(0), g.Allocate(0, 1), g.Punch(0, 1), f.Rename("/f", "/g"), f.Remove("/f"),
		f.MkdirAll("/d"), f.SyncDir("/")} {
		if err != syscall.EIO {
			t.Errorf("%v", err)
		}
	}
	fail = nil
	if c := content(t, g); string(c) != "fo" {
		t.Errorf("%q", c)
	}
	if len(kinds) != 14 {
		t.Errorf("asked about %v", kinds)
	}
}
