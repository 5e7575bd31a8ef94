package block

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/vfs"
)

// TestKeptCopyIsDurable: what others have synced of a block has to survive here, too, once they are not in its pipeline any more.
func TestKeptCopyIsDurable(t *testing.T) {
	for seed := range uint64(50) {
		mem := vfs.NewMem(1<<24, seed)
		s := opened(t, Config{Dirs: []string{"/a"}, FS: mem})
		w, err := s.Create(Block{1, 1}, 1, page, true)
		must(t, err)
		must(t, errors.Join(w.Write(pattern(1000), 0), w.Keep()))
		mem.Kill()
		mem.Restart(true)
		s = opened(t, Config{Dirs: []string{"/a"}, FS: mem})
		if got, err := readAll(s, Block{1, 1}, 0, 1000); err != nil || !bytes.Equal(got, pattern(1000)) {
			t.Fatalf("seed %d: %d bytes, %v", seed, len(got), err)
		}
	}
}

// TestRecoveryOfADamagedEnd: a block is recovered, and its last chunk is not as it was written. What is before that is kept: else the recovery
// would never end.
func TestRecoveryOfADamagedEnd(t *testing.T) {
	for what, spoil := range map[string]func(f *faulty, path string, at int64){
		"flipped": func(f *faulty, path string, at int64) { f.mem.Flip(path, at, 3) },
		"not readable": func(f *faulty, path string, at int64) {
			f.when(func(op vfs.Op) error {
				if op.Kind == "read" && op.Name == path && op.Off <= at && at < op.Off+op.Len {
					return unix.EIO
				}
				return nil
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := openFaulty(t, 1<<24, 2*page, "/a")
			w := mustCreate(t, f.Store, Block{1, 1}, 1, page)
			must(t, errors.Join(w.Write(pattern(700), 0), w.Sync()))
			v := f.volumes[0]
			spoil(f, v.path(1), v.dataAt(600))
			i, err := f.StartRecovery(Block{1, 1}, 2)
			if err != nil || i.State != Waiting || i.Length != Chunk {
				t.Fatalf("%+v, %v", i, err)
			}
			must(t, f.FinishRecovery(Block{1, 1}, 2, Chunk))
			if got, err := readAll(f.Store, Block{1, 2}, 0, Chunk); err != nil || !bytes.Equal(got, pattern(Chunk)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// TestOldCopyBesideADamagedOne: what is damaged still has more than a copy of an older generation.
func TestOldCopyBesideADamagedOne(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a")
	old, err := f.Create(Block{1, 5}, 1, page, true)
	must(t, err)
	must(t, old.Write(pattern(10), 0))
	must(t, old.Close())
	mustWrite(t, f.Store, Block{1, 6}, 1, pattern(2*Chunk))
	f.mem.Flip(f.volumes[0].path(1), f.blocks[1].head.offset+f.volumes[0].dataAt(3), 3)
	if _, err := readAll(f.Store, Block{1, 6}, 0, 2*Chunk); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	if w, err := f.Create(Block{1, 5}, 1, page, true); !errors.Is(err, ErrFenced) {
		t.Errorf("%v, %v", w, err)
	}
}

// TestGenerationIsDurable: a block that was durable is opened again, and the power fails. It has the new generation, which may have been recorded.
func TestGenerationIsDurable(t *testing.T) {
	for seed := range uint64(50) {
		mem := vfs.NewMem(1<<24, seed)
		s := opened(t, Config{Dirs: []string{"/a"}, FS: mem})
		w := mustCreate(t, s, Block{1, 1}, 1, page)
		must(t, errors.Join(w.Write(pattern(1000), 0), w.Sync(), w.Finalize(1000)))
		w, err := s.Append(Block{1, 1}, 2, 1000)
		must(t, err)
		must(t, w.Finalize(1000))
		mem.Kill()
		mem.Restart(true)
		s = opened(t, Config{Dirs: []string{"/a"}, FS: mem})
		if got, err := readAll(s, Block{1, 2}, 0, 1000); err != nil || !bytes.Equal(got, pattern(1000)) {
			t.Fatalf("seed %d: %d bytes, %v", seed, len(got), err)
		}
	}
}

// TestFlippedBitAndKill: of a block that is written a bit flips, and the process ends. What is behind that cannot be trusted, and the
// block does not count as one that has all.
func TestFlippedBitAndKill(t *testing.T) {
	for at, want := range map[int64]int64{-1: 1500, 100: 0, 700: Chunk, 1400: 2 * Chunk} {
		mem := vfs.NewMem(1<<24, 1)
		config := Config{Dirs: []string{"/a"}, FS: mem, Since: always(7)}
		s := opened(t, config)
		w := mustCreate(t, s, Block{1, 1}, 1, page)
		must(t, errors.Join(w.Write(pattern(1500), 0), w.Flush()))
		mem.Kill()
		mem.Restart(false)
		if at >= 0 {
			mem.Flip(s.volumes[0].path(1), s.volumes[0].dataAt(at), 3)
		}
		s = opened(t, config)
		if i, err := s.Stat(1); err != nil || i.Whole != (at < 0) || i.Length != want {
			t.Errorf("at %d: %+v, %v", at, i, err)
		}
	}
}

// TestSyncedAndDecayed: of a block that is written a bit flips of what was synced, and the process ends. What is before it is left, and that the rest is lost is told.
func TestSyncedAndDecayed(t *testing.T) {
	for _, flip := range []bool{false, true} {
		mem := vfs.NewMem(1<<24, 1)
		var log bytes.Buffer
		config := Config{Dirs: []string{"/a"}, FS: mem}
		s := opened(t, config)
		w := mustCreate(t, s, Block{1, 1}, 1, page)
		must(t, errors.Join(w.Write(pattern(700), 0), w.Sync(), w.Write(pattern(1000)[700:], 700), w.Sync())) // only with the second one is the first certain
		mem.Kill()
		mem.Restart(false)
		want := int64(1000)
		if flip {
			want = Chunk
			mem.Flip(s.volumes[0].path(1), s.volumes[0].dataAt(600), 3)
		}
		config.Log = slog.New(slog.NewTextHandler(&log, nil))
		s = opened(t, config)
		if i, err := s.Stat(1); err != nil || i.State != Waiting || i.Length != want {
			t.Errorf("flipped %v: %+v, %v", flip, i, err)
		}
		if strings.Contains(log.String(), "synced=700 left=512") != flip {
			t.Errorf("flipped %v: it is told: %s", flip, &log)
		}
	}
}

// TestUnreadableBehindTheEnd: a sector cannot be read that a block has not reached, or not any more. It has all that it had.
func TestUnreadableBehindTheEnd(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a")
	f.Since, f.volumes[0].since = always(7), 7
	w := mustCreate(t, f.Store, Block{1, 1}, 1, page)
	must(t, errors.Join(w.Write(pattern(700), 0), w.Flush()))
	f.mem.Kill()
	f.mem.Restart(false)
	path, at := f.volumes[0].path(1), f.volumes[0].dataAt(3*Chunk)
	f.when(func(op vfs.Op) error {
		if op.Kind == "read" && op.Name == path && op.Off <= at && at < op.Off+op.Len {
			return unix.EIO
		}
		return nil
	})
	s := opened(t, f.Config)
	if i, err := s.Stat(1); err != nil || i.Damaged || !i.Whole || i.Length != 700 {
		t.Errorf("%+v, %v", i, err)
	}
}
