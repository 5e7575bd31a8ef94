package block

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/vfs"
)

// again opens the store of a test once more, its disks one after the other in that order.
func (f *faulty) again(t *testing.T, change func(*Config)) *Store {
	t.Helper()
	must(t, f.Close())
	c := f.Config
	c.OneByOne = true
	change(&c)
	f.Store = opened(t, c)
	return f.Store
}

// copied makes a copy of a block, as one that comes from another node.
func copied(t *testing.T, s *Store, b Block, content []byte) {
	t.Helper()
	w := mustCopy(t, s, b, 1, content)
	must(t, errors.Join(w.Finalize(int64(len(content))), w.Close()))
}

// TestDiskFailsAgainAtTheStart: a disk has failed, what it had has been made again on another one, and when they are opened it fails again. That takes nothing of the other one.
func TestDiskFailsAgainAtTheStart(t *testing.T) {
	here, there := pattern(3*page), pattern(4 * page)[page:]
	for _, c := range []struct {
		name  string
		order []string
		stamp uint64 // of what is on the disk that fails
		fails string
	}{
		{"it is read first", []string{"/a", "/b"}, 1, "write"},
		{"it is read last", []string{"/b", "/a"}, 1, "write"},
		{"what it has is newer, and cannot be made durable", []string{"/b", "/a"}, 2, "sync"},
		{"what it has is older, and cannot be removed", []string{"/a", "/b"}, 1, "sync"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
			mustWrite(t, f.Store, Block{1, c.stamp}, 1, here)
			w := mustCreate(t, f.Store, Block{2, 1}, 2, page)
			must(t, errors.Join(w.Write(here[:1000], 0), w.Flush()))
			for id := int64(1); id <= 2; id++ {
				if i, err := f.Stat(id); err != nil || i.Dir != "/a" {
					t.Fatalf("%+v, %v", i, err)
				}
			}
			f.when(on("/a", "sync", unix.EIO))
			if err := w.Sync(); !errors.Is(err, ErrOut) {
				t.Fatal(err)
			}
			w.Close()
			f.when(nil)
			copied(t, f.Store, Block{1, 1}, there)
			if got := <-f.out; got != "/a" {
				t.Fatal(got)
			}

			f.when(on("/a", c.fails, unix.EIO))
			s := f.again(t, func(c2 *Config) { c2.Dirs = c.order })
			for _, v := range s.Volumes() {
				if (v.Cause != nil) != (v.Dir == "/a") {
					t.Errorf("%s: %v", v.Dir, v.Cause)
				}
			}
			if got, err := readAll(s, Block{1, 1}, 0, int64(len(there))); err != nil || !bytes.Equal(got, there) {
				t.Errorf("the copy on the other disk: %d bytes, %v", len(got), err)
			}
			if _, err := s.Stat(2); !errors.Is(err, ErrOut) && !errors.Is(err, ErrNotFound) || s.Volumes()[slices.Index(c.order, "/a")].Unseen == nil {
				t.Errorf("what only the disk has that fails: %v", err)
			}
		})
	}
}

// TestTwoAlike: of two replicas alike the one stays that is known to be whole, and else the one on the disk that has failed less often.
func TestTwoAlike(t *testing.T) {
	for _, durable := range []bool{false, true} {
		for _, order := range [][]string{{"/a", "/b"}, {"/b", "/a"}} {
			f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
			f.SyncOnClose = durable
			mustWrite(t, f.Store, Block{1, 1}, 1, pattern(page))
			f.volumes[0].takeOut(unix.EIO)
			copied(t, f.Store, Block{1, 1}, pattern(page))
			s := f.again(t, func(c *Config) {
				c.Dirs = order
				if durable {
					c.Failures = func(dir string) uint64 { return map[string]uint64{"/a": 1}[dir] }
				}
			})
			i, err := s.Stat(1)
			if got, rerr := readAll(s, Block{1, 1}, 0, page); err != nil || rerr != nil || i.Dir != "/b" || !bytes.Equal(got, pattern(page)) {
				t.Errorf("durable %v, %v: %+v, %v, %v", durable, order, i, err, rerr)
			}
			if s.volumes[0].replicas+s.volumes[1].replicas != 1 {
				t.Errorf("they count %d and %d", s.volumes[0].replicas, s.volumes[1].replicas)
			}
		}
	}
}

// TestTwoAlikeInABadFile: a block is on two disks, and one file cannot be opened any more, though the index of its disk has it. Neither disk is out for that, and what can be read stays;
// what is newer stays known where it cannot be read.
func TestTwoAlikeInABadFile(t *testing.T) {
	for _, bad := range []string{"/a", "/b"} {
		for _, stamp := range []uint64{1, 2} { // of what is on /a
			for _, order := range [][]string{{"/a", "/b"}, {"/b", "/a"}} {
				f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
				f.SyncOnClose = true
				mustWrite(t, f.Store, Block{1, stamp}, 1, pattern(page))
				must(t, f.Snapshot())
				name := map[string]string{"/a": f.volumes[0].path(1), "/b": f.volumes[1].path(1)}[bad]
				f.volumes[0].takeOut(unix.EIO)
				copied(t, f.Store, Block{1, 1}, pattern(page))
				must(t, f.Close())
				f.when(func(op vfs.Op) error {
					if (op.Kind == "open" || op.Kind == "remove") && op.Name == name {
						return unix.EIO
					}
					return nil
				})
				s := f.again(t, func(c *Config) { c.Dirs = order })
				at := fmt.Sprintf("%s is bad, generation %d, %v", bad, stamp, order)
				for _, v := range s.Volumes() {
					if v.Cause != nil {
						t.Errorf("%s: %s: %v", at, v.Dir, v.Cause)
					}
				}
				i, err := s.Stat(1)
				if newer := stamp == 2 || bad == "/b"; err != nil || (i.Dir == "/a") != newer || i.Damaged != (i.Dir == bad) {
					t.Errorf("%s: %+v, %v", at, i, err)
				}
				if _, err := readAll(s, i.Block, 0, page); (err != nil) != (i.Dir == bad) {
					t.Errorf("%s: %v", at, err)
				}
				if s.volumes[0].replicas+s.volumes[1].replicas != 1 {
					t.Errorf("%s: they count %d and %d", at, s.volumes[0].replicas, s.volumes[1].replicas)
				}
			}
		}
	}
}

// twice is a store with a block on two disks, that on /b made when /a had failed, before it is opened again.
func twice(t *testing.T) *faulty {
	t.Helper()
	f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
	f.SyncOnClose = true
	for i, temporary := range []bool{false, true} {
		w, err := f.Create(Block{1, 1}, 1, 2*page, temporary)
		must(t, err)
		must(t, errors.Join(w.Write(pattern(page), 0), w.Finalize(page)))
		if i == 0 {
			f.volumes[0].takeOut(unix.EIO)
		}
	}
	return f
}

// TestTwoAlikeAreRead: of two replicas alike that stays which can be read.
func TestTwoAlikeAreRead(t *testing.T) {
	for _, bad := range [][]int{nil, {0}, {1}, {0, 1}} {
		f := twice(t)
		must(t, f.Close())
		for _, n := range bad {
			must(t, f.mem.Flip(f.volumes[n].path(1), f.volumes[n].dataAt(100), 3))
		}
		s := f.again(t, func(*Config) {})
		i, err := s.Stat(1)
		got, rerr := readAll(s, Block{1, 1}, 0, page)
		switch {
		case len(bad) < 2 && (err != nil || rerr != nil || i.Damaged || !bytes.Equal(got, pattern(page)) || s.volumes[0].replicas+s.volumes[1].replicas != 1):
			t.Errorf("%v damaged: %+v, %v, %v", bad, i, err, rerr)
		case len(bad) == 2 && (err != nil || !i.Damaged):
			t.Errorf("both damaged: %+v, %v", i, err)
		}
	}
}

// TestTwoAlikeAreDamaged: of two replicas alike of which neither can be read one is known, as damaged, and the other one stays on its disk: it may have good chunks that the first one has not.
func TestTwoAlikeAreDamaged(t *testing.T) {
	for _, failed := range []string{"/a", "/b"} {
		f := twice(t)
		must(t, f.Close())
		for _, v := range f.volumes {
			must(t, f.mem.Flip(v.path(1), v.dataAt(100), 3))
		}
		s := f.again(t, func(c *Config) {
			c.Failures = func(dir string) uint64 { return map[string]uint64{failed: 1}[dir] }
		})
		if i, err := s.Stat(1); err != nil || !i.Damaged {
			t.Errorf("%+v, %v", i, err)
		}
		if told := <-f.bad; told.ID != 1 {
			t.Errorf("told of %+v", told)
		}
		must(t, s.Delete(Block{1, 1}))
		left := 0
		for _, v := range s.volumes {
			if f, err := f.mem.Open(v.path(1), 0); err == nil {
				f.Close()
				left++
			}
		}
		s = f.again(t, func(*Config) {})
		if _, err := s.Stat(1); left != 1 || err != nil {
			t.Errorf("%s has failed: %d files are left, and the next start finds %v", failed, left, err)
		}
	}
}

// TestAppendedUnderItsGeneration: what was appended to a block under the generation that it had, and synced, is not lost to what a disk has of it that was out of use then, however that is
// found again.
func TestAppendedUnderItsGeneration(t *testing.T) {
	for _, first := range []string{"", "/a", "/b"} {
		f := twice(t)
		w, err := f.Append(Block{1, 1}, 1, page)
		must(t, err)
		must(t, errors.Join(w.Write(pattern(2 * page)[page:], page), w.Sync()))
		must(t, w.Close())
		must(t, f.Close())
		f.when(func(op vfs.Op) error {
			if op.Kind == "list" && first != "" && !strings.HasPrefix(op.Name, first) {
				return unix.EIO
			}
			return nil
		})
		s := f.again(t, func(*Config) {})
		f.when(nil)
		for i, v := range s.volumes {
			if v.err() != nil {
				for !v.letGo() {
					runtime.Gosched()
				}
				must(t, attach(s, i, v))
			}
		}
		i, err := s.Stat(1)
		if err != nil || i.Length != 2*page || i.Dir != "/b" {
			t.Errorf("with %q first: %+v, %v", first, i, err)
		}
	}
}

// TestSyncedAgainUnderItsGeneration: a copy that was synced when it was gone on with is not given up, when the power fails, for what a disk has of
// it that was out of use then, and was closed there without being made durable.
func TestSyncedAgainUnderItsGeneration(t *testing.T) {
	for _, n := range []int{page, mostCompared + page} { // what is alike is read, and is too long for that
		content, lost := pattern(n), 0
		for seed := range uint64(20) {
			mem := vfs.NewMem(1<<26, seed)
			config := Config{Dirs: []string{"/a", "/b"}, FS: mem, OneByOne: true}
			s := opened(t, config)
			mustWrite(t, s, Block{1, 1}, 1, content)
			path, at := s.volumes[0].path(1), s.volumes[0].dataAt(0)
			s.volumes[0].takeOut(unix.EIO)
			copied(t, s, Block{1, 1}, content)
			w, err := s.Append(Block{1, 1}, 1, int64(n))
			must(t, err)
			must(t, w.Sync())
			mem.Kill()
			mem.Restart(true)
			if f, err := mem.Open(path, 0); err != nil {
				lost++
			} else {
				p := make([]byte, n)
				if _, err := f.ReadAt(p, at); err != nil || !bytes.Equal(p, content) {
					lost++
				}
				f.Close()
			}
			s = opened(t, config)
			i, err := s.Stat(1)
			must(t, err)
			if got, err := readAll(s, i.Block, 0, i.Length); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("seed %d, %d bytes: %+v, %v", seed, n, i, err)
			}
			must(t, s.Close())
		}
		if lost == 0 {
			t.Errorf("%d bytes: /a lost nothing", n)
		}
	}
}

// TestShorterCopyOfAGeneration: a copy takes the place of a longer replica of its generation, as two rounds of one recovery may leave them, but not of one that
// was appended to since the copy began.
func TestShorterCopyOfAGeneration(t *testing.T) {
	for _, appended := range []bool{false, true} {
		f := openFaulty(t, 1<<24, 2*page, "/a")
		first := mustCreate(t, f.Store, Block{1, 1}, 1, 2*page)
		must(t, errors.Join(first.Write(pattern(page), 0), first.Finalize(page)))
		must(t, first.Close())
		c, err := f.Create(Block{1, 1}, 1, 2*page, true)
		must(t, err)
		length, want := int64(100), error(nil)
		if appended {
			w, err := f.Append(Block{1, 1}, 1, page)
			must(t, err)
			must(t, errors.Join(w.Write(pattern(2 * page)[page:], page), w.Flush()))
			must(t, w.Close())
			length, want = page, ErrExists
		}
		must(t, c.Write(pattern(int(length)), 0))
		if err := c.Finalize(length); !errors.Is(err, want) {
			t.Errorf("appended %v: %v", appended, err)
		}
		must(t, c.Close())
		if appended {
			length = 2 * page
		}
		if i, err := f.Stat(1); err != nil || i.Length != length {
			t.Errorf("appended %v: %+v, %v", appended, i, err)
		}
	}
}

// TestAppendIsKnownToThePower: a closed block that is appended to under the generation that it has is never again found closed as it was.
func TestAppendIsKnownToThePower(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a")
	for id := range int64(20) {
		mustWrite(t, f.Store, Block{id, 1}, uint64(id), pattern(page))
		w, err := f.Append(Block{id, 1}, 1, page)
		must(t, err)
		defer w.Close()
	}
	f.mem.Kill()
	f.Close()
	f.mem.Restart(true)
	s := opened(t, f.Config)
	for _, i := range s.Blocks() {
		if i.State == Final {
			t.Errorf("%+v", i)
		}
	}
}

// TestDirectoryThatCannotBeListed: what is in it is not known, and is not written there; all else on the disk is as it was, and with the next start it is there.
func TestDirectoryThatCannotBeListed(t *testing.T) {
	for _, dirs := range [][]string{{"/a"}, {"/a", "/b"}} {
		f := openFaulty(t, 1<<24, 2*page, dirs...)
		for file := range uint64(2) {
			mustWrite(t, f.Store, Block{int64(file), 1}, file, pattern(page))
			if i, err := f.Stat(int64(file)); err != nil || i.Dir != "/a" {
				t.Fatalf("%+v, %v", i, err)
			}
		}
		must(t, f.Close())
		f.when(func(op vfs.Op) error {
			if op.Kind == "list" && op.Name == "/a/files/01" {
				return unix.EIO
			}
			return nil
		})
		s := f.again(t, func(*Config) {})
		v := s.Volumes()[0]
		if v.Cause != nil || v.Unseen != nil || len(v.Gaps) != 1 || !v.Gaps[0].Has(1) || !v.Gaps[0].Has(257) || v.Gaps[0].Has(2) || !errors.Is(v.Gaps[0].Cause, unix.EIO) {
			t.Fatalf("%+v", v)
		}
		if _, err := readAll(s, Block{0, 1}, 0, page); err != nil {
			t.Error(err)
		}
		if _, err := s.Stat(1); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		w, err := s.Create(Block{3, 1}, 257, page, false)
		if len(dirs) == 1 && !errors.Is(err, ErrNoEnd) || len(dirs) == 2 && err != nil {
			t.Errorf("%v: a block in that directory: %v", dirs, err)
		}
		if err == nil {
			if i, err := s.Stat(3); err != nil || i.Dir != "/b" {
				t.Errorf("%+v, %v", i, err)
			}
			must(t, w.Close())
		}
		mustWrite(t, s, Block{2, 1}, 2, pattern(page))
		f.when(nil)
		s = f.again(t, func(*Config) {})
		for id := range int64(3) {
			if _, err := readAll(s, Block{id, 1}, 0, page); err != nil {
				t.Errorf("block %d: %v", id, err)
			}
		}
	}
}

// TestDirectoriesThatCannotBeListed: a disk is out of use if that are many, or all.
func TestDirectoriesThatCannotBeListed(t *testing.T) {
	for _, c := range []struct {
		dirs, bad int
		out       bool
	}{{2, 2, true}, {20, mostUnlisted, false}, {20, mostUnlisted + 1, true}} {
		synctest.Test(t, func(t *testing.T) {
			f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
			f.volumes[1].late.Store(1)
			for file := range uint64(c.dirs) {
				mustWrite(t, f.Store, Block{int64(file), 1}, file, pattern(page))
			}
			must(t, f.Close())
			f.when(func(op vfs.Op) error {
				if file, err := strconv.ParseUint(strings.TrimPrefix(op.Name, "/a/files/"), 16, 8); op.Kind == "list" && err == nil && file < uint64(c.bad) {
					time.Sleep(45 * time.Second) // less than the disk is waited for, each time
					return unix.EIO
				}
				return nil
			})
			s := f.again(t, func(*Config) {})
			if v := s.Volumes()[0]; (v.Unseen != nil) != c.out || !c.out && len(v.Gaps) != c.bad {
				t.Errorf("%d of %d: %+v", c.bad, c.dirs, v)
			}
			must(t, f.Close())
		})
	}
}
