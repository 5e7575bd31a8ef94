package linux

import "golang.org/x/sys/unix"

// callCode is the instruction svc 0.
var callCode = []byte{0x01, 0x00, 0x00, 0xd4}

const callAlign = 4

func setCall(r *unix.PtraceRegs, code uint64, nr, a, b, c uintptr) bool {
	r.Pc, r.Regs[8], r.Regs[0], r.Regs[1], r.Regs[2] = code, uint64(nr), uint64(a), uint64(b), uint64(c)
	return r.Pstate&(1<<4) == 0 // else it is code of 32 bits
}

func resultOf(r *unix.PtraceRegs) uintptr { return uintptr(r.Regs[0]) }
