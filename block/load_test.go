package block

import (
	"bytes"
	"errors"
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
			config := Config{Dirs: []string{"/a"}, FS: mem, Boot: 1}
			s := opened(t, config)
			content := pattern(60 * page)
			w := mustCreate(t, s, Block{1, 1}, 1, 100*page)
			if err := errors.Join(w.Write(content, 0), w.Flush()); err != nil {
				t.Fatal(err)
			}
			bad := s.blocks[1].head.offset + s.volumes[0].dataAt(c.bad)
			mem.Kill()
			mem.Restart(false)
			faulty := config
			faulty.FS = &vfs.Faulty{FS: mem, Fail: badPages(bad)}
			s = opened(t, faulty)
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

// TestUnreadableHeader: of a file that the index does not know one header cannot be read. All other blocks are there.
func TestUnreadableHeader(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	config := Config{Dirs: []string{"/a"}, FS: mem}
	s := opened(t, config)
	content := pattern(5 * page)
	for id := int64(1); id <= 5; id++ {
		mustWrite(t, s, Block{id, 1}, 1, content)
	}
	bad := s.blocks[3].head.offset
	mem.Kill()
	mem.Restart(false)
	faulty := config
	faulty.FS = &vfs.Faulty{FS: mem, Fail: badPages(bad)}
	s = opened(t, faulty)
	for _, id := range []int64{1, 2, 4, 5} {
		if got, err := readAll(s, Block{id, 1}, 0, 5*page); err != nil || !bytes.Equal(got, content) {
			t.Errorf("block %d: %d bytes, %v", id, len(got), err)
		}
	}
	if _, err := s.Stat(3); !errors.Is(err, ErrNotFound) || s.Volumes()[0].Unseen == nil {
		t.Errorf("%v, and it may be there: %v", err, s.Volumes()[0].Unseen)
	}
}

func opened(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
