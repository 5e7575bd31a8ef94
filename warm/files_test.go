package warm

import (
	"errors"
	"testing"

	"headrace/pagecache"
)

// TestPutAndDrop: a request gets further files and loses some, and what is said of it anew counts for all.
func TestPutAndDrop(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(100)}}, func(t *testing.T, w *world) {
		q := w.job("j", w.file("d1/b", blocks(2)), w.file("d1/d", blocks(1)))
		put := func(files ...File) {
			t.Helper()
			q.Files = files
			if err := w.e.Put(q); err != nil {
				t.Fatal(err)
			}
			w.settle()
		}
		stands := func(files ...File) (all []FileStatus) {
			for _, f := range files {
				all = append(all, w.e.Files([]FileOf{{q.ID, f}})...)
			}
			return all
		}
		b, d := q.Files[0], q.Files[1]
		put(b, d)
		w.wantReads("b@0", "b@1", "d@0")
		a, c, e, gone := w.file("d1/a", blocks(1)), w.file("d2/c", blocks(1)), w.file("d1/e", blocks(4)), File{Path: w.dir + "/d1/gone", Size: 9}
		part := File{Path: e.Path, Off: 2 * testBlock, Size: testBlock}
		e.Size = testBlock
		put(a, b, c, a)
		put(part, e, gone)
		w.wantPinned(7)
		if s := w.status(q.ID); !s.Done || s.Files != 7 || s.Pinned != blocks(7) || s.FailedFiles != 1 {
			t.Errorf("%+v", s)
		}
		for i, s := range stands(a, c, e, part) {
			if s != (FileStatus{Pinned: testBlock, Known: true, Done: true}) {
				t.Errorf("file %d: %+v", i, s)
			}
		}
		if s := stands(gone)[0]; !s.Failed || s.Reason != "no such file or directory" {
			t.Errorf("what is not there: %+v", s)
		}

		// It goes as it is read from now on, also what was asked for before.
		q.Implicit = true
		put()
		w.e.Read(q.Job, b.Path, pagecache.Range{Len: b.Size})
		w.e.Read(q.Job, part.Path, pagecache.Range{Off: part.Off, Len: part.Size})
		w.wantPinned(4)
		if s := stands(b, part, e); s[0].Read != blocks(2) || s[1].Read != testBlock || s[2].Pinned != testBlock {
			t.Errorf("what was read: %+v", s)
		}

		drop := func(files ...File) {
			t.Helper()
			if err := w.e.Drop(q.ID, files); err != nil {
				t.Fatal(err)
			}
		}
		drop(c, c, gone, File{Path: "/nothing"})
		w.wantPinned(3)
		if s := stands(c, gone); s[0].Known || s[1].Known {
			t.Errorf("what was taken out: %+v", s)
		}
		put(c) // it is in memory still
		if s := stands(c)[0]; s.Resident != testBlock || !s.Done {
			t.Errorf("what is back: %+v", s)
		}
		drop(a, b, c, d, e, part)
		w.wantPinned(0)
		if err := w.e.Drop(q.ID, nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("a request without files: %v", err)
		}
		q.Files, q.Budget = nil, -1
		if err := w.e.Put(q); !errors.Is(err, ErrRequest) {
			t.Errorf("a bad request: %v", err)
		}
	})
}
