package block

import (
	"bytes"
	"errors"
	"testing"

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

func opened(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
