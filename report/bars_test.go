package report

import (
	"math"
	"testing"
)

// TestOneScale: bars of one length mean the same in all groups, or in each its own.
func TestOneScale(t *testing.T) {
	groups := []BarGroup{{Unit: UnitRatio, Values: []float64{1, 0.5}}, {Unit: UnitRatio, Values: []float64{4, 2}}}
	for _, one := range []bool{false, true} {
		c := &Bars{Rows: []string{"a", "b"}, Groups: groups, OneScale: one}
		length := func(g int) float64 { x := c.scale(groups[g], 0, 300); return x.at(groups[g].Values[0]) - x.at(0) }
		if same := math.Abs(length(1)-4*length(0)) < 0.01; same != one {
			t.Errorf("OneScale %v: 1 is %v long, and 4 is %v", one, length(0), length(1))
		}
	}
}
