package price

import (
	"math"
	"testing"
	"time"

	"headrace"
)

func TestRemaining(t *testing.T) {
	for _, x := range []struct {
		total, running time.Duration
		share          float64
		want           time.Duration
	}{
		{30 * time.Second, 0, 0.5, 30 * time.Second},
		{30 * time.Second, 0, 0.25, 90 * time.Second},
		{30 * time.Second, 0, 1, 0},
		{30 * time.Second, 0, -1, 30 * time.Second},
		{30 * time.Second, 40 * time.Second, 0, 40 * time.Second},
		{0, 0, 0.5, time.Second},
		{0, 0, -1, time.Second},
		{30 * time.Second, 0, 7, 30 * time.Second},
		{30 * time.Second, 0, math.NaN(), 30 * time.Second},
		{time.Hour, 0, 1e-300, time.Duration(math.MaxInt64/int64(time.Second)) * time.Second},
	} {
		v := headrace.TaskView{Running: x.running, Progress: headrace.Progress{TotalWall: x.total, Share: x.share}}
		if got := Remaining(&v); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
