package shim

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// share returns the part of the task that is done, as it says itself, or else as far
// as it has read the file that is its standard input; -1 when unknown.
func share(tree []memoryUse, init int, spec proc.Spec) float64 {
	if v := readProgress(progressFile); v >= 0 || spec.Stdin == "" {
		return v
	}
	for _, p := range tree {
		if p.PPID == init {
			return readShare(p.PID)
		}
	}
	return -1
}

// readShare returns how much of the regular file at its standard input a process, or
// one that shares the open file with it, has read.
func readShare(pid int) float64 {
	var st unix.Statx_t
	// A file system on the network that hangs is not asked: each look would leave a thread behind.
	err := unix.Statx(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/fd/0", pid), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_SIZE, &st)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == 0 {
		return -1
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/0", pid))
	if err != nil {
		return -1
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pos, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "pos:")), 10, 64)
	if err != nil || pos < 0 {
		return -1
	}
	return min(1, float64(pos)/float64(st.Size))
}

// readProgress reads the share that a task says is done; -1 when it says
// nothing that can be understood. The file belongs to the task, so only its
// first bytes are looked at.
func readProgress(path string) float64 {
	f, err := linux.OpenRegular(path, os.O_RDONLY) // the task may have a lease on it
	if err != nil {
		return -1
	}
	defer f.Close()
	b := make([]byte, 64)
	n, _ := f.Read(b)
	return parseProgress(b[:n])
}

// parseProgress reads "0.42" or "42%".
func parseProgress(b []byte) float64 {
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	text := strings.TrimSpace(string(line))
	num, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return -1
	}
	return v
}
