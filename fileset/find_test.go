package fileset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// found returns what Find finds, and the problems as "path: error".
func found(t *testing.T, paths ...string) (files, problems []string) {
	t.Helper()
	err := Find(t.Context(), paths, Visitor{
		File: func(f File) error {
			if want, err := os.Stat(f.Path); err != nil || f.Size != want.Size() {
				t.Errorf("%s: told of %d bytes: %v, %v", f.Path, f.Size, want, err)
			}
			files = append(files, f.Path)
			return nil
		},
		Problem: func(p *Problem) error {
			problems = append(problems, p.Error())
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, problems
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	at := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(dir, n)
		}
		return names
	}
	for _, name := range []string{"logs/a.gz", "logs/b.gz", "logs/b.txt", "logs/sub/c.gz", "logs.old/d.gz", "other/e", "odd/[1].txt", "odd/1.txt", "odd/a*b", `odd/q\r`} {
		write(t, filepath.Join(dir, name), name)
	}
	for _, link := range [][2]string{{"logs", "link"}, {"logs/a.gz", "other/link.gz"}, {"..", "other/up"}, {"nowhere", "broken"}, {"loop", "loop"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "other/link.gz")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../logs/a.gz", filepath.Join(dir, "other/link.gz")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "logs/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	logs := []string{"logs/a.gz", "logs/b.gz", "logs/b.txt", "logs/sub/c.gz"}
	cases := []struct {
		name     string
		ask      []string
		want     []string
		problems []string
	}{
		{"a file", at("logs/b.txt"), []string{"logs/b.txt"}, nil},
		{"a directory", at("logs"), logs, nil},
		{"with a slash", []string{dir + "/logs/"}, logs, nil},
		{"an empty directory", at("empty"), nil, nil},
		{"links are followed where they are named only", at("other"), []string{"other/e"}, nil},
		{"a named link to a file", at("other/link.gz"), []string{"other/link.gz"}, nil},
		{"a named link to a directory", at("link"), []string{"link/a.gz", "link/b.gz", "link/b.txt", "link/sub/c.gz"}, nil},
		{"a pattern", at("logs/*.gz"), []string{"logs/a.gz", "logs/b.gz"}, nil},
		{"a pattern of directories", at("log*"), append(slices.Clone(logs), "logs.old/d.gz"), nil},
		{"the order of the paths", at("logs/b.gz", "logs/a.gz"), []string{"logs/b.gz", "logs/a.gz"}, nil},
		{"each file once", at("logs/b.gz", "logs", "logs/*.gz"), []string{"logs/b.gz", "logs/a.gz", "logs/b.txt", "logs/sub/c.gz"}, nil},
		{"what exists is no pattern", at("odd/[1].txt"), []string{"odd/[1].txt"}, nil},
		{"what does not exist is", at("odd/[12].txt"), []string{"odd/1.txt"}, nil},
		{"a star in a name", at("odd/a*b"), []string{"odd/a*b"}, nil},
		{"an escaped name", at(`odd/\[1\].txt`), []string{"odd/[1].txt"}, nil},
		{"not there", at("nope"), nil, []string{"nope: no such file or directory"}},
		{"no match", at("nope/*"), nil, []string{"nope/*: no file matches it"}},
		{"no pattern", at("logs/[a"), nil, []string{"logs/[a: it is no pattern: syntax error in pattern"}},
		{"a pipe", at("logs/pipe"), nil, []string{"logs/pipe: it is no regular file"}},
		{"a pipe in a pattern", at("logs/p*"), nil, []string{"logs/pipe: it is no regular file"}},
		{"broken links", at("broken", "loop"), nil, []string{"broken: no such file or directory", "loop: too many levels of symbolic links, or a link of /proc"}},
		{"a file is no directory", at("logs/a.gz/x"), nil, []string{"logs/a.gz/x: not a directory"}},
		{"one problem does not hide the rest", at("nope", "other"), []string{"other/e"}, []string{"nope: no such file or directory"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files, problems := found(t, c.ask...)
			for _, list := range [][]string{files, problems} {
				for i := range list {
					list[i] = strings.TrimPrefix(list[i], dir+"/")
				}
			}
			if !slices.Equal(files, c.want) || !slices.Equal(problems, c.problems) {
				t.Errorf("got  %q, %q\nwant %q, %q", files, problems, c.want, c.problems)
			}
		})
	}
}

func TestFindStops(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		write(t, filepath.Join(dir, fmt.Sprint(i)), "x")
	}
	enough := errors.New("enough")
	n := 0
	err := Find(t.Context(), []string{dir}, Visitor{File: func(File) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	}})
	if !errors.Is(err, enough) || n != 3 {
		t.Errorf("%d files, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	none := Visitor{File: func(File) error { t.Error("a file was found"); return nil }}
	if err := Find(ctx, []string{dir}, none); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	var p *Problem
	if err := Find(t.Context(), []string{"x"}, none); !errors.Is(err, ErrRelative) || !errors.As(err, &p) || p.Path != "x" {
		t.Errorf("a relative path: %v", err)
	}
	if err := Find(t.Context(), []string{dir + "/none"}, none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestRights lets a user look who may not.
func TestRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: there is no other user to act as")
	}
	dir := testkit.OpenDir(t)
	open, closed := write(t, dir+"/open/x", "x"), write(t, dir+"/closed/y", "y")
	secret := write(t, dir+"/secret", "z")
	for name, mode := range map[string]os.FileMode{dir + "/closed": 0o700, secret: 0o600} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	var files, problems []string
	err := linux.AsUser(linux.Credentials{UID: 65534, GID: 65534}, func() error {
		files, problems = found(t, dir, closed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{open, secret}; !slices.Equal(files, want) {
		t.Errorf("found %q, want %q", files, want)
	}
	if want := []string{dir + "/closed: permission denied", closed + ": permission denied"}; !slices.Equal(problems, want) {
		t.Errorf("problems %q, want %q", problems, want)
	}
	linux.AsUser(linux.Credentials{UID: 65534, GID: 65534}, func() error {
		if f, err := Open(open); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
		for _, name := range []string{secret, closed} {
			if _, err := Open(name); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v, want no permission", name, err)
			}
		}
		return nil
	})
}

// TestPatternThroughWhatCannotBeRead: what a pattern would match there is not left out without a word.
func TestPatternThroughWhatCannotBeRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: there is no other user to act as")
	}
	dir := testkit.OpenDir(t)
	write(t, dir+"/a/x", "x")
	write(t, dir+"/b/x", "x")
	write(t, dir+"/file", "x")
	if err := os.Chmod(dir+"/b", 0o700); err != nil {
		t.Fatal(err)
	}
	denied := []string{dir + "/b: permission denied"}
	for _, c := range []struct {
		pattern         string
		files, problems []string
	}{
		{dir + "/*/x*", []string{dir + "/a/x"}, denied},
		{dir + "/a/*", []string{dir + "/a/x"}, nil},
		{dir + "/b/*", nil, []string{dir + "/b/*: permission denied"}},
		{"/proc/self/fd/*", nil, []string{"/proc/self/fd/*: no file matches it"}},
	} {
		linux.AsUser(linux.Credentials{UID: 65534, GID: 65534}, func() error {
			files, problems := found(t, c.pattern)
			if !slices.Equal(files, c.files) || !slices.Equal(problems, c.problems) {
				t.Errorf("%s: %q, problems %q; want %q and %q", c.pattern, files, problems, c.files, c.problems)
			}
			return nil
		})
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	name := write(t, dir+"/x", "hello")
	if err := os.Symlink("x", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{name, dir + "/link"} {
		f, err := Open(p)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5)
		if _, err := f.ReadAt(b, 0); err != nil || string(b) != "hello" || f.Name() != p {
			t.Errorf("%s: %q, %v", f.Name(), b, err)
		}
		f.Close()
	}
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, dir + "/pipe", "/dev/null"} {
		if _, err := Open(p); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v, want that it is no regular file", p, err)
		}
	}
	if _, err := Open(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestAbsolute makes files and directories with awkward names and asks for them
// as a person in that directory would.
func TestAbsolute(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const letters = `ab*?[]\-^`
	name := func() string {
		b := make([]byte, 1+rng.IntN(4))
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	root := t.TempDir()
	for i := range 200 {
		dir := filepath.Join(root, fmt.Sprint(i), name())
		want := write(t, filepath.Join(dir, name()), "x")
		write(t, filepath.Join(root, fmt.Sprint(i), "decoy", filepath.Base(want)), "x")
		files, problems := found(t, Absolute(dir, filepath.Base(want)))
		if !slices.Equal(files, []string{want}) || problems != nil {
			t.Errorf("%s in %s: %q, %q", filepath.Base(want), dir, files, problems)
		}
		files, problems = found(t, Absolute(dir, "*"))
		if !slices.Equal(files, []string{want}) || problems != nil {
			t.Errorf("* in %s: %q, %q", dir, files, problems)
		}
	}
	if got := Absolute("/x", "/y/*"); got != "/y/*" {
		t.Errorf("an absolute pattern became %s", got)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add(`a*b?c[d]e\f`, "x")
	f.Fuzz(func(t *testing.T, s, other string) {
		if ok, err := path.Match(escape(s), s); err != nil || !ok {
			t.Errorf("%q does not match itself: %v", s, err)
		}
		if ok, err := path.Match(escape(s), other); err != nil || ok != (s == other) {
			t.Errorf("%q matches %q: %v, %v", s, other, ok, err)
		}
	})
}

// BenchmarkFind is for the size of a directory tree that is still pleasant.
func BenchmarkFind(b *testing.B) {
	dir := b.TempDir()
	for d := range 100 {
		sub := filepath.Join(dir, fmt.Sprint(d))
		if err := os.Mkdir(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for i := range 100 {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		n := 0
		if err := Find(b.Context(), []string{dir}, Visitor{File: func(File) error { n++; return nil }}); err != nil || n != 10000 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/file")
}

// TestNothingOfTheKernels looks, as a user, for the files that this process has
// open and the user could not reach, by all ways that lead through /proc.
func TestNothingOfTheKernels(t *testing.T) {
	dir := testkit.OpenDir(t)
	held, err := os.Open(write(t, dir+"/closed/secret", "z"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	heldDir, err := os.Open(dir + "/closed")
	if err != nil {
		t.Fatal(err)
	}
	defer heldDir.Close()
	open := write(t, dir+"/open/x", "x")
	for name, target := range map[string]string{"fds": "/proc/self/fd", "one": fmt.Sprintf("/proc/self/fd/%d", held.Fd()), "kernel": "/proc"} {
		if err := os.Symlink(target, filepath.Join(dir, "open", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/closed", 0o700); err != nil {
		t.Fatal(err)
	}
	ask := []string{
		fmt.Sprintf("/proc/self/fd/%d", held.Fd()), "/proc/self/fd/*", "/proc/self/fd", "/dev/fd/*",
		fmt.Sprintf("/proc/self/fd/%d/*", heldDir.Fd()), "/proc/*/fd/*", dir + "/open/fds/*", dir + "/open/o*",
		"/proc", "/proc/sys", "/sys/kernel", dir + "/open/*",
	}
	look := func() error {
		for _, path := range ask {
			err := Find(t.Context(), []string{path}, Visitor{
				File: func(f File) error {
					if f.Path != open {
						t.Errorf("%s: found %s", path, f.Path)
					}
					return nil
				},
				Problem: func(*Problem) error { return nil },
			})
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	}
	if os.Geteuid() == 0 {
		err = linux.AsUser(linux.Credentials{UID: 65534, GID: 65534}, look)
	} else {
		err = look()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPatternEndsWithItsContext: also a pattern that matches nothing of much ends
// soon after nobody waits for it.
func TestPatternEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		for k := range 20 {
			if err := os.MkdirAll(fmt.Sprintf("%s/%d/%d", dir, i, k), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	loop := filepath.Join(dir, "0", "again") // 20 directories below each of 20, and so on
	if err := os.Symlink(dir, loop); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looked := countdown{Context: ctx, left: 1000, end: cancel}
	err := Find(&looked, []string{dir + strings.Repeat("/*", 30) + "zzz"}, Visitor{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}

// TestRemembersLittle: what a search keeps of names is asked for, given back, and has an end, however many ways lead to
// nothing.
func TestRemembersLittle(t *testing.T) {
	defer func(n int) { maxNamed = n }(maxNamed)
	maxNamed = 1000
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.Symlink(".", filepath.Join(dir, strings.Repeat(name, 255))); err != nil {
			t.Fatal(err)
		}
	}
	large := t.TempDir()
	for i := range 5000 {
		write(t, fmt.Sprintf("%s/%0255d", large, i), "")
	}
	const budget = 1 << 20
	file := write(t, filepath.Join(t.TempDir(), "f"), "x")
	over := errors.New("too much")
	for _, c := range []struct {
		name  string
		paths []string
		want  error
	}{
		{"links to themselves", []string{file, dir + strings.Repeat("/*", 8)}, errManyNames},
		{"many long names", []string{large}, over},
		{"a pattern of them", []string{large + "/*"}, over},
		{"little", []string{file, file}, nil},
	} {
		var have, most int64
		err := Find(t.Context(), c.paths, Visitor{
			File:    func(File) error { return nil },
			Problem: func(*Problem) error { return nil },
			Remember: func(n int64) error {
				if have+n > budget {
					return over
				}
				have += n
				most = max(most, have)
				return nil
			},
		})
		if !errors.Is(err, c.want) || have != 0 || most == 0 {
			t.Errorf("%s: %v, want %v; %d bytes of %d are kept afterwards", c.name, err, c.want, have, most)
		}
	}
}

func TestBase(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/a": "/a", "/a/b/": "/a/b", "/a//b/../c": "/a/c", "/*": "/", "/a/*": "/a", "/a/b*c/d": "/a", "/a/[bc]": "/a", `/a/\*`: "/a", "/a/b?": "/a", "/a/*/../b": "/a/b",
	} {
		if got := Base(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// countdown is a context that ends after it has been asked a number of times, as
// whoever searches should do again and again.
type countdown struct {
	context.Context
	left int
	end  func()
}

func (c *countdown) Err() error {
	if c.left--; c.left == 0 {
		c.end()
	}
	return c.Context.Err()
}
