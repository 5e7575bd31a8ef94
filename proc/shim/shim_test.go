package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

func TestParseProgress(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "1": 1, "0.42": 0.42, "0.42\n": 0.42, " 42% \nrest": 0.42, "100 %": 1, "1e-3": 0.001,
		"": -1, "x": -1, "-0.1": -1, "1.1": -1, "NaN": -1, "Inf": -1, "101%": -1, "%": -1, "0x1p-1": 0.5,
	} {
		if got := parseProgress([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzParseProgress(f *testing.F) {
	f.Add([]byte("42%"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v := parseProgress(b); v != -1 && !(v >= 0 && v <= 1) {
			t.Errorf("%q: %v", b, v)
		}
	})
}

func TestTaskEnv(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"A=1", "A=1 GODEBUG=multipathtcp=0"},
		{"GODEBUG=", "GODEBUG=multipathtcp=0"},
		{"GODEBUG=gctrace=1 B=2", "GODEBUG=gctrace=1,multipathtcp=0 B=2"},
		{"GODEBUG=multipathtcp=1", "GODEBUG=multipathtcp=1"},
	} {
		if got := strings.Join(taskEnv(strings.Fields(c.in)), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestFreeRange(t *testing.T) {
	const most = 32768
	for _, ids := range [][]int{
		nil, {1000, 1001}, {most - 1}, {most - 1, most - 1000, most - 1500}, {31767}, {31768}, {31769},
	} {
		start := freeRange(ids, most)
		if start < firstPID || start+pidsForRestore > most {
			t.Errorf("%v: range starts at %d", ids, start)
		}
		for _, id := range ids {
			if id >= start && id < start+pidsForRestore {
				t.Errorf("%v: %d lies in the range from %d", ids, id, start)
			}
		}
	}
	if m := maxID([]int{5, 4000, 7}); m != 4000 {
		t.Errorf("the largest id is %d", m)
	}
}

func TestParseSaved(t *testing.T) {
	good, err := json.Marshal(saved{Version: savedVersion, InitPID: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseSaved(good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "{}", `{"version":1}`, fmt.Sprintf(`{"version":%d,"init_pid":1000}`, savedVersion+1), `{"version":1,"init_pid":1}`} {
		if _, err := parseSaved([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseSaved(f *testing.F) {
	f.Add([]byte(`{"version":1,"init_pid":1000,"ids":[1],"files":[{"path":"/x","log":true}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if sv, err := parseSaved(b); err == nil && sv.InitPID < 2 {
			t.Errorf("%+v", sv)
		}
	})
}

// mark records a file as it is now.
func mark(t *testing.T, path string, log bool) openFile {
	t.Helper()
	f, err := lookAt(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Path, f.Log = path, log
	return f
}

func TestRewind(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	write := func(n, text string) {
		t.Helper()
		f, err := os.OpenFile(path(n), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	write("log", "one")
	write("data", "data")
	sv := saved{Files: []openFile{mark(t, path("log"), true), mark(t, path("data"), false)}}
	write("log", " two")
	if err := sv.rewind(proc.Spec{}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path("log")); string(b) != "one" {
		t.Errorf("the log holds %q", b)
	}
	write("log", " two")
	write("data", " more")
	if err := sv.rewind(proc.Spec{}); err == nil || !strings.Contains(err.Error(), "data") {
		t.Errorf("a file of the task has changed: %v", err)
	}
	if b, _ := os.ReadFile(path("log")); string(b) != "one two" {
		t.Errorf("the log was cut although the checkpoint cannot be used: %q", b)
	}

	// What others write to is not cut, unless it is the task's own all the same.
	write("own", "mine")
	own := mark(t, path("own"), true)
	own.Own = true
	sv = saved{Files: []openFile{mark(t, path("log"), true), own}}
	write("log", " of others")
	write("own", " and more")
	if err := sv.rewind(proc.Spec{SharedOutput: true}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"log": "one two of others", "own": "mine"} {
		if b, _ := os.ReadFile(path(name)); string(b) != want {
			t.Errorf("%s holds %q", name, b)
		}
	}

	// The path of a log may be turned into something else by its owner.
	sv = saved{Files: []openFile{mark(t, path("log"), true)}}
	write("victim", "a long text of somebody else's")
	os.Remove(path("log"))
	if err := os.Symlink(path("victim"), path("log")); err != nil {
		t.Fatal(err)
	}
	if err := sv.rewind(proc.Spec{}); err == nil {
		t.Error("followed a symbolic link")
	}
	os.Remove(path("log"))
	if err := os.Link(path("victim"), path("log")); err != nil {
		t.Fatal(err)
	}
	if err := sv.rewind(proc.Spec{}); err == nil {
		t.Error("took another file for the log")
	}
	if b, _ := os.ReadFile(path("victim")); len(b) != 30 {
		t.Errorf("somebody else's file holds %q", b)
	}
	if os.Geteuid() != 0 {
		return
	}
	// Its inode may be that of somebody else's file by now.
	sv = saved{Files: []openFile{mark(t, path("victim"), true)}}
	write("victim", " grown")
	if err := sv.rewind(proc.Spec{UID: 12345, GID: 12345}); err == nil {
		t.Error("cut a file that the task's user may not write to")
	}
	if b, _ := os.ReadFile(path("victim")); len(b) != 36 {
		t.Errorf("somebody else's file holds %q", b)
	}
	// What is said of a link does not tell what root finds behind it.
	sv = saved{Files: []openFile{mark(t, path("data"), false)}}
	said := map[string]bool{}
	for _, to := range []string{"victim", "nowhere"} {
		os.Remove(path("data"))
		if err := os.Symlink(path(to), path("data")); err != nil {
			t.Fatal(err)
		}
		err := sv.rewind(proc.Spec{UID: 12345, GID: 12345})
		if err == nil {
			t.Fatal("took a link for the file")
		}
		said[err.Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("it tells files from others: %v", said)
	}
}

// TestRewindNotNow: what cannot be looked at is not taken for changed.
func TestRewindNotNow(t *testing.T) {
	dir := t.TempDir()
	mounts, err := procs.Mounts("self")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data")
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := mark(t, path, false)
	older := openFile{Path: path, FileIdentity: linux.FileIdentity{Dev: f.Dev, Inode: f.Inode}, Size: f.Size, MTime: f.MTime}
	moved := older
	moved.Dev++
	boot, err := linux.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		f       openFile
		boot    string
		changed bool
	}{
		{"as it was", f, boot, false},
		{"an older record", older, boot, false},
		{"an older record, another device", moved, boot, true},
		{"an older record, another device since the reboot", moved, "another", false},
	} {
		if err := (saved{BootID: c.boot, Files: []openFile{c.f}}).rewind(proc.Spec{}); errors.Is(err, errChanged) != c.changed || !c.changed && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.Mount = mountOf(path, mounts)
	if err := (saved{Files: []openFile{f}}).rewind(proc.Spec{}); !errors.Is(err, errChanged) {
		t.Errorf("a file that was removed: %v", err)
	}
	f.Mount = dir
	if err := (saved{Files: []openFile{f}}).rewind(proc.Spec{}); err == nil || errors.Is(err, errChanged) {
		t.Errorf("a file on what is not mounted: %v", err)
	}
}

// A supervisor that was started without CRIU says so, instead of running nothing.
func TestRestoreWithoutCRIU(t *testing.T) {
	s := &task{home: home{dir: t.TempDir()}}
	if _, err := s.restore(proc.RestoreOptions{Store: t.TempDir()}); !errors.Is(err, proc.ErrUnsupported) || !strings.Contains(err.Error(), "CRIU 4.2 or later was not found") {
		t.Errorf("it said %v", err)
	}
}

// TestNotNow: a shortage is told by its kind, and what has another kind keeps that.
func TestNotNow(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {errors.New("refused"), ""}, {unix.ENOENT, ""},
		{fmt.Errorf("open: %w", unix.EMFILE), "not-now"}, {&os.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}, "not-now"},
		{fmt.Errorf("%w: %w", proc.ErrNoImage, unix.ENOMEM), "no-image"},
	} {
		if got := proc.KindName(notNow(c.err)); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// TestRunsHere: with another processor a program goes on only if that has all that it has found.
func TestRunsHere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cpuinfo"), []byte("flags : fpu sse avx2 hypervisor\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{"": "", "avx2 fpu sse": "", "avx2 fpu sse vmx": "", "avx2 avx512f fpu gfni": "(avx512f gfni)"} {
		sv := saved{Processor: strings.Fields(flags)}
		if err := sv.runsHere(linux.ProcFS(dir)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
}
