package shim

import (
	"syscall"
	"time"

	"headrace/internal/linux"
	"headrace/proc"
)

// account adds up what the task has used over all its incarnations. It is
// guarded by the supervisor's mu.
type account struct {
	// before is what a checkpoint brought with it from an earlier supervisor.
	before proc.Usage
	// reaped processes of this supervisor, restores included.
	user, system        time.Duration
	blocksIn, blocksOut int64
	maxResident         int64
	// overhead of dumps and restores by our helpers, and the part of the task's
	// own processor time that went into building its memory at restores.
	helpers, rebuilt time.Duration

	runningFor time.Duration
	since      time.Duration // linux.Clock of the last resume; 0 while stopped

	// saved is the total at the last start or checkpoint.
	savedCPU, savedRunning time.Duration
}

const blockSize = 512 // unit of ru_inblock and ru_oublock

func (a *account) reaped(r syscall.Rusage) {
	a.user += time.Duration(r.Utime.Nano())
	a.system += time.Duration(r.Stime.Nano())
	a.blocksIn += int64(r.Inblock)
	a.blocksOut += int64(r.Oublock)
	a.maxResident = max(a.maxResident, int64(r.Maxrss)<<10)
}

func (a *account) helper(r syscall.Rusage) {
	a.helpers += time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (a *account) resumed() { a.since = linux.Clock() }

func (a *account) paused() {
	if a.since != 0 {
		a.runningFor += linux.Clock() - a.since
		a.since = 0
	}
}

func (a *account) running() time.Duration {
	if a.since == 0 {
		return a.runningFor
	}
	return a.runningFor + linux.Clock() - a.since
}

// total returns the usage without processes that still live.
func (a *account) total() proc.Usage {
	u := a.before
	u.User += a.user
	u.System += a.system - a.rebuilt
	u.Running += a.running()
	u.OverheadCPU += a.helpers + a.rebuilt
	u.ReadBytes += a.blocksIn * blockSize
	u.WrittenBytes += a.blocksOut * blockSize
	u.MaxResident = max(u.MaxResident, a.maxResident)
	return u
}

// saved marks a start or a checkpoint at a usage: what comes after would be
// lost by a kill.
func (a *account) saved(u proc.Usage) { a.savedCPU, a.savedRunning = u.User+u.System, u.Running }
