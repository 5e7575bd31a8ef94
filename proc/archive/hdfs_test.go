package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for something that must happen.
const patience = 60 * time.Second

// hadoop is where the build of java/cluster gathers jars: lib those of all daemons,
// hdfs that of name node and data node.
const hadoop = "../../java/cluster/target/hadoop"

// testHDFS is a name node and a data node, started once, when first asked for.
var testHDFS struct {
	sync.Mutex
	tried  bool
	skip   string
	err    error
	url    string
	nodes  []*exec.Cmd
	dir    string
	places int
}

func TestMain(m *testing.M) {
	code := m.Run()
	stopHDFS()
	os.Exit(code)
}

// newHDFS returns a place in a directory of its own.
func newHDFS(t testing.TB) Place {
	t.Helper()
	h := &testHDFS
	h.Lock()
	defer h.Unlock()
	if !h.tried {
		h.tried = true
		h.skip, h.err = startHDFS()
	}
	if h.skip != "" {
		t.Skip(h.skip)
	}
	if h.err != nil {
		t.Fatal(h.err)
	}
	h.places++
	p, err := WebHDFS(t.Context(), HDFS{NameNodes: []string{h.url}, User: hdfsUser, Dir: fmt.Sprintf("/apps/headrace%d", h.places)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const hdfsUser = "headrace"

// startHDFS says why there can be none, or what went wrong.
func startHDFS() (skip string, err error) {
	if testing.Short() {
		return "HDFS is not started in short tests", nil
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "there is no java to run HDFS with", nil
	}
	jars, _ := filepath.Glob(hadoop + "/hdfs/hadoop-hdfs-[0-9]*.jar")
	if len(jars) == 0 {
		if jars, _ = filepath.Glob(hadoop + "/lib/hadoop-hdfs-[0-9]*.jar"); len(jars) == 0 {
			return "HDFS's jars are not there (make java gathers them): no hadoop-hdfs in " + hadoop, nil
		}
	}
	h := &testHDFS
	if h.dir, err = os.MkdirTemp("", "archive-hdfs-"); err != nil {
		return "", err
	}
	rpc, web, err := twoPorts()
	if err == nil {
		err = configureHDFS(h.dir, rpc, web)
	}
	if err != nil {
		return "", err
	}
	h.url = fmt.Sprintf("http://127.0.0.1:%d", web)
	lib, err := filepath.Abs(hadoop + "/lib")
	if err != nil {
		return "", err
	}
	jar, err := filepath.Abs(jars[0])
	if err != nil {
		return "", err
	}
	path := strings.Join([]string{h.dir, jar, lib + "/*"}, ":")
	if out, err := hdfsCommand(java, path, "namenode.NameNode", "-format", "-nonInteractive").CombinedOutput(); err != nil {
		return "", fmt.Errorf("format HDFS: %w: %s", err, last(out))
	}
	for _, class := range []string{"namenode.NameNode", "datanode.DataNode"} {
		if err := startHDFSNode(hdfsCommand(java, path, class), class); err != nil {
			return "", err
		}
	}
	return "", awaitHDFS()
}

func last(b []byte) []byte { return b[max(0, len(b)-3000):] }

func twoPorts() (a, b int, err error) {
	l1, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer l1.Close()
	l2, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer l2.Close()
	return l1.Addr().(*net.TCPAddr).Port, l2.Addr().(*net.TCPAddr).Port, nil
}

func configureHDFS(dir string, rpc, web int) error {
	property := func(kv ...string) string {
		var b strings.Builder
		b.WriteString("<configuration>\n")
		for i := 0; i < len(kv); i += 2 {
			fmt.Fprintf(&b, "<property><name>%s</name><value>%s</value></property>\n", kv[i], kv[i+1])
		}
		return b.String() + "</configuration>\n"
	}
	var errs []error
	for _, web := range []string{"hdfs", "datanode", "static"} { // the jar has no pages; without these directories nothing starts
		errs = append(errs, os.MkdirAll(filepath.Join(dir, "webapps", web), 0o700))
	}
	write := func(name, text string) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("core-site.xml", property("fs.defaultFS", fmt.Sprintf("hdfs://127.0.0.1:%d", rpc), "hadoop.tmp.dir", dir+"/tmp",
		"hadoop.http.staticuser.user", hdfsUser))
	write("hdfs-site.xml", property(
		"dfs.namenode.name.dir", "file://"+dir+"/name", "dfs.datanode.data.dir", "file://"+dir+"/data",
		"dfs.namenode.rpc-address", fmt.Sprintf("127.0.0.1:%d", rpc), "dfs.namenode.http-address", fmt.Sprintf("127.0.0.1:%d", web),
		"dfs.datanode.address", "127.0.0.1:0", "dfs.datanode.http.address", "127.0.0.1:0", "dfs.datanode.ipc.address", "127.0.0.1:0",
		"dfs.datanode.hostname", "127.0.0.1", "dfs.replication", "1", "dfs.namenode.safemode.extension", "0",
		"dfs.permissions.superusergroup", "supergroup"))
	write("log4j.properties", "log4j.rootLogger=WARN,c\nlog4j.appender.c=org.apache.log4j.ConsoleAppender\nlog4j.appender.c.layout=org.apache.log4j.SimpleLayout\n")
	return errors.Join(errs...)
}

func hdfsCommand(java, path, class string, args ...string) *exec.Cmd {
	args = append([]string{"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED",
		"-cp", path, "org.apache.hadoop.hdfs.server." + class}, args...)
	cmd := exec.Command(java, args...)
	// HDFS's superuser is whoever starts it. It ends with the test, however that ends.
	cmd.Env = append(os.Environ(), "HADOOP_USER_NAME="+hdfsUser)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func startHDFSNode(cmd *exec.Cmd, class string) error {
	h := &testHDFS
	log, err := os.Create(filepath.Join(h.dir, class+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig is about the thread that has started it
		started <- cmd.Start()
		if cmd.Process != nil {
			cmd.Wait()
		}
	}()
	h.nodes = append(h.nodes, cmd)
	return <-started
}

// awaitHDFS waits until files can be written.
func awaitHDFS() error {
	h := &testHDFS
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probeHDFS(ctx, h.url)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			var logs []byte
			for _, class := range []string{"namenode.NameNode", "datanode.DataNode"} {
				b, _ := os.ReadFile(filepath.Join(h.dir, class+".log"))
				logs = append(logs, last(b)...)
			}
			return fmt.Errorf("HDFS does not come up: %w\n%s", err, logs)
		}
	}
}

func probeHDFS(ctx context.Context, url string) error {
	p, err := WebHDFS(ctx, HDFS{NameNodes: []string{url}, User: hdfsUser, Dir: "/probe"})
	if err != nil {
		return err
	}
	if err := p.Remove(ctx, "x"); err != nil {
		return err
	}
	return p.Create(ctx, "x", func(io.Writer) error { return nil })
}

func stopHDFS() {
	h := &testHDFS
	for _, n := range h.nodes {
		if n.Process != nil {
			n.Process.Kill()
		}
	}
	if h.dir != "" {
		os.RemoveAll(h.dir)
	}
}

func TestHDFSIsPrivate(t *testing.T) {
	p := newHDFS(t).(*hdfsPlace)
	ctx := t.Context()
	if err := p.Mkdir(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	put(t, p, "a/x", "secret")
	for name, want := range map[string]string{"": "700", "a": "700", "a/x": "600"} {
		st, err := p.status(ctx, name)
		if err != nil || st.Permission != want {
			t.Errorf("%q: permission %s, %v; want %s", name, st.Permission, err, want)
		}
	}
	other := p.HDFS
	other.User = "stranger"
	if _, err := WebHDFS(ctx, other); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a stranger: %v", err)
	}
	stranger := &hdfsPlace{HDFS: other, client: p.client}
	if _, err := stranger.Open(ctx, "a/x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a stranger reads: %v", err)
	}
	if _, err := p.call(ctx, "PUT", "", query("SETPERMISSION", "permission", "755"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := WebHDFS(ctx, p.HDFS); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others may read: %v", err)
	}
}

// TestHDFSStandby: with several name nodes the active one is found, and one that is
// down does not matter.
func TestHDFSStandby(t *testing.T) {
	p := newHDFS(t).(*hdfsPlace)
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"RemoteException":{"exception":"StandbyException","message":"Operation category READ is not supported in state standby"}}`)
	}))
	defer standby.Close()
	down := httptest.NewServer(nil)
	down.Close()
	o := p.HDFS
	o.NameNodes = []string{down.URL, standby.URL, p.NameNodes[0]}
	q, err := WebHDFS(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	put(t, q, "x", "hello")
	if got := read(t, q, "x"); got != "hello" {
		t.Errorf("read %q", got)
	}
	o.NameNodes = []string{down.URL, standby.URL}
	if _, err := WebHDFS(t.Context(), o); err == nil || !strings.Contains(err.Error(), "StandbyException") {
		t.Errorf("without an active one: %v", err)
	}
}

func TestHDFSOptions(t *testing.T) {
	good := HDFS{NameNodes: []string{"http://127.0.0.1:1"}, Dir: "/a", User: "u"}
	for what, change := range map[string]func(*HDFS){
		"no name node":   func(o *HDFS) { o.NameNodes = nil },
		"not an address": func(o *HDFS) { o.NameNodes = []string{"namenode:9870"} },
		"the root":       func(o *HDFS) { o.Dir = "/" },
		"relative":       func(o *HDFS) { o.Dir = "a" },
		"not clean":      func(o *HDFS) { o.Dir = "/a/../b" },
		"no user":        func(o *HDFS) { o.User = "" },
		"user and token": func(o *HDFS) { o.Delegation = "t" },
	} {
		o := good
		change(&o)
		if _, err := WebHDFS(t.Context(), o); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestHDFSToken: a delegation token goes with every request and into no error.
func TestHDFSToken(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.URL.Query().Get("op")+" "+r.URL.Query().Get("delegation")+r.URL.Query().Get("user.name"))
		mu.Unlock()
		switch r.URL.Query().Get("op") {
		case "MKDIRS":
			fmt.Fprint(w, `{"boolean":true}`)
		case "GETFILESTATUS":
			fmt.Fprint(w, `{"FileStatus":{"permission":"700","type":"DIRECTORY"}}`)
		case "DELETE":
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	p, err := WebHDFS(t.Context(), HDFS{NameNodes: []string{server.URL + "/"}, Dir: "/a", Delegation: "SECRET"})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Remove(t.Context(), "x")
	if err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"MKDIRS SECRET", "GETFILESTATUS SECRET", "DELETE SECRET"}
	if strings.Join(seen, ",") != strings.Join(want, ",") {
		t.Errorf("requests %q, want %q", seen, want)
	}
}
