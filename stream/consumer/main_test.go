package consumer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// runnerEnv makes the test program the runner.
const runnerEnv = "HEADRACE_TEST_RUNNER"

// usageEnv names a file in which the runner leaves the processor time that it has
// used itself, without its command.
const usageEnv = "HEADRACE_TEST_USAGE"

func TestMain(m *testing.M) {
	firstPause, lastPause = time.Millisecond, 20*time.Millisecond
	if os.Getenv(runnerEnv) == "" {
		code := m.Run()
		if shim.dir != "" {
			os.RemoveAll(shim.dir)
		}
		os.Exit(code)
	}
	killGrace = 200 * time.Millisecond
	usage := os.Getenv(usageEnv)
	os.Unsetenv(runnerEnv)
	os.Unsetenv(usageEnv)
	code := Run(os.Args[1:])
	if usage != "" {
		var ru unix.Rusage
		err := unix.Getrusage(unix.RUSAGE_SELF, &ru)
		if err == nil {
			err = os.WriteFile(usage, fmt.Append(nil, ru.Utime.Nano()+ru.Stime.Nano()), 0o600)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// shim is the real program, built when the first test needs it.
var shim struct{ dir, path string }

func buildShim(t *testing.T) string {
	t.Helper()
	if shim.path != "" {
		return shim.path
	}
	dir, err := os.MkdirTemp("", "headrace-consumer-test")
	must(t, err)
	shim.dir = dir
	path := filepath.Join(dir, "headrace-shim")
	build := exec.Command("go", "build", "-o", path, "headrace/cmd/headrace-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the shim: %v\n%s", err, out)
	}
	shim.path = path
	return path
}
