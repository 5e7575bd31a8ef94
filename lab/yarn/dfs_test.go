package yarn

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"os/user"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

// ourFS is a file system of Headrace's that jobs read and write, as clients of HDFS.
type ourFS struct {
	hdfs, web string
}

func startOurFS(t *testing.T) *ourFS {
	t.Helper()
	l := must(freeport.Listen("127.0.0.1"))(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command(testkit.Headrace(t), "dfs", "start", "--dir", t.TempDir(), "--port", "0", "--data-port", "0", "--http-port", port)
	out := must(cmd.StdoutPipe())(t)
	ended := testkit.Start(t, cmd)
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if !cmd.ProcessState.Success() {
			t.Errorf("headrace dfs start ends with %v", cmd.ProcessState)
		}
	})
	lines := bufio.NewReader(out)
	line := func() string { return strings.TrimSpace(must(lines.ReadString('\n'))(t)) }
	return &ourFS{line(), line()}
}

// put writes a file, by another way than jobs do.
func (f *ourFS) put(t *testing.T, path, text string) {
	t.Helper()
	f.ask(t, http.MethodPut, path, "CREATE&data=true", strings.NewReader(text))
}

func (f *ourFS) cat(t *testing.T, path string) string {
	t.Helper()
	return f.ask(t, http.MethodGet, path, "OPEN", nil)
}

func (f *ourFS) ask(t *testing.T, method, path, op string, body io.Reader) string {
	t.Helper()
	user := must(user.Current())(t).Username
	q := must(http.NewRequestWithContext(within(t, patience), method, f.web+"/webhdfs/v1"+path+"?user.name="+user+"&op="+op, body))(t)
	q.Header.Set("Content-Type", "application/octet-stream")
	r := must(http.DefaultClient.Do(q))(t)
	defer r.Body.Close()
	text := string(must(io.ReadAll(r.Body))(t))
	if r.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s: %s", op, path, r.Status, text)
	}
	return text
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
		example(t, "teragen", "40000", "/rows") // 4 MB: four blocks
		example(t, "terasort", "/rows", "/sorted")
		example(t, "teravalidate", "/sorted", "/report")
		report := f.cat(t, "/report/part-r-00000")
		if !strings.HasPrefix(report, "checksum\t") || strings.Contains(report, "error") {
			t.Errorf("teravalidate: %s", report)
		}
	})
}
