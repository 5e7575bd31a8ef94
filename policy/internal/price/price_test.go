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
		promised       time.Duration
		want           time.Duration
	}{
		{30 * time.Second, 0, 0.5, 0, 30 * time.Second},
		{30 * time.Second, 0, 0.25, 0, 90 * time.Second},
		{30 * time.Second, 0, 1, 0, 0},
		{30 * time.Second, 0, -1, 0, 30 * time.Second},
		{30 * time.Second, 40 * time.Second, 0, 0, 40 * time.Second},
		{0, 0, 0.5, 0, time.Second},
		{0, 0, -1, 0, time.Second},
		{30 * time.Second, 0, 7, 0, 30 * time.Second},
		{30 * time.Second, 0, math.NaN(), 0, 30 * time.Second},
		{time.Hour, 0, 1e-300, 0, time.Duration(math.MaxInt64/int64(time.Second)) * time.Second},
		{30 * time.Second, 0, 0.5, 60 * time.Second, 30 * time.Second},
		{30 * time.Second, 0, 1, 30 * time.Second, 0},
		{30 * time.Second, 0, 1, 5 * time.Second, 25 * time.Second},
		{30 * time.Second, 0, 0.9999999, 29 * time.Second, time.Second},
		{30 * time.Second, 0, 0.5, 29 * time.Second, 30 * time.Second},
		{30 * time.Second, 0, -1, 5 * time.Second, 30 * time.Second},
	} {
		v := headrace.TaskView{Running: x.running, Progress: headrace.Progress{TotalWall: x.total, Share: x.share, Promised: x.promised}}
		if got := Remaining(&v); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
