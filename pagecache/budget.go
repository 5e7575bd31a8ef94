package pagecache

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Limits is what bounds the memory that this process may lock, in bytes.
type Limits struct {
	// Memory is that of the machine, Available what can still be used of it without swapping.
	Memory, Available int64
	// Cgroup is the tightest memory limit over this process.
	Cgroup linux.CgroupMemory
	// Lock is how much the kernel lets this process lock: RLIMIT_MEMLOCK, or
	// Unlimited with CAP_IPC_LOCK.
	Lock int64
}

var pageSize = int64(os.Getpagesize())

// Unlimited stands for no limit.
const Unlimited = math.MaxInt64

// own remembers which cgroups limit this process.
var own linux.OwnMemory

// ReadLimits reads the limits of this process on this machine.
func ReadLimits() (Limits, error) {
	mem, err := linux.ProcFS("").MemInfo()
	if err != nil {
		return Limits{}, fmt.Errorf("limits of memory: %w", err)
	}
	l := Limits{Memory: mem.Total, Available: mem.Available, Lock: Unlimited}
	if l.Cgroup, err = own.Cgroup(); err != nil {
		return Limits{}, fmt.Errorf("limits of memory: %w", err)
	}
	if may, err := linux.Capable(unix.CAP_IPC_LOCK); err != nil {
		return Limits{}, fmt.Errorf("limits of memory: %w", err)
	} else if !may {
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil {
			return Limits{}, os.NewSyscallError("getrlimit", err)
		}
		if r.Cur < Unlimited {
			l.Lock = int64(r.Cur)
		}
	}
	return l, nil
}

// SafeBudget returns how much may be locked within limits, in whole pages: usual is a
// quarter of the memory and at most half of what the cgroup leaves; most is three
// quarters of either, and more is refused. Neither is above what the kernel lets
// this process lock. bound says what determines most.
//
// A process that locks memory past the limit of its cgroup gets no error: it is
// killed.
func SafeBudget(l Limits) (usual, most int64, bound string) {
	usual, most = l.Memory/4, l.Memory/4*3
	bound = fmt.Sprintf("three quarters of the machine's %s of memory", size(l.Memory))
	if c := l.Cgroup; c.Dir != "" {
		usual = min(usual, c.Free/2)
		if leaves := c.Free / 4 * 3; leaves < most {
			most = leaves
			bound = fmt.Sprintf("three quarters of the %s that the memory limit of cgroup %s leaves", size(c.Free), c.Dir)
		}
	}
	if l.Lock < most {
		most = l.Lock
		bound = "RLIMIT_MEMLOCK: raise it (`ulimit -l`, LimitMEMLOCK= in a systemd unit), or give the process CAP_IPC_LOCK"
	}
	most -= most % pageSize
	return min(usual-usual%pageSize, most), most, bound
}

// Spare returns how much more may be locked now, whatever the budget: what others have taken
// since it was chosen counts, and a sixteenth stays for what they take next. If it is negative,
// so much is to be released, or somebody will soon be killed for lack of memory.
func Spare(l Limits) int64 {
	spare := l.Available - reserve(l.Memory)
	if c := l.Cgroup; c.Dir != "" {
		spare = min(spare, c.Free-reserve(c.Limit))
	}
	return spare
}

// reserve is a sixteenth, but in little memory more of it.
func reserve(memory int64) int64 { return max(memory/16, min(memory/4, 64<<20)) }

// chooseBudget checks the budget that was asked for.
func chooseBudget(asked int64, l Limits) (int64, error) {
	usual, most, bound := SafeBudget(l)
	switch {
	case asked < 0:
		return 0, errors.New("the budget for locked memory is negative")
	case asked == 0:
		return usual, nil
	case asked > most:
		return 0, fmt.Errorf("%w: %s was asked for, at most %s is safe (%s)", ErrUnsafeBudget, size(asked), size(most), bound)
	}
	return asked, nil
}

// wholePages extends a range to page boundaries.
func wholePages(r Range) Range {
	off := r.Off - r.Off%pageSize
	end := min(r.Off+r.Len, Unlimited-pageSize) + pageSize - 1
	return Range{off, end - end%pageSize - off}
}

// clamp cuts a range to what a file of that size has.
func clamp(r Range, fileSize int64) (Range, error) {
	if r.Off < 0 || r.Len < 0 {
		return Range{}, fmt.Errorf("range of %d bytes at %d: %w", r.Len, r.Off, unix.EINVAL)
	}
	if r.Off >= fileSize {
		return Range{Off: min(r.Off, fileSize)}, nil
	}
	return Range{r.Off, min(r.Len, fileSize-r.Off)}, nil
}
