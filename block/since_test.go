package block

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/vfs"
)

// TestDiskThatLostPages: of two disks one was unmounted, or has failed, while the machine went on, and has lost what was not synced. What it has of a block that was being
// written is not all that was flushed; what the other has is.
func TestDiskThatLostPages(t *testing.T) {
	kept, lost := vfs.NewMem(1<<24, 1), vfs.NewMem(1<<24, 1)
	since := map[string]uint64{"/a": 7, "/b": 7}
	config := func(dir string, fs vfs.FS) Config {
		return Config{Dirs: []string{dir}, FS: fs, Since: func(dir string) uint64 { return since[dir] }}
	}
	for dir, mem := range map[string]*vfs.Mem{"/a": kept, "/b": lost} {
		s := opened(t, config(dir, mem))
		w := mustCreate(t, s, Block{1, 1}, 1, 50*page)
		must(t, errors.Join(w.Write(pattern(10*page), 0), w.Sync(), w.Write(pattern(20*page), 10*page), w.Flush()))
		mem.Kill()
	}
	kept.Restart(false)
	lost.Restart(true)
	since["/b"] = 8
	for dir, mem := range map[string]*vfs.Mem{"/a": kept, "/b": lost} {
		i, err := opened(t, config(dir, mem)).Stat(1)
		if err != nil || i.State != Waiting || i.Whole != (dir == "/a") || i.Length < 10*page || dir == "/a" && i.Length != 30*page {
			t.Errorf("%s: %+v, %v", dir, i, err)
		}
	}
}

// TestLostEndIsRemembered: a block that was being written has lost its end, since a bit of it has flipped. It is not all that was flushed, also at later starts on the same machine, and when the first of
// these ends as soon as what is behind the good part is erased.
func TestLostEndIsRemembered(t *testing.T) {
	for _, point := range []string{"", "salvage.erased"} {
		mem := vfs.NewMem(1<<24, 1)
		config := Config{Dirs: []string{"/d"}, FS: mem, Since: func(string) uint64 { return 7 }}
		s := opened(t, config)
		w := mustCreate(t, s, Block{1, 1}, 1, page)
		must(t, errors.Join(w.Write(pattern(5*Chunk), 0), w.Flush()))
		mem.Flip(s.volumes[0].path(1), w.r.head.offset+s.volumes[0].dataAt(2*Chunk), 0)
		for range 3 {
			mem.Kill()
			mem.Restart(false)
			first := point
			config.point = func(at string) {
				if at == first {
					mem.Kill()
				}
			}
			s, err := Open(config)
			if point = ""; first != "" {
				if !errors.Is(err, ErrOut) {
					t.Fatalf("it goes on behind %s: %v", first, err)
				}
				continue
			}
			must(t, err)
			if i, err := s.Stat(1); err != nil || i.State != Waiting || i.Whole || i.Length != 2*Chunk {
				t.Errorf("%+v, %v", i, err)
			}
		}
	}
}

// TestFailureIsHeardOf: a disk that fails while the store is opened has been told of when that ends, so that the next start can know.
func TestFailureIsHeardOf(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	config := Config{Dirs: []string{"/a"}, FS: mem}
	s := opened(t, config)
	w := mustCreate(t, s, Block{1, 1}, 1, page)
	must(t, errors.Join(w.Write(pattern(700), 0), w.Flush()))
	mem.Kill()
	mem.Restart(false)
	heard := ""
	config.FS = &vfs.Faulty{FS: mem, Fail: on("/a", "sync", unix.EIO)}
	config.Out = func(dir string, _ error) {
		time.Sleep(10 * time.Millisecond)
		heard = dir
	}
	if _, err := Open(config); !errors.Is(err, ErrOut) || heard != "/a" {
		t.Errorf("%v, told of %q", err, heard)
	}
}
