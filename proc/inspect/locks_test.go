package inspect

import (
	"maps"
	"testing"
)

func TestLockHolders(t *testing.T) {
	got := lockHolders(`1: FLOCK  ADVISORY  WRITE 10 fe:00:1030 0 EOF
2: POSIX  ADVISORY  WRITE 11 fe:00:1031 3 3
2: -> POSIX  ADVISORY  WRITE 12 fe:00:1031 3 3
3: OFDLCK ADVISORY  READ -1 00:05:4 0 EOF
`)
	if !maps.Equal(got, map[int]bool{11: true}) {
		t.Errorf("got %v, want 11 only", got)
	}
}
