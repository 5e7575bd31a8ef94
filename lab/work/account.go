package work

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// accountEvery is how often a workload writes down what it has used at most.
const accountEvery = 50 * time.Millisecond

// An account is a file in which a workload writes down the share that is done and the
// processor time that it has used so far, so that both are known of one that is
// killed. A process that was restored from a checkpoint counts on.
type account struct {
	path string
	last time.Time
	// used is the time of all processes that this one has been, seen what the kernel
	// said last of the present one.
	used, seen float64
}

func (a *account) set(share float64) error {
	now := time.Now()
	if a.path == "" || share < 1 && now.Sub(a.last) < accountEvery {
		return nil
	}
	a.last = now
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return err
	}
	cpu := float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	if cpu < a.seen {
		a.seen = 0 // another process than the last time
	}
	a.used += cpu - a.seen
	a.seen = cpu
	return overwrite(a.path, fmt.Sprintf("%.4f %014.6f\n", share, a.used))
}

// ReadAccount returns what a workload has written down last; nothing when it has not
// yet.
func ReadAccount(path string) (share, cpu float64, err error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	v, err := ParseFloats(string(text))
	if err != nil || len(v) != 2 {
		return 0, 0, fmt.Errorf("%s: unexpected %q", path, text)
	}
	return v[0], v[1], nil
}

// ParseFloats reads the numbers of a line.
func ParseFloats(line string) ([]float64, error) {
	var out []float64
	for f := range strings.FieldsSeq(line) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
