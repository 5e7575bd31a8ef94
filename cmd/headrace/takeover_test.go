package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// olderDir is where testdata/older/make had its daemon: the images of its checkpoints
// name the files below it.
const olderDir = "/tmp/headrace-of-27393f3"

// TestTakesOverAnOlderState starts the daemon on what commit 27393f3 left behind when
// the power failed. Nothing that it had acknowledged is lost, and its checkpoints go on.
func TestTakesOverAnOlderState(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes")
	}
	if os.Geteuid() != 0 {
		t.Skip("the state is that of root's daemon")
	}
	t.Parallel()
	lock, err := linux.LockFile(olderDir+".lock", os.O_CREATE, unix.LOCK_EX)
	for begun := time.Now(); err != nil; lock, err = linux.LockFile(olderDir+".lock", os.O_CREATE, unix.LOCK_EX) {
		if time.Since(begun) > 20*time.Minute { // several may come before this one
			t.Fatal("other test runs on this machine have ", olderDir, ": ", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Cleanup(func() { lock.Close() })
	if err := os.RemoveAll(olderDir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(olderDir) })
	if out, err := exec.Command("tar", "-C", "/tmp", "-xzf", "testdata/older/27393f3.tar.gz").CombinedOutput(); err != nil {
		t.Fatalf("unpack the state: %v\n%s", err, out)
	}
	d := &realDaemon{
		path: testkit.Headrace(t), stateDir: olderDir + "/state", env: append(os.Environ(), "HEADRACE_STATE_DIR="+olderDir+"/state"),
		flags: []string{"--slots", "8", "--policy", "wait", "--store", "plain=" + olderDir + "/plain", "--store", "packed=" + olderDir + "/packed,zstd"},
	}
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.cleanUp(); err != nil {
			t.Error(err)
		}
	})
	headrace := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(d.path, args...)
		cmd.Env = d.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("headrace %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	got := make(map[string]string)
	for line := range strings.Lines(headrace("ps", "--all")) {
		if f := strings.Fields(line); f[0] != "id" {
			got[f[1]] = strings.TrimSuffix(f[3], ",")
		}
	}
	want := map[string]string{"done": "done", "failed": "failed", "killed": "killed", "held": "pending", "running": got["running"],
		"suspended": "pending", "checkpointed": "checkpointed", "again": "checkpointed", "restored": "lost", "lost": "lost"}
	if !maps.Equal(got, want) || got["running"] == "lost" { // it starts again at once
		t.Errorf("taken over: %v, want %v", got, want)
	}
	goOn := []string{"held", "suspended"}
	if why := cannotRestoreOlder(); why != "" {
		t.Log("its checkpoints are not restored: " + why)
	} else {
		goOn = append(goOn, "checkpointed", "again")
	}
	headrace(append([]string{"resume"}, goOn...)...)
	var all strings.Builder
	for n := range 100 {
		fmt.Fprintf(&all, "%02d\n", n)
	}
	for _, name := range append(goOn, "running") {
		headrace("wait", name)
		if wrote := headrace("logs", name); wrote != all.String() {
			t.Errorf("%s wrote %q, want 00 to 99 once", name, wrote)
		}
	}
}

// cannotRestoreOlder tells why images of x86-64, of a program that had looked at its
// processor limit in cgroup v1, cannot be restored here; "" if they can.
func cannotRestoreOlder() string {
	if path, _, err := findCRIU(""); err != nil || path == "" {
		return "there is no CRIU"
	}
	if runtime.GOARCH != "amd64" {
		return "they are of x86-64"
	}
	if cpu, err := linux.ProcFS("").Processor(); err != nil || !slices.Contains(cpu.Flags, "avx512f") {
		return "their threads have used registers of AVX-512, which this processor has not"
	}
	for _, name := range []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"} {
		if path := filepath.Join("/sys/fs/cgroup/cpu", name); !exists(path) {
			return path + " is not there, which they had open"
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
