package rig

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/criu"
	"headrace/internal/linux"
)

// Machine is what a reader must know to judge the numbers.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Memory     int64  `json:"memory"`
	Swap       int64  `json:"swap"`
	Kernel     string `json:"kernel"`
	// Reclaims: DAMON takes pages that look idle from memory, also where much is free.
	Reclaims bool    `json:"reclaims,omitempty"`
	System   string  `json:"system"`
	CRIU     string  `json:"criu,omitempty"`
	Go       string  `json:"go"`
	Headrace string  `json:"headrace,omitempty"`
	Load     float64 `json:"load"`
}

// ThisMachine asks the kernel.
func ThisMachine() (Machine, error) {
	m := Machine{Processors: runtime.NumCPU(), Go: runtime.Version(), Processor: processorName(), System: systemName()}
	mem, err := linux.ProcFS("").MemInfo()
	if err != nil {
		return m, err
	}
	m.Memory, m.Swap = mem.Total, mem.SwapTotal
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	states, _ := filepath.Glob("/sys/kernel/mm/damon/admin/kdamonds/*/state")
	m.Reclaims = slices.ContainsFunc(states, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.TrimSpace(string(text)) == "on"
	})
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &m.Load)
	}
	if c, err := criu.Find(); err == nil {
		m.CRIU = c.Version.String()
	}
	return m, nil
}

func processorName() string {
	p, err := linux.ProcFS("").Processor()
	if err != nil {
		return runtime.GOARCH
	}
	return cmp.Or(p.Model, runtime.GOARCH)
}

func systemName() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "Linux"
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return "Linux"
}

// tool returns the command for a program of administration, which the PATH of some
// accounts lacks.
func tool(name string, args ...string) *exec.Cmd {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err != nil {
			path, err = exec.LookPath(dir + "/" + name)
		}
	}
	if err != nil {
		path = name
	}
	return exec.Command(path, args...)
}

// onTmpfs reports whether what is written there stays in memory.
func onTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// DiskFree returns the room for ordinary users in the file system of dir.
func DiskFree(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("room in %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
