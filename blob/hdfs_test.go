package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headrace/hdfs"
	"headrace/hdfs/hdfstest"
)

var (
	testHDFS hdfstest.Shared
	places   atomic.Int32
)

func TestMain(m *testing.M) {
	code := m.Run()
	testHDFS.Stop()
	os.Exit(code)
}

func client(t testing.TB, user string) *hdfs.Client {
	t.Helper()
	c, err := hdfs.New(hdfs.Options{NameNodes: []string{testHDFS.Get(t).URL()}, User: user})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patience is how long a test waits for something that must happen.
const patience = 60 * time.Second

// newHDFS returns a place in a directory of its own.
func newHDFS(t testing.TB) Place {
	t.Helper()
	p, err := HDFS(t.Context(), client(t, hdfstest.User), fmt.Sprintf("/apps/headrace%d", places.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHDFSIsPrivate(t *testing.T) {
	p := newHDFS(t).(*hdfsPlace)
	ctx := t.Context()
	if err := p.Mkdir(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	put(t, p, "a/x", "secret")
	for name, want := range map[string]fs.FileMode{"": 0o700, "/a": 0o700, "/a/x": 0o600} {
		st, err := p.c.Stat(ctx, p.dir+name)
		if err != nil || st.Mode != want {
			t.Errorf("%q: mode %o, %v; want %o", name, st.Mode, err, want)
		}
	}
	stranger := client(t, "stranger")
	if _, err := HDFS(ctx, stranger, p.dir); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := (&hdfsPlace{stranger, p.dir}).Open(ctx, "a/x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a stranger reads: %v", err)
	}
	own := func(user string) {
		t.Helper()
		at := testHDFS.Get(t).URL() + "/webhdfs/v1" + p.dir + "?op=SETOWNER&owner=" + user + "&user.name=" + hdfstest.User
		q, err := http.NewRequest(http.MethodPut, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if r.Body.Close(); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
	own("stranger")
	if _, err := HDFS(ctx, p.c, p.dir); err == nil || !strings.Contains(err.Error(), "belongs to stranger") {
		t.Errorf("a stranger's directory, as a superuser: %v", err)
	}
	own(hdfstest.User)
	if err := p.c.Chmod(ctx, p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := HDFS(ctx, p.c, p.dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others may read: %v", err)
	}
}

func TestHDFSDirectory(t *testing.T) {
	c, err := hdfs.New(hdfs.Options{NameNodes: []string{"http://127.0.0.1:1"}, User: "u"})
	if err != nil {
		t.Fatal(err)
	}
	for what, dir := range map[string]string{"the root": "/", "relative": "a", "not clean": "/a/../b"} {
		if _, err := HDFS(t.Context(), c, dir); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What a connection that breaks off has not brought is read over another one.
func TestHDFSReadsOn(t *testing.T) {
	defer func(p []time.Duration) { resumePauses = p }(resumePauses)
	resumePauses = []time.Duration{time.Millisecond}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("/webhdfs/", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("op") == "GETFILESTATUS" {
			fmt.Fprint(w, `{"FileStatus":{"type":"FILE","length":5,"permission":"600"}}`)
			return
		}
		fmt.Fprintf(w, `{"Location":"%s/data%s"}`, server.URL, r.FormValue("offset"))
	})
	mux.HandleFunc("/data0", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		fmt.Fprint(w, "hel")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/data3", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "lo") })
	c, err := hdfs.New(hdfs.Options{NameNodes: []string{server.URL}, User: "u"})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, &hdfsPlace{c, "/apps"}, "x"); got != "hello" {
		t.Errorf("read %q", got)
	}
}
