package pagecache_test

import (
	"errors"
	"os"
	"testing"

	"headrace/pagecache"
	"headrace/pagecache/pagecachetest"
)

// open makes a cache that is closed with the test, which is skipped where the
// method is not to be had.
func open(t testing.TB, c pagecache.Config) pagecache.Cache {
	t.Helper()
	pc, err := pagecache.New(c)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pc.Close(); err != nil {
			t.Error(err)
		}
	})
	return pc
}

var diskDir = pagecache.DiskDir

// read reads a range and nothing besides, if f is opened for random access.
func read(t testing.TB, f *os.File, r pagecache.Range) {
	t.Helper()
	b := make([]byte, 64<<10)
	for end := r.Off + r.Len; r.Off < end; r.Off += int64(len(b)) {
		if _, err := f.ReadAt(b[:min(end-r.Off, int64(len(b)))], r.Off); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConforms(t *testing.T) {
	for _, method := range []pagecache.Method{pagecache.BPF, pagecache.Cachestat} {
		t.Run(string(method), func(t *testing.T) {
			if testing.Short() && method == pagecache.BPF {
				t.Skip("loading the programs for each trial takes two seconds")
			}
			open(t, pagecache.Config{Method: method})
			pagecachetest.Conform(t, pagecachetest.World{
				New: func(t testing.TB, c pagecache.Config) pagecache.Cache {
					if c.Method == "" {
						c.Method = method
					}
					return open(t, c)
				},
				Load: func(t testing.TB, _ pagecache.Cache, f *os.File, r pagecache.Range) { read(t, f, r) },
				Dir:  diskDir(t),
			})
		})
	}
}
