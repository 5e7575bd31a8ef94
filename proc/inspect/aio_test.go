package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
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

// setup makes a context for asynchronous I/O.
func setup(t *testing.T) (ring uintptr) {
	t.Helper()
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, 200, uintptr(unsafe.Pointer(&ring)), 0); e != 0 {
		t.Skipf("the kernel has no asynchronous I/O: %v", e)
	}
	t.Cleanup(func() { unix.Syscall(unix.SYS_IO_DESTROY, ring, 0, 0) })
	return ring
}

func tellingContexts(t *testing.T) *aioContexts {
	t.Helper()
	c, err := newAIOContexts()
	if err != nil {
		t.Skipf("the kernel does not tell what is in flight: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestProcessesWithoutContexts: they are told of as well, as a child has its parent's ring after a fork.
func TestProcessesWithoutContexts(t *testing.T) {
	contexts := tellingContexts(t)
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer in.Close()
	all, err := contexts.inFlight()
	if of, ok := all[child.Process.Pid]; !ok || of != (inFlight{}) || err != nil {
		t.Errorf("%+v, %v, %v, want nothing in flight", of, ok, err)
	}
}

// TestRequestsWithoutDescriptors: that there is too little of something at the moment is no property of the machine.
func TestRequestsWithoutDescriptors(t *testing.T) {
	setup(t)
	tellingContexts(t).Close()
	r, w, err := os.Pipe() // the runtime has its own descriptors from now on
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	free, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	failures := 0
	for most := uint64(free) + 1; most <= limit.Cur; most++ {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		var s Search
		l, err := s.requestsInFlight([]linux.Stat{{PID: os.Getpid()}})
		s.Close()
		unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		if l != nil {
			t.Errorf("with descriptors below %d: it has %s", most, l.Has)
		}
		if err == nil {
			break
		}
		t.Log(err)
		failures++
	}
	if failures == 0 {
		t.Error("it went well without descriptors")
	}
}

func TestMixedRings(t *testing.T) {
	parent, child := linux.Stat{PID: 7, PPID: 1}, linux.Stat{PID: 8, PPID: 7}
	for _, c := range []struct {
		of    rings
		mixed bool
	}{
		{rings{7: {0x1000: 5}, 8: {0x1000: 5}}, false}, // after a fork
		{rings{7: {0x1000: 5}, 8: {0x1000: 6}}, true},
		{rings{7: {0x1000: 5}, 8: {0x3000: 6}}, false},
		{rings{8: {0x1000: 6}}, false},
	} {
		if l := c.of.mixed([]linux.Stat{parent, child}); (l != nil) != c.mixed {
			t.Errorf("%v: %v", c.of, l)
		}
	}
}

func TestCopiesOfRings(t *testing.T) {
	tree := []linux.Stat{{PID: 7, PPID: 1}, {PID: 8, PPID: 7}}
	for _, c := range []struct {
		of       rings
		contexts map[int]inFlight
		copies   map[int][]uint64
	}{
		{rings{7: {0x1000: 5}, 8: {0x1000: 5}}, map[int]inFlight{7: {contexts: 1}, 8: {}}, map[int][]uint64{8: {0x1000}}},
		{rings{7: {0x1000: 5}, 8: {0x1000: 5, 0x3000: 6}}, map[int]inFlight{7: {contexts: 1}, 8: {contexts: 1}}, map[int][]uint64{8: {0x1000}}},
		{rings{7: {}, 8: {0x1000: 5}}, map[int]inFlight{7: {}, 8: {}}, map[int][]uint64{8: {0x1000}}}, // its parent has given it up
		{rings{7: {0x1000: 5}, 8: {0x1000: 6}}, map[int]inFlight{7: {contexts: 1}, 8: {contexts: 1}}, map[int][]uint64{}},
	} {
		if copies := c.of.copies(tree, c.contexts); !reflect.DeepEqual(copies, c.copies) {
			t.Errorf("of %v: %v, want %v", c.of, copies, c.copies)
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err   error
		stays bool
	}{
		{fmt.Errorf("map create: %w", unix.EPERM), true},
		{unix.EACCES, true},
		{unix.ENOSYS, true},
		{&ebpf.VerifierError{Cause: unix.EINVAL}, true},
		{&ebpf.VerifierError{Cause: unix.EPERM}, true},
		{&ebpf.VerifierError{Cause: unix.ENOMEM}, false},
		{fmt.Errorf("map create: %w", unix.EMFILE), false},
		{fmt.Errorf("an iterator: %w", ebpf.ErrNotSupported), false}, // it has been looked for
	} {
		err := refusal(c.err)
		var missing *linux.MissingError
		if !errors.Is(err, c.err) && !errors.Is(err, unix.EPERM) || errors.As(err, &missing) != c.stays {
			t.Errorf("of %v: %v", c.err, err)
		}
	}
}

// TestRequestsInFlight: the count is right whatever was started on whichever processor, answered and read.
func TestRequestsInFlight(t *testing.T) {
	runtime.LockOSThread() // and with it ends, as it may be bound to a processor
	ring := setup(t)
	contexts := tellingContexts(t)
	if of, err := ringsOf(os.Getpid()); len(of) == 0 || err != nil {
		t.Fatalf("the context is not seen: %v, %v", of, err)
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
		if of.contexts != 1 || of.requests != int64(len(waiting)) || of.waits != (len(waiting) > 0) {
			t.Fatalf("%+v, but %d wait, and %d are answered and not read", of, len(waiting), unread)
		}
	}
	var s Search
	defer s.Close()
	l, err := s.requestsInFlight([]linux.Stat{{PID: os.Getpid()}})
	if (l != nil) != (len(waiting) > 0) || err != nil {
		t.Errorf("%v, %v, with %d waiting", l, err, len(waiting))
	}
	for _, fd := range waiting {
		unix.Close(fd)
	}
}
