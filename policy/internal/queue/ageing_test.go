package queue

import (
	"math"
	"testing"
	"time"

	"headrace"
)

func TestAged(t *testing.T) {
	for _, x := range []struct {
		ageing, waited time.Duration
		from, to       headrace.Priority
	}{
		{10 * time.Minute, 0, 2, 2},
		{10 * time.Minute, 10*time.Minute - 1, 2, 2},
		{10 * time.Minute, 10 * time.Minute, 2, 3},
		{10 * time.Minute, 59 * time.Minute, 2, 7},
		{10 * time.Minute, 1000 * time.Hour, 2, 8},
		{10 * time.Minute, math.MaxInt64, 0, 1},
		{10 * time.Minute, math.MaxInt64, 9, 11},
		{10 * time.Minute, -time.Hour, 4, 4},
		{0, math.MaxInt64, 4, 4},
		{time.Second, math.MaxInt64, 11, 11},
		{10 * time.Minute, 0, 200, 11},
	} {
		if got := (Ageing{Step: x.ageing}).Aged(x.from, x.waited); got != x.to {
			t.Errorf("ageing %v: priority %d after %v is %d, want %d", x.ageing, x.from, x.waited, got, x.to)
		}
	}
}
