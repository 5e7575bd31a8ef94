package mend

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"headrace/internal/linux"
)

// Facts are what must be known of the processes before they are dumped. They
// travel as JSON.
type Facts struct {
	// Interrupted are the threads in restart_syscall(2), with the number of the call
	// that it goes on with.
	Interrupted map[int]uint64 `json:"interrupted,omitempty"`
	// Copies are by process the addresses of rings of asynchronous I/O without a context (inspect.Search).
	Copies map[int][]uint64 `json:"copies,omitempty"`
	// Timers are by process those of timer_create(2): all of them, or those that were armed (Armed); nil if that is not known.
	Timers map[int][]int `json:"timers,omitempty"`
}

// Look collects the facts of a stopped tree. The caller may trace its processes.
func Look(tree []linux.Stat) (Facts, error) {
	f := Facts{Interrupted: make(map[int]uint64), Timers: make(map[int][]int)}
	var procs linux.ProcFS
	for _, p := range tree {
		if linux.Dead(p.State) {
			continue
		}
		timers, err := procs.Timers(p.PID)
		if err != nil {
			return f, err
		}
		if len(timers) > 0 {
			f.Timers[p.PID] = timers
		}
		if runtime.GOARCH != "amd64" {
			continue
		}
		err = procs.ThreadStates(p.PID, func(tid int, _ byte) bool {
			if n, ok := interrupted(p.PID, tid); ok {
				f.Interrupted[tid] = n
			}
			return true
		})
		if err != nil && !linux.Gone(err) {
			return f, err
		}
	}
	return f, nil
}

// interrupted finds what restart_syscall goes on with. The number is not kept
// anywhere where it could be asked for, but C libraries load it right before the
// instruction that makes the call: mov $number,%eax; syscall.
func interrupted(pid, tid int) (number uint64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid))
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 2 || fields[0] != strconv.Itoa(sysRestart) {
		return 0, false
	}
	ip, err := strconv.ParseUint(fields[len(fields)-1], 0, 63)
	if err != nil {
		return 0, false
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, false
	}
	defer mem.Close()
	var code [7]byte
	if _, err := mem.ReadAt(code[:], int64(ip)-int64(len(code))); err != nil {
		return 0, false
	}
	return numberOf(code)
}

func numberOf(code [7]byte) (uint64, bool) {
	if code[0] != 0xb8 || code[5] != 0x0f || code[6] != 0x05 {
		return 0, false
	}
	return uint64(binary.LittleEndian.Uint32(code[1:5])), true
}
