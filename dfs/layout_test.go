package dfs

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headrace/meta"
)

// unpack makes the directory of a node of layout 1, as a program of then has left it: /d/file, /dir0/below to /dir19/below, and
// a rename of /dir3 to /moved.
func unpack(t *testing.T) string {
	t.Helper()
	f := must[*os.File](t)(os.Open("testdata/layout1.tar.gz"))
	defer f.Close()
	dir := t.TempDir()
	r := tar.NewReader(must[*gzip.Reader](t)(gzip.NewReader(f)))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o700)
		} else {
			err = os.WriteFile(to, must[[]byte](t)(io.ReadAll(r)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTakesOver: the directory of a node of layout 1 is one of this layout after it was opened, with all that was in it,
// whenever it dies on the way.
func TestTakesOver(t *testing.T) {
	for _, point := range []string{"", "quorum.log.before:1", "quorum.log.synced:1", "quorum.created", "names.seat.taken", "quorum.log.synced:3"} {
		dir := unpack(t)
		if point != "" {
			killed(t, dir, "open", point)
		}
		for range 2 {
			n := open(t, Config{Dir: dir, Upkeep: time.Hour})
			if n.Identity.Node != "ed280f5f-6ea2-f4bf-ca97-e0170c3f8c37" || n.Identity.Layout != layout || n.Identity.Pool == "" || len(n.Identity.Key) != 32 {
				t.Errorf("%+v", n.Identity)
			}
			if s := stat(t, n, "/dir19/below"); s == nil || s.Mode != 0o750 {
				t.Errorf("%+v", s)
			}
			s := stat(t, n, "/d/file")
			if got := read(t, n, s.Located.Blocks[0].Block); got != "some bytes" {
				t.Errorf("%q", got)
			}
			r, err := n.Propose(context.Background(), meta.Command{Client: "client", Call: 9, Caller: n.root(), Op: &meta.Rename{From: "/dir3", To: "/moved", Old: true}})
			if f, ok := r.(*meta.Flag); err != nil || !ok || !bool(*f) {
				t.Errorf("what was asked before is answered with %v, %v", r, err)
			}
			if _, err := n.do(&meta.Mkdirs{Path: "/new"}); err != nil {
				t.Error(err)
			}
			closeNode(t, n)
		}
	}
}
