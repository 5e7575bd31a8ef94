package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// SwapSpeed is how fast memory goes to swap when it is told to (MADV_PAGEOUT),
// and comes back (MADV_WILLNEED), in bytes per second.
type SwapSpeed struct {
	Out float64 `json:"out"`
	In  float64 `json:"in"`
	// Check keeps the compiler from leaving out the reads; it means nothing.
	Check byte `json:"check"`
}

// MeasureSwap measures swap with that many bytes of a process of its own: 1 MiB
// to 1 GiB. It fails where there is no swap, or too little of it.
func (r *Runtime) MeasureSwap(ctx context.Context, bytes int64) (SwapSpeed, error) {
	var s SwapSpeed
	shim, err := r.installShim()
	if err != nil {
		return s, err
	}
	out, err := exec.CommandContext(ctx, shim, "swap-probe", strconv.FormatInt(bytes, 10)).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return s, fmt.Errorf("measure swap: %s", strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return s, fmt.Errorf("measure swap: %w", err)
	}
	return s, json.Unmarshal(out, &s)
}
