package supplement

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// A Thread has what of a thread is unlike the supervisor's; what is absent is alike.
type Thread struct {
	TID int `json:"tid"`
	// CPUs are those that it may use.
	CPUs []int `json:"cpus,omitempty"`
	// IOPriority is that of ioprio_set(2).
	IOPriority *int `json:"io_priority,omitempty"`
	// TimerSlack is in nanoseconds, as the kernel writes it.
	TimerSlack string `json:"timer_slack,omitempty"`
}

// A Process has what of a process is unlike the supervisor's.
type Process struct {
	PID int `json:"pid"`
	// CoreFilter is a hexadecimal number, as in /proc/PID/coredump_filter.
	CoreFilter string `json:"core_filter"`
}

// attributes are those of one thread and its process.
type attributes struct {
	cpus       unix.CPUSet
	ioPriority int
	timerSlack string
	coreFilter string
}

func ownAttributes() (attributes, error) {
	a, err := threadAttributes(os.Getpid())
	if err == nil {
		a.coreFilter, err = line(os.Getpid(), "coredump_filter")
	}
	if err != nil {
		return a, fmt.Errorf("look at this process: %w", err)
	}
	return a, nil
}

func threadAttributes(tid int) (attributes, error) {
	var a attributes
	if err := unix.SchedGetaffinity(tid, &a.cpus); err != nil {
		return a, fmt.Errorf("CPUs: %w", err)
	}
	prio, _, e := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(tid), 0)
	if e != 0 {
		return a, fmt.Errorf("I/O priority: %w", e)
	}
	a.ioPriority = int(prio)
	var err error
	a.timerSlack, err = line(tid, "timerslack_ns")
	return a, err
}

const ioprioWhoProcess = 1

// line reads a file of a process, or of a thread as if it were one.
func line(pid int, name string) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	return strings.TrimSpace(string(b)), err
}

func setLine(pid int, name, value string) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, name), []byte(value), 0)
}

func threadsOf(pid int, base attributes) ([]Thread, error) {
	var tids []int
	if err := procs.ThreadStates(pid, func(tid int, _ byte) bool { tids = append(tids, tid); return true }); err != nil {
		return nil, err
	}
	var list []Thread
	for _, tid := range tids {
		a, err := threadAttributes(tid)
		if linux.Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t := Thread{TID: tid}
		if a.cpus != base.cpus {
			t.CPUs = numbers(a.cpus)
		}
		if a.ioPriority != base.ioPriority {
			t.IOPriority = &a.ioPriority
		}
		if a.timerSlack != base.timerSlack {
			t.TimerSlack = a.timerSlack
		}
		if t.CPUs != nil || t.IOPriority != nil || t.TimerSlack != "" {
			list = append(list, t)
		}
	}
	return list, nil
}

func processOf(pid int, base attributes) (*Process, error) {
	filter, err := line(pid, "coredump_filter")
	if err != nil || filter == base.coreFilter || filter == "" {
		return nil, err
	}
	return &Process{PID: pid, CoreFilter: filter}, nil
}

// putBack returns a remark if none of the CPUs is here: then the thread uses all.
func (t Thread) putBack() (remark string, err error) {
	if t.CPUs != nil {
		set := cpuSet(t.CPUs)
		err = unix.SchedSetaffinity(t.TID, &set)
		if err == unix.EINVAL {
			remark, err = fmt.Sprintf("thread %d was bound to the CPUs %v; this machine has none of them", t.TID, t.CPUs), nil
		}
		if err != nil {
			err = fmt.Errorf("bind it to its CPUs %v: %w", t.CPUs, err)
		}
	}
	if t.IOPriority != nil {
		if _, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, uintptr(t.TID), uintptr(*t.IOPriority)); e != 0 {
			err = errors.Join(err, fmt.Errorf("set its I/O priority %#x: %w", *t.IOPriority, e))
		}
	}
	if t.TimerSlack != "" {
		err = errors.Join(err, setLine(t.TID, "timerslack_ns", t.TimerSlack))
	}
	return remark, err
}

func (p Process) putBack() error { return setLine(p.PID, "coredump_filter", "0x"+p.CoreFilter) }

func numbers(set unix.CPUSet) []int {
	var list []int
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
			left--
		}
	}
	return list
}

func cpuSet(cpus []int) unix.CPUSet {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return set
}
