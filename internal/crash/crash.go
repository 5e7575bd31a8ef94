package crash

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Env is the name of the environment variable.
const Env = "HEADRACE_CRASH"

var (
	point, passing = parse(os.Getenv(Env))
	passed         atomic.Int64
)

// parse splits NAME or NAME:N. Anything but a positive number after the last
// colon belongs to the name.
func parse(s string) (name string, n int64) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 1
	}
	n, err := strconv.ParseInt(s[i+1:], 10, 64)
	if err != nil || n < 1 {
		return s, 1
	}
	return s[:i], n
}

// Here kills the process with SIGKILL if name is the point that HEADRACE_CRASH
// names: nothing deferred runs and nothing is flushed. The first process of a
// pid namespace is immune to its own signals; it exits with status 137 instead,
// just as abruptly. Safe for concurrent use.
func Here(name string) {
	if point == "" || point != name || passed.Add(1) != passing {
		return
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	syscall.Exit(128 + int(syscall.SIGKILL))
}
