package attach_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
)

// While it waits attach uses next to nothing, and its command line tells where the
// command is.
func TestCostOfWaiting(t *testing.T) {
	w := newWorld(t, run)
	c := w.attach("/bin/bash", "-c", "echo > ready; exec sleep 1000")
	w.awaitText("ready", "\n")
	pid := c.cmd.Process.Pid
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	w.must(err)
	args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	want := []string{"headrace-shim", "attached", "-shim-pid", fmt.Sprint(w.supervisor()), "-id", "c1", "-fd"}
	if len(args) < 9 || fmt.Sprint(args[:7]) != fmt.Sprint(want) || fmt.Sprint(args[8:]) != "[-socket "+w.socket+" -- /bin/bash -c echo > ready; exec sleep 1000]" {
		t.Errorf("command line %q", args)
	}
	w.await("attach to sleep", func() bool { return w.idle(pid) })
	before, err := linux.ProcFS("").Stat(pid)
	w.must(err)
	const window = time.Second
	time.Sleep(window) // what is measured is that nothing happens
	after, err := linux.ProcFS("").Stat(pid)
	w.must(err)
	st, err := linux.ProcFS("").Status(pid)
	w.must(err)
	anon, used := st.RSSAnon, after.CPU()-before.CPU()
	t.Logf("in %v: %v of processor time; %.1f MB of its own, %.1f MB resident at most; %v to start", window, used, float64(anon)/1e6, float64(st.PeakRSS)/1e6, before.CPU())
	if used > 20*time.Millisecond || st.PeakRSS > 24e6 {
		t.Error("that is not next to nothing")
	}
}
