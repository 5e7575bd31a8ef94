package inspect

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// iocb is struct iocb of linux/aio_abi.h.
type iocb struct {
	_         uint64
	_, _      uint32
	op        uint16
	_         int16
	fd        uint32
	events, _ uint64
	_         int64
	_         uint64
	_, _      uint32
}

// TestRequestsInFlight: the count is right whatever was started on whichever processor, answered and read.
func TestRequestsInFlight(t *testing.T) {
	runtime.LockOSThread() // and with it ends, as it may be bound to a processor
	var ring uintptr
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, 200, uintptr(unsafe.Pointer(&ring)), 0); e != 0 {
		t.Skipf("the kernel has no asynchronous I/O: %v", e)
	}
	defer unix.Syscall(unix.SYS_IO_DESTROY, ring, 0, 0)
	contexts, err := newAIOContexts()
	if err != nil {
		t.Skipf("the kernel does not tell what is in flight: %v", err)
	}
	defer contexts.Close()
	if uses, err := usesAIO(os.Getpid()); !uses || err != nil {
		t.Fatalf("the context is not seen: %v, %v", uses, err)
	}
	var processors unix.CPUSet
	if err := unix.SchedGetaffinity(0, &processors); err != nil {
		t.Fatal(err)
	}
	var waiting []int // descriptors, each of which a request waits for
	unread := 0
	var requests runtime.Pinner
	defer requests.Unpin()
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		var one unix.CPUSet
		for cpu := random.IntN(processors.Count() * 4); one.Count() == 0; cpu++ {
			if cpu %= len(processors) * 64; processors.IsSet(cpu) {
				one.Set(cpu)
			}
		}
		unix.SchedSetaffinity(0, &one)
		switch n := random.IntN(10); {
		case n < 5 && len(waiting)+unread < 200:
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			r := &iocb{op: 5, fd: uint32(fd), events: unix.POLLIN} // IOCB_CMD_POLL
			requests.Pin(r)
			if _, _, e := unix.Syscall(unix.SYS_IO_SUBMIT, ring, 1, uintptr(unsafe.Pointer(&r))); e != 0 {
				t.Fatal(e)
			}
			waiting = append(waiting, fd)
		case n < 8 && len(waiting) > 0:
			unix.Write(waiting[0], binary.NativeEndian.AppendUint64(nil, 1))
			unix.Close(waiting[0])
			waiting = waiting[1:]
			unread++
		case unread > 0:
			events := make([][4]uint64, 1+random.IntN(unread))
			if _, _, e := unix.Syscall6(unix.SYS_IO_GETEVENTS, ring, uintptr(len(events)), uintptr(len(events)), uintptr(unsafe.Pointer(&events[0])), 0, 0); e != 0 {
				t.Fatal(e)
			}
			unread -= len(events)
		}
		n, err := contexts.inFlight()
		if err != nil {
			t.Fatal(err)
		}
		of := n[os.Getpid()]
		if of.requests != int64(len(waiting)) || of.waits != (len(waiting) > 0) {
			t.Fatalf("%+v, but %d wait, and %d are answered and not read", of, len(waiting), unread)
		}
	}
	l, err := requestsInFlight([]linux.Stat{{PID: os.Getpid()}})
	if (l != nil) != (len(waiting) > 0) || err != nil {
		t.Errorf("%v, %v, with %d waiting", l, err, len(waiting))
	}
	for _, fd := range waiting {
		unix.Close(fd)
	}
}
