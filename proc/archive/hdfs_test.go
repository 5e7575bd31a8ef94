package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/internal/hdfstest"
	"headrace/internal/testkit"
)

// patience is how long a test waits for something that must happen.
const patience = 60 * time.Second

// hadoop is where the build of java/cluster gathers jars.
const hadoop = "../../java/cluster/target/hadoop"

const hdfsUser = hdfstest.User

// testHDFS is started once, when first asked for.
var testHDFS struct {
	sync.Mutex
	tried  bool
	hdfs   *hdfstest.HDFS
	err    error
	places int
}

func TestMain(m *testing.M) {
	code := testkit.M{M: m}.Run()
	if h := testHDFS.hdfs; h != nil {
		h.Stop()
	}
	os.Exit(code)
}

// newHDFS returns a place in a directory of its own.
func newHDFS(t testing.TB) Place {
	t.Helper()
	if testing.Short() {
		t.Skip("HDFS is not started in short tests")
	}
	h := &testHDFS
	h.Lock()
	defer h.Unlock()
	if !h.tried {
		h.tried = true
		h.hdfs, h.err = hdfstest.Start(hadoop)
	}
	if errors.Is(h.err, hdfstest.ErrMissing) {
		t.Skip(h.err)
	}
	if h.err != nil {
		t.Fatal(h.err)
	}
	h.places++
	p, err := WebHDFS(t.Context(), HDFS{NameNodes: []string{h.hdfs.URL()}, User: hdfsUser, Dir: fmt.Sprintf("/apps/headrace%d", h.places)})
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
