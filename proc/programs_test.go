package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headrace/internal/testkit"
	"headrace/proc"
)

// waiter is a program in Java that has looked at the machine, and waits.
const waiter = `
public class Waiter {
  public static void main(String[] args) throws Exception {
    java.lang.management.ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
    System.out.println("ready");
    Thread.sleep(1000000);
  }
}`

// Programs as they are keep nothing open of the kernel's that a task of another user could not have.
func TestProgramsOfAnotherUser(t *testing.T) {
	if testing.Short() {
		t.Skip("real programs")
	}
	for name, argv := range map[string][]string{
		"bash":    {"bash", "-c", "echo ready; sleep 1000; true"},
		"free":    {"sh", "-c", "free -s 1000 | sed -u s/^Mem.*/ready/"},
		"gcc":     {"sh", "-c", "echo ready; sleep 1000 | gcc -fsyntax-only -x c -"},
		"java":    {"java", "-Xmx64m", "Waiter.java"},
		"node":    {"node", "-e", "const os = require('os'); os.cpus(); os.networkInterfaces(); os.loadavg(); console.log('ready'); setInterval(() => {}, 1000)"},
		"perl":    {"perl", "-e", `$| = 1; print "ready\n"; sleep 1000`},
		"python":  {"/usr/bin/python3", "-c", "import multiprocessing as m, os, time; p = m.Pool(2); p.map(abs, [1, 2]); os.getloadavg(); print('ready', flush=True); time.sleep(1000)"},
		"sort":    {"sh", "-c", "echo ready; sleep 1000 | sort --parallel=2 -S 10M"},
		"sqlite3": {"sh", "-c", "echo ready; sleep 1000 | sqlite3"},
		"top":     {"sh", "-c", "top -b -d 1000 | sed -u s/^Tasks.*/ready/"},
		"vmstat":  {"sh", "-c", "vmstat 1000 | sed -u s/^procs.*/ready/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			for _, program := range []string{name, argv[0]} {
				if _, err := exec.LookPath(program); err != nil && name != "python" {
					t.Skip(err)
				}
			}
			dir := testkit.OpenDir(t)
			w.must(os.WriteFile(filepath.Join(dir, "Waiter.java"), []byte(waiter), 0o644))
			s := w.spec(name, argv...)
			s.Cwd, s.UID, s.GID = dir, otherUser, otherUser
			s.Env = append(s.Env, "HOME="+dir, "TMPDIR="+dir)
			task := w.start(s)
			w.awaitOutput(task, "ready\n")
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
			if err != nil && !strings.Contains(err.Error(), "Can't get rlimit") { // which takes CAP_SYS_RESOURCE, and comes after what is tried here
				t.Errorf("it is refused: %v", err)
			}
			w.must(task.Kill(w.ctx, 1))
			w.end(task)
		})
	}
}
