package solo

import (
	"context"
	"errors"
	"time"

	"headrace/internal/linux"
	"headrace/proc"
)

// memoryInfo is the machine's memory, in bytes.
type memoryInfo = linux.MemInfo

func readMemoryInfo() (memoryInfo, error) { return linux.ProcFS("").MemInfo() }

// Where swap could not be measured, paging is taken to be as fast as a plain
// SSD, in bytes per second, until the first page-out and page-in.
const (
	guessSwapOut = 200e6
	guessSwapIn  = 200e6
	// swapProbe is what swap is measured with when the daemon starts.
	swapProbe = 32 << 20
	// The least that says something about the bandwidth. Paging in is only begun
	// by the kernel's call: small amounts seem to take no time at all.
	minSwapOutSample = 4 << 20
	minSwapInSample  = 64 << 20
	swapFullFor      = 30 * time.Second
)

// swapState is what the loop knows of paging beyond its bandwidths.
type swapState struct {
	// Until then (boot time) nothing more is paged out, after a failure.
	fullUntil time.Duration
}

// measureSwap tries swap out, where there is some.
func (l *loop) measureSwap(ctx context.Context, measure func(context.Context, int64) (proc.SwapSpeed, error)) {
	if l.mem.SwapFree < 2*swapProbe {
		return
	}
	s, err := measure(ctx, swapProbe)
	if err != nil {
		l.log.Warn("the speed of swap could not be measured", "err", err)
		return
	}
	l.meta.SwapOut, l.meta.SwapIn, l.meta.SwapBoot, l.metaChanged = s.Out, s.In, l.boot, true
	l.log.Info("swap", "out", int64(s.Out), "in", int64(s.In))
}

func (l *loop) readMemory() {
	m, err := l.memory()
	if err != nil {
		l.warn("memory", "the memory could not be read", "err", err)
		return
	}
	l.mem = m
}

// swapRoom is what may be paged out.
func (l *loop) swapRoom(now time.Duration) int64 {
	if now < l.swap.fullUntil {
		return 0
	}
	return max(0, l.mem.SwapFree-l.cfg.SwapReserve)
}

func (l *loop) pagedOut(t *task, bytes int64, took time.Duration, err error) {
	if bytes >= minSwapOutSample && took > 0 {
		l.meta.SwapOut = ewma(l.meta.SwapOut, float64(bytes)/took.Seconds())
		l.metaChanged = true
	}
	if t.known {
		moved := min(bytes, t.stats.Resident)
		t.stats.Resident -= moved
		t.stats.Swapped += moved
	}
	if err == nil || errors.Is(err, proc.ErrGone) || errors.Is(err, context.Canceled) {
		return
	}
	l.log.Warn("paging out failed", "id", t.rec.ID, "bytes", bytes, "err", err)
	l.swap.fullUntil = l.clk.boot() + swapFullFor
}

func (l *loop) pagedIn(bytes int64, took time.Duration, err error) {
	if errors.Is(err, proc.ErrGone) || errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		l.log.Warn("paging in failed; the task will do it by itself", "err", err)
		return
	}
	if bytes >= minSwapInSample && took > 0 {
		l.meta.SwapIn = ewma(l.meta.SwapIn, float64(bytes)/took.Seconds())
		l.metaChanged = true
	}
}

// ewma moves an average towards a new sample; the first one is taken as it is.
func ewma(average, sample float64) float64 {
	if average == 0 {
		return sample
	}
	return 0.7*average + 0.3*sample
}
