package linux

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ProcFS is a mounted procfs; the zero value is /proc.
type ProcFS string

func (p ProcFS) path(elem ...string) string {
	root := string(p)
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

// Stat is the part of /proc/PID/stat that is used here.
type Stat struct {
	PID, PPID, PGID, SID int
	Comm                 string
	// State is the kernel's letter: R, S, D, T, t, Z, X, I.
	State byte
	// User and System are the times of the process itself; ChildUser and
	// ChildSystem those of the children it has waited for.
	User, System, ChildUser, ChildSystem time.Duration
	Threads                              int
	// Blocked, Caught and Ignored are the masks of signals 1 to 31: bit n-1 stands
	// for signal n. Blocked are those of the first thread.
	Blocked, Caught, Ignored uint32
	// Start is the time after boot at which it was started; together with PID it
	// names the process for good.
	Start time.Duration
}

// Ended reports whether no thread of the process will ever run again. Its State is that of its first
// thread, which may end before the others.
func (s Stat) Ended() bool { return Dead(s.State) && s.Threads <= 1 }

// Catches reports whether the process has a handler for a signal below 32.
func (s Stat) Catches(sig syscall.Signal) bool { return s.Caught&(1<<(uint(sig)-1)) != 0 }

// Blocks reports whether the first thread holds back a signal below 32.
func (s Stat) Blocks(sig syscall.Signal) bool { return s.Blocked&(1<<(uint(sig)-1)) != 0 }

// CPU returns all processor time that the process accounts for.
func (s Stat) CPU() time.Duration { return s.User + s.System + s.ChildUser + s.ChildSystem }

// tick is the unit of times in /proc/PID/stat: USER_HZ, 100 on every
// architecture that Go runs on under Linux.
const tick = time.Second / 100

// ParseStat reads the text of /proc/PID/stat. The command name may hold any
// byte, also spaces and parentheses.
func ParseStat(b []byte) (Stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return Stat{}, fmt.Errorf("no command name in %q", b)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:open])))
	if err != nil {
		return Stat{}, fmt.Errorf("pid: %w", err)
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 32 || len(f[0]) != 1 {
		return Stat{}, fmt.Errorf("%d fields after the command name, want at least 32", len(f))
	}
	s := Stat{PID: pid, Comm: string(b[open+1 : end]), State: f[0][0]}
	var bad error
	num := func(i int) int64 {
		v, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil && bad == nil {
			bad = fmt.Errorf("field %d: %w", i+3, err)
		}
		return v
	}
	s.PPID, s.PGID, s.SID = int(num(1)), int(num(2)), int(num(3))
	s.User, s.System = time.Duration(num(11))*tick, time.Duration(num(12))*tick
	s.ChildUser, s.ChildSystem = time.Duration(num(13))*tick, time.Duration(num(14))*tick
	s.Threads, s.Start = int(num(17)), time.Duration(num(19))*tick
	s.Blocked, s.Ignored, s.Caught = uint32(num(29)), uint32(num(30)), uint32(num(31))
	return s, bad
}

// Gone reports whether an error from reading under /proc/PID means that the
// process is no more.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// Stat reads one process.
func (p ProcFS) Stat(pid int) (Stat, error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "stat"))
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(b)
}

// All reads every process. Processes that end meanwhile are left out.
func (p ProcFS) All() ([]Stat, error) {
	pids, err := numbers(p.path())
	if err != nil {
		return nil, err
	}
	all := make([]Stat, 0, len(pids))
	for _, pid := range pids {
		s, err := p.Stat(pid)
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// ThreadStates calls f for every thread of a process with its id and state
// letter until f returns false.
func (p ProcFS) ThreadStates(pid int, f func(tid int, state byte) bool) error {
	tids, err := numbers(p.path(strconv.Itoa(pid), "task"))
	if err != nil {
		return err
	}
	for _, tid := range tids {
		b, err := os.ReadFile(p.path(strconv.Itoa(pid), "task", strconv.Itoa(tid), "stat"))
		if Gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		s, err := ParseStat(b)
		if err != nil {
			return err
		}
		if !f(tid, s.State) {
			return nil
		}
	}
	return nil
}

// Living returns the number under which /proc has what the threads of a process have in common, such as
// its memory and its environment: its own, or that of another thread if the first has ended before it.
func (p ProcFS) Living(s Stat) int {
	if !Dead(s.State) || s.Ended() {
		return s.PID
	}
	living := s.PID
	p.ThreadStates(s.PID, func(tid int, state byte) bool { // if it ends meanwhile there is nothing to read
		if !Dead(state) {
			living = tid
		}
		return living == s.PID
	})
	return living
}

// numbers lists the names in a directory that are numbers.
func numbers(dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, n := range names {
		if v, err := strconv.Atoi(n); err == nil {
			out = append(out, v)
		}
	}
	return out, nil
}

// Status is the part of /proc/PID/status that is used here, in bytes.
type Status struct {
	RSS, RSSAnon, RSSShmem, Swap, PeakRSS int64
	// Pending are the signals that wait, for the process or for its first thread: bit n-1
	// stands for signal n.
	Pending uint64
	// Tracer is the process that traces it, 0 for none that this process can see.
	Tracer int
	// UID is its real user; OneUID: it is its effective, its saved and its file system's user as well.
	UID    uint32
	OneUID bool
	// Seccomp is not 0 if it may make certain system calls only (seccomp(2)).
	Seccomp int
	// Depth is in how many pid namespaces it has a number, from that of whoever reads down to its own.
	Depth int
}

// ParseStatus reads the text of /proc/PID/status. Fields that are missing (a
// kernel thread, a zombie) are zero.
func ParseStatus(b []byte) (Status, error) {
	var s Status
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		key, val, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		var err error
		switch string(key) {
		case "VmRSS":
			s.RSS, err = kilobytes(val)
		case "RssAnon":
			s.RSSAnon, err = kilobytes(val)
		case "RssShmem":
			s.RSSShmem, err = kilobytes(val)
		case "VmSwap":
			s.Swap, err = kilobytes(val)
		case "VmHWM":
			s.PeakRSS, err = kilobytes(val)
		case "SigPnd", "ShdPnd":
			var mask uint64
			mask, err = strconv.ParseUint(string(bytes.TrimSpace(val)), 16, 64)
			s.Pending |= mask
		case "TracerPid":
			s.Tracer, err = strconv.Atoi(string(bytes.TrimSpace(val)))
		case "Seccomp":
			s.Seccomp, err = strconv.Atoi(string(bytes.TrimSpace(val)))
		case "Uid":
			s.UID, s.OneUID, err = parseUIDs(val)
		case "NSpid":
			s.Depth = bytes.Count(val, []byte{'\t'})
		}
		if err != nil {
			return s, fmt.Errorf("%s: %w", key, err)
		}
	}
	return s, nil
}

// parseUIDs returns the first of the users of a process, and whether it has no other.
func parseUIDs(b []byte) (uid uint32, one bool, err error) {
	all := strings.Fields(string(b))
	if len(all) != 4 {
		return 0, false, fmt.Errorf("%q are not four users", b)
	}
	n, err := strconv.ParseUint(all[0], 10, 32)
	return uint32(n), len(slices.Compact(all)) == 1, err
}

func kilobytes(b []byte) (int64, error) {
	t := strings.TrimSuffix(strings.TrimSpace(string(b)), " kB")
	v, err := strconv.ParseInt(strings.TrimSpace(t), 10, 64)
	if err == nil && (v < 0 || v > 1<<52) {
		err = fmt.Errorf("%d kB is out of range", v)
	}
	return v << 10, err
}

// Status reads one process, or one thread.
func (p ProcFS) Status(pid int) (Status, error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "status"))
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(b)
}

// Timers returns the ids of the timers that a process has made by timer_create(2). A kernel that does not show them
// ([fs.ErrNotExist]) is taken for one without.
func (p ProcFS) Timers(pid int) (ids []int, err error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "timers"))
	if err != nil {
		if Gone(err) {
			err = nil
		}
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "ID: "); ok {
			id, err := strconv.Atoi(s)
			if err != nil {
				return nil, fmt.Errorf("a timer of process %d: %w", pid, err)
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// ProportionalMemory reads how much anonymous and shared memory of a process is resident,
// and how much is swapped, in bytes; pages that several processes have count for each by
// its share. It needs the rights to trace the process. The kernel walks its page tables:
// it takes long where there is much.
func (p ProcFS) ProportionalMemory(pid int) (resident, swapped int64, err error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0, 0, err
	}
	return parseRollup(b)
}

func parseRollup(text []byte) (resident, swapped int64, err error) {
	found := 0
	for line := range bytes.Lines(text) {
		key, val, _ := bytes.Cut(line, []byte(":"))
		sum := &resident
		switch string(key) {
		case "Pss_Anon", "Pss_Shmem":
		case "SwapPss":
			sum = &swapped
		default:
			continue
		}
		n, err := kilobytes(bytes.TrimSpace(val))
		if err != nil {
			return 0, 0, err
		}
		*sum += n
		found++
	}
	if found != 3 { // Linux 5.4 has them
		return 0, 0, errors.New("no Pss_Anon, Pss_Shmem and SwapPss in smaps_rollup")
	}
	return resident, swapped, nil
}

// IO is what a process has had moved, in bytes: Asked by system calls that read, from wherever;
// Read from disks and Written to them.
type IO struct{ Asked, Read, Written int64 }

// IO reads the bytes that a process, its threads and the children it has waited
// for have read from and written to storage.
func (p ProcFS) IO(pid int) (io IO, err error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "io"))
	if err != nil {
		return io, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		key, val, _ := strings.Cut(line, ": ")
		switch key {
		case "rchar":
			io.Asked, err = strconv.ParseInt(val, 10, 64)
		case "read_bytes":
			io.Read, err = strconv.ParseInt(val, 10, 64)
		case "write_bytes":
			io.Written, err = strconv.ParseInt(val, 10, 64)
		}
		if err != nil {
			return IO{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return io, nil
}

// Transferred returns how many bytes a process, its threads and the children it has
// waited for have read and written by system calls, to wherever.
func (p ProcFS) Transferred(pid int) (int64, error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "io"))
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, line := range strings.Split(string(b), "\n") {
		if key, val, _ := strings.Cut(line, ": "); key == "rchar" || key == "wchar" {
			n, err := strconv.ParseInt(val, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", key, err)
			}
			sum += n
		}
	}
	return sum, nil
}

// MemInfo is the part of /proc/meminfo that is used here, in bytes.
type MemInfo struct {
	Total, Available, SwapTotal, SwapFree int64
}

// MemInfo reads the machine's memory.
func (p ProcFS) MemInfo() (MemInfo, error) {
	b, err := readKernel(p.path("meminfo"))
	if err != nil {
		return MemInfo{}, err
	}
	return ParseMemInfo(b)
}

// readKernel reads a small file of the kernel's. It does as os.ReadFile, in half the time: that asks for the size, which is not known, and has
// the file polled.
func readKernel(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 4096)
	for {
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return b, nil
		}
		b = slices.Grow(b[:len(b)+n], 512)
	}
}

// ParseMemInfo reads the text of /proc/meminfo.
func ParseMemInfo(b []byte) (MemInfo, error) {
	var m MemInfo
	for _, line := range strings.Split(string(b), "\n") {
		key, val, _ := strings.Cut(line, ":")
		var to *int64
		switch key {
		case "MemTotal":
			to = &m.Total
		case "MemAvailable":
			to = &m.Available
		case "SwapTotal":
			to = &m.SwapTotal
		case "SwapFree":
			to = &m.SwapFree
		default:
			continue
		}
		v, err := kilobytes([]byte(val))
		if err != nil {
			return m, fmt.Errorf("%s: %w", key, err)
		}
		*to = v
	}
	if m.Total <= 0 {
		return m, errors.New("no MemTotal in meminfo")
	}
	return m, nil
}
