package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/cli"
	"headrace/report"
	"headrace/solo"
	"headrace/wire"
)

// TestArchiveTellsTheCRIUThatIsUsed: that is the one of --criu, whatever else there is.
func TestArchiveTellsTheCRIUThatIsUsed(t *testing.T) {
	program := func(version string) string {
		path := filepath.Join(t.TempDir(), "criu")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho Version: "+version+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("HEADRACE_CRIU", program("4.3"))
	used := program("5.6.7")
	m, err := newMover("webhdfs://h:9870/x", []string{clusterToken}, "n1", &solo.Config{CRIU: used}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tells := func(want string) {
		t.Helper()
		f, err := m.Observer.Machine(t.Context())
		if err != nil || f.CRIU != want {
			t.Errorf("%q, %v", f.CRIU, err)
		}
	}
	tells("5.6.7")
	if err := os.Rename(program("5.7"), used); err != nil { // an update, while the daemon runs
		t.Fatal(err)
	}
	tells("5.7")

	// Where it cannot be asked it is what it was, for as long as it is the same file.
	was, err := os.Stat(used)
	if err != nil {
		t.Fatal(err)
	}
	silent := fmt.Sprintf("%-*s", int(was.Size()), "#!/bin/sh\nexit 1\n")
	if err := errors.Join(os.WriteFile(used, []byte(silent), 0o755), os.Chtimes(used, was.ModTime(), was.ModTime())); err != nil {
		t.Fatal(err)
	}
	tells("5.7")
	if err := os.Chtimes(used, was.ModTime(), was.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if f, err := m.Observer.Machine(t.Context()); err == nil {
		t.Errorf("a broken one is %q", f.CRIU)
	}
}

// TestArchivePlaces: what can never be an archive is refused at the start, what may
// only be away is not.
func TestArchivePlaces(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"good": 0o700, "open": 0o750, "foreign": 0o700, "sticky": 0o777 | os.ModeSticky} {
		if err := errors.Join(os.Mkdir(in(name), mode), os.Chmod(in(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(in("file"), nil, 0o600), os.Symlink("loop", in("loop"))); err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{
		in("good"): "", in("good") + ",zstd": "", in("missing"): "", in("missing/below"): "",
		"webhdfs://h:9870/x": "", "webhdfs://u@h:9870/x/y/,zstd": "",
		in("file"): "is no directory", in("file/below"): "not a directory", in("loop"): "too many levels",
		in("open"): "chmod 700", in("sticky"): "everybody's", "some/dir": "absolute DIR", "~/dir": "absolute DIR",
		"hdfs://h:9870/x": "webhdfs://", "http://h:9870/x": "webhdfs://", "webhdfs://h/x": "HOST:PORT", "webhdfs:///x": "HOST:PORT",
		"webhdfs://h:9870": "PORT/DIR", "webhdfs://h:9870/": "PORT/DIR", "webhdfs://h:9870/x/..": "PORT/DIR",
		"webhdfs://h:9870/x?user.name=u": "PORT/DIR", "webhdfs://u:secret@h:9870/x": "no password",
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(in("foreign"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		refused[in("foreign")] = "belongs to user 12345"
	}
	for place, want := range refused {
		_, err := newMover(place, []string{clusterToken}, "n1", &solo.Config{}, nil)
		if want == "" && err != nil {
			t.Errorf("%s: %v", place, err)
		}
		code, said := cli.Outcome(err)
		if want != "" && (code != cli.ExitUsage || !strings.Contains(said, "--archive") || !strings.Contains(said, want) || strings.Contains(said, "secret")) {
			t.Errorf("%s: exit code %d, %s; want %s", place, code, said, want)
		}
	}
	if _, err := os.Stat(in("missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made that was missing: %v", err)
	}
}

// TestArchiveIsAway: it is said once, shown, and over when the place is there.
func TestArchiveIsAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mounted", "archive")
	w, err := newMover(dir, []string{clusterToken}, "n1", &solo.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	look := func() { w.Sweep(t.Context(), log) }
	look()
	look()
	if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(w.Problem(), "mount its file system") {
		t.Errorf("%d warnings, problem %q:\n%s", n, w.Problem(), &said)
	}
	var shown strings.Builder
	table := nodeTable(&wire.NodeInfo{Archive: w.String(), ArchiveWhy: w.Problem()}, report.Terminal{})
	if err := table.WriteTerminal(&shown, report.Terminal{}); err != nil || !strings.Contains(shown.String(), "cannot be used: ") {
		t.Errorf("%v:\n%s", err, &shown)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	look()
	if n := strings.Count(said.String(), "\n"); n != 2 || !strings.Contains(said.String(), "can be used again") || w.Problem() != "" {
		t.Errorf("problem %q:\n%s", w.Problem(), &said)
	}
}
