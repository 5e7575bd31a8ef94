package inspect

import (
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

func TestParseSemaphores(t *testing.T) {
	const text = `       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
         0         10   600          1  1000  1000  1000  1000          0 1790000000
-123456789         11   666          4     0     0  1001     0 1790000100 1790000000
`
	got, err := parseSemaphores(text)
	want := []semaphores{{10, 1, 1000, 1000, 0}, {11, 4, 0, 1001, 1790000100}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := parseSemaphores("key\n 1 2 3\n"); err == nil {
		t.Error("a line of another form was taken")
	}
}

// TestSemaphoresOfOthers: the set of another user counts for a task only that was the last to use it.
func TestSemaphoresOfOthers(t *testing.T) {
	id, _, e := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 2, 0o600)
	if e != 0 {
		t.Skip("no semaphores: ", e)
	}
	defer unix.Syscall6(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID, 0, 0, 0)
	up := struct{ num, op, flags int16 }{1, 1, 0}
	if _, _, e := unix.Syscall(unix.SYS_SEMOP, id, uintptr(unsafe.Pointer(&up)), 1); e != 0 {
		t.Fatal(e)
	}
	self, err := linux.ProcFS("").Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	parent, err := linux.ProcFS("").Stat(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	own, other := uint32(os.Getuid()), uint32(os.Getuid()+1)
	for _, x := range []struct {
		of   linux.Stat
		user uint32
		want bool
	}{{self, own, true}, {self, other, true}, {parent, own, true}, {parent, other, false}} {
		ids, err := usedSemaphores([]linux.Stat{x.of}, x.user)
		if err != nil || slices.Contains(ids, int(id)) != x.want {
			t.Errorf("process %d of user %d: %v, %v; it counts: %v", x.of.PID, x.user, ids, err, x.want)
		}
	}
}
