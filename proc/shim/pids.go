package shim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// A task's pids must be free in its namespace at a restore. They share it with
// the supervisor's own threads and with helpers, so the two are kept apart:
//
//	2 ...          threads that the supervisor starts with
//	firstPID ...   the task; the supervisor's later threads lie between, but the
//	               kernel gives no number twice before it has gone all the way
//	top ...        CRIU and its children during a restore
const (
	firstPID = 1000
	// pidsForRestore is how many pids CRIU may need for itself.
	pidsForRestore = 1000
)

// chooseFirstPID makes the task's pids begin at a random number, so that two
// tasks that use theirs in the names of temporary files do not meet.
func chooseFirstPID() error {
	most, err := maxPID()
	if err != nil {
		return err
	}
	return lastPID(firstPID + rand.IntN(max(1, most/2-firstPID)))
}

// reservePIDs makes the namespace hand out pids that the images do not use.
func reservePIDs(ids []int) error {
	most, err := maxPID()
	if err != nil {
		return err
	}
	return lastPID(freeRange(ids, most) - 1)
}

// freeRange finds the start of a range of pids, as high as possible, that no id
// lies in.
func freeRange(ids []int, most int) int {
	used := make(map[int]bool, len(ids))
	for _, id := range ids {
		used[id] = true
	}
	top := most - 1
	for pid := top; pid > firstPID; pid-- {
		if used[pid] {
			top = pid - 1
		}
		if top-pid+1 >= pidsForRestore {
			return pid
		}
	}
	return firstPID
}

func maxID(ids []int) int {
	m := firstPID
	for _, id := range ids {
		m = max(m, id)
	}
	return m
}

func maxPID() (int, error) {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// lastPID makes the kernel go on after a pid.
func lastPID(pid int) error {
	err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid)), 0)
	if err != nil {
		return fmt.Errorf("choose the next pid: %w", err)
	}
	return nil
}
