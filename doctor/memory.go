package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

const mib, gib = int64(1) << 20, int64(1) << 30

// bytesText returns a size for a person: 3.4 GiB, 512 MiB.
func bytesText(n int64) string {
	if n < gib {
		return fmt.Sprintf("%d MiB", n/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/float64(gib))
}

func (m machine) procfs() linux.ProcFS { return linux.ProcFS(m.path("proc")) }

func (m machine) swap() Finding {
	mem, err := m.procfs().MemInfo()
	if err != nil {
		return Finding{Name: "swap", Status: Unknown, What: err.Error(), Why: swapWhy}
	}
	areas, _ := m.procfs().Swaps()
	return swapFinding(mem, areas)
}

const swapWhy = "A suspended task keeps its memory. Swap is where it goes when a more urgent task needs the room; without it, a task that does not fit beside the other one is checkpointed or killed instead."

func swapFinding(mem linux.MemInfo, areas []linux.SwapArea) Finding {
	f := Finding{Name: "swap", Status: OK, Why: swapWhy}
	want := max(gib, (mem.Total+gib-1)/gib*gib)
	if mem.SwapTotal == 0 {
		f.Status, f.What, f.How = Warning, fmt.Sprintf("none (memory: %s)", bytesText(mem.Total)), swapFile(want)
		return f
	}
	var where []string
	for _, a := range areas {
		where = append(where, fmt.Sprintf("%s %s", a.Kind, a.Path))
	}
	f.What = fmt.Sprintf("%s, %s of it free (memory: %s; %s)",
		bytesText(mem.SwapTotal), bytesText(mem.SwapFree), bytesText(mem.Total), strings.Join(where, ", "))
	switch {
	case len(areas) > 0 && allInMemory(areas):
		f.Status = Warning
		f.How = "All of it is compressed memory (zram), which helps little with a task that fills the machine. Add a file:\n" + swapFile(want)
	case mem.SwapFree < mem.SwapTotal/4:
		f.Status, f.How = Warning, "Little of it is free. Add more:\n"+swapFile(want)
	case mem.SwapTotal < mem.Total/2:
		f.Status, f.How = Warning, "It is small beside the memory. Add more:\n"+swapFile(want)
	}
	return f
}

func allInMemory(areas []linux.SwapArea) bool {
	for _, a := range areas {
		if !strings.Contains(a.Path, "/zram") {
			return false
		}
	}
	return true
}

// swapFile says how to add a swap file, on any file system but btrfs, which has
// a command of its own for it.
func swapFile(size int64) string {
	g := size / gib
	return fmt.Sprintf(`fallocate -l %dG /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile
echo '/swapfile none swap sw 0 0' >> /etc/fstab    # to have it after a reboot
(on btrfs, instead of the first three: btrfs filesystem mkswapfile --size %dg /swapfile)`, g, g)
}

func (m machine) swappiness() Finding {
	f := Finding{Name: "swappiness", Status: OK,
		Why: "What a suspended task holds is paged out on demand, whatever this says; at 0 the kernel does nothing of its own accord when memory runs short, and kills instead."}
	n, ok := m.number("proc/sys/vm/swappiness")
	switch {
	case !ok:
		f.Status, f.What = Unknown, "vm.swappiness is not readable"
	case n == 0:
		f.Status, f.What = Warning, "vm.swappiness = 0"
		f.How = "sysctl vm.swappiness=10, and the same in /etc/sysctl.d"
	default:
		f.What = fmt.Sprintf("vm.swappiness = %d", n)
	}
	return f
}

const pageOutWhy = "The memory of a suspended task is written to swap at once when another one needs it (MADV_PAGEOUT), and read back before it goes on (MADV_WILLNEED): both tasks are faster than if the kernel finds out by itself."

// pageOut tries both kinds of advice on a child.
func (m machine) pageOut(ctx context.Context) Finding {
	f := Finding{Name: "page-out", Status: OK, Why: pageOutWhy}
	swapped, err := tryPageOut(ctx)
	switch {
	case ctx.Err() != nil:
		f.Status, f.What = Unknown, "not tried: "+ctx.Err().Error()
	case errors.Is(err, unix.EPERM):
		f.Status, f.What = Warning, "not allowed: process_madvise needs CAP_SYS_NICE"
		f.How = "Run the daemon as root."
	case err != nil:
		f.Status, f.What = Missing, err.Error()
		f.How = "Linux 5.10 or newer; in a container, a seccomp profile that allows process_madvise."
	case swapped > 0:
		f.What = fmt.Sprintf("tried on a child: %d KiB went to swap, and were asked back", swapped>>10)
	default:
		f.What = "the kernel takes the advice; nothing was written"
		if mem, merr := m.procfs().MemInfo(); merr == nil && mem.SwapFree > 0 {
			f.Status = Warning
			f.How = "There is free swap, but a child's memory did not go there: see whether a cgroup forbids it (memory.swap.max)."
		} else {
			f.What += " since there is no free swap"
		}
	}
	return f
}

// tryPageOut returns how many bytes of a child went to swap. A child that is
// still being loaded unmaps memory that has just been seen; then the next look
// finds what is there to stay.
func tryPageOut(ctx context.Context) (int64, error) {
	child, stop, err := sleeper(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer stop()
	pid := child.Process.Pid
	var proc linux.ProcFS
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	var taken []linux.Range
	for try := 0; len(taken) == 0 && try < 50; try++ {
		if try > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		var ranges []linux.Range
		if ranges, err = proc.Anonymous(pid); err != nil {
			return 0, err
		}
		if taken, err = pageOutEach(fd, ranges); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			return 0, err
		}
	}
	if len(taken) == 0 {
		return 0, fmt.Errorf("no memory of a child could be paged out: %w", err)
	}
	status, err := proc.Status(pid)
	if err != nil {
		return 0, err
	}
	for _, r := range taken {
		if err := advise(fd, r, unix.MADV_WILLNEED); err != nil && !errors.Is(err, unix.ENOMEM) {
			return status.Swap, fmt.Errorf("MADV_WILLNEED: %w", err)
		}
	}
	return status.Swap, nil
}

// pageOutEach returns the ranges for which the kernel took the advice, and the
// last error.
func pageOutEach(pidfd int, ranges []linux.Range) (taken []linux.Range, last error) {
	for _, r := range ranges {
		if err := advise(pidfd, r, unix.MADV_PAGEOUT); err != nil {
			last = err
		} else {
			taken = append(taken, r)
		}
	}
	return taken, last
}

func advise(pidfd int, r linux.Range, advice int) error {
	iov := unix.RemoteIovec{Base: uintptr(r.Start), Len: int(r.Len())}
	_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(pidfd), uintptr(unsafe.Pointer(&iov)), 1, uintptr(advice), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("process_madvise", errno)
	}
	return nil
}

func (m machine) overcommit() Finding {
	f := Finding{Name: "overcommit", Status: OK,
		Why: "Restoring a task asks for all of its memory at once; with strict accounting that can be refused though there is room."}
	n, ok := m.number("proc/sys/vm/overcommit_memory")
	switch {
	case !ok:
		f.Status, f.What = Unknown, "vm.overcommit_memory is not readable"
	case n == 2:
		f.Status, f.What = Warning, "strict (vm.overcommit_memory = 2)"
		f.How = "sysctl vm.overcommit_memory=0, or a higher vm.overcommit_ratio, or more swap"
	default:
		f.What = fmt.Sprintf("vm.overcommit_memory = %d", n)
	}
	return f
}

// oomDaemons end processes before the kernel does.
var oomDaemons = map[string]string{"systemd-oomd": "systemd-oomd", "earlyoom": "earlyoom", "nohang": "nohang"}

func (m machine) oom() Finding {
	f := Finding{Name: "out of memory", Status: OK, What: "the kernel ends one process when memory is used up",
		Why: "When memory and swap are used up, one process should end, and not the machine; and not before that: a suspended task lies in swap on purpose."}
	if n, ok := m.number("proc/sys/vm/panic_on_oom"); ok && n != 0 {
		f.Status, f.What = Warning, fmt.Sprintf("the machine panics (vm.panic_on_oom = %d)", n)
		f.How = "sysctl vm.panic_on_oom=0"
		return f
	}
	processes, err := m.procfs().All()
	if err != nil {
		f.Status, f.What = Unknown, err.Error()
		return f
	}
	for _, p := range processes {
		if name, ok := oomDaemons[p.Comm]; ok {
			f.Status, f.What = Warning, fmt.Sprintf("%s runs (process %d): it ends processes when swap fills up", name, p.PID)
			f.How = "Exempt the tasks: ManagedOOMSwap=auto for the unit of the daemon (systemd-oomd), or an --avoid pattern (earlyoom)."
		}
	}
	return f
}

func (m machine) reclaimers() Finding {
	f := Finding{Name: "damon", Status: OK, What: "no proactive reclaim",
		Why: "DAMON's reclaim pages out what looks idle: memory that Headrace brings back for a task, and files that it reads ahead, may be gone again."}
	var on, how, unread []string
	for _, module := range []string{"damon_reclaim", "damon_lru_sort"} {
		file := "sys/module/" + module + "/parameters/enabled"
		if m.denied(file) {
			unread = append(unread, "/"+file)
		}
		if v, _ := m.read(file); v == "Y" || v == "1" {
			on = append(on, module)
			how = append(how, "echo N > /sys/module/"+module+"/parameters/enabled")
		}
	}
	const admin = "sys/kernel/mm/damon/admin/kdamonds"
	if m.denied(admin + "/nr_kdamonds") {
		unread = append(unread, "/"+admin+"/nr_kdamonds")
	}
	count, _ := m.number(admin + "/nr_kdamonds")
	for i := range min(max(count, 0), 1024) {
		if s, _ := m.read(fmt.Sprintf("%s/%d/state", admin, i)); s == "on" {
			on = append(on, fmt.Sprintf("kdamond %d", i))
			how = append(how, fmt.Sprintf("echo off > /%s/%d/state", admin, i))
		}
	}
	if len(unread) > 0 {
		f.Status, f.What, f.How = Unknown, "not readable: "+strings.Join(unread, ", "), m.asRoot()
	}
	if len(on) > 0 {
		f.Status, f.What, f.How = Warning, "active: "+strings.Join(on, ", "), strings.Join(how, "\n")
	}
	return f
}
