package data

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/data/datatest"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/wire"
)

// pagesIn returns how many pages of each file of a directory are in memory, found out
// in another way than the daemon's.
func pagesIn(t *testing.T, dir string, n int) []int64 {
	t.Helper()
	pages := make([]int64, n)
	for i := range pages {
		f, err := os.Open(filepath.Join(dir, fmt.Sprintf("%03d", i)))
		if err != nil {
			t.Fatal(err)
		}
		pages[i], err = linux.MappedPages(int(f.Fd()), 0, 1<<20)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

func TestCacheTellsWhatIsInMemory(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	const n = 300 // several messages
	for i := range n {
		path := testkit.File(t, dir, fmt.Sprintf("%03d", i), 5000+i, 0o644)
		if i%2 == 1 {
			testkit.DropFile(t, path)
		}
	}
	before := pagesIn(t, dir, n)
	all, err := datatest.Cache(b.ctx(), b.client, dir, filepath.Join(dir, "none"))
	if err != nil {
		t.Fatal(err)
	}
	after := pagesIn(t, dir, n)
	if len(all.Files) != n || all.Residency == "" {
		t.Fatalf("%d files, method %q", len(all.Files), all.Residency)
	}
	var in, out int
	for i, f := range all.Files {
		if f.Path != filepath.Join(dir, fmt.Sprintf("%03d", i)) || f.Size != int64(5000+i) || f.Pinned != 0 {
			t.Fatalf("file %d: %v", i, f)
		}
		switch { // others on this machine may have had their way with a file
		case before[i] == 2 && after[i] == 2:
			in++
			if f.Resident != f.Size {
				t.Errorf("file %d: %v, all of it is in memory", i, f)
			}
		case before[i] == 0 && after[i] == 0:
			out++
			if f.Resident != 0 {
				t.Errorf("file %d: %v, nothing of it is in memory", i, f)
			}
		}
	}
	if in < n/4 || out < n/4 {
		t.Errorf("%d files stayed in memory and %d out of it: too few to tell", in, out)
	}
	if len(all.Problems) != 1 || all.Problems[0].Reason != "no such file or directory" {
		t.Errorf("problems: %v", all.Problems)
	}
}

func TestAbsurdCacheRequests(t *testing.T) {
	b := newBed(t)
	b.start()
	for name, paths := range map[string][]string{
		"none": nil, "relative": {"a"}, "NUL": {"/a\x00"}, "long": {"/" + strings.Repeat("x", 5000)}, "many": make([]string, maxPaths+1),
	} {
		if _, err := datatest.Cache(b.ctx(), b.client, paths...); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		}
	}
}

// A search whose caller has gone ends, and does not keep that user's others waiting.
func TestSearchEndsWithItsCaller(t *testing.T) {
	b := newBed(t)
	b.start()
	dir, endless := testkit.OpenDir(t), testkit.OpenDir(t)
	for i := range 10 { // 10 to the 30th ways
		if err := os.Symlink(".", filepath.Join(endless, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{endless + strings.Repeat("/*", 30) + "zzz"}
	for verb, search := range map[string]func(ctx context.Context) error{
		"cache": func(ctx context.Context) error { _, err := datatest.Cache(ctx, b.client, paths...); return err },
		"warm": func(ctx context.Context) error {
			_, err := b.client.Warm(ctx, &wire.WarmRequest{Paths: paths})
			return err
		},
		"evict": func(ctx context.Context) error {
			_, err := b.client.Evict(ctx, &wire.EvictRequest{Paths: paths})
			return err
		},
	} {
		t.Run(verb, func(t *testing.T) {
			ctx, leave := context.WithCancel(b.ctx())
			defer leave()
			ended := make(chan error, maxSearches)
			for range maxSearches {
				go func() { ended <- search(ctx) }()
			}
			testkit.Await(t, "all of the user's searches", func() bool {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				_, err := datatest.Cache(short, b.client, dir)
				return connect.CodeOf(err) == connect.CodeDeadlineExceeded
			})
			leave()
			for range maxSearches {
				if err := <-ended; connect.CodeOf(err) != connect.CodeCanceled {
					t.Errorf("a search ended with %v", err)
				}
			}
			if _, err := datatest.Cache(b.ctx(), b.client, dir); err != nil {
				t.Errorf("when the others have gone: %v", err)
			}
		})
	}
}

func TestCacheHasTheRightsOfTheCaller(t *testing.T) {
	needRoot(t)
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	testkit.File(t, dir, "hers", 5000, 0o600)
	testkit.File(t, dir, "open", 6000, 0o644)
	own := testkit.File(t, dir, "own", 7000, 0o600)
	if err := os.Chown(own, 4001, 4001); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.File(t, dir, "private/x", 8000, 0o644)
	got := []string{b.call(4001, "cache "+dir), b.call(4001, "cache "+dir+"/private/x")}
	want := []string{
		// The kernel tells what is in memory only to the owner.
		"open 6000 -1 0; own 7000 7000 0; hers: permission denied; private: permission denied",
		"x: permission denied",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("call %d: %s\nwant    %s", i, got[i], want[i])
		}
	}
}
