package migrate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/engine/yarn"
	"headrace/fileset"
	"headrace/internal/linux"
)

// layout makes files below dir: NAME/ is a directory, NAME@TARGET a link, NAME| a
// FIFO, others are files with their name as contents.
func layout(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		var err error
		n, target, isLink := strings.Cut(n, "@")
		path := filepath.Join(dir, n)
		if !strings.HasSuffix(n, "/") {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		switch {
		case isLink:
			err = errors.Join(err, os.Symlink(target, path))
		case strings.HasSuffix(n, "/"):
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		case strings.HasSuffix(n, "|"):
			err = errors.Join(err, unix.Mkfifo(strings.TrimSuffix(path, "|"), 0o640))
		default:
			err = errors.Join(err, os.WriteFile(path, []byte(n), 0o640))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree describes what is below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		line := fmt.Sprintf("%s %v", rel, st.Mode())
		if st.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x %v", sha256.Sum256(b), st.ModTime().UnixNano())
		}
		if st.IsDir() {
			line += fmt.Sprint(" ", st.ModTime().UnixNano())
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " " + target
		}
		list = append(list, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What YARN has localized is where the other machine has it, unless a process has it
// open.
func TestLocalizedFilesAreNotCarried(t *testing.T) {
	there, here := t.TempDir(), t.TempDir()
	layout(t, there, "filecache/10/site.xml", "filecache/11/lib/a", "filecache/11/lib/b", "c1/conf/site.xml@"+there+"/filecache/10/site.xml",
		"c1/lib@"+there+"/filecache/11/lib", "c1/own")
	layout(t, here, "filecache/7/site.xml", "filecache/8/lib/a", "c2/conf/site.xml@"+here+"/filecache/7/site.xml", "c2/lib@"+here+"/filecache/8/lib")
	resources, err := yarn.Resources(here+"/c2", nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		open string
		want []string
	}{
		"nothing open":   {"c1/own", nil},
		"a library open": {"filecache/11/lib/a", []string{"filecache dir ", "filecache/11 dir ", "filecache/11/lib dir ", "filecache/11/lib/a file ", "filecache/11/lib/b file "}},
	} {
		want := append([]string{"c1 dir ", "c1/conf dir ", "c1/conf/site.xml link " + here + "/filecache/7/site.xml",
			"c1/lib link " + here + "/filecache/8/lib", "c1/own file "}, c.want...)
		carried, err := Carry(t.Context(), []Wanted{{there + "/c1", true}, {there + "/" + c.open, false}}, []Root{{Path: there}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range carried.files {
			f = lead(f, resources)
			got = append(got, fmt.Sprintf("%s %s %s", strings.TrimPrefix(f.Path, there+"/"), f.Type, f.Link))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(carried.Outside) > 0 {
			t.Errorf("%s: carried %q, want %q; outside %q", what, got, want, carried.Outside)
		}
	}
}

// carryOver puts files into an archive and claims the entry.
func carryOver(t *testing.T, c *Carried) *Claim {
	t.Helper()
	a := newArchive(t, newDir(t), Options{})
	if _, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error { return w.AddFiles(c) }); err != nil {
		t.Fatal(err)
	}
	claim, err := a.Claim(t.Context(), want("k"))
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

// unpackAll recreates the files of a claim, without images.
func unpackAll(t *testing.T, c *Claim, roots ...Root) (*unpacker, error) {
	t.Helper()
	u := &unpacker{roots: roots}
	err := c.each(t.Context(), u.add)
	if err == nil {
		err = u.finish()
	}
	return u, err
}

// TestCarry moves a container's directory away and makes it again.
func TestCarry(t *testing.T) {
	top := t.TempDir()
	layout(t, top, "local/c1/data/a", "local/c1/b", "local/c1/empty/", "local/c1/run.sh@../common/11/run.sh", "local/common/11/run.sh",
		"local/common/12/other", "local/c1/out@"+top+"/elsewhere/x", "local/c1/gone@/nothing/there", "local/c1/below@"+top+"/elsewhere/x/y", "local/c1/dangling@nothing", "local/c1/pipe|", "local/c2/not", "logs/c1/stdout", "elsewhere/x")
	old := time.Date(2020, 1, 2, 3, 4, 5, 678900000, time.UTC)
	if err := errors.Join(
		os.Chtimes(filepath.Join(top, "local/c1/b"), old, old),
		os.Chmod(filepath.Join(top, "local/c1/b"), 0o400),
		os.Chmod(filepath.Join(top, "local/c1/data"), 0o500),
		os.Chtimes(filepath.Join(top, "local/c1/data"), old, old),
		os.Truncate(filepath.Join(top, "logs/c1/stdout"), 5<<20),
	); err != nil {
		t.Fatal(err)
	}
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(l)
	t.Chdir(top) // a socket's path must be short
	if err := unix.Bind(l, &unix.SockaddrUnix{Name: "local/c1/sock"}); err != nil {
		t.Fatal(err)
	}
	roots := []Root{{Path: filepath.Join(top, "local")}, {Path: filepath.Join(top, "logs")}}
	c, err := Carry(t.Context(), []Wanted{
		{filepath.Join(top, "local/c1"), true}, {filepath.Join(top, "logs/c1/stdout"), false},
		{filepath.Join(top, "local/c1/b"), false}, {"/usr/lib", false}, {filepath.Join(top, "local"), false},
	}, roots)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Outside, []string{filepath.Join(top, "elsewhere/x"), "/usr/lib"}) && !slices.Equal(c.Outside, []string{"/usr/lib", filepath.Join(top, "elsewhere/x")}) {
		t.Errorf("outside: %q", c.Outside)
	}
	claim := carryOver(t, c)
	if err := errors.Join(os.Remove("local/c1/sock"), os.RemoveAll("local/c2"), os.RemoveAll("local/common/12")); err != nil {
		t.Fatal(err)
	}
	want := tree(t, top)
	// Times of directories that this test itself changes.
	mine := func(s string) bool {
		name, _, _ := strings.Cut(s, " ")
		return slices.Contains([]string{"local", "local/c1", "local/common", "logs"}, name)
	}
	want = slices.DeleteFunc(want, mine)
	if err := errors.Join(os.RemoveAll("local/c1"), os.RemoveAll("local/common"), os.RemoveAll("logs/c1")); err != nil {
		t.Fatal(err)
	}
	empty := tree(t, top)

	u, err := unpackAll(t, claim, roots...)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(tree(t, top), mine)
	if !slices.Equal(got, want) {
		t.Errorf("made:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var st unix.Stat_t
	if err := unix.Stat("logs/c1/stdout", &st); err != nil || st.Size != 5<<20 || st.Blocks > 100 {
		t.Errorf("a hole of %d bytes has %d blocks (%v)", st.Size, st.Blocks, err)
	}
	// All is there and the same: nothing is to be done, and nothing to be undone.
	again, err := unpackAll(t, claim, roots...)
	if err != nil || len(again.made) != 0 {
		t.Errorf("again: made %v, %v", again.made, err)
	}
	if err := u.undo(); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, top); len(got) != len(empty) {
		t.Errorf("left after undo:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(empty, "\n"))
	}
	if _, err := unpackAll(t, claim, roots[0]); err == nil || !strings.Contains(err.Error(), "none of the directories") {
		t.Errorf("without the directory of logs: %v", err)
	}
}

// TestConflict: what exists and differs is neither replaced nor used.
func TestConflict(t *testing.T) {
	top := t.TempDir()
	layout(t, top, "r/d/f", "r/d/l@f", "r/d/p|", "r/e/")
	root := Root{Path: filepath.Join(top, "r")}
	c, err := Carry(t.Context(), []Wanted{{filepath.Join(top, "r/d"), true}, {filepath.Join(top, "r/e"), false}}, []Root{root})
	if err != nil {
		t.Fatal(err)
	}
	claim := carryOver(t, c)
	for what, change := range map[string]string{
		"contents":   "rm -f f; printf xxxxx > f; chmod 640 f",
		"size":       "rm -f f; printf x > f; chmod 640 f",
		"mode":       "chmod 600 f",
		"file link":  "mv f g; ln -s g f",
		"file dir":   "rm -f f; mkdir f",
		"file fifo":  "rm -f f; mkfifo f",
		"link":       "rm -f l; ln -s other l",
		"link file":  "rm -f l; cp f l",
		"fifo file":  "rm -f p; cp f p",
		"parent":     "cd ..; rm -rf d; echo x > d",
		"other":      "cd ..; rm -rf e; ln -s d e",
		"parent dir": "cd ..; mv d d2; ln -s d2 d",
	} {
		t.Run(what, func(t *testing.T) {
			if err := os.RemoveAll(root.Path); err != nil {
				t.Fatal(err)
			}
			layout(t, top, "r/d/f", "r/d/l@f", "r/d/p|", "r/e/")
			cmd := "cd " + root.Path + "/d && " + change
			if out, err := shell(cmd); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			before := tree(t, top)
			u, err := unpackAll(t, claim, root)
			if !errors.Is(err, ErrConflict) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
				t.Errorf("%v, want a conflict", err)
			}
			if err := u.undo(); err != nil {
				t.Error(err)
			}
			if after := tree(t, top); !slices.Equal(before, after) {
				t.Errorf("changed:\n%s\nwas:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
			}
		})
	}
}

// TestCarryAsUser: with a user's directory, only that user's rights count, whatever
// links the user puts there.
func TestCarryAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("acting as another user needs root")
	}
	const uid, gid = 12345, 12346
	top, err := os.MkdirTemp("/tmp", "archive-user-") // others may pass
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	layout(t, top, "r/d/f", "secret", "roots/")
	if out, err := shell(fmt.Sprintf("cd %s && chmod 755 . && chown -R %d:%d r && chmod 600 secret && chmod 755 roots", top, uid, gid)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root := Root{Path: filepath.Join(top, "r"), Owner: &linux.Credentials{UID: uid, GID: gid}}
	c, err := Carry(t.Context(), []Wanted{{filepath.Join(top, "r/d"), true}}, []Root{root})
	if err != nil {
		t.Fatal(err)
	}
	claim := carryOver(t, c)
	if err := os.RemoveAll(filepath.Join(top, "r/d")); err != nil {
		t.Fatal(err)
	}
	if _, err := unpackAll(t, claim, root); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	for _, name := range []string{"r/d", "r/d/f"} {
		if err := unix.Stat(filepath.Join(top, name), &st); err != nil || st.Uid != uid || st.Gid != gid {
			t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
		}
	}
	// The file is replaced by a link to a secret after it was chosen.
	if out, err := shell("cd " + top + "/r/d && rm f && ln -s ../../secret f"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a := newArchive(t, newDir(t), Options{})
	if _, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error { return w.AddFiles(c) }); err == nil {
		t.Error("read through a link")
	}
	// A hard link to the secret is not one the user may read.
	if err := errors.Join(os.Remove(filepath.Join(top, "r/d/f")), os.Link(filepath.Join(top, "secret"), filepath.Join(top, "r/d/f"))); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error { return w.AddFiles(c) }); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read what the user may not read: %v", err)
	}
	// The directory is replaced by a link to one of root's, and then the root is.
	if err := errors.Join(os.RemoveAll(filepath.Join(top, "r/d")), os.Symlink(filepath.Join(top, "roots"), filepath.Join(top, "r/d"))); err != nil {
		t.Fatal(err)
	}
	if _, err := unpackAll(t, claim, root); err == nil {
		t.Error("wrote through a link")
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(top, "r")), os.Symlink(filepath.Join(top, "roots"), filepath.Join(top, "r"))); err != nil {
		t.Fatal(err)
	}
	if _, err := unpackAll(t, claim, root); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("wrote into root's directory: %v", err)
	}
	if left := tree(t, filepath.Join(top, "roots")); len(left) != 0 {
		t.Errorf("root's directory has %q", left)
	}
}

func TestCarryRefuses(t *testing.T) {
	top := t.TempDir()
	layout(t, top, "r/d/f", "r/bad\xff")
	root := []Root{{Path: filepath.Join(top, "r")}}
	for what, w := range map[string]Wanted{
		"missing":   {filepath.Join(top, "r/none"), false},
		"relative":  {"r/d", false},
		"not UTF-8": {filepath.Join(top, "r/bad\xff"), false},
	} {
		if _, err := Carry(t.Context(), []Wanted{w}, root); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	if _, err := Carry(t.Context(), nil, []Root{{Path: "/"}}); err == nil {
		t.Error("took / as a root")
	}
	if os.Geteuid() == 0 {
		if err := unix.Mknod(filepath.Join(top, "r/d/null"), unix.S_IFCHR|0o600, 1<<8|3); err != nil {
			t.Skip("this machine lets nobody make devices: ", err)
		}
		if _, err := Carry(t.Context(), []Wanted{{filepath.Join(top, "r/d"), true}}, root); !errors.Is(err, ErrUncarried) {
			t.Errorf("a device: %v", err)
		}
	}
}

// TestManifestPaths: no path of a manifest leads out of where it may.
func TestManifestPaths(t *testing.T) {
	for _, f := range []File{
		{In: InPlace, Path: "relative", Type: Directory},
		{In: InPlace, Path: "/a/../b", Type: Directory},
		{In: InPlace, Path: "/", Type: Directory},
		{In: InPlace, Path: "/a/", Type: Directory},
		{In: InPlace, Path: "/a\x00b", Type: Directory},
		{In: InPlace, Path: "/a", Type: "device"},
		{In: InPlace, Path: "/a", Type: Symlink},
		{In: InPlace, Path: "/a", Type: Regular, Link: "x"},
		{In: InPlace, Path: "/a", Type: Directory, Size: 1},
		{In: InPlace, Path: "/a", Type: Regular, Size: -1},
		{In: InPlace, Path: "/a", Type: Regular, Mode: 0o100644},
		{In: InImage, Path: "/000001/a", Type: Regular},
		{In: InImage, Path: "000001/..", Type: Regular},
		{In: InImage, Path: "000001/a/b", Type: Regular},
		{In: InImage, Path: "../../01/a", Type: Regular},
		{In: InImage, Path: "000001/a", Type: Symlink, Link: "x"},
		{In: "else", Path: "/a", Type: Directory},
	} {
		if f.check() == nil {
			t.Errorf("took %+v", f)
		}
		u := &unpacker{roots: []Root{{Path: t.TempDir()}}}
		if u.add(f, &Contents{}) == nil {
			t.Errorf("made %+v", f)
		}
	}
}

// TestLeased: a file that another program does not give back is an error, and whoever does so is waited for.
func TestLeased(t *testing.T) {
	dir := t.TempDir()
	layout(t, dir, "held", "back")
	lease := func(name string) *os.File {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Skip("no leases here:", err)
		}
		return f
	}
	broken := make(chan os.Signal, 2) // what the kernel tells who has a lease
	signal.Notify(broken, unix.SIGIO)
	defer signal.Stop(broken)
	root := Root{Path: dir}
	back := lease("back")
	go func() {
		<-broken
		back.Close()
	}()
	f, err := root.at("back", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	lease("held")
	if f, err := root.at("held", unix.O_RDONLY); !errors.Is(err, fileset.ErrLeased) {
		f.Close()
		t.Errorf("%v", err)
	}
}
