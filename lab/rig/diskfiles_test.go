package rig

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"headrace/internal/linux"
	"headrace/lab/pages"
	"headrace/lab/work"
)

// plainDisk returns a directory on the disk of the tests.
func plainDisk(t *testing.T) *Disk {
	t.Helper()
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if onTmpfs(dir) {
		t.Skip("the directory for tests is in memory")
	}
	return &Disk{Dir: dir, source: dir}
}

func TestFilesComeAndGo(t *testing.T) {
	d := plainDisk(t)
	const bytes = 3<<20 + 12345
	path, err := d.MakeFile("a", bytes, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.MakeFile("b", bytes, 2)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{path, other}
	if err := ChillSoon(t.Context(), paths); err != nil {
		t.Fatal(err)
	}
	like := work.Mapper{Block: 1 << 20, Words: true}
	answers := map[string]bool{}
	for _, p := range paths {
		a, err := d.AnswerOf(p, like)
		if err != nil {
			t.Fatal(err)
		}
		answers[a] = true
		var mine strings.Builder
		if err := work.Task([]string{"map", "--file", p, "--block", "1M", "--words", "--readers", "3"}, &mine); err != nil || strings.TrimSpace(mine.String()) != a {
			t.Errorf("the task answers %q, %v; want %q", mine.String(), err, a)
		}
	}
	if len(answers) != 2 {
		t.Error("two files have the same answer")
	}
	// A kernel may take idle pages at any time, also of one that is read just then.
	n, err := pages.Resident(paths)
	for try := 0; err == nil && n != 2*bytes && try < 10; try++ {
		for _, p := range paths {
			if _, err := os.ReadFile(p); err != nil {
				t.Fatal(err)
			}
		}
		n, err = pages.Resident(paths)
	}
	if err != nil || n != 2*bytes {
		t.Errorf("after they were read %d bytes are in memory, %v; want %d", n, err, 2*bytes)
	}
	if err := ChillSoon(t.Context(), paths); err != nil {
		t.Error(err)
	}
	if n, err := pages.Resident(paths); err != nil || n != 0 {
		t.Errorf("%d bytes are in memory, %v", n, err)
	}
	if _, err := pages.Resident([]string{path, path + "no"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestHeldFilesStay(t *testing.T) {
	d := plainDisk(t)
	path, err := d.MakeFile("a", 300<<10, 1)
	if err != nil {
		t.Fatal(err)
	}
	release, err := pages.Hold(t.Context(), []string{path})
	if err != nil {
		t.Skipf("memory cannot be locked here: %v", err)
	}
	if err := pages.Chill([]string{path}); err == nil || !strings.Contains(err.Error(), "307200 bytes") {
		t.Errorf("a held file was taken out of memory: %v", err)
	}
	if err := errors.Join(release(), release()); err != nil {
		t.Error(err)
	}
	// Soon, not at once: the kernel may keep a page that was locked in a list of the processor that
	// unlocked it.
	if err := ChillSoon(t.Context(), []string{path}); err != nil {
		t.Error(err)
	}
	if _, err := pages.Hold(t.Context(), []string{path, path + "no"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := ChillSoon(t.Context(), []string{path}); err != nil {
		t.Errorf("after a failure it is still held: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pages.Hold(ended, []string{path}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
