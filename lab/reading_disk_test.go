package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/internal/linux"
)

// plainDisk is a directory on the disk of the tests.
func plainDisk(t *testing.T) *readingDisk {
	t.Helper()
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if onTmpfs(dir) {
		t.Skip("the directory for tests is in memory")
	}
	return &readingDisk{dir: dir, source: dir}
}

func TestFilesComeAndGo(t *testing.T) {
	d := plainDisk(t)
	const bytes = 3<<20 + 12345
	path, err := d.makeFile("a", bytes, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.makeFile("b", bytes, 2)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{path, other}
	if err := chillSoon(t.Context(), paths); err != nil {
		t.Fatal(err)
	}
	like := mapper{block: 1 << 20, words: true}
	answers := map[string]bool{}
	for _, p := range paths {
		a, err := d.answerOf(p, like)
		if err != nil {
			t.Fatal(err)
		}
		answers[a] = true
		if mine := lastLine(t, "map", "--file", p, "--block", "1M", "--words", "--readers", "3"); mine != a {
			t.Errorf("the task answers %q, want %q", mine, a)
		}
	}
	if len(answers) != 2 {
		t.Error("two files have the same answer")
	}
	if n, err := resident(paths); err != nil || n != 2*bytes {
		t.Errorf("after they were read %d bytes are in memory, %v; want %d", n, err, 2*bytes)
	}
	if err := chillSoon(t.Context(), paths); err != nil {
		t.Error(err)
	}
	if n, err := resident(paths); err != nil || n != 0 {
		t.Errorf("%d bytes are in memory, %v", n, err)
	}
	if _, err := resident([]string{path, path + "no"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestHeldFilesStay(t *testing.T) {
	d := plainDisk(t)
	path, err := d.makeFile("a", 300<<10, 1)
	if err != nil {
		t.Fatal(err)
	}
	release, err := hold(t.Context(), []string{path})
	if err != nil {
		t.Skipf("memory cannot be locked here: %v", err)
	}
	if err := chill([]string{path}); err == nil || !strings.Contains(err.Error(), "307200 bytes") {
		t.Errorf("a held file was taken out of memory: %v", err)
	}
	if err := errors.Join(release(), release()); err != nil {
		t.Error(err)
	}
	if err := chill([]string{path}); err != nil {
		t.Error(err)
	}
	if _, err := hold(t.Context(), []string{path, path + "no"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := chill([]string{path}); err != nil {
		t.Errorf("after a failure it is still held: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hold(ended, []string{path}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestMemoryGroupComesAndGoes(t *testing.T) {
	needRoot(t)
	s := newTestScratch(t, t.TempDir())
	group, err := s.memoryGroup(64 << 20)
	if err != nil {
		t.Skipf("no memory cgroups here: %v", err)
	}
	if again, err := s.memoryGroup(32 << 20); err != nil || again != group {
		t.Errorf("made again: %s, %v", again, err)
	}
	out, err := enterGroup(group, tool("cat", "/proc/self/cgroup")).Output()
	if err != nil || !strings.Contains(string(out), filepath.Base(group)) {
		t.Errorf("a process that was started in it is in %s, %v", out, err)
	}
	if err := s.remove(); err != nil {
		t.Fatal(err)
	}
	if isDir(group) {
		t.Errorf("%s is still there", group)
	}
}
