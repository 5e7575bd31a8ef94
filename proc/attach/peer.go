package attach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// Peer is who has connected, as the kernel tells.
type Peer struct {
	// PID is the process as this one's /proc knows it. It may end, and another one get the number: what is read under that is
	// the caller's if Still says so afterwards.
	PID    int
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary ones

	// Limits, Nice and OOMScoreAdj are what the process has now.
	Limits      []proc.Limit
	Nice        int
	OOMScoreAdj int
	// started is when the process was, after boot.
	started time.Duration
}

// resourceNames are the rows of /proc/PID/limits, each at the place of its
// RLIMIT_ number.
var resourceNames = [...]string{
	unix.RLIMIT_CPU: "Max cpu time", unix.RLIMIT_FSIZE: "Max file size", unix.RLIMIT_DATA: "Max data size",
	unix.RLIMIT_STACK: "Max stack size", unix.RLIMIT_CORE: "Max core file size", unix.RLIMIT_RSS: "Max resident set",
	unix.RLIMIT_NPROC: "Max processes", unix.RLIMIT_NOFILE: "Max open files", unix.RLIMIT_MEMLOCK: "Max locked memory",
	unix.RLIMIT_AS: "Max address space", unix.RLIMIT_LOCKS: "Max file locks", unix.RLIMIT_SIGPENDING: "Max pending signals",
	unix.RLIMIT_MSGQUEUE: "Max msgqueue size", unix.RLIMIT_NICE: "Max nice priority",
	unix.RLIMIT_RTPRIO: "Max realtime priority", unix.RLIMIT_RTTIME: "Max realtime timeout",
}

// peerOf finds out who is at the other end.
func peerOf(conn *net.UnixConn) (Peer, error) {
	var p Peer
	cred, credErr := linux.PeerCredentials(conn)
	groupsErr := linux.Control(conn, func(fd int) (err error) {
		p.Groups, err = peerGroups(uintptr(fd))
		return err
	})
	if err := errors.Join(credErr, groupsErr); err != nil {
		return p, fmt.Errorf("find out who is calling: %w", err)
	}
	p.PID, p.UID, p.GID = int(cred.Pid), cred.Uid, cred.Gid
	return p, p.look()
}

// peerGroups returns the supplementary groups that the peer had when it connected.
func peerGroups(fd uintptr) ([]uint32, error) {
	buf := make([]byte, 4*64)
	for {
		size := uint32(len(buf))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
		if errno == unix.ERANGE && int(size) > len(buf) {
			buf = make([]byte, size)
			continue
		}
		if errno == unix.ENODATA {
			return nil, nil
		}
		if errno != 0 {
			return nil, os.NewSyscallError("getsockopt(SO_PEERGROUPS)", errno)
		}
		groups := make([]uint32, size/4)
		for i := range groups {
			groups[i] = binary.NativeEndian.Uint32(buf[4*i:])
		}
		return groups, nil
	}
}

// look reads what the process has. A process of another user under the same
// number, a later one, is found out, and what is a set-user-id program by now: that may have raised its limits.
func (p *Peer) look() error {
	dir := "/proc/" + strconv.Itoa(p.PID)
	stat, err := linux.ProcFS("").Stat(p.PID)
	var limits []byte
	if err == nil {
		p.started = stat.Start
		limits, err = os.ReadFile(dir + "/limits")
	}
	if err == nil {
		p.Limits, err = parseLimits(limits)
	}
	if err == nil {
		p.OOMScoreAdj, err = readNumber(dir + "/oom_score_adj")
	}
	if err == nil {
		p.Nice, err = readNice(dir + "/stat")
	}
	if err != nil {
		return fmt.Errorf("look at the calling process: %w", err)
	}
	// Whose its directory is does not tell: root's, if it has changed its user (PR_SET_DUMPABLE).
	if status, err := linux.ProcFS("").Status(p.PID); err != nil || status.UID != p.UID || !status.OneUID {
		return fmt.Errorf("the calling process %d is not user %d's any more", p.PID, p.UID)
	}
	return nil
}

// Look finds out what a process of a user has now: its Limits, Nice and OOMScoreAdj.
func Look(pid int, uid uint32) (Peer, error) {
	p := Peer{PID: pid, UID: uid}
	return p, p.look()
}

// Still fails unless the process that has called is there yet, and its user's.
func (p Peer) Still() error {
	now, err := Look(p.PID, p.UID)
	if err == nil && now.started != p.started {
		err = fmt.Errorf("the calling process %d has ended, and another one has its number", p.PID)
	}
	return err
}

// shortNames are the names of resources as prlimit(1) has them.
var shortNames = [len(resourceNames)]string{
	unix.RLIMIT_CPU: "cpu", unix.RLIMIT_FSIZE: "fsize", unix.RLIMIT_DATA: "data", unix.RLIMIT_STACK: "stack",
	unix.RLIMIT_CORE: "core", unix.RLIMIT_RSS: "rss", unix.RLIMIT_NPROC: "nproc", unix.RLIMIT_NOFILE: "nofile",
	unix.RLIMIT_MEMLOCK: "memlock", unix.RLIMIT_AS: "as", unix.RLIMIT_LOCKS: "locks", unix.RLIMIT_SIGPENDING: "sigpending",
	unix.RLIMIT_MSGQUEUE: "msgqueue", unix.RLIMIT_NICE: "nice", unix.RLIMIT_RTPRIO: "rtprio", unix.RLIMIT_RTTIME: "rttime",
}

// ResourceName returns the name of a RLIMIT_ number as prlimit(1) has it.
func ResourceName(resource int) string { return shortNames[resource] }

// ResourceOf returns the opposite of ResourceName; false for what is not one.
func ResourceOf(name string) (int, bool) {
	i := slices.Index(shortNames[:], name)
	return i, i >= 0 && name != ""
}

func parseLimits(b []byte) ([]proc.Limit, error) {
	var out []proc.Limit
	for resource, name := range resourceNames {
		_, rest, found := bytes.Cut(b, []byte("\n"+name+" "))
		if !found {
			return nil, fmt.Errorf("the limits have no line %q", name)
		}
		line, _, _ := bytes.Cut(rest, []byte{'\n'})
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			return nil, fmt.Errorf("the line %q of the limits is %q", name, line)
		}
		soft, err := parseLimit(fields[0])
		hard, err2 := parseLimit(fields[1])
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		out = append(out, proc.Limit{Resource: resource, Soft: soft, Hard: hard})
	}
	return out, nil
}

func parseLimit(s string) (uint64, error) {
	if s == "unlimited" {
		return unlimited, nil
	}
	return strconv.ParseUint(s, 10, 64)
}

func readNumber(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// readNice reads field 19 of /proc/PID/stat.
func readNice(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const nice = 19 - 3 // the first field behind the name is number 3
	if len(fields) <= nice {
		return 0, fmt.Errorf("%s is too short", path)
	}
	return strconv.Atoi(string(fields[nice]))
}
