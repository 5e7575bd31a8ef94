package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/stream/deal"
)

// TestArenaIsItsOwnersOnly: whoever finds a way to the descriptor of shared memory
// cannot open it, and whoever was given it cannot write.
func TestArenaIsItsOwnersOnly(t *testing.T) {
	a, err := newArena(deal.MinBlock, 4, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	st, err := a.Shared.Stat()
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v, %v", st.Mode(), err)
	}
	if _, err := unix.Mmap(int(a.Shared.Fd()), 0, deal.MinBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("it can be mapped for writing: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: there is no other user who could try")
	}
	err = linux.AsUser(linux.Credentials{UID: 65534, GID: 65534}, func() error {
		f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", a.Shared.Fd()))
		if err == nil {
			f.Close()
		}
		return err
	})
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another user opens it: %v", err)
	}
}
