package sample

import (
	"math"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{5, 1, 3}, Spread{3, 1, 5}},
		{[]float64{4, 1, 3, 2}, Spread{2.5, 1, 4}},
	} {
		if got := SpreadOf(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
	if s := Unmeasured(); !math.IsNaN(s.Median) || !math.IsNaN(s.Min) || !math.IsNaN(s.Max) {
		t.Errorf("of nothing: %v", s)
	}
}

// A repeat in which the best gains nothing counts like the others.
func TestReached(t *testing.T) {
	of := func(values ...float64) (all []run) {
		for i, v := range values {
			all = append(all, run{i, v})
		}
		return all
	}
	value := func(r run) float64 { return r.value }
	for _, c := range []struct {
		runs, from, best []run
		want             float64
	}{
		{of(6), of(10), of(5), 0.8},
		{of(6, 9, 10), of(10, 10, 10), of(5, 11, 6), 5. / 8},
		{of(6, 9), of(10, 10), of(5), 0.8}, // nothing to compare the second with
		{of(6), of(10), of(10), math.NaN()},
		{nil, of(10), of(5), math.NaN()},
	} {
		got := Reached(c.runs, c.from, c.best, value)
		if got.Median != c.want && !(math.IsNaN(got.Median) && math.IsNaN(c.want)) {
			t.Errorf("%v from %v, best %v: %v, want %v", c.runs, c.from, c.best, got, c.want)
		}
	}
}

type run struct {
	repeat int
	value  float64
}

func (r run) In() (int, string) { return r.repeat, "" }

func TestQuantile(t *testing.T) {
	values := []float64{1, 2, 3, 4}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.74: 3, 0.99: 4, 1: 4} {
		if got := Quantile(values, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}
