package solo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/solo/journal"
	"headrace/solo/presence"
	"headrace/solo/store"
	"headrace/wire"
)

func TestPermissionsOfFiles(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	b.run(headrace.Normal)
	for name, want := range map[string]os.FileMode{
		"": 0o711, "tasks": 0o711, "checkpoints": 0o700, "scratch": 0o700,
		"state.db": 0o600, "lock": 0o600, "headrace.sock": 0o666,
	} {
		st, err := os.Stat(filepath.Join(b.cfg.StateDir, name))
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%q: %v, %v; want mode %o", name, st.Mode(), err, want)
		}
	}
}

func TestAbsurdRequests(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	long := strings.Repeat("x", 100<<10)
	for _, c := range []struct {
		name   string
		change func(*wire.RunRequest)
		says   string
	}{
		{"no command", func(q *wire.RunRequest) { q.Argv = nil }, "no command"},
		{"empty command", func(q *wire.RunRequest) { q.Argv = []string{""} }, "no command"},
		{"NUL", func(q *wire.RunRequest) { q.Argv = []string{"a\x00b"} }, "NUL"},
		{"NUL in cwd", func(q *wire.RunRequest) { q.Cwd = "/a\x00" }, "NUL"},
		{"relative cwd", func(q *wire.RunRequest) { q.Cwd = "a/b" }, "absolute"},
		{"relative output", func(q *wire.RunRequest) { q.Output = "out" }, "absolute"},
		{"relative stdin", func(q *wire.RunRequest) { q.Stdin = "in" }, "absolute"},
		{"endless path", func(q *wire.RunRequest) { q.Output = "/" + long }, "at most"},
		{"priority", func(q *wire.RunRequest) { q.Priority = 12 }, "from 0"},
		{"cpus", func(q *wire.RunRequest) { q.Cpus = 1.5 }, "slots"},
		{"negative cpus", func(q *wire.RunRequest) { q.Cpus = -1 }, "positive"},
		{"tiny cpus", func(q *wire.RunRequest) { q.Cpus = 1e-300 }, "at least"},
		{"NaN", func(q *wire.RunRequest) { q.Cpus = math.NaN() }, "positive"},
		{"infinite", func(q *wire.RunRequest) { q.Cpus = math.Inf(1) }, "positive"},
		{"negative memory", func(q *wire.RunRequest) { q.Memory = -1 }, "bytes"},
		{"too much memory", func(q *wire.RunRequest) { q.Memory = 1 << 60 }, "budget"},
		{"user", func(q *wire.RunRequest) { q.User = "nobody-of-this-name" }, "no user"},
		{"environment", func(q *wire.RunRequest) { q.Env = []string{"novalue"} }, "KEY=VALUE"},
		{"umask", func(q *wire.RunRequest) { q.Umask = proto.Uint32(0o7777) }, "umask"},
		{"name", func(q *wire.RunRequest) { q.Name = "a\x1b[2J" }, "control"},
		{"long name", func(q *wire.RunRequest) { q.Job = long }, "at most"},
		{"restart", func(q *wire.RunRequest) { q.Restart = 9 }, "restart"},
		{"one long argument", func(q *wire.RunRequest) { q.Argv = append(q.Argv, long+long) }, "longer"},
		{"much", func(q *wire.RunRequest) {
			for range 40 {
				q.Env = append(q.Env, "X="+long)
			}
		}, "put them in a file"},
	} {
		if c.name == "user" && os.Geteuid() != 0 {
			continue
		}
		q := &wire.RunRequest{Argv: []string{"work"}}
		c.change(q)
		_, err := b.tasks.Run(b.ctx(), q)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want invalid_argument with %q", c.name, err, c.says)
		}
	}
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	for _, grace := range []float64{math.NaN(), -1, 1e300, math.Inf(1)} {
		if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id), Grace: grace}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("grace %v: %v", grace, err)
		}
	}
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id), Store: "none"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("unknown store: %v", err)
	}
	for _, bad := range []string{"", "t0", "../t1", "t1/../../x", long} {
		if _, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: bad}); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("id %.20q: %v", bad, err)
		}
		if _, err := b.tasks.Forget(b.ctx(), &wire.VerbRequest{Id: bad}); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("forget %.20q: %v", bad, err)
		}
	}
}

// TestGarbage sends things that are no requests.
func TestGarbage(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	for _, junk := range []string{"\x00\xff\xfe", "GET / HTTP/9.9\r\n\r\n", strings.Repeat("A", 1<<20), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00"} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		io.WriteString(conn, junk)
		conn.Close()
	}
	client := wire.NewHTTPClient(socket)
	for path, body := range map[string]string{
		"/headrace.v1.TaskService/Run":  "{",
		"/headrace.v1.TaskService/Get":  `{"id": 7}`,
		"/headrace.v1.TaskService/None": "{}",
		"/":                             "{}",
	} {
		res, err := client.Post(wire.BaseURL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode < 400 || res.StatusCode >= 500 {
			t.Errorf("%s with %s: %s", path, body, res.Status)
		}
	}
	huge := bytes.NewReader(make([]byte, maxRequest+1))
	res, err := client.Post(wire.BaseURL+"/headrace.v1.TaskService/Run", "application/proto", huge)
	if err == nil {
		res.Body.Close()
		if res.StatusCode < 400 || res.StatusCode >= 500 {
			t.Errorf("a huge request: %s", res.Status)
		}
	}
	b.run(headrace.Normal) // it still works
}

func TestJSON(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	client := wire.NewHTTPClient(wire.SocketPath(b.cfg.StateDir))
	res, err := client.Post(wire.BaseURL+"/headrace.v1.NodeService/Info", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var info struct {
		Slots  float64
		Pid    int
		Policy string
	}
	if err := json.NewDecoder(res.Body).Decode(&info); err != nil || info.Slots != 1 || info.Pid != os.Getpid() || info.Policy != "cost" {
		t.Errorf("info as JSON: %+v, %v", info, err)
	}
}

func TestSecondDaemon(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	other := *b
	err := other.tryStart()
	if err == nil || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), b.cfg.StateDir) {
		t.Errorf("a second daemon: %v; want a message with pid and directory", err)
	}
	b.run(headrace.Normal) // the first one is not disturbed
}

// TestSlowReaders: clients that ask for streams and never read hold nobody up.
func TestSlowReaders(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 2
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	for range 20 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		body := "\x00\x00\x00\x00\x02{}"
		fmt.Fprintf(conn, "POST /headrace.v1.TaskService/Watch HTTP/1.1\r\nHost: headrace\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	argv := []string{"work", strings.Repeat("x", 50000)}
	const tasks = 40
	for range tasks {
		b.run(headrace.Normal, func(q *wire.RunRequest) { q.Argv = argv })
	}
	for done := 0; done < tasks; {
		res, err := b.tasks.List(b.ctx(), &wire.ListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		done = tasks - len(res.Tasks)
		running := 0
		for _, task := range res.Tasks {
			if task.State == "running" && task.Doing == "" {
				running++
				b.world.finish(headrace.TaskID(task.Id), 0)
			}
		}
		if running > 2 {
			t.Fatalf("%d tasks run on 2 slots", running)
		}
	}
}

func TestManyListed(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 tasks")
	}
	b := newBed(t, policy.Cost)
	b.start()
	first := b.run(headrace.High)
	b.awaitState(first, headrace.Running)
	clients, each := 50, 200
	if raceDetector() {
		each = 60
	}
	want := clients*each + 1
	errs := make(chan error, clients)
	for range cap(errs) {
		go func() {
			for range each {
				if _, err := b.tasks.Run(context.Background(), &wire.RunRequest{Argv: []string{"work"}, Held: true}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	res, err := b.tasks.List(b.ctx(), &wire.ListRequest{})
	if err != nil || len(res.Tasks) != want {
		t.Fatalf("%d tasks listed, %v", len(res.Tasks), err)
	}
	b.crash()
	b.start()
	b.awaitState(first, headrace.Running)
	if res, err = b.tasks.List(b.ctx(), &wire.ListRequest{}); err != nil || len(res.Tasks) != want {
		t.Fatalf("after a restart: %d tasks listed, %v", len(res.Tasks), err)
	}
}

// TestStateFull: while the file system is full nothing is accepted that could
// not be recorded, and what runs goes on.
func TestStateFull(t *testing.T) {
	b := newBed(t, policy.Cost)
	full := &fullDisk{}
	b.wrap = func(j recorder) recorder { full.recorder = j; return full }
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	full.set(true)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.tasks.Run(ctx, &wire.RunRequest{Argv: []string{"work"}}); err == nil {
		t.Error("a task was accepted that could not be recorded")
	}
	b.finish(id, 0)
	if got := b.get(id); got.State != "running" {
		t.Errorf("%s was announced before it was recorded", got.State)
	}
	full.set(false)
	b.awaitState(id, headrace.Done)
	b.run(headrace.Normal)
}

func TestLogs(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	out, _ := b.conn.Logs(id)
	if err := os.MkdirAll(filepath.Dir(out), 0o711); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("one\n")
	stream, err := b.tasks.Logs(b.ctx(), &wire.LogsRequest{Id: string(id), Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want string) {
		t.Helper()
		if !stream.Receive() || string(stream.Msg().Data) != want {
			t.Fatalf("got %q, %v; want %q", stream.Msg().GetData(), stream.Err(), want)
		}
	}
	next("one\n")
	f.WriteString("two\n")
	next("two\n")
	f.WriteString("last\n")
	b.finish(id, 0)
	next("last\n")
	if stream.Receive() || stream.Err() != nil {
		t.Errorf("the stream does not end with the task: %v", stream.Err())
	}

	for _, c := range []struct {
		q    *wire.LogsRequest
		at   int64
		want string
	}{
		{&wire.LogsRequest{Tail: proto.Uint32(2)}, 4, "two\nlast\n"},
		{&wire.LogsRequest{Tail: proto.Uint32(0)}, 13, ""},
		{&wire.LogsRequest{Tail: proto.Uint32(2), StdoutFrom: proto.Int64(10)}, 10, "st\n"},
		{&wire.LogsRequest{StdoutFrom: proto.Int64(1000)}, 13, ""},
	} {
		c.q.Id, c.q.Stream = string(id), wire.Stream_STREAM_STDOUT
		stream, err := b.tasks.Logs(b.ctx(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() || stream.Msg().Offset != c.at || len(stream.Msg().Data) > 0 {
			t.Errorf("%v begins with %v, %v; want the offset %d", c.q, stream.Msg(), stream.Err(), c.at)
		}
		text := ""
		for stream.Receive() {
			text += string(stream.Msg().Data)
		}
		if text != c.want || stream.Err() != nil {
			t.Errorf("%v: %q, %v; want %q", c.q, text, stream.Err(), c.want)
		}
	}
	// Whoever comes back with an offset in the log of an attempt before gets all of the new one.
	last := func(q *wire.LogsRequest) (text string, at *wire.LogChunk) {
		q.Id, q.Stream = string(id), wire.Stream_STREAM_STDOUT
		stream, err := b.tasks.Logs(b.ctx(), q)
		if err != nil {
			t.Fatal(err)
		}
		for stream.Receive() {
			at = stream.Msg()
			text += string(at.Data)
		}
		if stream.Err() != nil {
			t.Fatal(stream.Err())
		}
		return text, at
	}
	_, old := last(&wire.LogsRequest{})
	seen := old.Offset + int64(len(old.Data))
	if text, at := last(&wire.LogsRequest{StdoutFrom: &seen, StdoutLog: old.Log}); text != "" || at.Log != old.Log || at.Offset != seen {
		t.Errorf("%q comes again of the same log: %v", text, at)
	}
	for _, again := range []string{"short\n", "longer than the attempt before\n"} {
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(out, []byte(again), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, at := last(&wire.LogsRequest{StdoutFrom: &seen, StdoutLog: old.Log}); text != again || at.Log == old.Log {
			t.Errorf("of a new log comes %q, want %q", text, again)
		}
	}
	refused, err := b.tasks.Logs(b.ctx(), &wire.LogsRequest{Id: string(id), StdoutFrom: proto.Int64(-1)})
	if err != nil || refused.Receive() || connect.CodeOf(refused.Err()) != connect.CodeInvalidArgument {
		t.Errorf("an offset below 0: %v, %v", err, refused.Err())
	}

	// A log that its owner has replaced by a link leads nowhere.
	evil := b.run(headrace.Normal)
	b.awaitState(evil, headrace.Running)
	path, _ := b.conn.Logs(evil)
	os.MkdirAll(filepath.Dir(path), 0o711)
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if got, err := allLogs(b.ctx(), b.tasks, string(evil)); err == nil {
		t.Errorf("a link was followed: %q", got)
	}
	b.finish(evil, 0)

	other := b.run(headrace.Normal, func(q *wire.RunRequest) { q.Output = "/tmp/elsewhere" })
	if _, err := allLogs(b.ctx(), b.tasks, string(other)); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "/tmp/elsewhere") {
		t.Errorf("logs of a task with an output file: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	b := newBed(t, policy.Checkpoint)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.cfg.Metrics = l.Addr().String()
	l.Close()
	b.start()
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	b.awaitState(b.run(headrace.High), headrace.Running)
	b.awaitState(low, headrace.Checkpointed)
	b.run(headrace.Low, func(q *wire.RunRequest) { q.Held = true })
	res, err := http.Get("http://" + b.cfg.Metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`headrace_tasks{state="running"} 1`, `headrace_tasks{state="checkpointed"} 1`,
		`headrace_preemptions_total{mechanism="checkpoint"} 1`, `headrace_preemptions_total{mechanism="kill"} 0`,
		"headrace_dumps_total 1", "headrace_dump_bytes_total 1.048576e+08", "headrace_queue_length 1", "headrace_tasks_held 1",
		"headrace_slots 1", "headrace_slots_used 1", `headrace_store_away{store="state"} 0`, "headrace_restore_failures_total 0", `headrace_store_write_bytes_per_second{store="state"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	testkit.WantAlarms(t, string(text), func(metric string) bool {
		return !strings.HasPrefix(metric, "headrace_dfs_") && !strings.HasPrefix(metric, "headrace_manager_") && metric != "headrace_disk_hangs_seconds"
	})
	dir := filepath.Join(b.cfg.StateDir, "checkpoints")
	if presence.InMemory(dir) {
		return // nothing is held to be missing there
	}
	if err := os.Rename(dir, dir+".mounted"); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the store to be away", func() bool {
		res, err := http.Get("http://" + b.cfg.Metrics + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return err == nil && strings.Contains(string(text), `headrace_store_away{store="state"} 1`) && !strings.Contains(string(text), "headrace_store_free_bytes{")
	})
}

func TestConfigurationMistakes(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"relative state":   func(c *Config) { c.StateDir = "state" },
		"slots":            func(c *Config) { c.Slots = -1 },
		"slots NaN":        func(c *Config) { c.Slots = math.NaN() },
		"memory":           func(c *Config) { c.Memory = -1 },
		"metrics for all":  func(c *Config) { c.Metrics = "0.0.0.0:9000" },
		"metrics by name":  func(c *Config) { c.Metrics = "example.org:9000" },
		"metrics nonsense": func(c *Config) { c.Metrics = "9000" },
		"policy":           func(c *Config) { c.Policy.Policy = "nice" },
		"store name":       func(c *Config) { c.Stores = []store.Config{{Dir: "/x"}} },
		"store dir":        func(c *Config) { c.Stores = []store.Config{{Name: "x", Dir: "x"}} },
		"stores twice":     func(c *Config) { c.Stores = []store.Config{{Name: "x", Dir: "/x"}, {Name: "x", Dir: "/y"}} },
	} {
		cfg := Config{StateDir: "/nonexistent", Shim: "/shim"}
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// fullDisk is a journal on a file system that can be full.
type fullDisk struct {
	recorder
	mu   sync.Mutex
	full bool
	// by is a file that takes the room; empty: it is taken for good.
	by string
}

func (f *fullDisk) set(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
}

// takenBy makes it full as long as a file is there.
func (f *fullDisk) takenBy(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full, f.by = true, path
}

func (f *fullDisk) Commit(b journal.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by != "" {
		_, err := os.Lstat(f.by)
		f.full = f.full && err == nil
	}
	if f.full {
		return errors.Join(journal.ErrNoSpace, unix.ENOSPC)
	}
	return f.recorder.Commit(b)
}
