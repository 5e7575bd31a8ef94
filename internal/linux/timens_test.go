package linux

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestClockOffset(t *testing.T) {
	for text, want := range map[string][2]time.Duration{
		"monotonic           0         0\nboottime            0         0\n": {0, 0},
		"monotonic          -2 500000000\nboottime      864000         1\n":  {-1500 * time.Millisecond, 240*time.Hour + 1},
		"raw 1 1\nmonotonic 3 0\nboottime 4 0\n":                             {3 * time.Second, 4 * time.Second},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "7"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "7", "timens_offsets"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for i, clock := range []int{unix.CLOCK_MONOTONIC, unix.CLOCK_BOOTTIME} {
			if got, err := ProcFS(dir).ClockOffset("7", clock); err != nil || got != want[i] {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want[i])
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "7", "timens_offsets"), []byte("monotonic x 0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ProcFS(dir).ClockOffset("7", unix.CLOCK_MONOTONIC); err == nil {
			t.Error("no number is taken for one")
		}
	}
}
