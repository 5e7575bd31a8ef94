package linux

import "golang.org/x/sys/unix"

// callCode is the instruction syscall, which may stand anywhere.
var callCode = []byte{0x0f, 0x05}

const callAlign = 1

// codeSegment is that of 64-bit code.
const codeSegment = 0x33

func setCall(r *unix.PtraceRegs, code uint64, nr, a, b, c uintptr) bool {
	r.Rip, r.Rax, r.Rdi, r.Rsi, r.Rdx = code, uint64(nr), uint64(a), uint64(b), uint64(c)
	r.Orig_rax = ^uint64(0) // else the kernel makes a call that was interrupted start again
	return r.Cs == codeSegment
}

func resultOf(r *unix.PtraceRegs) uintptr { return uintptr(r.Rax) }
