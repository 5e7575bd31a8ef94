package fileset

import (
	"math"
	"testing"
)

func TestAddSizes(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{0, 0, 0}, {1, 2, 3}, {math.MaxInt64 - 1, 1, math.MaxInt64}, {math.MaxInt64, 1, math.MaxInt64}, {7 << 60, 7 << 60, math.MaxInt64},
	} {
		if got := AddSizes(c.a, c.b); got != c.want {
			t.Errorf("%d and %d are %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
