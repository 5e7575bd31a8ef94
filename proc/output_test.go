package proc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// TestOutputIsCutWhereItWas: a start from the beginning takes back what the attempt
// before it wrote, also by a path with links, and never more than there was.
func TestOutputIsCutWhereItWas(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	w.must(os.Mkdir(real, 0o755))
	w.must(os.Symlink("real", filepath.Join(dir, "link")))
	out := filepath.Join(real, "out")
	s := w.spec("t", "echo", "text")
	s.Output = filepath.Join(dir, "link", "out")
	attempt := func(want string) {
		t.Helper()
		w.end(w.start(s))
		if b, _ := os.ReadFile(out); string(b) != want {
			t.Errorf("after an attempt it holds %q, want %q", b, want)
		}
		w.must(w.rt.Reset(w.ctx, s))
	}
	attempt("text\n") // the file was made by it
	w.must(os.WriteFile(out, []byte("mine\n"), 0o644))
	attempt("mine\ntext\n")
	attempt("text\n") // it is the file of the first start, in which there was nothing
	w.must(os.Rename(out, out+".old"))
	w.must(os.WriteFile(out, []byte("new\n"), 0o644))
	attempt("new\ntext\n")
	attempt("new\ntext\n")
	w.must(os.WriteFile(out, []byte("n"), 0o644))
	attempt("ntext\n")
	w.end(w.start(s))
	if os.Geteuid() == 0 {
		w.must(os.Chown(out, 12345, 12345)) // it is the same file, whoever gets it
	}
	w.must(w.rt.Reset(w.ctx, s))
	attempt("ntext\n")
}

// TestOutputOfOthersIsNotCut: whatever the user does to the path between an attempt
// and the next start, and whatever the mark says, files that the user may not write
// to, or that the task has not opened, keep what they hold.
func TestOutputOfOthersIsNotCut(t *testing.T) {
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("not root: there is no file that the user may not write to")
	}
	const uid = 12345
	dir, err := os.MkdirTemp("/tmp", "headrace-output")
	w.must(err)
	defer os.RemoveAll(dir)
	w.must(os.Chmod(dir, 0o755))
	logs, home := filepath.Join(dir, "log"), filepath.Join(dir, "home")
	for _, d := range []string{logs, home, home + "/own", home + "/other"} {
		w.must(os.Mkdir(d, 0o755))
	}
	for _, d := range []string{home, home + "/own", home + "/other"} {
		w.must(os.Chown(d, uid, uid))
	}
	secret, shared := filepath.Join(logs, "out"), filepath.Join(logs, "shared")
	for path, mode := range map[string]os.FileMode{secret: 0o600, shared: 0o666} {
		w.must(os.WriteFile(path, []byte("written by root\n"), 0o600))
		w.must(os.Chmod(path, mode))
	}
	lead := func(to string) { // the way that the user's path takes
		w.must(os.RemoveAll(home + "/d"))
		w.must(os.Symlink(to, home+"/d"))
	}
	spec := func(id string) proc.Spec {
		s := w.spec(id, "echo", "text")
		s.UID, s.GID, s.Groups, s.Output = uid, uid, []uint32{uid}, home+"/d/out"
		return s
	}
	untouched := func(when string) {
		t.Helper()
		for _, path := range []string{secret, shared} {
			if b, _ := os.ReadFile(path); string(b) != "written by root\n" {
				t.Errorf("%s: %s holds %q", when, path, b)
			}
		}
	}

	s := spec("swapped")
	lead(home + "/own")
	w.end(w.start(s))
	lead(logs)
	w.must(w.rt.Reset(w.ctx, s))
	untouched("the path leads to a file of root's")
	w.must(os.Rename(home+"/own", home+"/moved"))
	w.must(os.Symlink(logs, home+"/own"))
	w.must(w.rt.Reset(w.ctx, s))
	untouched("a directory above the file was replaced")

	s = spec("first")
	lead(logs)
	if e := w.end(w.start(s)); e.Code != 126 {
		t.Errorf("a file of root's was opened for the output: %+v", e)
	}
	if _, err := os.Stat(filepath.Join(w.rt.TaskDir("first"), "output.json")); err == nil {
		t.Error("a file was marked that the task has not opened")
	}
	lead(home + "/other")
	w.must(w.rt.Reset(w.ctx, s))
	untouched("the path led to it first")

	// A mark of the very file: as if it had got the inode of the user's, or a daemon
	// of before had written it.
	forge := func(path string, change func(*proc.OutputMark)) {
		t.Helper()
		f, err := os.Open(path)
		w.must(err)
		defer f.Close()
		mark, err := proc.MarkOutput(int(f.Fd()))
		w.must(err)
		mark.Path, mark.Size = "", 3
		change(mark)
		b, err := json.Marshal(mark)
		w.must(err)
		w.must(os.WriteFile(filepath.Join(w.rt.TaskDir("forged"), "output.json"), b, 0o600))
	}
	s = spec("forged")
	lead(home + "/other")
	w.end(w.start(s))
	lead(logs)
	forge(secret, func(*proc.OutputMark) {})
	w.must(w.rt.Reset(w.ctx, s))
	untouched("a mark without a path")
	forge(secret, func(m *proc.OutputMark) { m.Path = secret })
	w.must(w.rt.Reset(w.ctx, s))
	untouched("a mark of a file that is not the user's")
	forge(shared, func(m *proc.OutputMark) { m.Path, m.Inode = shared, 1 })
	w.must(w.rt.Reset(w.ctx, s))
	untouched("another file by the path")
	if err := unix.Mkfifo(home+"/other/pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	forge(shared, func(m *proc.OutputMark) { m.Path = home + "/other/pipe" })
	w.must(w.rt.Reset(w.ctx, s)) // which does not wait for a reader
}
