package inspect

import (
	"bufio"
	"fmt"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadsOfTheirOwn: a thread with descriptors or a working directory of its own would get those of the first.
func TestThreadsOfTheirOwn(t *testing.T) {
	for name, c := range map[string]struct {
		unshares int
		lost     bool
	}{"nothing": {0, false}, "descriptors": {unix.CLONE_FILES, true}, "a working directory": {unix.CLONE_FS, true}} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("python3", "-c", fmt.Sprintf(`
import ctypes, sys, threading
def own():
    print(ctypes.CDLL(None).unshare(%d), flush=True)
    threading.Event().wait()
threading.Thread(target=own, daemon=True).start()
sys.stdin.read()`, c.unshares))
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Skip(err)
			}
			defer cmd.Wait()
			defer in.Close()
			if said, err := bufio.NewReader(out).ReadString('\n'); said != "0\n" {
				t.Fatalf("%q, %v", said, err)
			}
			if l, err := ofThread(cmd.Process.Pid); (l != nil) != c.lost || err != nil {
				t.Error(l, err)
			}
		})
	}
}
