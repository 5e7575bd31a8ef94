package doctor

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/internal/linux"
	"headrace/pagecache"
)

func (m machine) cachestat() Finding {
	f := Finding{Name: "cachestat", Status: OK, What: "available",
		Why: "Tells how much of a file is in memory; without it every file counts as not in memory, and tasks cannot be run where their input is warm."}
	err := tryCachestat()
	if err != nil {
		f.Status, f.What, f.How = Warning, fmt.Sprintf("not available: %v", err), "Linux 6.5 or newer; in a container, a seccomp profile that allows cachestat."
	}
	return f
}

func tryCachestat() error {
	file, err := os.CreateTemp("", "headrace-doctor-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	const pages = 4
	if _, err := file.Write(make([]byte, pages*os.Getpagesize())); err != nil {
		return err
	}
	n, err := linux.CachedPages(int(file.Fd()), 0, int64(pages*os.Getpagesize()))
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("a file that was just written is reported as not in memory")
	}
	return nil
}

// pageCache follows the page cache for a moment.
func (m machine) pageCache() Finding {
	c, err := pagecache.New(pagecache.Config{Files: 1})
	if err != nil {
		return m.pageCacheFinding(pagecache.None, err.Error())
	}
	method, why := c.Method()
	if err := c.Close(); err != nil {
		return m.pageCacheFinding(pagecache.None, err.Error())
	}
	return m.pageCacheFinding(method, why)
}

func (m machine) pageCacheFinding(method pagecache.Method, why string) Finding {
	f := Finding{Name: "page cache", Status: OK, What: "followed by its own events (bpf)",
		Why: "Headrace watches which files are in memory. Where their coming and going cannot be followed, the kernel is asked about every file again and again: that is later, and with many files it costs more."}
	switch method {
	case pagecache.BPF:
	case pagecache.Cachestat:
		f.Status, f.What, f.How = Warning, "residency is polled instead of followed: "+why, m.bpfHow()
	default:
		f.Status, f.What, f.How = Warning, "nothing is known about it: "+why, "Linux 6.5 or newer (see cachestat)."
	}
	return f
}

// diskRequests measures the disks for a moment.
func (m machine) diskRequests() Finding {
	meter, err := disk.NewMeter(disk.MeterOptions{})
	if err != nil {
		return m.diskRequestsFinding("", err.Error())
	}
	method, why := meter.Method()
	if err := meter.Close(); err != nil {
		return m.diskRequestsFinding("", err.Error())
	}
	return m.diskRequestsFinding(method, why)
}

func (m machine) diskRequestsFinding(method disk.Method, why string) Finding {
	f := Finding{Name: "disk requests", Status: OK, What: "each one is seen (bpf)",
		Why: "headrace disks and the experiments tell how much disks seek, which only the requests themselves show. Reading works without it."}
	switch method {
	case disk.BPF:
	case disk.Diskstats:
		f.Status, f.What, f.How = Warning, "bytes are counted, seeks are not: "+why, m.bpfHow()
	default:
		f.Status, f.What, f.How = Warning, "disks cannot be measured: "+why, "Mount /proc so that /proc/diskstats can be read."
	}
	return f
}

// bpfHow says how to be allowed to trace by BPF.
func (m machine) bpfHow() string {
	if m.uid != 0 {
		return "Run the daemon as root: it needs CAP_BPF and CAP_PERFMON."
	}
	status, _ := m.read("proc/self/status")
	if effective, ok := effectiveCapabilities(status); ok {
		var lacking []string
		if effective&(1<<unix.CAP_BPF) == 0 {
			lacking = append(lacking, "CAP_BPF")
		}
		if effective&(1<<unix.CAP_PERFMON) == 0 {
			lacking = append(lacking, "CAP_PERFMON")
		}
		if len(lacking) > 0 && effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
			return fmt.Sprintf("Missing: %s. In a container: grant it (docker run --cap-add BPF --cap-add PERFMON, or --privileged). In a systemd unit: see CapabilityBoundingSet.",
				strings.Join(lacking, ", "))
		}
	}
	if lockdown, _ := m.read("sys/kernel/security/lockdown"); strings.Contains(lockdown, "[confidentiality]") {
		return "The kernel is locked down: boot with lockdown=integrity, or without Secure Boot."
	}
	if !m.exists("sys/kernel/btf/vmlinux") {
		return "A kernel with CONFIG_DEBUG_INFO_BTF: this one carries no type information."
	}
	return "A kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS; in a container, a seccomp profile that allows bpf."
}

func (m machine) lockedMemory() Finding {
	l, err := pagecache.ReadLimits()
	if err != nil {
		return Finding{Name: "locked memory", Status: Unknown, What: err.Error(), Why: lockedMemoryWhy}
	}
	return m.lockedMemoryFinding(l)
}

const lockedMemoryWhy = "The input of a task that waits is read into memory and locked there until the task has read it. What may not be locked is not read ahead: the task starts cold."

// littleLocked is less than is of any use: a few blocks of files.
const littleLocked = 256 * mib

func (m machine) lockedMemoryFinding(l pagecache.Limits) Finding {
	usual, most, bound := pagecache.SafeBudget(l)
	f := Finding{Name: "locked memory", Status: OK, Why: lockedMemoryWhy,
		What: fmt.Sprintf("%s by default, up to %s with --warm-budget", bytesText(usual), bytesText(most))}
	if most >= littleLocked {
		return f
	}
	f.Status, f.What = Warning, fmt.Sprintf("up to %s only", bytesText(most))
	l.Lock = pagecache.Unlimited
	if _, otherwise, _ := pagecache.SafeBudget(l); otherwise == most {
		f.What += ": " + bound
		f.How = "Give the daemon's cgroup more memory, or run it outside."
		return f
	}
	f.What += " (RLIMIT_MEMLOCK, without CAP_IPC_LOCK)"
	f.How = "Raise the limit: `ulimit -l unlimited` as root before the daemon is started, or LimitMEMLOCK=infinity in a systemd unit."
	if m.uid != 0 {
		f.How = "Run the daemon as root, or raise the limit: LimitMEMLOCK=infinity in a systemd unit, or memlock in /etc/security/limits.conf."
	}
	return f
}

func (m machine) fuse() Finding {
	f := Finding{Name: "fuse", Status: OK, What: "available",
		Why: "Only the experiments need it: they model a hard disk with it on machines that have none."}
	file, err := os.OpenFile(m.path("dev/fuse"), os.O_RDWR, 0)
	if err != nil {
		f.Status, f.What = Warning, err.Error()
		f.How = "modprobe fuse, as root; in a container: --device /dev/fuse and CAP_SYS_ADMIN (docker run --privileged)"
		return f
	}
	file.Close()
	return f
}
