package solo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// callData makes a call about files and tells what came of it in a line; false:
// it is no such call.
func callData(socket, verb, arg string) (answer string, is bool) {
	client := wireconnect.NewDataServiceClient(wire.NewHTTPClient(socket), wire.BaseURL)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	switch verb {
	case "cache":
		answer, err = cacheLine(ctx, client, arg)
	case "holders":
		var all *wire.CacheChunk
		if all, err = cacheOf(ctx, client, arg); err == nil && len(all.Files) > 0 {
			answer = strings.Join(all.Files[0].PinnedBy, ", ")
		}
	default:
		if answer, is, err = callWarm(ctx, client, verb, arg); !is {
			return "", false
		}
	}
	if err != nil {
		answer = connect.CodeOf(err).String()
	}
	return answer, true
}

// cacheOf collects all chunks.
func cacheOf(ctx context.Context, client wireconnect.DataServiceClient, paths ...string) (*wire.CacheChunk, error) {
	stream, err := client.Cache(ctx, &wire.CacheRequest{Paths: paths})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	all := &wire.CacheChunk{}
	for stream.Receive() {
		c := stream.Msg()
		all.Files = append(all.Files, c.Files...)
		all.Problems = append(all.Problems, c.Problems...)
		if c.Residency != "" {
			all.Residency, all.ResidencyWhy = c.Residency, c.ResidencyWhy
		}
	}
	return all, stream.Err()
}

// cacheLine is "NAME SIZE RESIDENT PINNED; " for each file and "NAME: REASON; "
// for each problem.
func cacheLine(ctx context.Context, client wireconnect.DataServiceClient, path string) (string, error) {
	all, err := cacheOf(ctx, client, path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range all.Files {
		fmt.Fprintf(&b, "%s %d %d %d; ", filepath.Base(f.Path), f.Size, f.Resident, f.Pinned)
	}
	for _, p := range all.Problems {
		fmt.Fprintf(&b, "%s: %s; ", filepath.Base(p.Path), p.Reason)
	}
	return strings.TrimSuffix(b.String(), "; "), nil
}

// needCachestat skips where the kernel does not tell what is in memory.
func needCachestat(t *testing.T) {
	t.Helper()
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
}

// dataDir is a directory that everybody may look into.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hr-data-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// dataFile makes a file of that many bytes that is on the disk and in memory.
func dataFile(t *testing.T, dir, name string, size int, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return path
}

// drop takes a file out of memory.
func drop(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// pagesIn is how many pages of each file of a directory are in memory, found out
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
	needCachestat(t)
	b := newBed(t, policy.Cost)
	b.start()
	dir := dataDir(t)
	const n = 300 // several messages
	for i := range n {
		path := dataFile(t, dir, fmt.Sprintf("%03d", i), 5000+i, 0o644)
		if i%2 == 1 {
			drop(t, path)
		}
	}
	before := pagesIn(t, dir, n)
	all, err := cacheOf(b.ctx(), b.data, dir, filepath.Join(dir, "none"))
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
	b := newBed(t, policy.Cost)
	b.start()
	for name, paths := range map[string][]string{
		"none": nil, "relative": {"a"}, "NUL": {"/a\x00"}, "long": {"/" + strings.Repeat("x", 5000)}, "many": make([]string, maxPaths+1),
	} {
		if _, err := cacheOf(b.ctx(), b.data, paths...); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		}
	}
}

func TestCacheHasTheRightsOfTheCaller(t *testing.T) {
	needRoot(t)
	needCachestat(t)
	b := newBed(t, policy.Cost)
	b.start()
	dir := dataDir(t)
	dataFile(t, dir, "hers", 5000, 0o600)
	dataFile(t, dir, "open", 6000, 0o644)
	own := dataFile(t, dir, "own", 7000, 0o600)
	if err := os.Chown(own, 4001, 4001); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	dataFile(t, dir, "private/x", 8000, 0o644)
	got := asUser(t, 4001, wire.SocketPath(b.cfg.StateDir), "cache "+dir, "cache "+dir+"/private/x")
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

func TestSearchesAreBounded(t *testing.T) {
	var s searches
	var ends []func()
	for range maxSearches {
		end, err := s.begin(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.begin(gone, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("one more that does not wait: %v", err)
	}
	if end, err := s.begin(t.Context(), 8); err != nil {
		t.Errorf("somebody else: %v", err)
	} else {
		end()
	}
	// One more waits until one has ended.
	begun := make(chan func())
	go func() {
		end, err := s.begin(t.Context(), 7)
		if err != nil {
			t.Error(err)
		}
		begun <- end
	}()
	select {
	case <-begun:
		t.Fatal("too many at a time")
	case <-time.After(20 * time.Millisecond):
	}
	ends[0]()
	ends[0] = <-begun
	for _, end := range ends {
		end()
	}
	if len(s.open) != 0 {
		t.Errorf("left: %v", s.open)
	}
}
