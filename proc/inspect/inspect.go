package inspect

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc/reopen"
)

var procs linux.ProcFS

// A Loss is something that would be lost.
type Loss struct {
	PID  int
	Comm string
	// Has completes "the process has ...": what would be lost, and what helps.
	Has string
	// Passing: it may be gone the next time, if the process runs meanwhile.
	Passing bool
}

func (l *Loss) String() string { return fmt.Sprintf("process %d (%s) has %s", l.PID, l.Comm, l.Has) }

// A Search looks for losses in the attempts of one checkpoint.
type Search struct {
	contexts *aioContexts // once a process uses asynchronous I/O
	end      time.Time    // of the patience with requests in flight
}

// Find returns the first thing that a checkpoint of the processes would lose, or
// nil. The tree is a whole task, stopped, and root the process that CRIU is told to
// dump; the caller may trace them. user is whose the task is.
func (s *Search) Find(tree []linux.Stat, root int, user uint32) (*Loss, error) {
	if l := lostSession(tree, root); l != nil {
		return l, nil
	}
	room, err := descriptorsBelowCRIU()
	if err != nil {
		return nil, err
	}
	task, err := namespacesOf(fmt.Sprintf("/proc/%d", root))
	if err != nil {
		return nil, err
	}
	for _, p := range tree {
		of := tree
		if user == 0 || p.PID == root { // it is root's anyway
			of = nil
		}
		l, err := task.otherNamespace(p.PID)
		if l == nil && err == nil {
			l, err = ofProcess(p.PID, room, of)
		}
		if linux.Gone(err) {
			continue // a zombie, or it has just ended: CRIU will see
		}
		if err != nil {
			return nil, fmt.Errorf("look for what a checkpoint of process %d (%s) would lose: %w", p.PID, p.Comm, err)
		}
		if l != nil {
			l.PID, l.Comm = p.PID, p.Comm
			return l, nil
		}
	}
	if l, err := lostLock(tree); l != nil || err != nil {
		return l, err
	}
	if l, err := s.requestsInFlight(tree); l != nil || err != nil {
		return l, err
	}
	semaphores, err := usedSemaphores(tree, user)
	if err != nil {
		return nil, err
	}
	return undoneAtEnd(tree, root, semaphores)
}

// openedByRoot: what the user has opened of the kernel's is more when root has opened it.
func openedByRoot(d linux.Descriptor, tree []linux.Stat) (*Loss, error) {
	more, err := reopen.HasMoreToRoot(d, tree)
	if !more || err != nil {
		return nil, err
	}
	return &Loss{Passing: true, Has: fmt.Sprintf("%s open: %v; try again when it has closed it", d.Target, reopen.ErrMoreToRoot)}, nil
}

// Traced returns the first process that somebody traces, or nil. The tree may run: a tracer would see how it is stopped.
func Traced(tree []linux.Stat) *Loss {
	for _, p := range tree {
		if st, err := procs.Status(p.PID); err == nil && st.Tracer != 0 {
			l := tracedBy(st.Tracer)
			l.PID, l.Comm = p.PID, p.Comm
			return l
		}
	}
	return nil
}

func tracedBy(pid int) *Loss {
	return &Loss{Has: fmt.Sprintf("a debugger or tracer (gdb, strace), process %d; end that first", pid)}
}

// ofProcess returns what a checkpoint of one process would lose. Descriptors from room on leave CRIU none. If it is another
// user's than root's, of is the tree.
func ofProcess(pid, room int, of []linux.Stat) (*Loss, error) {
	st, err := procs.Status(pid)
	if err != nil {
		return nil, err
	}
	if st.Tracer != 0 {
		return tracedBy(st.Tracer), nil
	}
	open, err := procs.Descriptors(pid)
	if err != nil {
		return nil, err
	}
	for _, d := range open {
		switch {
		case d.FD >= room:
			return &Loss{Has: fmt.Sprintf("descriptor %d, and CRIU needs some above the greatest, of %d that are allowed; "+
				"start the daemon with a higher limit (LimitNOFILE), or with CAP_SYS_RESOURCE", d.FD, room+ofCRIU)}, nil
		case isMessageQueue(d):
			return &Loss{Has: fmt.Sprintf("the POSIX message queue %s open, which CRIU cannot save", strings.TrimSuffix(d.Target, " (deleted)"))}, nil
		case d.Is("inotify"):
			if l, err := unreadEvents(d, "inotify"); l != nil || err != nil {
				return l, err
			}
		case d.Is("eventfd"):
			if l, err := semaphore(d); l != nil || err != nil {
				return l, err
			}
		case isTerminal(d):
			if l, err := unreadTerminal(d); l != nil || err != nil {
				return l, err
			}
		case d.Is("fanotify"):
			if l, err := unreadEvents(d, "fanotify"); l != nil || err != nil {
				return l, err
			}
		case strings.HasPrefix(d.Target, "socket:"):
			if l, err := lostOfSocket(d); l != nil || err != nil {
				return l, err
			}
		case of != nil:
			if l, err := openedByRoot(d, of); l != nil || err != nil {
				return l, err
			}
		}
	}
	if l, err := deadline(pid); l != nil || err != nil {
		return l, err
	}
	if l, err := ofThread(pid); l != nil || err != nil {
		return l, err
	}
	return deletedFile(open)
}

// semaphore: CRIU makes an eventfd without EFD_SEMAPHORE, and each read would take all there is instead of one. Linux before 6.5 does
// not say which it is.
func semaphore(d linux.Descriptor) (*Loss, error) {
	fields, err := procs.FDInfo(d)
	if fields["eventfd-semaphore"] != "1" || err != nil {
		return nil, err
	}
	return &Loss{Has: fmt.Sprintf("an eventfd that is a semaphore (EFD_SEMAPHORE, descriptor %d), which a restore would make an ordinary one", d.FD)}, nil
}

// deadline: CRIU dumps a thread of any scheduling policy, and restores those of policies that it knows.
func deadline(pid int) (l *Loss, err error) {
	ended := procs.ThreadStates(pid, func(tid int, state byte) bool {
		if linux.Dead(state) {
			return true
		}
		policy, _, e := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
		switch policy &^ unix.SCHED_RESET_ON_FORK {
		case unix.SCHED_NORMAL, unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_BATCH, unix.SCHED_IDLE:
		default:
			if e == 0 {
				l = &Loss{Has: fmt.Sprintf("a thread with the scheduling policy %d (6: SCHED_DEADLINE), which cannot be restored", policy)}
			}
		}
		if e != 0 && e != unix.ESRCH {
			err = fmt.Errorf("ask for the scheduling policy of thread %d: %w", tid, e)
		}
		return l == nil && err == nil
	})
	return l, errors.Join(err, ended)
}

// ofThread: CRIU dumps descriptors and the working directory of the first thread, and restores all others with these. Nor are those
// of another thread looked at here.
func ofThread(pid int) (l *Loss, err error) {
	first := 0
	ended := procs.ThreadStates(pid, func(tid int, state byte) bool {
		switch {
		case linux.Dead(state):
			return true
		case first == 0:
			first = tid
			return true
		}
		const files, fs = 2, 3 // KCMP_FILES, KCMP_FS
		for kind, of := range map[uintptr]string{files: "descriptors", fs: "a working directory, root or umask"} {
			order, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(first), uintptr(tid), kind, 0, 0, 0)
			switch {
			case e != 0 && e != unix.ESRCH:
				err = fmt.Errorf("ask whether thread %d has %s of its own: %w", tid, of, e)
			case e == 0 && order != 0:
				l = &Loss{Has: fmt.Sprintf("a thread (%d) with %s of its own (unshare), which a restore would take from the first thread", tid, of)}
			}
		}
		return l == nil && err == nil
	})
	return l, errors.Join(err, ended)
}

// isMessageQueue reports whether it is a POSIX message queue. CRIU refuses those too, as files of a mount that it cannot find.
func isMessageQueue(d linux.Descriptor) bool {
	if strings.LastIndexByte(d.Target, '/') != 0 {
		return false // the name of a queue has one slash, in front
	}
	var st unix.Statfs_t
	return unix.Statfs(fmt.Sprintf("/proc/%d/fd/%d", d.PID, d.FD), &st) == nil && st.Type == mqueueMagic
}

// mqueueMagic is MQUEUE_MAGIC of the kernel's ipc/mqueue.c.
const mqueueMagic = 0x19800202

// ofCRIU is how many descriptors above the greatest of a process CRIU may need in a restore: some twenty of its own, 16
// kept free, and what it loses by rounding down to a multiple of 128 (choose_service_fd_base in its servicefd.c).
const ofCRIU = 256

// descriptorsBelowCRIU returns from which descriptor on a process leaves CRIU no room. Programs have such descriptors
// though they have few: valgrind moves its own to the end of what is allowed. With CAP_SYS_RESOURCE CRIU goes beyond
// its own limit, to that of the machine.
func descriptorsBelowCRIU() (int, error) {
	var own unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &own); err != nil {
		return 0, fmt.Errorf("ask how many descriptors are allowed: %w", err)
	}
	can, err := linux.Capable(unix.CAP_SYS_RESOURCE)
	if err != nil || !can {
		return int(min(own.Max, math.MaxInt32)) - ofCRIU, err
	}
	most, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(most)))
	return n - ofCRIU, err
}

// unreadEvents: CRIU drops what is queued in a descriptor that watches files, and
// nothing can put it back.
func unreadEvents(d linux.Descriptor, kind string) (*Loss, error) {
	n, err := queued(d)
	if n == 0 || err != nil {
		return nil, err
	}
	return &Loss{Passing: true, Has: fmt.Sprintf(
		"%d bytes of unread %s events in descriptor %d, which a checkpoint would drop; try again when it has run and read them", n, kind, d.FD)}, nil
}

// queued returns how many bytes can be read from a descriptor. It reads none.
func queued(d linux.Descriptor) (int, error) {
	fd, err := d.Duplicate()
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0, fmt.Errorf("ask how much is queued in descriptor %d: %w", d.FD, err)
	}
	return n, nil
}
