package block

import (
	"bytes"
	"errors"
	"testing"

	"headrace/internal/vfs"
)

// TestDirectoryThatIsNotDurable: a process ends when it has made a directory of files that is not durable yet; the next one makes a block in
// it durable, and the power fails.
func TestDirectoryThatIsNotDurable(t *testing.T) {
	content := pattern(100)
	for seed := range uint64(20) {
		mem := vfs.NewMem(1<<24, seed)
		armed := false
		config := Config{Dirs: []string{"/a"}, FS: &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error {
			if armed && op.Kind == "syncdir" && op.Name == "/a/files" {
				mem.Kill()
			}
			return nil
		}}}
		s := opened(t, config)
		armed = true
		if _, err := s.Create(Block{1, 1}, 7, 100, false); !errors.Is(err, vfs.ErrDead) {
			t.Fatal(err)
		}
		armed = false
		mem.Restart(false)
		s = opened(t, config)
		w := mustCreate(t, s, Block{2, 1}, 7, 100)
		if err := errors.Join(w.Write(content, 0), w.Sync()); err != nil {
			t.Fatal(err)
		}
		mem.Kill()
		mem.Restart(true)
		s = opened(t, config)
		if got, err := readAll(s, Block{2, 1}, 0, 100); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("seed %d: %d bytes, %v", seed, len(got), err)
		}
	}
}
