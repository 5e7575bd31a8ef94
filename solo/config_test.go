package solo

import (
	"strings"
	"testing"

	"headrace/stream"
)

func TestConfigBuffer(t *testing.T) {
	for buffer, want := range map[int64]string{0: "", stream.MinBuffer: "", stream.MinBuffer - 1: "is too small", 1: "is too small", -1: "give numbers"} {
		c := Config{StateDir: t.TempDir(), Buffer: buffer}
		err := c.complete(memoryInfo{Total: 1 << 30})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a buffer of %d: %v; want %q", buffer, err, want)
		}
	}
}
