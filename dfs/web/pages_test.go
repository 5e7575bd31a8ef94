package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"headrace/dfs"
	"headrace/dfs/gateway"
	"headrace/internal/testkit"
	"headrace/meta"
)

// TestFailedDisksInBeans: tools that watch a NameNode hear of disks that have failed.
func TestFailedDisksInBeans(t *testing.T) {
	room := dfs.Room{Failed: []dfs.FailedDisk{{Dir: "/a"}, {Dir: "/b"}}}
	found := 0
	for _, b := range beansOf(&gateway.Status{Leads: true, Room: room, Nodes: []gateway.NodeStatus{{State: "up", Heard: true, Room: room}}}, "h", 1) {
		if n, is := b["VolumeFailuresTotal"]; is {
			found++
			if n != 2 {
				t.Errorf("%v", n)
			}
		}
		if nodes, is := b["LiveNodes"].(string); is && strings.Contains(nodes, `"volfails":2`) {
			found++
		}
	}
	if found != 2 {
		t.Errorf("found in %d beans", found)
	}
}

// TestPages: what a node tells those who watch it, without a name of a file, whoever asks and how.
func TestPages(t *testing.T) {
	s := serve(t, func(c *Config) { c.Gateway = gateway.New(gateway.Config{Node: c.Node, Host: "127.0.0.1"}) })
	s.write("/secret-name", "text")
	w, err := s.node.Create(t.Context(), meta.Caller{User: "root", Super: true}, meta.Create{Path: "/secret-open", Mode: 0o644, Flags: meta.FlagCreate, Replication: 1, BlockSize: 1 << 20}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	get := func(path string) (int, http.Header, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("User-Agent", "Mozilla/5.0")
		a, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, a.Header, string(b)
	}
	for path, want := range map[string][]string{
		"/": {"It leads the names", s.node.Identity.Pool, s.node.Identity.Node, "<tr><th>Files open<td>1"},
		"/metrics": {"headrace_dfs_leads 1\n", "headrace_dfs_files_open 1\n", "headrace_dfs_blocks 1\n", `headrace_dfs_web_seconds_count{op="CREATE"} 2`, "headrace_dfs_raft_voters 1\n", "headrace_dfs_blocks_missing 0\n", `headrace_dfs_ring_nodes{state="up"} 1`,
			fmt.Sprintf("headrace_dfs_directory_unwritable{dir=%q} 0\n", s.node.Config.Dir)},
		"/jmx": {`"State": "active"`, `"BlocksTotal": 1`},
	} {
		status, h, text := get(path)
		if status != http.StatusOK || strings.Contains(text, "secret") {
			t.Errorf("%s: %d\n%s", path, status, text)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in\n%s", path, part, text)
			}
		}
		if path == "/metrics" {
			testkit.WantAlarms(t, text, func(metric string) bool { return strings.HasPrefix(metric, "headrace_dfs_") })
		}
		if path == "/" && (!strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(text, "<script")) {
			t.Errorf("%v", h)
		}
	}
	var a struct{ Beans []map[string]any }
	_, _, text := get("/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Beans) != 1 || a.Beans[0]["NumLiveDataNodes"] != 1.0 || a.Beans[0]["FSState"] != "Operational" {
		t.Errorf("%v, %v", a, err)
	}
	_, _, text = get("/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo")
	live := map[string]map[string]any{}
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Beans) != 1 {
		t.Errorf("%v, %v", a, err)
	} else if err := json.Unmarshal([]byte(a.Beans[0]["LiveNodes"].(string)), &live); err != nil || len(live) != 1 {
		t.Errorf("%v, %v", live, err)
	}
	if _, _, text := get("/jmx?qry=java.lang:*"); !strings.Contains(text, `"beans": []`) {
		t.Error(text)
	}
	if status, h, _ := get("/dfshealth.html"); status != http.StatusFound || h.Get("Location") != "/" {
		t.Errorf("%d, %v", status, h)
	}
	if status, _, _ := get("/nothing"); status != http.StatusNotFound {
		t.Error(status)
	}
	if status, _, text := get("/webhdfs/v1/?op=LISTSTATUS"); status == http.StatusOK || strings.Contains(text, "secret") { // WebHDFS is not for web pages
		t.Errorf("%d: %s", status, text)
	}
	if a, err := http.Post(s.url+"/", "text/plain", nil); err != nil || a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v, %v", a, err)
	} else {
		a.Body.Close()
	}
}

// TestOneLooksAtATime: a look that does not end keeps one goroutine, not one for each who comes.
func TestOneLooksAtATime(t *testing.T) {
	var g *gateway.Gateway
	s := serve(t, func(c *Config) { g = gateway.New(gateway.Config{Node: c.Node, Host: "127.0.0.1"}); c.Gateway = g })
	if err := g.Look(func() {
		for _, path := range []string{"/", "/metrics", "/jmx"} {
			a, err := http.Get(s.url + path)
			if err != nil || a.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s: %v, %v", path, a, err)
				continue
			}
			a.Body.Close()
		}
	}); err != nil {
		t.Error(err)
	}
}

// unread is the answer to somebody who does not read it.
type unread struct {
	http.ResponseWriter
	write func()
}

func (u unread) Write(b []byte) (int, error) {
	u.write()
	return u.ResponseWriter.Write(b)
}

// TestWhoDoesNotRead: others look while an answer is sent.
func TestWhoDoesNotRead(t *testing.T) {
	s := &Server{Config: Config{Gateway: gateway.New(gateway.Config{Node: &dfs.Node{}, Host: "127.0.0.1"})}}
	w, looks := httptest.NewRecorder(), 0
	s.look(unread{w, func() {
		if err := s.Gateway.Look(func() { looks++ }); err != nil {
			t.Error(err)
		}
	}}, func(w http.ResponseWriter) {
		w.Header().Set("X", "y")
		http.Error(w, "text", http.StatusTeapot)
	})
	if looks == 0 || w.Code != http.StatusTeapot || w.Header().Get("X") != "y" || !strings.Contains(w.Body.String(), "text") {
		t.Errorf("%d, %+v", looks, w)
	}
}

// TestStandbyBeans: a node that does not lead is a standby to tools, and counts nothing.
func TestStandbyBeans(t *testing.T) {
	b := beansOf(&gateway.Status{Room: dfs.Room{Capacity: 1}}, "h", 1)
	if len(b) != 1 || b[0]["State"] != "standby" {
		t.Errorf("%v", b)
	}
}
