package tasklog

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// dumbTail returns where the last lines of a text begin, found from its beginning.
func dumbTail(text []byte, lines int) int64 {
	starts := []int64{0}
	for i, c := range text {
		if c == '\n' && i+1 < len(text) {
			starts = append(starts, int64(i)+1)
		}
	}
	if lines == 0 {
		return int64(len(text))
	}
	return starts[max(0, len(starts)-lines)]
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	rng := rand.New(rand.NewPCG(1, 2))
	long := bytes.Repeat([]byte("x"), tailBlock)
	for _, text := range [][]byte{
		nil, []byte("\n"), []byte("one"), []byte("one\n"), []byte("\n\n"), []byte("one\ntwo"),
		append(long, '\n'), append(append([]byte("a\n"), long...), "\nb\n"...), bytes.Repeat([]byte("some line\n"), 20_000), nil,
	} {
		for range 20 {
			if rng.IntN(2) == 0 {
				text = append(bytes.Clone(text), bytes.Repeat([]byte("y\n"), rng.IntN(5)*rng.IntN(20_000))...)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			lines := rng.IntN(4) * rng.IntN(10_000)
			if got := tailOf(t, path, lines); got != dumbTail(text, lines) {
				t.Fatalf("the last %d lines of %d bytes begin at %d, want %d", lines, len(text), got, dumbTail(text, lines))
			}
		}
	}
}

// TestTailOfWhatCannotBeLookedAt: a file that is closed is an error.
func TestTailOfWhatCannotBeLookedAt(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, lines := range []uint32{0, 3} {
		if at, err := tail(t.Context(), f, lines); err == nil {
			t.Errorf("the last %d lines of a closed file begin at %d", lines, at)
		}
	}
}

// TestTailOfLargeLog: what is before the last lines, and holes, is not read.
func TestTailOfLargeLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const size = 1 << 40
	if err := os.WriteFile(path, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size-7); err != nil {
		t.Skip("the file system has no such large files: ", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("\nb\nc\nd\n"); err != nil {
		t.Fatal(err)
	}
	if at, err := unix.Seek(int(f.Fd()), 1<<20, unix.SEEK_DATA); err != nil || at < size/2 {
		t.Skip("the file system does not tell where holes are")
	}
	for lines, want := range map[int]int64{1: size - 2, 3: size - 6, 4: 6, 5: 0} {
		if got := tailOf(t, path, lines); got != want {
			t.Errorf("the last %d lines begin at %d, want %d", lines, got, want)
		}
	}
}

func tailOf(t *testing.T, path string, lines int) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, err := tail(t.Context(), f, uint32(lines))
	if err != nil {
		t.Fatal(err)
	}
	return at
}
