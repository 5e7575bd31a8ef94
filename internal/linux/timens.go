package linux

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ClockOffset returns by how much the monotonic clock, or that of the time since the boot, is ahead for a process, which may be "self": that is
// so in a time namespace (time_namespaces(7)), as CRIU makes one. An error that there is no file means that the kernel has none.
func (p ProcFS) ClockOffset(process string, clock int) (time.Duration, error) {
	b, err := os.ReadFile(p.path(process, "timens_offsets"))
	if err != nil {
		return 0, err
	}
	name := "monotonic"
	if clock == unix.CLOCK_BOOTTIME || clock == unix.CLOCK_BOOTTIME_ALARM {
		name = "boottime"
	}
	for line := range strings.Lines(string(b)) {
		var seconds, nanoseconds int64
		if n, err := fmt.Sscanf(line, name+" %d %d", &seconds, &nanoseconds); n == 2 && err == nil {
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds), nil
		}
	}
	return 0, fmt.Errorf("the offset of the clock %s is not in %q", name, b)
}
