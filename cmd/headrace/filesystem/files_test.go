package filesystem

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/cli"
	"headrace/dfs"
	"headrace/dfs/web"
	"headrace/hdfs"
	"headrace/internal/testkit"
)

// broken is a way to a file system on which answers are lost.
type broken struct {
	// lose says of a request whether its answer is lost, and unheard whether so is the request.
	lose    func(*http.Request) bool
	unheard bool
	cut     int // bytes, after which the answers with a file's bytes end; 0: none
}

func (b *broken) RoundTrip(r *http.Request) (*http.Response, error) {
	lose := b.lose != nil && b.lose(r)
	if lose && b.unheard {
		return nil, errors.New("lost")
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case lose:
		resp.Body.Close()
		return nil, errors.New("lost")
	case b.cut > 0 && r.URL.Query().Get("data") != "":
		resp.Body = &cut{resp.Body, b.cut}
	}
	return resp, nil
}

type cut struct {
	io.ReadCloser
	left int
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func once(op string) func(*http.Request) bool {
	done := false
	return func(r *http.Request) bool {
		is := !done && r.URL.Query().Get("op") == op
		done = done || is
		return is
	}
}

// reached is a file system of one node, and the way to it.
func reached(t *testing.T) (*hdfs.Client, *broken) {
	t.Helper()
	node, err := dfs.Open(dfs.Config{Dir: t.TempDir(), Owner: "root", ScrubRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := web.New(web.Config{Node: node, Host: "127.0.0.1", Trust: true, Groups: func(string) []string { return nil }})
	l := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Shutdown()
		l.Close()
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	way := &broken{}
	c, err := hdfs.New(hdfs.Options{NameNodes: []string{l.URL}, User: "root", Client: &http.Client{Transport: way}})
	if err != nil {
		t.Fatal(err)
	}
	return c, way
}

// TestReplace: what put is to replace is there until the new file is, and a lost answer does not make it look undone.
func TestReplace(t *testing.T) {
	c, way := reached(t)
	store := func(text string, force bool) error {
		return put(t.Context(), c, strings.NewReader(text), "/f", force)
	}
	want := func(text string) {
		t.Helper()
		if got := testkit.Content(c.Open(t.Context(), "/f"))(t); got != text {
			t.Errorf("%q, want %q", got, text)
		}
		if l, err := c.ReadDir(t.Context(), "/"); err != nil || len(l) != 1 {
			t.Errorf("%v, %v", l, err)
		}
	}
	way.lose = once("RENAME")
	if err := store("the first", false); err != nil {
		t.Errorf("done, and the answer lost: %v", err)
	}
	want("the first")
	way.lose, way.unheard = once("RENAME"), true
	if err := store("the second", true); err == nil {
		t.Error("not done, and no error")
	}
	want("the first")
	way.lose, way.unheard = once("RENAME"), false
	if err := store("the third", true); err != nil {
		t.Errorf("done, and the answer lost: %v", err)
	}
	want("the third")
}

// TestPutBesidePut: two that put a file to one path beside each other both do, and it is that of the one who ends last.
func TestPutBesidePut(t *testing.T) {
	c, _ := reached(t)
	var pipes [2]*io.PipeWriter
	var ended [2]chan error
	for i := range pipes {
		r, w := io.Pipe()
		pipes[i], ended[i] = w, make(chan error, 1)
		go func() { ended[i] <- put(t.Context(), c, r, "/f", true) }()
		io.WriteString(w, "the ")
		testkit.Await(t, "its part", func() bool { l, err := c.ReadDir(t.Context(), "/"); return err == nil && len(l) == i+1 })
	}
	for i, text := range []string{"the first", "the second"} {
		if _, err := io.WriteString(pipes[i], text[4:]); err != nil {
			t.Error(err)
		}
		pipes[i].Close()
		if err := <-ended[i]; err != nil {
			t.Error(err)
		}
		if got := testkit.Content(c.Open(t.Context(), "/f"))(t); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	if l, err := c.ReadDir(t.Context(), "/"); err != nil || len(l) != 1 {
		t.Errorf("%v, %v", l, err)
	}
}

// TestReadOn: a file whose reader was cut off is read on, if it is the same.
func TestReadOn(t *testing.T) {
	c, way := reached(t)
	text := strings.Repeat("0123456789abcdef", 1000)
	if err := put(t.Context(), c, strings.NewReader(text), "/f", false); err != nil {
		t.Fatal(err)
	}
	way.cut = 5000
	var all bytes.Buffer
	if err := copyOf(t.Context(), c, "/f", &all); err != nil || all.String() != text {
		t.Errorf("%d bytes, %v", all.Len(), err)
	}
	all.Reset()
	way.lose = func(r *http.Request) bool { // it is replaced before it is read on
		if q := r.URL.Query(); q.Get("op") == "OPEN" && q.Get("data") != "" && q.Get("offset") == "0" {
			if err := put(t.Context(), c, strings.NewReader(text[1:]), "/f", true); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	if err := copyOf(t.Context(), c, "/f", &all); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("%d bytes of two files, %v", all.Len(), err)
	}
}

// TestModes: who may read what get makes is as with any new file, and stays so when it is replaced.
func TestModes(t *testing.T) {
	c, _ := reached(t)
	if err := put(t.Context(), c, strings.NewReader("text"), "/f", false); err != nil {
		t.Fatal(err)
	}
	usual, to := filepath.Join(t.TempDir(), "usual"), filepath.Join(t.TempDir(), "f")
	mode := func(name string) os.FileMode {
		i, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return i.Mode()
	}
	f, err := os.Create(usual)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := get(t.Context(), c, "/f", to); err != nil || mode(to) != mode(usual) {
		t.Errorf("%v, as others: %v, %v", mode(to), mode(usual), err)
	}
	if err := os.Chmod(to, 0o604); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), c, "/f", to); err != nil || mode(to) != 0o604 {
		t.Errorf("%v, %v", mode(to), err)
	}
}

// TestTokenIsLost: a node of several that finds no token does not make another one than the others have, as one that is alone does.
func TestTokenIsLost(t *testing.T) {
	c := dfs.Config{Dir: filepath.Join(t.TempDir(), "d"), Owner: "root", ScrubRate: -1, Log: slog.New(slog.DiscardHandler)}
	f := &peerFlags{tokenFile: filepath.Join(t.TempDir(), "token")}
	a := verbs{&cli.App{Out: io.Discard, Err: t.Output()}}
	opens := func() error {
		t.Helper()
		os.Remove(f.tokenFile)
		c := c
		p, err := a.openPeers(t.Context(), f, netip.MustParseAddr("127.0.0.1"), "", &c)
		p.close()
		return err
	}
	for _, other := range []string{"", "another"} {
		if err := opens(); err != nil {
			t.Errorf("a node that is alone: %v", err)
		}
		node, err := dfs.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		if other != "" {
			if _, _, err := node.Admit(t.Context(), dfs.Member{Name: other, Storage: "s", Host: "127.0.0.1", Peer: 1}); err != nil {
				t.Error(err)
			}
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := opens(); err == nil || !strings.Contains(err.Error(), "there is no token in "+f.tokenFile+"; copy the file that another node of the file system has made") {
		t.Errorf("a node of several: %v", err)
	}
	if _, err := os.Stat(f.tokenFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is one: %v", err)
	}
}
