package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// What is in the middle of an exec, and has no environment for a moment, is ended too.
func TestKillOrphansThatExec(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("orphans of root's tasks are ended by the kernel; TestAsOrdinaryUser runs it")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "again")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		cmd := exec.Command(script)
		cmd.Env = []string{ProgressEnv + "=" + filepath.Join(dir, ProgressFile)}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := endOrphans(dir, func(look func()) bool { look(); return true })
		lost := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		cmd.Wait()
		if !lost.Stop() || err != nil {
			t.Fatalf("it went on; endOrphans: %v", err)
		}
	}
}

// TestKillOrphanWithoutFirstThread: a process whose first thread has ended runs on, and is ended.
func TestKillOrphanWithoutFirstThread(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("orphans of root's tasks are ended by the kernel; TestAsOrdinaryUser runs it")
	}
	dir := t.TempDir()
	cmd := exec.Command("python3", "-c", `
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).pthread_exit(None)`)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), ProgressEnv + "=" + filepath.Join(dir, ProgressFile)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the end of its first thread", func() bool {
		p, err := linux.ProcFS("").Stat(cmd.Process.Pid)
		return err == nil && linux.Dead(p.State) && p.Threads == 2
	})
	err := endOrphans(dir, func(look func()) bool { look(); return true })
	lost := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	cmd.Wait()
	if !lost.Stop() || err != nil {
		t.Errorf("it went on; endOrphans: %v", err)
	}
}

// TestOrphanThatDoesNotEnd: what SIGKILL does not end, for as long as it waits for a device, is given up after a while, and not looked
// at all the time until then.
func TestOrphanThatDoesNotEnd(t *testing.T) {
	env, err := os.ReadFile("/proc/self/environ")
	if err != nil || bytes.IndexByte(env, 0) < 0 {
		t.Skipf("this process has no environment: %v", err)
	}
	self, err := linux.ProcFS("").Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	looks, kills := 0, 0
	o := orphans{
		mark: append([]byte{0}, env[:bytes.IndexByte(env, 0)+1]...), bare: map[int]int{},
		list: func() ([]linux.Stat, error) { looks++; return []linux.Stat{self}, nil },
		kill: func(int) error { kills++; return nil },
	}
	always := func(look func()) bool { look(); return true }
	if err := o.end(time.Second, always); !errors.Is(err, ErrNotNow) || !strings.Contains(err.Error(), fmt.Sprint(self.PID)) {
		t.Errorf("it said %v", err)
	}
	if looks > 20 || kills != looks {
		t.Errorf("%d looks and %d kills in a second", looks, kills)
	}
	if err := o.end(time.Hour, func(look func()) bool { look(); return false }); err != nil {
		t.Errorf("given up: %v", err)
	}
}
