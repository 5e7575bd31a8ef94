package mend

import (
	"google.golang.org/protobuf/encoding/protowire"

	"headrace/internal/criu/image"
)

// A sleep that a stop has interrupted is gone on with by the kernel, which
// remembers what is left of it (restart_syscall(2)). That memory cannot be
// restored. CRIU lets such calls fail with EINTR instead: a C program that calls
// sleep(3) once goes on early, and poll(2) fails where it never would have.
//
// So they are made anew, with the registers as they were. A sleep never ends early
// then. It takes what was left if the program asked for that, as sleep(3) does,
// and else its whole time once more; so does poll(2) with a time-out. Calls that
// wait for a moment are exact.
//
// On arm64 the kernel has made the thread ready to do the same before CRIU sees it.

// Numbers of system calls of x86-64.
const (
	sysPoll           = 7
	sysNanosleep      = 35
	sysFutex          = 202
	sysRestart        = 219
	sysClockNanosleep = 230

	futexWaitBitset = 9    // with a time-out that is a moment
	futexCommand    = 0x7f // without flags
)

// minusEINTR is what CRIU writes for a call that cannot be restarted.
const minusEINTR = ^uint64(4) + 1

// registers are those that matter of x86-64.
type registers struct {
	call        uint64 // the number, of the call that the thread is in
	result, ip  uint64
	di, si, dx  uint64
	r10         uint64
	compat      bool // a 32-bit program
	interrupted uint64
}

// again returns the registers with which the interrupted call is made anew, or
// false if it is none that has to be.
func (r registers) again() (registers, bool) {
	if r.result != minusEINTR || r.compat {
		return r, false
	}
	number := r.call
	if number == sysRestart {
		number = r.interrupted
	}
	switch number {
	case sysNanosleep: // (time, left)
		if r.si != 0 {
			r.di = r.si
		}
	case sysClockNanosleep: // (clock, flags, time, left)
		if r.r10 != 0 && r.si == 0 {
			r.dx = r.r10
		}
	case sysPoll:
	case sysFutex: // who waits for a time takes a wake-up for nothing, and knows what is left
		if r.si&futexCommand != futexWaitBitset {
			return r, false
		}
	default:
		return r, false
	}
	r.result = number
	r.ip -= 2 // the instruction syscall
	return r, true
}

// calls makes interrupted calls of all threads be made anew.
func calls(dir string, interrupted map[int]uint64) error {
	cores, err := image.Threads(dir)
	if err != nil {
		return err
	}
	for _, path := range cores {
		tid, err := image.ThreadOf(path)
		if err != nil {
			continue // not of a thread
		}
		if err := mendCore(path, interrupted[tid]); err != nil {
			return err
		}
	}
	return nil
}

func mendCore(path string, interrupted uint64) error {
	f, err := image.Read(path)
	if err != nil || len(f.Entries) == 0 {
		return err
	}
	core := f.Entries[0]
	if arch, _ := core.Uint(image.CoreArch); arch != image.ArchX86 {
		return nil
	}
	info, err := core.Message(image.CoreX86)
	if err != nil {
		return err
	}
	regs, err := info.Message(image.X86Regs)
	if err != nil || regs == nil {
		return err
	}
	get := func(field protowire.Number) uint64 { v, _ := regs.Uint(field); return v }
	r, ok := registers{
		call: get(image.X86OrigAX), result: get(image.X86AX), ip: get(image.X86IP),
		di: get(image.X86DI), si: get(image.X86SI), dx: get(image.X86DX), r10: get(image.X86R10),
		compat: get(image.X86Mode) == image.ModeCompat, interrupted: interrupted,
	}.again()
	if !ok {
		return nil
	}
	regs = regs.SetUint(image.X86AX, r.result).SetUint(image.X86IP, r.ip).SetUint(image.X86DI, r.di).SetUint(image.X86DX, r.dx)
	f.Entries[0] = core.SetMessage(image.CoreX86, info.SetMessage(image.X86Regs, regs))
	return rewrite(path, f)
}
