package solo

import (
	"context"
	"log/slog"
	"time"

	"headrace/internal/linux"
	"headrace/proc"
	"headrace/solo/journal"
	"headrace/solo/store"
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

// memory is what is known of the machine's memory and swap.
type memory struct {
	memoryInfo
	read func() (memoryInfo, error)
	journal.SwapSpeed
	// reserve is the part of swap that is left to others.
	reserve int64
	// Until then (boot time) nothing more is paged out, after a failure.
	fullUntil time.Duration
}

// setSpeed takes over how fast swap was when it was last used, or guesses.
func (m *memory) setSpeed(s journal.SwapSpeed) {
	m.SwapSpeed = s
	if s.SwapOut == 0 {
		m.SwapOut, m.SwapIn = guessSwapOut, guessSwapIn
	}
}

// measure tries swap out, where there is some.
func (m *memory) measure(ctx context.Context, boot string, try func(context.Context, int64) (proc.SwapSpeed, error), log *slog.Logger) {
	if m.SwapFree < 2*swapProbe {
		return
	}
	s, err := try(ctx, swapProbe)
	if err != nil {
		log.Warn("the speed of swap could not be measured", "err", err)
		return
	}
	m.SwapSpeed = journal.SwapSpeed{SwapOut: s.Out, SwapIn: s.In, SwapBoot: boot}
	log.Info("swap", "out", int64(s.Out), "in", int64(s.In))
}

// look finds out how much there is now.
func (m *memory) look() error {
	now, err := m.read()
	if err == nil {
		m.memoryInfo = now
	}
	return err
}

// swapRoom returns what may be paged out.
func (m *memory) swapRoom(now time.Duration) int64 {
	if now < m.fullUntil {
		return 0
	}
	return max(0, m.SwapFree-m.reserve)
}

// learnOut corrects the speed of paging out, and reports whether it has changed.
func (m *memory) learnOut(bytes int64, took time.Duration) bool {
	return learnSpeed(&m.SwapOut, bytes, minSwapOutSample, took)
}

// learnIn is learnOut for paging in.
func (m *memory) learnIn(bytes int64, took time.Duration) bool {
	return learnSpeed(&m.SwapIn, bytes, minSwapInSample, took)
}

func learnSpeed(speed *float64, bytes, least int64, took time.Duration) bool {
	if bytes < least || took <= 0 {
		return false
	}
	*speed = store.Average(*speed, float64(bytes)/took.Seconds())
	return true
}
