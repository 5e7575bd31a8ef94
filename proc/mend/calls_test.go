package mend

import "testing"

func TestCallsAreMadeAgain(t *testing.T) {
	const at, left, other = 1000, 2000, 3000
	in := func(call uint64, di, si, dx, r10 uint64) registers {
		return registers{call: call, result: minusEINTR, ip: 0x402, di: di, si: si, dx: dx, r10: r10}
	}
	again := func(r registers, number uint64) registers {
		r.result, r.ip = number, 0x400
		return r
	}
	with := func(r registers, change func(*registers)) registers { change(&r); return r }
	for name, c := range map[string]struct {
		in   registers
		want registers // equal to in: not made again
	}{
		"nanosleep":               {in(sysNanosleep, at, 0, other, other), again(in(sysNanosleep, at, 0, other, other), sysNanosleep)},
		"nanosleep, what is left": {in(sysNanosleep, at, left, 0, 0), again(in(sysNanosleep, left, left, 0, 0), sysNanosleep)},
		"clock_nanosleep":         {in(sysClockNanosleep, 1, 0, at, 0), again(in(sysClockNanosleep, 1, 0, at, 0), sysClockNanosleep)},
		"clock_nanosleep, left":   {in(sysClockNanosleep, 1, 0, at, left), again(in(sysClockNanosleep, 1, 0, left, left), sysClockNanosleep)},
		"poll":                    {in(sysPoll, at, 1, 100, 0), again(in(sysPoll, at, 1, 100, 0), sysPoll)},
		"futex until a moment":    {in(sysFutex, at, 128|256|9, 0, at), again(in(sysFutex, at, 128|256|9, 0, at), sysFutex)},
		"futex for a time":        {in(sysFutex, at, 128, 0, at), in(sysFutex, at, 128, 0, at)},
		"epoll_wait":              {in(232, 3, at, 1, 0), in(232, 3, at, 1, 0)},
		"not known":               {in(sysRestart, at, left, 0, 0), in(sysRestart, at, left, 0, 0)},
		"nanosleep, gone on with": {
			with(in(sysRestart, at, left, 0, 0), func(r *registers) { r.interrupted = sysNanosleep }),
			with(again(in(sysRestart, left, left, 0, 0), sysNanosleep), func(r *registers) { r.interrupted = sysNanosleep })},
		"another result": {
			with(in(sysNanosleep, at, 0, 0, 0), func(r *registers) { r.result = 0 }),
			with(in(sysNanosleep, at, 0, 0, 0), func(r *registers) { r.result = 0 })},
		"32 bits": {
			with(in(sysNanosleep, at, 0, 0, 0), func(r *registers) { r.compat = true }),
			with(in(sysNanosleep, at, 0, 0, 0), func(r *registers) { r.compat = true })},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := c.in.again()
			if got != c.want || ok != (c.in != c.want) {
				t.Errorf("%+v, %v\nwant %+v", got, ok, c.want)
			}
		})
	}
}

func TestNumberOf(t *testing.T) {
	if n, ok := numberOf([7]byte{0xb8, 0xe6, 0, 0, 0, 0x0f, 0x05}); n != sysClockNanosleep || !ok {
		t.Errorf("mov $0xe6,%%eax; syscall is %d, %v", n, ok)
	}
	for _, code := range [][7]byte{{}, {0xb8, 0xe6, 0, 0, 0, 0x0f, 0x34}, {0x89, 0xe6, 0, 0, 0, 0x0f, 0x05}} {
		if n, ok := numberOf(code); ok {
			t.Errorf("% x is taken for call %d", code, n)
		}
	}
}
