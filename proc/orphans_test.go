package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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
		err := endOrphans(dir)
		lost := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		if !lost.Stop() || err != nil {
			t.Fatalf("it went on; endOrphans: %v", err)
		}
	}
}
