package linux

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CallAs has a stopped process make a system call as if it did so itself, for what the kernel lets nobody else do in its
// place. The arguments are a and b, and the address of data, which stands in its memory during the call. It returns what the
// call returned. Afterwards the process is as it was, and stopped if it was: no instruction of its program has been
// executed, no signal has been taken. The whole process must be stopped. It takes the right to trace it, and that nobody else does.
// The error is [errors.ErrUnsupported] for a program of 32 bits, and where the processor is neither amd64 nor arm64.
//
// The kernel tells every waiting thread of this process of what becomes of the other one. So nothing else in this process may wait
// for children meanwhile.
func CallAs(pid int, nr, a, b uintptr, data []byte) (uintptr, error) {
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	result, err := callAs(pid, nr, a, b, data)
	if err != nil {
		return 0, fmt.Errorf("call the kernel as process %d: %w", pid, err)
	}
	if e := int64(result); e < 0 && e > -4096 {
		return 0, unix.Errno(-e)
	}
	return result, nil
}

func callAs(pid int, nr, a, b uintptr, data []byte) (result uintptr, err error) {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	code, err := findCode(pid, memory)
	if err != nil {
		return 0, err
	}
	if err := unix.PtraceSeize(pid); err != nil {
		return 0, fmt.Errorf("trace it: %w", err)
	}
	defer func() { err = errors.Join(err, unix.PtraceDetach(pid)) }()
	if err := unix.PtraceInterrupt(pid); err != nil {
		return 0, fmt.Errorf("stop it: %w", err)
	}
	if err := await(pid, func(s unix.WaitStatus) bool { return int(s)>>16 == unix.PTRACE_EVENT_STOP }); err != nil {
		return 0, err
	}
	// It may have confined itself since it last made such a call.
	const options = unix.PTRACE_O_TRACESYSGOOD
	if unix.PtraceSetOptions(pid, options|unix.PTRACE_O_SUSPEND_SECCOMP) != nil {
		if err := unix.PtraceSetOptions(pid, options); err != nil {
			return 0, fmt.Errorf("set options: %w", err)
		}
	}
	unblock, err := blockSignals(pid)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unblock()) }()
	at, clear, err := place(pid, memory, data)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, clear()) }()
	var was unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &was); err != nil {
		return 0, fmt.Errorf("read its registers: %w", err)
	}
	defer func() { err = errors.Join(err, unix.PtraceSetRegs(pid, &was)) }()
	regs := was
	if !setCall(&regs, code, nr, a, b, at) {
		return 0, fmt.Errorf("a program of 32 bits: %w", errors.ErrUnsupported)
	}
	if err := unix.PtraceSetRegs(pid, &regs); err != nil {
		return 0, fmt.Errorf("set its registers: %w", err)
	}
	for range 2 { // before the call and behind it
		if err := unix.PtraceSyscall(pid, 0); err != nil {
			return 0, fmt.Errorf("let it go: %w", err)
		}
		if err := await(pid, func(s unix.WaitStatus) bool { return s.StopSignal() == unix.SIGTRAP|0x80 }); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return 0, fmt.Errorf("read its registers: %w", err)
	}
	return resultOf(&regs), nil
}

// await waits until a traced process has stopped in the way that is meant. Of other ways, such as for a SIGSTOP or SIGCONT that
// somebody has sent, it takes no more notice than it would without a tracer.
func await(pid int, meant func(unix.WaitStatus) bool) error {
	for {
		var s unix.WaitStatus
		_, err := unix.Wait4(pid, &s, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for it: %w", err)
		case !s.Stopped():
			return errors.New("it has ended")
		case meant(s):
			return nil
		}
		sig := 0
		if int(s)>>16 == 0 && s.StopSignal() != unix.SIGTRAP|0x80 {
			sig = int(s.StopSignal())
		}
		if err := unix.PtraceSyscall(pid, sig); err != nil {
			return fmt.Errorf("let it go: %w", err)
		}
	}
}

// blockSignals keeps all signals from a traced process until unblock.
func blockSignals(pid int) (unblock func() error, err error) {
	request := func(what int, mask *uint64) error {
		_, _, e := unix.Syscall6(unix.SYS_PTRACE, uintptr(what), uintptr(pid), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)), 0, 0)
		if e != 0 {
			return fmt.Errorf("block its signals: %w", e)
		}
		return nil
	}
	was, all := uint64(0), ^uint64(0)
	if err := request(unix.PTRACE_GETSIGMASK, &was); err != nil {
		return nil, err
	}
	return func() error { return request(unix.PTRACE_SETSIGMASK, &was) }, request(unix.PTRACE_SETSIGMASK, &all)
}

// place writes data into memory that the process has alone, until clear.
func place(pid int, memory *os.File, data []byte) (at uintptr, clear func() error, err error) {
	for m, err := range ProcFS("").Maps(pid) {
		if err != nil {
			return 0, nil, err
		}
		was := make([]byte, len(data))
		if m.Shared() || !m.Writable() || m.Rights[0] != 'r' || m.Len() < int64(len(data)) {
			continue
		}
		if _, err := memory.ReadAt(was, int64(m.Start)); err != nil {
			continue
		}
		if _, err := memory.WriteAt(data, int64(m.Start)); err != nil {
			continue
		}
		return uintptr(m.Start), func() error { _, err := memory.WriteAt(was, int64(m.Start)); return err }, nil
	}
	return 0, nil, errors.New("it has no memory that can be written to")
}

// findCode returns where the process has an instruction that calls the kernel. There is one in what the kernel maps into every process.
func findCode(pid int, memory *os.File) (uint64, error) {
	if len(callCode) == 0 {
		return 0, errors.ErrUnsupported
	}
	for m, err := range ProcFS("").Maps(pid) {
		if err != nil {
			return 0, err
		}
		if m.Rights[2] != 'x' || m.Path == "[vsyscall]" {
			continue
		}
		text := make([]byte, min(m.Len(), 16<<20))
		n, _ := memory.ReadAt(text, int64(m.Start)) // behind the end of its file there is nothing to read
		text = text[:n]
		for at := 0; ; at++ {
			i := bytes.Index(text[at:], callCode)
			if i < 0 {
				break
			}
			if at += i; at%callAlign == 0 {
				return m.Start + uint64(at), nil
			}
		}
	}
	return 0, errors.New("it has no instruction that calls the kernel")
}
