package consumer

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
)

// runnerEnv makes the test program the runner.
const runnerEnv = "HEADRACE_TEST_RUNNER"

// usageEnv names a file in which the runner leaves the processor time that it has
// used itself, without its command.
const usageEnv = "HEADRACE_TEST_USAGE"

func TestMain(m *testing.M) {
	firstPause, lastPause = time.Millisecond, 20*time.Millisecond
	if os.Getenv(runnerEnv) == "" {
		testkit.M{M: m}.Run()
		return
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
