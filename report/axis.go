package report

import (
	"math"
)

// An Axis says what one direction of a chart measures.
type Axis struct {
	Label string `json:"label,omitempty"`
	Unit  Unit   `json:"unit,omitempty"`
	// Log makes equal distances equal ratios; values that are not positive are
	// not drawn.
	Log bool `json:"log,omitempty"`
}

// drawable values have a place on an axis. The bound keeps differences finite.
func drawable(v float64) bool { return math.Abs(v) <= 1e100 }

func (a Axis) holds(v float64) bool { return drawable(v) && (!a.Log || v >= 1e-100) }

// A scale places values between two pixels.
type scale struct {
	min, max float64
	log      bool
	from, to float64
}

func (s scale) at(v float64) float64 {
	lo, hi := s.min, s.max
	if s.log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(v)
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// extent returns the least and the greatest of the values that the axis holds.
func (a Axis) extent(values []float64) (lo, hi float64, any bool) {
	for _, v := range values {
		if !a.holds(v) {
			continue
		}
		if !any {
			lo, hi, any = v, v, true
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi, any
}

// tight returns a domain that ends with the data, widened when it is a point.
func (a Axis) tight(values []float64) (lo, hi float64) {
	lo, hi, any := a.extent(values)
	switch {
	case !any && a.Log:
		return 1, 10
	case !any:
		return 0, 1
	case a.Log && hi/lo < 1.001:
		return lo / 2, hi * 2
	case !a.Log && samePlace(lo, hi):
		pad := max(math.Abs(hi)/2, 0.5)
		return lo - pad, hi + pad
	}
	return lo, hi
}

// samePlace tells whether two values are too close for an axis between them.
func samePlace(lo, hi float64) bool {
	return hi-lo <= max(1e-9*math.Abs(hi), 1e-9*math.Abs(lo), 1e-99)
}

// roomy returns a domain that ends with a tick beyond the data. It has zero in it
// unless the data lies far from zero in comparison with its spread.
func (a Axis) roomy(values []float64, n int) (lo, hi float64) {
	lo, hi, any := a.extent(values)
	if !any {
		return a.tight(values)
	}
	if a.Log {
		lo, hi = a.tight(values)
		return roundDown(lo), UnitNone.step(hi)
	}
	point := samePlace(lo, hi)
	if lo > 0 && (point || lo < hi*0.6) {
		lo = 0
	}
	if hi < 0 && (point || hi > lo*0.6) {
		hi = 0
	}
	if samePlace(lo, hi) {
		lo, hi = a.tight([]float64{lo})
	}
	step := a.Unit.step((hi - lo) / float64(n))
	return math.Floor(lo/step+1e-9) * step, math.Ceil(hi/step-1e-9) * step
}

// roundDown returns the greatest of 1, 2 and 5 times a power of ten that is at most
// v, which is positive.
func roundDown(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range [...]float64{5, 2} {
		if m*power <= v*(1+1e-9) {
			return m * power
		}
	}
	return power
}

// step returns the least round number that is at least v.
func (u Unit) step(v float64) float64 {
	if (u == UnitSeconds || u == UnitHours) && v > 10 && v <= 10*86400 {
		for _, s := range [...]float64{15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000} {
			if s >= v {
				return s
			}
		}
	}
	if !(v > 1e-300) {
		return 1e-300
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range [...]float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// ticks returns about n round values from lo to hi.
func (a Axis) ticks(lo, hi float64, n int) []float64 {
	if a.Log {
		if a.Unit == UnitSeconds && hi > 120 && hi/lo > 40 {
			return logSeconds(lo, hi)
		}
		return logTicks(lo, hi)
	}
	step := a.Unit.step((hi - lo) / float64(max(n, 1)))
	var ticks []float64
	first := math.Ceil(lo/step - 1e-9)
	for i := 0; i < 100; i++ {
		v := (first + float64(i)) * step
		if v > hi+step*1e-9 {
			break
		}
		if math.Abs(v) < step*1e-9 {
			v = 0
		}
		ticks = append(ticks, v)
	}
	return ticks
}

func logTicks(lo, hi float64) []float64 {
	decades := math.Log10(hi / lo)
	multiples := []float64{1}
	switch {
	case decades < 1.6:
		multiples = []float64{1, 2, 5}
	case decades < 3.4:
		multiples = []float64{1, 3}
	}
	every := int(math.Ceil(decades / 8))
	var ticks []float64
	last := int(math.Floor(math.Log10(hi) + 1e-9))
	for p := int(math.Floor(math.Log10(lo) + 1e-9)); p <= last; p += max(every, 1) {
		for _, m := range multiples {
			v := m * math.Pow(10, float64(p))
			if v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

// logSeconds returns times that people know.
func logSeconds(lo, hi float64) []float64 {
	var ticks []float64
	for _, v := range [...]float64{1e-6, 1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000} {
		if v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
			ticks = append(ticks, v)
		}
	}
	return ticks
}

// tick writes a round value briefly: 0, 90 s as 1m30s, 3 GB without decimals.
func (u Unit) tick(v float64) string {
	if v == 0 {
		return "0"
	}
	if v < 0 {
		return negative(u.tick(-v))
	}
	switch u {
	case UnitSeconds:
		return secondsTick(v)
	case UnitHours:
		if v < 86400 {
			return secondsTick(v)
		}
		return plain(round(v/3600)) + "h"
	case UnitTenths:
		return plain(round(v)) + "s"
	case UnitBytes, UnitBytesPerSecond:
		prefix, p := "", 1.0
		for _, next := range [...]string{"k", "M", "G", "T", "P", "E"} {
			if v/p < 1000*(1-1e-9) {
				break
			}
			prefix, p = next, p*1000
		}
		text := plain(round(v/p)) + " " + prefix + "B"
		if u == UnitBytesPerSecond {
			text += "/s"
		}
		return text
	case UnitPercent:
		return plain(round(v*100)) + " %"
	case UnitRatio:
		return plain(round(v)) + "×"
	}
	return plain(round(v))
}

func secondsTick(v float64) string {
	switch {
	case v < 1e-3*(1-1e-9):
		return plain(round(v*1e6)) + "µs"
	case v < 1-1e-9:
		return plain(round(v*1e3)) + "ms"
	case v < 60-1e-6:
		return plain(round(v)) + "s"
	}
	s := Seconds(v)
	if len(s) > 3 && (s[len(s)-3:] == "00s" || s[len(s)-3:] == "00m" || s[len(s)-3:] == "00h") {
		return s[:len(s)-3]
	}
	return s
}

// round removes what floating point adds to a round number.
func round(v float64) float64 {
	if v == 0 || !drawable(v) || math.Abs(v) < 1e-90 {
		return v
	}
	p := math.Pow(10, 9-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*p) / p
}

// thin leaves out labels that would touch the one before. Widths are pixels.
func thin(ticks []float64, s scale, label func(float64) string, size, gap float64) []bool {
	shown := make([]bool, len(ticks))
	edge := math.Inf(-1)
	for i, v := range ticks {
		half := pixels(label(v), size) / 2
		if s.at(v)-half < edge+gap && i > 0 {
			continue
		}
		shown[i], edge = true, s.at(v)+half
	}
	return shown
}
