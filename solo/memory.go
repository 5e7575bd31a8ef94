package solo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"headrace/proc"
)

// memoryInfo is the machine's memory, in bytes.
type memoryInfo struct {
	Total, Available, SwapTotal, SwapFree int64
}

func readMemoryInfo() (memoryInfo, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return memoryInfo{}, fmt.Errorf("find out the size of the memory: %w", err)
	}
	defer f.Close()
	var m memoryInfo
	fields := map[string]*int64{
		"MemTotal": &m.Total, "MemAvailable": &m.Available, "SwapTotal": &m.SwapTotal, "SwapFree": &m.SwapFree,
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		p := fields[key]
		if p == nil {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return m, fmt.Errorf("/proc/meminfo: %s: %w", key, err)
		}
		*p = kb << 10
	}
	if err := lines.Err(); err != nil {
		return m, fmt.Errorf("read /proc/meminfo: %w", err)
	}
	if m.Total == 0 {
		return m, errors.New("/proc/meminfo does not tell MemTotal")
	}
	return m, nil
}

// Until the first page-out and page-in have been measured, paging is taken to
// be as fast as a plain SSD, in bytes per second.
const (
	guessSwapOut = 200e6
	guessSwapIn  = 200e6
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
		l.metaDirty = true
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

func (l *loop) pagedIn(t *task, bytes int64, took time.Duration, err error) {
	if err != nil {
		l.log.Warn("paging in failed; the task will do it by itself", "id", t.rec.ID, "err", err)
		return
	}
	if bytes >= minSwapInSample && took > 0 {
		l.meta.SwapIn = ewma(l.meta.SwapIn, float64(bytes)/took.Seconds())
		l.metaDirty = true
	}
}

// ewma moves an average towards a new sample; the first one is taken as it is.
func ewma(average, sample float64) float64 {
	if average == 0 {
		return sample
	}
	return 0.7*average + 0.3*sample
}
