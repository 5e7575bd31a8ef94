package yarn

import (
	"fmt"
	"io"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"headrace/dfs/dfstest"
	"headrace/hdfs"
	"headrace/internal/testkit"
)

// ourFS is a file system of Headrace's that jobs read and write, as clients of HDFS; client does so by another way.
type ourFS struct {
	hdfs   string
	client *hdfs.Client
}

func startOurFS(t *testing.T) *ourFS {
	t.Helper()
	address, web := dfstest.Start(t)
	return &ourFS{address, must(hdfs.New(hdfs.Options{NameNodes: []string{web}, User: must(user.Current())(t).Username}))(t)}
}

func (f *ourFS) put(t *testing.T, path, text string) {
	t.Helper()
	must(0, f.client.MkdirAll(within(t, patience), filepath.Dir(path), 0o755))(t)
	must(0, f.client.Create(within(t, patience), path, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }))(t)
}

func (f *ourFS) cat(t *testing.T, path string) string {
	t.Helper()
	r := must(f.client.Open(within(t, patience), path))(t)
	defer r.Close()
	return string(must(io.ReadAll(r))(t))
}

// Jobs without any jar of Headrace's compute on its file system, which is the default one of a stock YARN.
func (f *ourFS) jobs(t *testing.T, c *Cluster) {
	example := func(t *testing.T, args ...string) {
		t.Helper()
		given := map[string]string{"mapreduce.job.reduces": "2", "dfs.blocksize": "1048576"}
		must(0, must(c.MapReduce(MapReduceJob{Name: args[0], Queue: "low", Args: args, Properties: given}))(t).Succeed(within(t, patience)))(t)
	}
	t.Run("WordCount", func(t *testing.T) {
		for i := range 3 {
			f.put(t, fmt.Sprint("/words/", i), strings.Repeat(quickLine, 1000*(i+1)))
		}
		example(t, "wordcount", "/words", "/counted")
		got := map[string]string{}
		for line := range strings.Lines(f.cat(t, "/counted/part-r-00000") + f.cat(t, "/counted/part-r-00001")) {
			word, n, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got[word] = n
		}
		if len(got) != 8 || got["the"] != "12000" || got["fox"] != "6000" {
			t.Errorf("counted: %v", got)
		}
	})
	t.Run("TeraSort", func(t *testing.T) {
		testkit.Long(t)
		example(t, "teragen", "40000", "/rows") // 4 MB: four blocks
		example(t, "terasort", "/rows", "/sorted")
		example(t, "teravalidate", "/sorted", "/report")
		report := f.cat(t, "/report/part-r-00000")
		if !strings.HasPrefix(report, "checksum\t") || strings.Contains(report, "error") {
			t.Errorf("teravalidate: %s", report)
		}
	})
}
