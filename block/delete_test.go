package block

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"headrace/internal/vfs"
)

// TestCreateBesideTheLastDeletion: a file's only block is deleted while another one is created in it. That one stays.
func TestCreateBesideTheLastDeletion(t *testing.T) {
	var s *Store
	created := make(chan *Writer, 1)
	config := Config{Dirs: []string{"/a"}, FS: vfs.NewMem(1<<24, 1), point: func(p string) {
		if p != "delete.unlink" {
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w, err := s.Create(Block{2, 1}, 7, 100, false)
			if err != nil {
				t.Error(err)
			}
			created <- w
		}()
		select { // it may have to wait for the deletion
		case <-done:
		case <-time.After(100 * time.Millisecond):
		}
	}}
	s = opened(t, config)
	mustWrite(t, s, Block{1, 1}, 7, pattern(100))
	must(t, s.Delete(Block{1, 1}))
	w := <-created
	if w == nil {
		t.FailNow()
	}
	content := pattern(90)
	if err := errors.Join(w.Write(content, 0), w.Sync(), w.Finalize(90), w.Close()); err != nil {
		t.Fatal(err)
	}
	config.point = nil
	for range 2 {
		if got, err := readAll(s, Block{2, 1}, 0, 90); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		must(t, s.Close())
		s = opened(t, config)
	}
}
