package linux

import (
	"os/exec"
	"testing"
	"time"
)

func TestKillAndWait(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A zombie has ended: nobody needs to wait for it.
	if err := KillAndWait(cmd.Process.Pid, 2*time.Minute); err != nil {
		t.Error(err)
	}
	if st, err := ProcFS("").Stat(cmd.Process.Pid); err != nil || !Dead(st.State) {
		t.Errorf("it is in state %c, %v", st.State, err)
	}
	cmd.Wait()
	if err := KillAndWait(cmd.Process.Pid, 0); err != nil {
		t.Errorf("when it is gone: %v", err)
	}
}

// TestKillAndWaitIf: a number that is another's by now is left alone.
func TestKillAndWaitIf(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := KillAndWaitIf(cmd.Process.Pid, 10*time.Second, func() bool { return false }); err != nil {
		t.Error(err)
	}
	if st, err := ProcFS("").Stat(cmd.Process.Pid); err != nil || Dead(st.State) {
		t.Errorf("it is in state %c, %v", st.State, err)
	}
}
