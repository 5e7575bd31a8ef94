package work

import (
	"path/filepath"
	"testing"
	"time"
)

// What was used is known of a process that is killed, and one that was restored counts
// on.
func TestAccount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account")
	if share, cpu, err := ReadAccount(path); share != 0 || cpu != 0 || err != nil {
		t.Errorf("before anything is written: %g, %g, %v", share, cpu, err)
	}
	a := account{path: path, used: 1000, seen: 1e9} // the kernel will say much less
	for _, share := range []float64{0.25, 0.5, 1} {
		a.last = time.Time{}
		if err := a.set(share); err != nil {
			t.Fatal(err)
		}
		got, cpu, err := ReadAccount(path)
		if got != share || cpu < 1000 || cpu > 2000 || err != nil {
			t.Errorf("%g: read %g, %g, %v", share, got, cpu, err)
		}
	}
	a.path = ""
	if err := a.set(1); err != nil {
		t.Error(err)
	}
}
