package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/accounts"
)

func (m machine) user() Finding {
	f := Finding{Name: "user", Status: OK, What: "root",
		Why: "Namespaces, CRIU and cgroups need root; an ordinary user's tasks are suspended, resumed and killed, but not checkpointed."}
	if text, _ := m.read("proc/self/uid_map"); m.uid == 0 {
		if users := mappedUsers(text); users > 0 && users < wholeMachine {
			f.Status, f.What = Warning, fmt.Sprintf("root of a user namespace with %d users: tasks of these only, and no checkpoints", users)
			if users == 1 {
				f.What = "root of a user namespace with one user: tasks run as that user, and cannot be checkpointed"
			}
			f.How = "Run the daemon as root of the machine; in a container: not in rootless mode."
		}
		return f
	}
	f.Status = Warning
	f.What = fmt.Sprintf("user %d: no checkpoints, no page-out on demand, no memory limits", m.uid)
	f.How = "Run the daemon as root (sudo headrace solo, or the systemd unit): it runs each command as the user who asked."
	return f
}

func (m machine) accounts() Finding {
	db := accounts.New(m.path("etc"), "")
	return accountsFinding(db.Services(), db.Problem())
}

func accountsFinding(services []string, problem error) Finding {
	f := Finding{Name: "users and groups", Status: OK, What: "in local files",
		Why: "Limits by name and the groups of a task need those that directory services have, such as LDAP; they are asked with getent."}
	if len(services) > 0 {
		f.What = "in local files, and by getent in " + strings.Join(services, ", ")
	}
	if problem != nil {
		f.Status, f.What = Warning, problem.Error()
		f.How = "Install getent: apt-get install libc-bin, or dnf install glibc-common."
	}
	return f
}

// wholeMachine is how many users there are where no namespace leaves any out.
const wholeMachine = 1<<32 - 1

// mappedUsers returns how many users the text of /proc/self/uid_map has; 0: it does not
// tell.
func mappedUsers(text string) int64 {
	var sum int64
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return 0
		}
		n, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil {
			return 0
		}
		sum += int64(n)
	}
	return sum
}

// capabilities looks for what even root may lack, in a container say. A root
// process may read the limits of its own user's processes without
// CAP_SYS_RESOURCE, so that CRIU's smoke test does not find out.
func (m machine) capabilities() Finding {
	f := Finding{Name: "capabilities", Status: OK,
		Why: "CRIU reads the resource limits of a task; of tasks of other users it may only with CAP_SYS_RESOURCE."}
	if m.uid != 0 {
		f.Status, f.What = Unknown, "not looked at: an ordinary user cannot checkpoint at all"
		f.How = m.asRoot()
		return f
	}
	status, _ := m.read("proc/self/status")
	effective, ok := effectiveCapabilities(status)
	switch {
	case !ok:
		f.Status, f.What = Unknown, "/proc/self/status does not tell"
	case effective&(1<<unix.CAP_SYS_RESOURCE) == 0:
		f.Status, f.What = Missing, "no CAP_SYS_RESOURCE: tasks of other users than root cannot be checkpointed"
		f.How = "In a container: grant it (docker run --cap-add SYS_RESOURCE, or --privileged). In a systemd unit: see CapabilityBoundingSet."
	default:
		f.What = "CAP_SYS_RESOURCE is there"
	}
	return f
}

var effectivePattern = regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]{16})$`)

// effectiveCapabilities reads /proc/PID/status.
func effectiveCapabilities(status string) (uint64, bool) {
	p := effectivePattern.FindStringSubmatch(status)
	if p == nil {
		return 0, false
	}
	set, err := strconv.ParseUint(p[1], 16, 64)
	return set, err == nil
}

// version is a kernel's: 6.18 of 6.18.44-something.
type version struct{ major, minor int }

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

var releasePattern = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})`)

func parseRelease(s string) (version, bool) {
	p := releasePattern.FindStringSubmatch(s)
	if p == nil {
		return version{}, false
	}
	major, _ := strconv.Atoi(p[1]) // a few digits
	minor, _ := strconv.Atoi(p[2])
	return version{major, minor}, true
}

func (m machine) kernel() Finding {
	release, _ := m.read("proc/sys/kernel/osrelease")
	return kernelFinding(release, runtime.GOARCH)
}

func kernelFinding(release, arch string) Finding {
	f := Finding{Name: "kernel", Status: OK, What: fmt.Sprintf("Linux %s on %s", release, arch),
		Why: "No task starts below 5.11 (close_range); the page cache is looked into since 6.5 (cachestat)."}
	v, ok := parseRelease(release)
	switch {
	case !ok:
		f.Status, f.What = Unknown, fmt.Sprintf("a kernel of unknown version (%q) on %s", release, arch)
	case !v.atLeast(5, 11):
		f.Status, f.How = Missing, "Install a newer kernel: 5.11 at least, better 6.5."
	case !v.atLeast(6, 5):
		f.Status, f.How = Warning, "Works; a kernel from 6.5 on can do more."
	}
	if arch != "amd64" && arch != "arm64" {
		f.Status = Warning
		f.How = "CRIU is installed by scripts/get-criu on amd64 and arm64 only; elsewhere install it by hand and name it in HEADRACE_CRIU."
	}
	return f
}

func (m machine) namespaces(ctx context.Context) Finding {
	f := Finding{Name: "namespaces", Status: OK, What: "pid and mount namespaces can be made",
		Why: "Each task lives in its own, so that its process ids are free when it is restored and none of its processes gets lost."}
	_, stop, err := sleeper(ctx, func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	})
	switch {
	case err == nil:
		stop()
	case ctx.Err() != nil:
		f.Status, f.What = Unknown, "not tried: "+ctx.Err().Error()
	case m.uid != 0 && errors.Is(err, os.ErrPermission):
		f.Status, f.What, f.How = Warning, "not for an ordinary user", "Run the daemon as root."
	default:
		f.Status, f.What = Missing, fmt.Sprintf("cannot be made: %v", err)
		f.How = "In a container: give it CAP_SYS_ADMIN (docker run --privileged), or run Headrace on the host. Else: a kernel with CONFIG_PID_NS."
	}
	return f
}

func (m machine) tracing() Finding {
	f := Finding{Name: "ptrace", Status: OK, Why: "CRIU seizes the processes of a task with ptrace."}
	scope, ok := m.number("proc/sys/kernel/yama/ptrace_scope")
	switch {
	case !ok && m.denied("proc/sys/kernel/yama/ptrace_scope"):
		f.Status, f.What, f.How = Unknown, "kernel.yama.ptrace_scope is not readable", m.asRoot()
	case !ok:
		f.What = "not restricted (no Yama)"
	case scope >= 3:
		f.Status, f.What = Missing, "forbidden for everybody (kernel.yama.ptrace_scope = 3)"
		f.How = "Set kernel.yama.ptrace_scope = 1 in /etc/sysctl.d and restart the machine: 3 cannot be undone while it runs."
	default:
		f.What = fmt.Sprintf("allowed for root (kernel.yama.ptrace_scope = %d)", scope)
	}
	return f
}

func pidfds() Finding {
	f := Finding{Name: "pidfd", Status: OK, What: "available",
		Why: "A process is advised through a handle that cannot come to mean another process."}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		f.Status, f.What = Missing, fmt.Sprintf("pidfd_open: %v", err)
		f.How = "Linux 5.3 or newer; in a container, a seccomp profile that allows pidfd_open."
		return f
	}
	unix.Close(fd)
	return f
}

func (m machine) clock() Finding {
	f := Finding{Name: "clock", Status: OK, Why: "The clock is read often; a slow source makes measuring expensive and inexact."}
	source, ok := m.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
	if !ok {
		f.Status, f.What = Unknown, "the clock source is unknown (/sys is not readable)"
		return f
	}
	f.What = source
	switch source {
	case "hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit":
		f.Status = Warning
		f.How = "See `dmesg | grep -i tsc` for why the processor's own counter was given up."
	}
	return f
}

func openFiles() Finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Finding{Name: "open files", Status: Unknown, What: err.Error(), Why: openFilesWhy}
	}
	return openFilesFinding(limit.Cur, limit.Max)
}

const openFilesWhy = "The daemon keeps a socket for each task and each client, and CRIU opens what the task has open."

func openFilesFinding(soft, hard uint64) Finding {
	f := Finding{Name: "open files", Status: OK, What: fmt.Sprintf("up to %d, can be raised to %d", soft, hard), Why: openFilesWhy}
	if soft == hard {
		f.What = fmt.Sprintf("up to %d", hard)
	}
	if hard < 4096 {
		f.Status = Warning
		f.How = "Raise the hard limit: `ulimit -Hn 65536` as root before the daemon is started, LimitNOFILE=1024:65536 in a systemd unit, or /etc/security/limits.conf."
	}
	return f
}

func (m machine) softDirty() Finding {
	f := Finding{Name: "soft-dirty", Status: OK,
		Why: "Not needed: Headrace finds changed pages by comparing them, since many kernels cannot track them."}
	if softDirtyWorks() {
		f.What = "available, not used"
	} else {
		f.What = "not in this kernel, not used"
	}
	return f
}

// softDirtyWorks looks whether a page that was just written carries the mark
// (bit 55 of its entry in pagemap).
func softDirtyWorks() bool {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer unix.Munmap(page)
	page[0] = 1
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return false
	}
	defer f.Close()
	var entry [8]byte
	if _, err := f.ReadAt(entry[:], int64(uintptr(unsafe.Pointer(&page[0]))/uintptr(os.Getpagesize()))*8); err != nil {
		return false
	}
	return entry[6]&(1<<7) != 0
}
