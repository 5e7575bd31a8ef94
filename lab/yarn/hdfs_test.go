package yarn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/hdfs/hdfstest"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// standstillEnv names the variable with how long writers stand still; empty: 16 s, twice
// what the hasty one's time-outs are. Thirty minutes are what the others bear.
const standstillEnv = "HEADRACE_TEST_STANDSTILL"

// Containers that write to HDFS, with replication 1, and that read from it stand still
// for longer than HDFS is patient with them by default, on a scale of one to eight.
// With the time-outs that the documents name, writers go on; without, most fail. Readers
// go on in any case: they ask again.
func clientsOfHDFS(t *testing.T, c *Cluster) {
	needCRIU(t)
	const quick, patient = 8 * time.Second, 30 * time.Minute
	standing := 2 * quick
	if text := os.Getenv(standstillEnv); text != "" {
		standing = must(time.ParseDuration(text))(t)
	}
	hdfs := startHDFS(t, c, "dfs.client.socket-timeout", fmt.Sprint(patient.Milliseconds()),
		"dfs.datanode.socket.write.timeout", fmt.Sprint(patient.Milliseconds()))
	j := startJobs(t, c)
	client := hdfsClient{j, hdfs}
	fails, suspended := client.writes(t, "fails", quick), client.writes(t, "suspended", patient)
	checkpointed := client.writes(t, "checkpointed", patient)
	writers := []*job{fails, suspended, checkpointed}
	err := await(within(t, patience), "wait for blocks that are being written", patience, func(context.Context) (bool, error) {
		n, err := hdfs.Writing()
		return n == len(writers), err
	})
	if err != nil {
		t.Fatal(err)
	}
	var still []*standstill
	for _, w := range writers {
		still = append(still, w.aside(t))
	}
	for _, k := range must(c.Manager().Containers(t.Context(), &wire.ContainersRequest{}))(t).Containers {
		if k.Hosting.Queue != "root.low" {
			t.Errorf("%s is in the queue %q, want root.low", k.Id, k.Hosting.Queue)
		}
	}
	for _, s := range still {
		s.outlast(t, standing)
		t.Logf("%s was %s for %v", s.id, s.state, time.Since(s.since).Round(time.Second))
		s.goOn(t)
	}
	client.release(t)
	for _, w := range writers {
		good := must(j.Await(within(t, patience), w.name, "finished"))(t).Good
		t.Logf("%s: good %v", w.name, good)
		if w == fails && !good {
			// It goes on where what it waits for is there before it looks at the time.
			if logs := client.logs(t, w); !strings.Contains(logs, "are bad. Aborting") {
				t.Errorf("a writer with short time-outs has failed for another reason:\n%s", logs)
			}
			continue
		}
		if n := client.size(t, w.name); !good || n != hdfsLines*hdfsLine {
			t.Errorf("%s: good %v, %d bytes are written, want %d:\n%s", w.name, good, n, hdfsLines*hdfsLine, client.logs(t, w))
		}
	}
	readers := []*job{client.reads(t, "reads1", suspended.name, quick), client.reads(t, "reads2", suspended.name, quick)}
	still = nil
	for i, r := range readers {
		client.awaitLog(t, r, "line 20")
		still = append(still, r.put(t, []string{"suspended", "checkpointed"}[i]))
	}
	for i, r := range readers {
		still[i].outlast(t, 2*quick)
		still[i].goOn(t)
		if good := must(j.Await(within(t, patience), r.name, "finished"))(t).Good; !good {
			t.Errorf("%s has not read all:\n%s", r.name, client.logs(t, r))
		}
	}
}

const (
	hdfsLines = 300
	hdfsLine  = 8191
)

// hdfsClient starts containers that use a file system of HDFS.
type hdfsClient struct {
	*jobs
	hdfs *hdfstest.HDFS
}

// shell returns the command of an HDFS client with a time-out.
func (h hdfsClient) shell(timeout time.Duration, args string) string {
	ms, shared := timeout.Milliseconds(), h.c.o.Jars.hadoopClasses()
	flags := strings.Join(slices.Concat(smallJVM, shared.flags(), []string{logAs(h.c.confDir())}), " ")
	return fmt.Sprintf("HADOOP_USER_NAME=%s %s -Xmx96m %s -cp %s:%s org.apache.hadoop.fs.FsShell -Ddfs.replication=1 -Ddfs.client.socket-timeout=%d -Ddfs.datanode.socket.write.timeout=%d %s",
		hdfstest.User, h.c.o.Jars.Java, flags, strings.Join(shared.path, ":"), h.c.confDir(), ms, ms, args)
}

func (h hdfsClient) url(file string) string { return "hdfs://" + h.hdfs.RPC + "/" + file }

// writes starts a container that writes a file of its name: some of it at once, the rest
// after release.
func (h hdfsClient) writes(t *testing.T, name string, timeout time.Duration) *job {
	t.Helper()
	command := fmt.Sprintf("set -o pipefail; for i in $(seq %d); do printf '%%0%dd\\n' $i; while [ $i = 30 ] && [ ! -e %s ]; do sleep 0.05; done; done | %s",
		hdfsLines, hdfsLine-1, h.released(), h.shell(timeout, "-put - "+h.url(name)))
	return h.script(t, name, command)
}

func (h hdfsClient) released() string { return filepath.Join(h.c.Dir, "released") }

// release has writers write the rest.
func (h hdfsClient) release(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(h.released(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// reads starts a container that reads such a file slowly; it succeeds with all lines.
func (h hdfsClient) reads(t *testing.T, name, file string, timeout time.Duration) *job {
	t.Helper()
	command := fmt.Sprintf("set -o pipefail; %s | { n=0; while read -r line; do n=$((n + 1)); echo line $n; sleep 0.05; done; [ $n = %d ]; }",
		h.shell(timeout, "-cat "+h.url(file)), hdfsLines)
	return h.script(t, name, command)
}

// script starts a container with lines of bash, in a file because the container's shell
// would expand variables before they have a value.
func (h hdfsClient) script(t *testing.T, name, lines string) *job {
	t.Helper()
	file := filepath.Join(h.c.Dir, name+".sh")
	if err := os.WriteFile(file, []byte(lines+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return h.start(t, ShellJob{Name: name, Queue: "low", Memory: 1024, Command: "bash " + file}, 0)
}

func (h hdfsClient) logs(t *testing.T, j *job) string {
	t.Helper()
	var all strings.Builder
	for name, text := range must(h.c.ContainerLogs(j.application(t)))(t) {
		fmt.Fprintf(&all, "%s:\n%s\n", name, text[max(0, len(text)-2000):])
	}
	return all.String()
}

func (h hdfsClient) awaitLog(t *testing.T, j *job, text string) {
	t.Helper()
	err := await(within(t, patience), "wait for "+text, patience, func(context.Context) (bool, error) {
		return strings.Contains(h.logs(t, j), text), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// size returns the length of a file.
func (h hdfsClient) size(t *testing.T, file string) int {
	t.Helper()
	q := must(http.NewRequestWithContext(t.Context(), http.MethodGet, h.hdfs.URL()+"/webhdfs/v1/"+file+"?op=GETFILESTATUS", nil))(t)
	q.Close = true
	res := must(http.DefaultClient.Do(q))(t)
	defer res.Body.Close()
	var answer struct {
		FileStatus struct {
			Length int `json:"length"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.FileStatus.Length
}

// aside puts the only container of a job aside: checkpointed if that is its name, else
// suspended.
func (j *job) aside(t *testing.T) *standstill {
	t.Helper()
	if j.name == "checkpointed" {
		return j.put(t, j.name)
	}
	return j.put(t, "suspended")
}

func (j *job) put(t *testing.T, state string) *standstill {
	t.Helper()
	s := &standstill{c: j.c, id: must(j.Await(within(t, patience), j.name, "started"))(t).Container, state: state}
	task := j.c.node(t, func(ctx context.Context, node wireconnect.TaskServiceClient) (*wire.Task, error) {
		if state == "checkpointed" {
			return node.Checkpoint(ctx, &wire.VerbRequest{Id: s.id})
		}
		return node.Suspend(ctx, &wire.VerbRequest{Id: s.id})
	})
	if task.State != state {
		t.Fatalf("%s is %s, not %s", s.id, task.State, state)
	}
	s.since = time.Now()
	return s
}
