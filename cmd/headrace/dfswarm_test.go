package main

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/dfs/dfstest"
	"headrace/hdfs"
	"headrace/internal/testkit"
	"headrace/pagecache"
)

// TestWarmOwnFileSystem: headrace warm and cache work on files of headrace dfs, whose blocks share files. Another file's blocks stay where they are.
func TestWarmOwnFileSystem(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this starts daemons")
	}
	cache, err := pagecache.New(pagecache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	if m, why := cache.Method(); m == pagecache.None {
		t.Skip(why)
	}
	dir := t.TempDir()
	fs, web := dfstest.StartIn(t, dir, "--sync-on-close", "--host-name", "here.test")
	c := &hdfsCluster{t: t, headrace: testkit.Headrace(t), dir: t.TempDir(), addr: "127.0.0.1:0", cache: cache}
	c.env = append(os.Environ(), "HEADRACE_STATE_DIR="+filepath.Join(c.dir, "state"))
	const size = 20<<20 + 12_345
	writer, err := hdfs.New(hdfs.Options{NameNodes: []string{web}, User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.MkdirAll(t.Context(), "/data/day1", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/data/day1/a", "/data/day1/b", "/data/day2"} {
		if err := writer.Create(t.Context(), path, 0o644, func(w io.Writer) error {
			_, err := w.Write([]byte(strings.Repeat("water ", size/6+1)[:size]))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "blocks/files/*/*.blocks"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	in := func() (bytes int64) {
		for _, path := range files {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			n, err := cache.Resident(f, pagecache.Range{Len: 1 << 40})
			f.Close()
			if err != nil {
				t.Fatal(err)
			}
			bytes += n
		}
		return bytes
	}
	drop := func() {
		for _, path := range files {
			testkit.DropFile(t, path)
		}
		unix.Sync()
	}
	drop()
	u, _ := url.Parse(web)
	c.manager, c.addr = launch(t, c.env, `the manager is up" address=(\S+)`, c.headrace, "manager", "--listen", c.addr, "--token-file", c.token(), "--hdfs", "test=http://"+u.Host)
	c.node = c.launchNode(c.env, "--name", "here", "--dfs-node", fs, "--hdfs-host", "here.test", "--warm-budget", "256MB")
	if out := c.must("cache", "hdfs://test/data/day1"); !strings.Contains(out, "hdfs://test/data/day1/a") || !strings.Contains(out, "0 %") {
		t.Errorf("cache of what is cold:\n%s", out)
	}
	out := c.must("warm", "--wait", "--job", "application_1", "hdfs://test/data/day1")
	if !strings.Contains(out, "application_1: 2 files, 42.0 MB in 2 blocks: 42.0 MB in memory") {
		t.Errorf("warm: %s", out)
	}
	if n := in(); n < 2*size || n > 2*size+size/2 {
		t.Errorf("%d bytes are in memory, of two files of %d", n, size)
	}
	testkit.Await(t, "cache to tell of it", func() bool {
		out = c.must("cache", "hdfs://test/data/day1")
		return strings.Contains(out, "100 %") && strings.Contains(out, "here ")
	}, &out)
	drop()
	if n := in(); n < 2*size {
		t.Errorf("%d bytes are in memory: they are not kept there", n)
	}
	c.must("warm", "--evict", "--job", "application_1", "hdfs://test/data/day1")
	testkit.Await(t, "it to be let go", func() bool { drop(); return in() < size })
	testkit.Await(t, "cache to tell of that", func() bool {
		out = c.must("cache", "hdfs://test/data/day1")
		return !strings.Contains(out, "100 %") && strings.Contains(out, "0 %")
	}, &out)
}
