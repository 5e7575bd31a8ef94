package slowdisk

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

func TestStartFails(t *testing.T) {
	needDisk(t)
	t.Setenv("TMPDIR", t.TempDir())
	bad := HardDisk()
	bad.Bandwidth = 0
	notEmpty := filepath.Join(t.TempDir(), "file")
	makeFile(t, notEmpty, 1)
	script := filepath.Join(t.TempDir(), "silent")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho nothing of the kind\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]Options{
		"bandwidth":        {Model: bad, Source: t.TempDir()},
		"no such file":     {Source: filepath.Join(t.TempDir(), "missing")},
		"not a directory":  {Source: t.TempDir(), Mount: notEmpty},
		"no such file or ": {Source: t.TempDir(), Program: "/nowhere"},
		"invalid char":     {Source: t.TempDir(), Program: script},
	} {
		d, err := Start(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error with %q, got %v", what, err)
		}
		if d != nil {
			d.Close()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Source: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A disk that is in use goes all the same, and files that are open fail.
func TestCloseWhileInUse(t *testing.T) {
	source := t.TempDir()
	makeFile(t, filepath.Join(source, "data"), 2*mib)
	d := startDisk(t, quick(), source)
	f, err := os.Open(filepath.Join(d.Dir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if isMounted(t, d.Dir()) {
		t.Error("still mounted")
	}
	if n, err := f.ReadAt(make([]byte, 100), mib); err == nil {
		t.Errorf("read %d bytes of a disk that is gone", n)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// Somebody's copy of the mount, in a namespace of its own, is no reason to wait.
func TestCloseWithACopyOfTheMount(t *testing.T) {
	d := startDisk(t, quick(), t.TempDir())
	other := exec.Command("sleep", "600")
	other.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if err := other.Start(); err != nil {
		t.Skipf("no mount namespaces here: %v", err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	if err := d.Close(); err != nil { // after stopTime it would say that the server was killed
		t.Error(err)
	}
}

func TestServerIsKilled(t *testing.T) {
	source := t.TempDir()
	makeFile(t, filepath.Join(source, "data"), mib)
	needDisk(t)
	d, err := Start(t.Context(), Options{Model: quick(), Source: source})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.CPU(); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(d.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-d.ended
	if _, err := os.ReadFile(filepath.Join(d.Dir(), "data")); err == nil {
		t.Error("read from a disk without a server")
	}
	if _, err := d.CPU(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("processor time of a killed server: %v", err)
	}
	d.Stats() // what it had shown
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("closing says %v", err)
	}
	if isMounted(t, d.Dir()) {
		t.Error("still mounted")
	}
}

// startParent starts a disk in a process of its own and returns the mount.
func startParent(t *testing.T) (*exec.Cmd, string) {
	t.Helper()
	needDisk(t)
	cmd := exec.Command("/proc/self/exe", parentCommand, t.TempDir())
	stdin, err := cmd.StdinPipe() // stays open until the process is killed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		testkit.Await(t, "end of the server after that of its parent", func() bool { return dir == "" || isGone(dir) })
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	dir = strings.TrimSpace(line)
	if err != nil || !isMounted(t, dir) {
		t.Fatalf("the parent says %q, %v", line, err)
	}
	return cmd, dir
}

func TestParentIsKilled(t *testing.T) {
	cmd, dir := startParent(t)
	cmd.Process.Kill()
	cmd.Wait()
	testkit.Await(t, "unmount after the parent is gone", func() bool { return isGone(dir) })
	if isMounted(t, dir) {
		t.Error("still mounted")
	}
}

func isGone(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, os.ErrNotExist)
}

// A server that is killed leaves its mount; the next start removes it, and no
// other.
func TestLeftoversAreRemoved(t *testing.T) {
	_, dir := startParent(t)
	_, living := startParent(t)
	table, err := linux.ProcFS("").Mounts("self")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range ourMounts(table) {
		if m.point == dir {
			found = true
			if err := unix.Kill(m.pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			testkit.Await(t, "end of the server", func() bool { return !m.alive() })
		}
	}
	if !found {
		t.Fatal("nothing was left behind")
	} else if !isMounted(t, dir) {
		t.Log("another disk of this machine has started just now, and removed it")
	}
	startDisk(t, quick(), t.TempDir())
	if isMounted(t, dir) {
		t.Error("still mounted")
	}
	if !isGone(dir) {
		t.Errorf("%s is still there", dir)
	}
	if !isMounted(t, living) {
		t.Error("a mount whose server lives was removed")
	}
}
