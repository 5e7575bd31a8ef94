package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/internal/testkit"
)

// TestWithoutFirstThread: a process whose first thread has ended is moved into the cgroup of its task, and has memory.
func TestWithoutFirstThread(t *testing.T) {
	base, err := cgroup.Open(t.TempDir())
	if base == nil {
		t.Skip(err)
	}
	defer base.Close()
	g, err := base.Make("t", cgroup.Limits{PIDs: 100}, nil)
	if len(g.Dirs()) == 0 {
		t.Skip(err)
	}
	defer g.Remove()
	cmd := exec.Command("python3", "-c", `
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).pthread_exit(None)`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var one linux.Stat
	testkit.Await(t, "the end of its first thread", func() bool {
		one, err = procs.Stat(cmd.Process.Pid)
		return err == nil && linux.Dead(one.State) && one.Threads == 2
	})
	p := &processes{}
	for _, dir := range g.Dirs() {
		if err := p.join(dir, false, 10*time.Second); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		threads, err := os.ReadFile(filepath.Join(dir, "cgroup.threads"))
		if err != nil { // version 1
			threads, err = os.ReadFile(filepath.Join(dir, "tasks"))
		}
		living := strconv.Itoa(procs.Living(one))
		if err != nil || !slices.Contains(strings.Fields(string(threads)), living) {
			t.Errorf("thread %s is not in %s: %q, %v", living, dir, threads, err)
		}
	}
	use, err := p.memory()
	if err != nil || len(use) != 1 || use[0].status.RSSAnon == 0 {
		t.Errorf("memory: %+v, %v", use, err)
	}
}
