package criu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// MinVersion is the oldest version that will do.
var MinVersion = Version{4, 2, 0}

// SystemPrefix is where scripts/get-criu puts CRIU when root runs it.
const SystemPrefix = "/opt/headrace/criu"

var (
	// ErrNotFound: there is no CRIU in any of the places where it is looked for.
	ErrNotFound = errors.New("CRIU not found: run scripts/get-criu, or name one in HEADRACE_CRIU")
	// ErrTooOld: there is one, but it is older than MinVersion.
	ErrTooOld = errors.New("CRIU is too old: run scripts/get-criu to get a newer one beside it")
	// ErrBroken: there is one, but it does not even tell its version.
	ErrBroken = errors.New("CRIU does not run: run scripts/get-criu, or name another in HEADRACE_CRIU")
)

// Criu is a CRIU that runs and is new enough.
type Criu struct {
	// Path is absolute, or as HEADRACE_CRIU gave it.
	Path    string
	Version Version
}

// Version is a version of CRIU, such as 4.2.1.
type Version struct{ Major, Minor, Patch int }

// String returns the version as CRIU writes it: 4.2, or 4.2.1.
func (v Version) String() string {
	if v.Patch == 0 {
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// AtLeast reports whether v is w or newer.
func (v Version) AtLeast(w Version) bool {
	if v.Major != w.Major {
		return v.Major > w.Major
	}
	if v.Minor != w.Minor {
		return v.Minor > w.Minor
	}
	return v.Patch >= w.Patch
}

var versionLine = form(`(?m)^Version: (\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?`)

// ParseVersion reads what `criu --version` writes.
func ParseVersion(out string) (Version, error) {
	m := versionLine().FindStringSubmatch(out)
	if m == nil {
		return Version{}, fmt.Errorf("no version in %q", firstLine(out))
	}
	var n [3]int
	for i := range n {
		if m[i+1] != "" {
			n[i], _ = strconv.Atoi(m[i+1]) // a few digits
		}
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Find returns the CRIU to use: the one that HEADRACE_CRIU names, and no other,
// where that is set; else the first that will do among those in the prefix of
// scripts/get-criu (HEADRACE_CRIU_PREFIX, or its defaults) and on PATH. It runs
// each with --version. The error wraps ErrNotFound, ErrTooOld or ErrBroken and
// says what to do.
func Find() (Criu, error) {
	home, _ := os.UserHomeDir()
	s := search{getenv: os.Getenv, home: home, root: os.Geteuid() == 0, path: filepath.SplitList(os.Getenv("PATH"))}
	return s.find(func(path string) (Version, error) { return runVersion(context.Background(), path) })
}

// search is where to look.
type search struct {
	getenv func(string) string
	home   string
	root   bool
	path   []string
}

// candidates lists paths, the best first.
func (s search) candidates() []string {
	if c := s.getenv("HEADRACE_CRIU"); c != "" {
		return []string{c}
	}
	var list []string
	if p := s.getenv("HEADRACE_CRIU_PREFIX"); p != "" {
		list = append(list, filepath.Join(p, "bin/criu"))
	} else {
		if !s.root {
			data := s.getenv("XDG_DATA_HOME")
			if data == "" {
				data = filepath.Join(s.home, ".local/share")
			}
			list = append(list, filepath.Join(data, "headrace/criu/bin/criu"))
		}
		list = append(list, filepath.Join(SystemPrefix, "bin/criu"))
	}
	// An ordinary user's PATH often lacks the directories of administration.
	for _, dir := range append(s.path, "/usr/sbin", "/sbin") {
		if filepath.IsAbs(dir) {
			list = append(list, filepath.Join(dir, "criu"))
		}
	}
	return list
}

func (s search) find(version func(path string) (Version, error)) (Criu, error) {
	var failures []error
	tried := map[string]bool{}
	for _, path := range s.candidates() {
		if tried[path] {
			continue
		}
		tried[path] = true
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && s.getenv("HEADRACE_CRIU") == "" {
			continue
		}
		c, err := at(path, version)
		if err == nil {
			return c, nil
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		return Criu{}, ErrNotFound
	}
	return Criu{}, errors.Join(failures...)
}

// At is Find for the one at a path.
func At(ctx context.Context, path string) (Criu, error) {
	return at(path, func(path string) (Version, error) { return runVersion(ctx, path) })
}

func at(path string, version func(path string) (Version, error)) (Criu, error) {
	v, err := version(path)
	switch {
	case err != nil:
		return Criu{}, fmt.Errorf("%w (%s: %w)", ErrBroken, path, err)
	case !v.AtLeast(MinVersion):
		return Criu{}, fmt.Errorf("%w (%s is %v, %v is needed)", ErrTooOld, path, v, MinVersion)
	}
	return Criu{Path: path, Version: v}, nil
}

func runVersion(ctx context.Context, path string) (Version, error) {
	// Long, because a machine that has just started is busy, and without an answer no
	// task could be checkpointed or restored until the daemon starts again.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		if line := firstLine(string(out)); line != "" {
			return Version{}, fmt.Errorf("%w: %s", err, line)
		}
		return Version{}, err
	}
	return ParseVersion(string(out))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
