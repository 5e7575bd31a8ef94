package outfile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func textFile(path, text string) File {
	return File{Flag: "--out", Path: path, Write: func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}}
}

// everything below a directory, with what is in it.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		found[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := everything(t, dir)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %q, want %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is there", name)
		}
	}
}

func TestFilesAreWrittenTogetherOrNot(t *testing.T) {
	before := syscall.Umask(0o027)
	t.Cleanup(func() { syscall.Umask(before) })
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := Write(t.Context(), textFile(in("a"), "one"), textFile(in("deep/er/b"), "two")); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"a": "one", "deep/er/b": "two"})
	if info, err := os.Stat(in("a")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v: want the rights of any new file", info.Mode(), err)
	}

	broken := textFile(in("c"), "")
	broken.Write = func(w io.Writer) error {
		io.WriteString(w, strings.Repeat("half", 100_000))
		return errors.New("no more")
	}
	if err := Write(t.Context(), textFile(in("a"), "three"), broken); err == nil || !strings.Contains(err.Error(), "--out "+in("c")+": no more") {
		t.Errorf("got %v", err)
	}
	wantFiles(t, dir, map[string]string{"a": "one", "deep/er/b": "two"})

	ctx, cancel := context.WithCancel(t.Context())
	stopped := textFile(in("d"), "")
	stopped.Write = func(w io.Writer) error {
		cancel()
		_, err := io.WriteString(w, "late")
		return err
	}
	if err := Write(ctx, stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantFiles(t, dir, map[string]string{"a": "one", "deep/er/b": "two"})
}

func TestALinkStaysOne(t *testing.T) {
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), textFile(link, "new")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(target)
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 || string(text) != "new" {
		t.Errorf("%v, %q, %v", info.Mode(), text, err)
	}
}

func TestWhatIsNoFileIsWrittenToAsItIs(t *testing.T) {
	if err := Write(t.Context(), textFile(os.DevNull, "x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s was replaced: %v", os.DevNull, err)
	}
}

func TestWhereNothingCanBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                        "it is a directory",
		filepath.Join(file, "x"):   "not a directory",
		filepath.Join(file, "x/y"): "not a directory",
		"/proc/self/x":             "cannot write to",
	} {
		if err := textFile(path, "").Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	for _, path := range []string{file, filepath.Join(dir, "a/b/c"), os.DevNull, "relative"} {
		if err := textFile(path, "").Check(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	wantFiles(t, dir, map[string]string{"file": ""})
}
