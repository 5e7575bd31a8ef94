package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestClaim: of those who claim a directory at once one gets it, and keeps it until what says so is
// removed.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	if err := Owned(dir, Owner{ID: "0"}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("that nobody has claimed: %v", err)
	}
	var claims sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		claims.Go(func() { errs[i] = Claim(dir, Owner{fmt.Sprint(i), fmt.Sprintf("host%d", i), "/state"}) })
	}
	claims.Wait()
	first := -1
	for i, err := range errs {
		switch {
		case err == nil && first < 0:
			first = i
		case err == nil:
			t.Errorf("%d and %d have it", first, i)
		case !errors.Is(err, ErrForeign):
			t.Error(err)
		}
	}
	if first < 0 {
		t.Fatal("nobody has it:", errors.Join(errs...))
	}
	if err := Claim(dir, Owner{ID: fmt.Sprint(first), Host: "a new name"}); err != nil {
		t.Error("its owner, later:", err)
	}
	err := Owned(dir, Owner{ID: "other"})
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), fmt.Sprintf(`on "host%d" with the state directory "/state"`, first)) {
		t.Errorf("another one: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in it are %v, %v", left, err)
	}
	if err := os.Remove(filepath.Join(dir, ownerName)); err != nil {
		t.Fatal(err)
	}
	if err := Claim(dir, Owner{ID: "other"}); err != nil {
		t.Error("another one, when it is nobody's:", err)
	}
}
