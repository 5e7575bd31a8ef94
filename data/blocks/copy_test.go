package blocks

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"headrace/pagecache"
)

// asked is a cache that counts how often it is asked.
type asked struct {
	pagecache.Cache
	times int
	in    int64
	err   error
}

func (a *asked) Resident(*os.File, pagecache.Range) (int64, error) {
	a.times++
	return a.in, a.err
}

// TestPartsAreAskedAboutWhenSomethingChanged: the kernel is asked about a part when what is in memory around it has changed, and only then.
func TestPartsAreAskedAboutWhenSomethingChanged(t *testing.T) {
	const size = pagecache.BlockSize
	c, s := &asked{in: 5}, &shared{parts: []int64{0, 0, 0, 0}}
	part, state := pagecache.Range{Off: size + 4096, Len: size}, partState{}
	is := func(what string, want int64, times int) {
		t.Helper()
		if got := s.in(c, part, &state); got != want || c.times != times {
			t.Errorf("%s: %d bytes after %d times, want %d after %d", what, got, c.times, want, times)
		}
	}
	is("at first", 5, 1)
	is("again", 5, 1)
	s.parts[0], s.parts[3] = 7, 7
	is("something before and behind", 5, 1)
	s.parts[2], c.in = 9, 8
	is("something in it", 8, 2)
	s.parts[1], c.in, c.err = 1, 0, errors.New("no answer")
	is("no answer", 8, 3)
	c.err = nil
	is("asked again for that", 0, 4)
	s.parts = nil // the file is shorter than it was said to be
	is("nothing is known", 0, 5)
}

// TestSharedFiles: blocks in one file share one watch, which ends with the last of them.
func TestSharedFiles(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, _, err := inodeOf(f)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := r.share(at, f); err != nil {
			t.Fatal(err)
		}
	}
	wantEqual(t, "watches", len(r.cache.open), 1)
	r.leave(at)
	r.leave(at)
	wantEqual(t, "watches", len(r.cache.open), 1)
	r.leave(at)
	wantEqual(t, "watches", len(r.cache.open), 0)
	wantEqual(t, "shared files", len(r.shared), 0)
	if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := r.share(at, f)
	if err != nil {
		t.Fatal(err)
	}
	if found, _, err := inodeOf(s.data); found != at || err != nil {
		t.Errorf("another file is shared by the name of the first: %v", err)
	}
	r.leave(at)
	wantEqual(t, "watches", len(r.cache.open), 0)
}
