package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
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
	if _, err := unix.Mmap(int(a.Shared.Fd()), 0, deal.MinBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EACCES) {
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

// TestDroppedMemoryIsGone: whoever keeps the descriptor of memory that was given up, or has it
// mapped, does not keep the memory.
func TestDroppedMemoryIsGone(t *testing.T) {
	var mu sync.Mutex
	m := newMemory(&Config{Lock: &mu, Forget: func(uint32) {}}, func(uint32) bool { return false })
	mu.Lock()
	defer mu.Unlock()
	for _, closed := range []bool{false, true} {
		a, err := m.takeArena(deal.MinBlock, 4, 1, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Dup(int(a.Shared.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		mem, err := unix.Mmap(fd, 0, len(a.mem), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(mem)
		for i := range a.mem {
			a.mem[i] = 'x'
		}
		m.closed = closed
		m.dropArena(a)
		for m.going > 0 {
			m.room.Wait()
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		if !closed && st.Blocks != 0 {
			t.Errorf("%d bytes are left", st.Blocks*512)
		}
		if closed && mem[deal.MinBlock] != 'x' {
			t.Error("who has not been told yet finds something else")
		}
	}
}
