package linux

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Caller makes a system call with up to three arguments as another process. [AtData] stands for the address of data, at most 64 bytes, which
// is in memory of that process during the call, and is what is there after it. It returns what the call returned. If the
// other process cannot be had to make the call, each further one fails in the same way.
type Caller func(nr uintptr, data []byte, args ...uintptr) (uintptr, error)

// AtData is an argument of a [Caller]. It is no address.
const AtData = ^uintptr(0) - 4096

// CallAs has a stopped process make those system calls that do makes, as if it did so itself: for what the kernel lets nobody else do in its
// place. Afterwards the process is as it was, and stopped if it was: no instruction of its program has been
// executed, no signal has been taken. The whole process must be stopped. It takes the right to trace it, and that nobody else does.
// The error is [errors.ErrUnsupported], and do is not called, for a program of 32 bits, for one that has not kept the
// code that the kernel maps into every process (vdso(7)), and where the processor is neither amd64 nor arm64.
//
// The kernel tells every waiting thread of this process of what becomes of the other one. So nothing else in this process may wait
// for children meanwhile, nor may do leave its goroutine.
func CallAs(pid int, do func(Caller) error) error {
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	c := caller{pid: pid}
	if err := c.with(do); err != nil {
		return fmt.Errorf("call the kernel as process %d: %w", pid, err)
	}
	return nil
}

// CanCallAs reports whether CallAs can have a process make calls: whether its program is one of 64 bits that has kept the code that the
// kernel maps into it. It takes the right to trace the process, and changes nothing.
func CanCallAs(pid int) (bool, error) {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return false, err
	}
	defer memory.Close()
	program, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false, err
	}
	defer program.Close()
	head := make([]byte, elf.EI_CLASS+1)
	if _, err := program.ReadAt(head, 0); err != nil {
		return false, fmt.Errorf("look whether the program of process %d is one of 64 bits: %w", pid, err)
	}
	if elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return false, nil
	}
	c := caller{pid: pid, memory: memory}
	for m, err := range ProcFS("").Maps(pid) {
		if err != nil {
			return false, err
		}
		if m.Path == "[vdso]" && c.findCode(m) != 0 {
			return true, nil
		}
	}
	return false, nil
}

// maxStops is how often a process may stop in ways that are not meant. It is bounded as whoever may send it signals
// can stop it again before it has come to an instruction, as often as he likes.
const maxStops = 1000

// maxData is how many bytes may stand in its memory during a call.
const maxData = 64

// caller is a process that is had to make system calls.
type caller struct {
	pid    int
	memory *os.File
	code   uint64 // where the instruction is that calls the kernel
	at     uint64 // where data may stand
	regs   unix.PtraceRegs
	stops  int
	failed error
}

func (c *caller) with(do func(Caller) error) (err error) {
	if c.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0); err != nil {
		return err
	}
	defer c.memory.Close()
	was, err := c.look()
	if err != nil {
		return err
	}
	if err := unix.PtraceSeize(c.pid); err != nil {
		return fmt.Errorf("trace it: %w", err)
	}
	defer func() { err = errors.Join(err, unix.PtraceDetach(c.pid)) }()
	if err := unix.PtraceInterrupt(c.pid); err != nil {
		return fmt.Errorf("stop it: %w", err)
	}
	if err := c.await(func(s unix.WaitStatus) bool { return int(s)>>16 == unix.PTRACE_EVENT_STOP }); err != nil {
		return err
	}
	// It may have confined itself since it last made such a call.
	const options = unix.PTRACE_O_TRACESYSGOOD
	if unix.PtraceSetOptions(c.pid, options|unix.PTRACE_O_SUSPEND_SECCOMP) != nil {
		st, err := ProcFS("").Status(c.pid)
		if err == nil && st.Seccomp != 0 {
			err = fmt.Errorf("it has confined itself, and a call may end it: %w", errors.ErrUnsupported)
		}
		if err == nil {
			err = unix.PtraceSetOptions(c.pid, options)
		}
		if err != nil {
			return fmt.Errorf("set options: %w", err)
		}
	}
	if err := unix.PtraceGetRegs(c.pid, &c.regs); err != nil {
		return fmt.Errorf("read its registers: %w", err)
	}
	if regs := c.regs; !setCall(&regs, c.code, 0, 0, 0, 0) {
		return fmt.Errorf("a program of 32 bits: %w", errors.ErrUnsupported)
	}
	unblock, err := blockSignals(c.pid)
	if err != nil {
		return err
	}
	sequence, err := c.sequence()
	if err != nil {
		return err
	}
	defer func() {
		_, back := c.memory.WriteAt(was, int64(c.at))
		err = errors.Join(err, unix.PtraceSetRegs(c.pid, &c.regs), back, sequence(), unblock())
	}()
	return do(c.call)
}

func (c *caller) call(nr uintptr, data []byte, args ...uintptr) (uintptr, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	var three [3]uintptr
	for i, a := range args {
		if three[i] = a; a == AtData {
			three[i] = uintptr(c.at)
		}
	}
	result, err := c.made(nr, data, three)
	if err != nil {
		c.failed = err
		return 0, err
	}
	if e := int64(result); e < 0 && e > -4096 {
		return 0, unix.Errno(-e)
	}
	return result, nil
}

func (c *caller) made(nr uintptr, data []byte, args [3]uintptr) (uintptr, error) {
	if len(data) > maxData {
		return 0, fmt.Errorf("%d bytes for a call, where %d are the most", len(data), maxData)
	}
	if _, err := c.memory.WriteAt(data, int64(c.at)); err != nil {
		return 0, err
	}
	regs := c.regs
	setCall(&regs, c.code, nr, args[0], args[1], args[2])
	if err := unix.PtraceSetRegs(c.pid, &regs); err != nil {
		return 0, fmt.Errorf("set its registers: %w", err)
	}
	for range 2 { // before the call and behind it
		if err := unix.PtraceSyscall(c.pid, 0); err != nil {
			return 0, fmt.Errorf("let it go: %w", err)
		}
		if err := c.await(func(s unix.WaitStatus) bool { return s.StopSignal() == unix.SIGTRAP|0x80 }); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(c.pid, &regs); err != nil {
		return 0, fmt.Errorf("read its registers: %w", err)
	}
	if _, err := c.memory.ReadAt(data, int64(c.at)); err != nil {
		return 0, err
	}
	return resultOf(&regs), nil
}

// await waits until the process has stopped in the way that is meant. Of other ways, such as for a SIGSTOP or SIGCONT that
// somebody has sent, it takes no more notice than it would without a tracer.
func (c *caller) await(meant func(unix.WaitStatus) bool) error {
	for {
		var s unix.WaitStatus
		_, err := unix.Wait4(c.pid, &s, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for it: %w", err)
		case !s.Stopped():
			return errors.New("it has ended")
		case meant(s):
			return nil
		case c.stops == maxStops:
			return fmt.Errorf("somebody sends it signals all the time: it has stopped %d times without coming to the call", c.stops)
		}
		c.stops++
		sig := 0
		if int(s)>>16 == 0 && s.StopSignal() != unix.SIGTRAP|0x80 {
			sig = int(s.StopSignal())
		}
		if err := unix.PtraceSyscall(c.pid, sig); err != nil {
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

// sequence notes which restartable sequence (rseq(2)) the process is in, and returns what says so again. The kernel takes it out of one when
// it executes code elsewhere, and it would go on in the midst of that as if it had not been interrupted.
func (c *caller) sequence() (again func() error, err error) {
	nothing := func() error { return nil }
	var config struct {
		pointer                      uint64
		size, signature, flags, none uint32
	}
	const getConfiguration = 0x420f // PTRACE_GET_RSEQ_CONFIGURATION
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, getConfiguration, uintptr(c.pid), unsafe.Sizeof(config), uintptr(unsafe.Pointer(&config)), 0, 0)
	if e != 0 || config.pointer == 0 {
		return nothing, nil // it has none, or the kernel is older than 5.13
	}
	word := make([]byte, 8) // rseq_cs
	at := int64(config.pointer + 8)
	if _, err := c.memory.ReadAt(word, at); err != nil {
		return nil, fmt.Errorf("read its restartable sequence: %w", err)
	}
	if bytes.Equal(word, make([]byte, len(word))) {
		return nothing, nil
	}
	return func() error { _, err := c.memory.WriteAt(word, at); return err }, nil
}

// look finds code and at, and returns what is there. The code is the kernel's own: what the program itself has mapped may be of any size, and
// others may write to it.
func (c *caller) look() (was []byte, err error) {
	for m, err := range ProcFS("").Maps(c.pid) {
		switch {
		case err != nil:
			return nil, err
		case c.code == 0 && m.Path == "[vdso]":
			c.code = c.findCode(m)
		case was == nil && !m.Shared() && m.Writable() && m.Rights[0] == 'r' && m.Len() >= maxData:
			b := make([]byte, maxData)
			if _, err := c.memory.ReadAt(b, int64(m.Start)); err != nil {
				continue
			}
			if _, err := c.memory.WriteAt(b, int64(m.Start)); err != nil {
				continue
			}
			c.at, was = m.Start, b
		}
	}
	if c.code == 0 {
		return nil, fmt.Errorf("there is nothing in it that calls the kernel: %w", errors.ErrUnsupported)
	}
	if was == nil {
		return nil, errors.New("it has no memory that can be written to")
	}
	return was, nil
}

// findCode returns where a mapping has an instruction that calls the kernel, 0 if it has none.
func (c *caller) findCode(m Mapping) uint64 {
	text := make([]byte, min(m.Len(), 1<<16))
	n, _ := c.memory.ReadAt(text, int64(m.Start)) // what cannot be read has none
	for at := 0; len(callCode) > 0 && at+len(callCode) <= n; at += callAlign {
		if bytes.HasPrefix(text[at:n], callCode) {
			return m.Start + uint64(at)
		}
	}
	return 0
}
