package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/internal/testkit"
)

// eachPlace runs a test on every kind of place.
func eachPlace(t *testing.T, test func(t *testing.T, p Place)) {
	t.Run("dir", func(t *testing.T) { test(t, newDir(t)) })
	t.Run("hdfs", func(t *testing.T) { test(t, newHDFS(t)) })
}

func newDir(t testing.TB) Place {
	t.Helper()
	p, err := Dir(filepath.Join(t.TempDir(), "archive"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func put(t testing.TB, p Place, name, contents string) {
	t.Helper()
	if err := create(t, p, name, contents); err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, p Place, name, contents string) error {
	return p.Create(t.Context(), name, func(w io.Writer) error {
		_, err := io.WriteString(w, contents)
		return err
	})
}

func read(t testing.TB, p Place, name string) string {
	t.Helper()
	return testkit.Content(p.Open(t.Context(), name))(t)
}

func TestPlace(t *testing.T) { eachPlace(t, testPlace) }

func testPlace(t *testing.T, p Place) {
	ctx := t.Context()
	if err := p.Mkdir(ctx, "a/b"); err != nil {
		t.Fatal(err)
	}
	if err := p.Mkdir(ctx, "a/b"); err != nil {
		t.Errorf("made again: %v", err)
	}
	put(t, p, "a/b/x", "hello")
	if got := read(t, p, "a/b/x"); got != "hello" {
		t.Errorf("read %q", got)
	}
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"create again":             {create(t, p, "a/b/x", "other"), fs.ErrExist},
		"create without directory": {create(t, p, "a/none/x", ""), fs.ErrNotExist},
		"open what is not there":   {func() error { _, err := p.Open(ctx, "a/b/none"); return err }(), fs.ErrNotExist},
		"list what is not there":   {func() error { _, err := p.List(ctx, "a/none"); return err }(), fs.ErrNotExist},
		"touch what is not there":  {p.Touch(ctx, "a/none"), fs.ErrNotExist},
		"rename what is not there": {p.Rename(ctx, "a/none", "a/c"), fs.ErrNotExist},
		"remove what is not there": {p.Remove(ctx, "a/none"), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
	if got := read(t, p, "a/b/x"); got != "hello" {
		t.Errorf("after it was to be created again: %q", got)
	}
	list, err := p.List(ctx, "a/b")
	if err != nil || len(list) != 1 || list[0].Name != "x" || list[0].Size != 5 || list[0].Dir {
		t.Errorf("list %+v, %v", list, err)
	}
	if err := p.Rename(ctx, "a/b", "a/c"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, p, "a/c/x"); got != "hello" {
		t.Errorf("renamed: %q", got)
	}
	if err := p.Mkdir(ctx, "a/d"); err != nil {
		t.Fatal(err)
	}
	if err := p.Rename(ctx, "a/c", "a/d"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("rename to what exists: %v", err)
	}
	if err := p.Remove(ctx, "a/c"); err != nil {
		t.Fatal(err)
	}
	list, err = p.List(ctx, "a")
	if err != nil || len(list) != 1 || list[0].Name != "d" || !list[0].Dir {
		t.Errorf("list %+v, %v", list, err)
	}
	for _, bad := range []string{"..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/.hidden", "a b", "ä", strings.Repeat("x", 300)} {
		if err := create(t, p, bad, ""); err == nil {
			t.Errorf("created %q", bad)
		}
		if _, err := p.Open(ctx, bad); err == nil {
			t.Errorf("opened %q", bad)
		}
		if p.Mkdir(ctx, bad) == nil || p.Rename(ctx, "a/d", bad) == nil || p.Remove(ctx, bad) == nil || p.Touch(ctx, bad) == nil {
			t.Errorf("took %q", bad)
		}
	}
}

func TestPlaceTimes(t *testing.T) {
	eachPlace(t, func(t *testing.T, p Place) {
		before, err := p.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put(t, p, "x", "")
		deadline := time.Now().Add(patience)
		for { // until the clock, which may have whole seconds, has moved
			now, err := p.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if now.Sub(before) >= 2*time.Second {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the clock stands still")
			}
			time.Sleep(50 * time.Millisecond)
		}
		modified := func() time.Time {
			list, err := p.List(t.Context(), "")
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			return list[0].Modified
		}
		first := modified()
		if d := first.Sub(before); d < -time.Second || d > time.Second+time.Minute {
			t.Errorf("made %v after now", d)
		}
		if err := p.Touch(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if second := modified(); !second.After(first) {
			t.Errorf("touched at %v, made at %v", second, first)
		}
	})
}

// TestPlaceRenameOnce: of many renames of one directory exactly one succeeds.
func TestPlaceRenameOnce(t *testing.T) {
	eachPlace(t, func(t *testing.T, p Place) {
		for round := range 5 {
			from := fmt.Sprintf("from%d", round)
			if err := p.Mkdir(t.Context(), from); err != nil {
				t.Fatal(err)
			}
			put(t, p, path.Join(from, "x"), from)
			var won atomic.Int32
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					switch err := p.Rename(t.Context(), from, fmt.Sprintf("to%d.%d", round, i)); {
					case err == nil:
						won.Add(1)
					case !errors.Is(err, fs.ErrNotExist):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Fatalf("%d renames have succeeded", won.Load())
			}
		}
	})
}

func TestPlaceLargeAndFailing(t *testing.T) {
	eachPlace(t, func(t *testing.T, p Place) {
		want := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
		put(t, p, "large", string(want))
		if got := read(t, p, "large"); got != string(want) {
			t.Errorf("%d bytes came back, or others", len(got))
		}
		oops := errors.New("oops")
		err := p.Create(t.Context(), "failing", func(w io.Writer) error {
			if _, err := w.Write(want); err != nil {
				return err
			}
			return oops
		})
		if !errors.Is(err, oops) {
			t.Errorf("%v, want %v", err, oops)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = p.Create(ctx, "canceled", func(w io.Writer) error {
			cancel()
			for {
				if _, err := w.Write(want); err != nil {
					return err
				}
			}
		})
		if !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v, want that it was canceled", err)
		}
	})
}

func TestDirIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	p, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Mkdir(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	put(t, p, "a/x", "secret")
	for name, want := range map[string]os.FileMode{"": 0o700, "a": 0o700, "a/x": 0o600} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%q: mode %v, %v; want %v", name, st.Mode(), err, want)
		}
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others may read: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(dir); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("a directory of another user: %v", err)
	}
}

// TestDirLinks: links that somebody has put into the directory lead nowhere.
func TestDirLinks(t *testing.T) {
	p := newDir(t)
	dir, outside := p.String(), t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(outside, "x"), []byte("secret"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "a")),
		os.Symlink(filepath.Join(outside, "x"), filepath.Join(dir, "x")),
	); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if create(t, p, "a/new", "") == nil || p.Mkdir(ctx, "a/d") == nil || p.Touch(ctx, "a/x") == nil || p.Touch(ctx, "x") == nil {
		t.Error("followed a link out of the place")
	}
	for _, name := range []string{"a/x", "x"} {
		if r, err := p.Open(ctx, name); err == nil {
			r.Close()
			t.Errorf("opened %s through a link", name)
		}
	}
	if err := p.Remove(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "x" }) {
		t.Errorf("outside: %v, %v", entries, err)
	}
}
