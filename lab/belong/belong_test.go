package belong

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a cluster has left whose process was killed is ended, and nothing of another's.
func TestEnd(t *testing.T) {
	parent := t.TempDir()
	start := func(dir string) chan error {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "600")
		cmd.Env = append(os.Environ(), Marker+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		return ended
	}
	left := start(filepath.Join(parent, "cluster1"))
	elsewhere := filepath.Join(t.TempDir(), "cluster1")
	start(elsewhere)
	if err := End(parent); err != nil {
		t.Fatal(err)
	}
	<-left
	if all, err := Processes(elsewhere); len(all) != 1 {
		t.Errorf("of another cluster there are the processes %v, %v", all, err)
	}
}
