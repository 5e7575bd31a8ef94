package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"headrace/dfs"
	"headrace/hdfs"
	"headrace/internal/testkit"
	"headrace/meta"
)

func TestMain(m *testing.M) { os.Exit(testkit.M{M: m}.Run()) }

// site is a server of a node, of which root is the superuser. Files may have blocks of 1 KB.
type site struct {
	t    testing.TB
	node *dfs.Node
	s    *Server
	url  string
}

func serve(t testing.TB, change func(*Config)) *site {
	t.Helper()
	m := meta.DefaultConfig()
	m.MinBlockSize = 512
	node, err := dfs.Open(dfs.Config{Dir: t.TempDir(), Owner: "root", Meta: &m, ScrubRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Node: node, Host: "127.0.0.1", DataPort: 9866, RPCPort: 8020, Groups: func(string) []string { return nil }}
	if change != nil {
		change(&c)
	}
	s := &site{t: t, node: node, s: New(c)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.s.Serve(l) }()
	t.Cleanup(func() {
		s.s.Shutdown()
		if err := errors.Join(<-ended, node.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// as is the project's own client.
func (s *site) as(user string) *hdfs.Client {
	s.t.Helper()
	c, err := hdfs.New(hdfs.Options{NameNodes: []string{s.url}, User: user})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// write makes a file.
func (s *site) write(path, text string) {
	s.t.Helper()
	err := s.as("root").Create(context.Background(), path, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) read(path string) string {
	s.t.Helper()
	return testkit.Content(s.as("root").Open(context.Background(), path))(s.t)
}

// ask makes a request as root, without following where it is sent.
func (s *site) ask(method, path, query string, head ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+(&url.URL{Path: "/webhdfs/v1" + path}).EscapedPath()+"?user.name=root&"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(b)
}

// throws makes a request that must be refused.
func (s *site) throws(status int, class, method, path, query string, head ...string) {
	s.t.Helper()
	resp, body := s.ask(method, path, query, head...)
	var e struct{ RemoteException remoteException }
	if err := json.Unmarshal([]byte(body), &e); err != nil || resp.StatusCode != status || !strings.HasSuffix(e.RemoteException.JavaClassName, class) {
		s.t.Errorf("%s %s?%s: %d %s, want %d and a %s", method, path, query, resp.StatusCode, body, status, class)
	}
}

func (s *site) stat(path string) (v *meta.Status) {
	s.t.Helper()
	if err := s.node.Query(meta.Caller{Super: true}, func(q meta.Query) (err error) { v, err = q.Stat(path, true); return err }); err != nil {
		s.t.Fatal(err)
	}
	return v
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
