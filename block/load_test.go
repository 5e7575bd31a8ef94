package block

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/vfs"
)

// TestUnfinishedCopyComesFirst: the process ends while a copy is made that lies before other blocks of its file. They stay.
func TestUnfinishedCopyComesFirst(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	config := Config{Dirs: []string{"/a"}, FS: mem}
	s := opened(t, config)
	if _, err := s.Create(Block{1, 1}, 1, 100, true); err != nil {
		t.Fatal(err)
	}
	content := pattern(100)
	w := mustCreate(t, s, Block{2, 1}, 1, 100)
	if err := errors.Join(w.Write(content, 0), w.Sync(), w.Finalize(100)); err != nil {
		t.Fatal(err)
	}
	mem.Kill()
	mem.Restart(false)
	s = opened(t, config)
	if got, err := readAll(s, Block{2, 1}, 0, 100); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestFullBlockAfterPowerFailure: a full block that ends within a chunk is closed, the power fails, it is appended to, and the process
// ends. It still has all that it had.
func TestFullBlockAfterPowerFailure(t *testing.T) {
	full := 0
	for seed := range uint64(400) {
		mem := vfs.NewMem(1<<24, seed)
		config := Config{Dirs: []string{"/a"}, FS: mem}
		s := opened(t, config)
		w := mustCreate(t, s, Block{1, 1}, 1, 4)
		if err := errors.Join(w.Write([]byte("ab"), 0), w.Sync(), w.Write([]byte("cd"), 2), w.Finalize(4)); err != nil {
			t.Fatal(err)
		}
		mem.Kill()
		mem.Restart(true)
		s = opened(t, config)
		if i, err := s.Stat(1); err != nil || i.State != Final {
			continue // it may have lost its end
		}
		if _, err := s.Append(Block{1, 1}, 1, 4); errors.Is(err, ErrDamaged) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		full++
		mem.Kill()
		mem.Restart(false)
		s = opened(t, config)
		if got, err := readAll(s, Block{1, 1}, 0, 4); err != nil || string(got) != "abcd" {
			t.Fatalf("seed %d: %q, %v", seed, got, err)
		}
	}
	if full == 0 {
		t.Error("the block was full after no power failure")
	}
}

// TestReplacedBeforeItIsDurable: the process ends when a copy has been closed that is to replace a block, and is not durable; the power
// fails when the next process deletes the one that is older. One of them is there.
func TestReplacedBeforeItIsDurable(t *testing.T) {
	content := pattern(6000)
	for seed := range uint64(400) {
		mem := vfs.NewMem(1<<24, seed)
		at, passes := "", 0
		config := Config{Dirs: []string{"/a"}, FS: mem, point: func(p string) {
			if p == at {
				if passes--; passes == 0 {
					mem.Kill()
				}
			}
		}}
		s := opened(t, config)
		w := mustCreate(t, s, Block{1, 1}, 1, 8000)
		if err := errors.Join(w.Write(content, 0), w.Sync(), w.Finalize(6000)); err != nil {
			t.Fatal(err)
		}
		w, err := s.Create(Block{1, 2}, 1, 8000, true)
		if err != nil {
			t.Fatal(err)
		}
		at, passes = "sync.header", 2
		if err := errors.Join(w.Write(content, 0), w.Finalize(6000)); err == nil {
			t.Fatal("it goes on")
		}
		mem.Restart(false)
		at, passes = "delete.header", 1
		if _, err := Open(config); err == nil {
			t.Fatal("nothing is deleted")
		}
		mem.Restart(true)
		s = opened(t, config)
		i, err := s.Stat(1)
		got, rerr := readAll(s, i.Block, 0, 6000)
		if err = errors.Join(err, rerr); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("seed %d: %+v, %v", seed, i, err)
		}
	}
}

// badPages fails reads of any of these bytes of the files of blocks.
func badPages(at ...int64) func(vfs.Op) error {
	return func(op vfs.Op) error {
		for _, a := range at {
			if op.Kind == "read" && strings.Contains(op.Name, "/files/") && op.Off <= a && a < op.Off+op.Len {
				return unix.EIO
			}
		}
		return nil
	}
}

// TestUnreadableWhileWritten: the process ends while a block is being written, and then some of that cannot be read. What is before is
// there, and the rest when it can be read again.
func TestUnreadableWhileWritten(t *testing.T) {
	for _, c := range []struct {
		name      string
		bad, want int64
		damaged   bool
	}{
		{"in its middle", 40 * page, 40 * page, false},
		{"at its beginning", 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem(1<<24, 1)
			config := Config{Dirs: []string{"/a"}, FS: mem, Since: always(1)}
			s := opened(t, config)
			content := pattern(60 * page)
			w := mustCreate(t, s, Block{1, 1}, 1, 100*page)
			if err := errors.Join(w.Write(content, 0), w.Flush()); err != nil {
				t.Fatal(err)
			}
			bad := s.blocks[1].head.offset + s.volumes[0].dataAt(c.bad)
			mem.Kill()
			mem.Restart(false)
			faulty, told := config, make(chan Info, 2)
			faulty.FS = &vfs.Faulty{FS: mem, Fail: badPages(bad)}
			faulty.Damaged = func(i Info, _ error) { told <- i }
			s = opened(t, faulty)
			if c.damaged {
				if i := <-told; i.ID != 1 || i.State != Waiting || !i.Damaged || s.Volumes()[0].Damaged != 1 {
					t.Errorf("%+v is told of", i)
				}
			}
			i, err := s.Stat(1)
			if err != nil || i.State != Waiting || i.Whole || i.Length != c.want || i.Damaged != c.damaged {
				t.Fatalf("%+v, %v", i, err)
			}
			if got, err := readAll(s, Block{1, 1}, 0, c.want); err != nil || !bytes.Equal(got, content[:c.want]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			mem.Kill()
			mem.Restart(false)
			s = opened(t, config)
			if got, err := readAll(s, Block{1, 1}, 0, 60*page); err != nil || !bytes.Equal(got, content) {
				t.Errorf("when it can be read again: %d bytes, %v", len(got), err)
			}
		})
	}
}

// TestUnreadableHeader: of a file that the index does not know one header cannot be read. All other blocks are there, and more can be made, which are there
// also when that header can be read again; so is its block, unless its place was needed, as only that of the last one is.
func TestUnreadableHeader(t *testing.T) {
	for _, c := range []struct {
		name  string
		block int64 // of which the header cannot be read
		again bool  // it can be when another block is made
		back  bool  // its block is there at the next start
	}{
		{"in the middle", 3, false, true},
		{"the first", 1, false, true},
		{"the last", 5, false, false},
		{"the last, for some time", 5, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem(1<<24, 1)
			config := Config{Dirs: []string{"/a"}, FS: mem}
			s := opened(t, config)
			content := pattern(5 * page)
			for id := int64(1); id <= 5; id++ {
				w := mustCreate(t, s, Block{id, 1}, 1, 20*page)
				must(t, errors.Join(w.Write(content, 0), w.Finalize(5*page)))
			}
			fail := badPages(s.blocks[c.block].head.offset)
			mem.Kill()
			mem.Restart(false)
			faulty := config
			faulty.FS = &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error { return fail(op) }}
			s = opened(t, faulty)
			want := []int64{1, 2, 3, 4, 5}
			want = slices.DeleteFunc(want, func(id int64) bool { return id == c.block })
			read := func() {
				t.Helper()
				for _, id := range want {
					if got, err := readAll(s, Block{id, 1}, 0, 5*page); err != nil || !bytes.Equal(got, content) {
						t.Errorf("block %d: %d bytes, %v", id, len(got), err)
					}
				}
			}
			read()
			v := s.Volumes()[0]
			if _, err := s.Stat(c.block); !errors.Is(err, ErrNotFound) || v.Unseen != nil || len(v.Gaps) != 1 || v.Gaps[0].File != 1 || !errors.Is(v.Gaps[0].Cause, unix.EIO) {
				t.Errorf("%v, and it may be there: %v, %v", err, v.Unseen, v.Gaps)
			}
			must(t, s.Snapshot()) // which does not say that there is nothing
			if c.again {
				fail = badPages()
			}
			for id := int64(6); id <= 7; id++ {
				mustWrite(t, s, Block{id, 1}, 1, content)
				want = append(want, id)
			}
			read()
			if gaps := s.Volumes()[0].Gaps; (len(gaps) > 0) != c.back {
				t.Errorf("it may be there: %v", gaps)
			}
			must(t, s.Snapshot())
			mem.Kill()
			mem.Restart(false)
			s = opened(t, config)
			if c.back {
				want = append(want, c.block)
			} else if _, err := s.Stat(c.block); !errors.Is(err, ErrNotFound) {
				t.Errorf("what was given up: %v", err)
			}
			read()
			mustWrite(t, s, Block{8, 1}, 1, content)
			want = append(want, 8)
			read()
			for _, id := range want {
				must(t, s.Delete(Block{id, 1}))
			}
			if _, err := mem.Open(s.volumes[0].path(1), 0); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file of deleted blocks: %v", err)
			}
		})
	}
}

// TestUnreadableHeaderOfAnotherDisk: while a file has room on another disk, nothing of what cannot be read is given up.
func TestUnreadableHeaderOfAnotherDisk(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	config := Config{Dirs: []string{"/a", "/b"}, FS: mem}
	s := opened(t, config)
	mustWrite(t, s, Block{1, 1}, 1, pattern(page))
	first, _ := s.Stat(1)
	mem.Kill()
	mem.Restart(false)
	faulty := config
	faulty.FS = &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error {
		if op.Kind == "read" && strings.HasPrefix(op.Name, first.Dir+"/files/") {
			return unix.EIO
		}
		return nil
	}}
	s = opened(t, faulty)
	mustWrite(t, s, Block{2, 1}, 1, pattern(page))
	if second, _ := s.Stat(2); second.Dir == first.Dir {
		t.Error("it lies where not all is known")
	}
	mem.Kill()
	mem.Restart(false)
	s = opened(t, config)
	for id := int64(1); id <= 2; id++ {
		if got, err := readAll(s, Block{id, 1}, 0, page); err != nil || !bytes.Equal(got, pattern(page)) {
			t.Errorf("block %d: %d bytes, %v", id, len(got), err)
		}
	}
}

// always says that nothing of any disk was lost in a time.
func always(time uint64) func(string) uint64 { return func(string) uint64 { return time } }

func opened(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
