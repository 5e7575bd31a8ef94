package yarn

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What a cluster has left whose process was killed is ended, and nothing of another's.
func TestEndProcesses(t *testing.T) {
	parent := t.TempDir()
	start := func(dir string) chan error {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "600")
		cmd.Env = append(os.Environ(), marker+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		return ended
	}
	left := start(filepath.Join(parent, dirPrefix+"1"))
	other := start(filepath.Join(t.TempDir(), dirPrefix+"1"))
	if err := EndProcesses(parent); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the process is still there")
	}
	select {
	case err := <-other:
		t.Errorf("the process of another cluster has ended: %v", err)
	default:
	}
}
