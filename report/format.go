package report

import (
	"math"
	"strconv"
	"time"
)

// missing stands for a value that was not measured.
const missing = "–"

// Bytes writes a size with decimal units: 512 B, 1.4 GB.
func Bytes(n int64) string { return bytesOf(float64(n)) }

// Capacity writes a size that somebody has given as they gave it: 16 GiB, if it is so many
// of a binary unit, else as Bytes does.
func Capacity(n int64) string {
	for i, unit := range []string{" TiB", " GiB", " MiB", " KiB"} {
		if size := int64(1) << (40 - 10*i); n > 0 && n%size == 0 && n/size < 10000 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return Bytes(n)
}

// Duration writes a duration with as much precision as a person can use:
// 412ms, 21.3s, 3m12s, 2h05m, 3d04h.
func Duration(d time.Duration) string { return Seconds(d.Seconds()) }

// Seconds formats a number of seconds like Duration.
func Seconds(s float64) string {
	if text, ok := special(s); ok {
		return text
	}
	if s < 0 {
		return negative(Seconds(-s))
	}
	switch {
	case s == 0:
		return "0s"
	case s < 0.9995e-6:
		return significant(s*1e9) + "ns"
	case s < 0.9995e-3:
		return significant(s*1e6) + "µs"
	case s < 0.9995:
		return significant(s*1e3) + "ms"
	case s < 59.95:
		return significant(s) + "s"
	case s < 3599.5:
		return twoParts(math.Round(s), 60, "m", "s")
	case s < 86400-30:
		return twoParts(math.Round(s/60), 60, "h", "m")
	}
	return twoParts(math.Round(s/3600), 24, "d", "h")
}

// Percent writes a fraction of one: 0.034 is 3.4 %.
func Percent(fraction float64) string {
	if text, ok := special(fraction); ok {
		return text
	}
	p := fraction * 100
	if math.Abs(p) >= 99.95 {
		return whole(p) + " %"
	}
	return fixed(p, 1) + " %"
}

// Ratio writes how many times as large: 1.03×, 12.4×, 130×.
func Ratio(r float64) string {
	if text, ok := special(r); ok {
		return text
	}
	if r < 0 {
		return negative(Ratio(-r))
	}
	return significant(r) + "×"
}

// A Unit says what a number measures, and so how it is written and where an
// axis has its ticks. The zero value is a plain number.
type Unit string

// The units. UnitSeconds and UnitBytes are what they say; UnitTenths is seconds
// too, never written as minutes, and UnitHours is seconds that are never written as
// days, so that small differences of long times remain visible; UnitPercent is a fraction of one; UnitRatio is how many times as
// large.
const (
	UnitNone           Unit = ""
	UnitSeconds        Unit = "seconds"
	UnitTenths         Unit = "tenths of a second"
	UnitHours          Unit = "hours"
	UnitBytes          Unit = "bytes"
	UnitBytesPerSecond Unit = "bytes/s"
	UnitPercent        Unit = "percent"
	UnitRatio          Unit = "ratio"
)

// Format writes a value; an unknown unit follows the plain number.
func (u Unit) Format(v float64) string {
	if text, ok := special(v); ok {
		return text
	}
	switch u {
	case UnitNone:
		return plain(v)
	case UnitSeconds:
		return Seconds(v)
	case UnitTenths:
		return fixed(v, 1) + "s"
	case UnitHours:
		if v < 86400-30 {
			return Seconds(v)
		}
		return twoParts(math.Round(v/60), 60, "h", "m")
	case UnitBytes:
		return bytesOf(v)
	case UnitBytesPerSecond:
		return bytesOf(v) + "/s"
	case UnitPercent:
		return Percent(v)
	case UnitRatio:
		return Ratio(v)
	}
	return plain(v) + " " + clean(string(u))
}

// Better says in which direction a measure improves; empty when neither is
// better.
type Better string

// The directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// best returns the best finite value, and false when there is none or when the
// direction is unknown.
func (b Better) best(values []float64) (float64, bool) {
	best, found := 0.0, false
	if b != Lower && b != Higher {
		return 0, false
	}
	for _, v := range values {
		if !finite(v) {
			continue
		}
		if !found || b == Lower && v < best || b == Higher && v > best {
			best, found = v, true
		}
	}
	return best, found
}

func special(v float64) (string, bool) {
	switch {
	case math.IsNaN(v):
		return missing, true
	case math.IsInf(v, 1):
		return "∞", true
	case math.IsInf(v, -1):
		return "-∞", true
	}
	return "", false
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func bytesOf(v float64) string {
	if text, ok := special(v); ok {
		return text
	}
	if v < 0 {
		return negative(bytesOf(-v))
	}
	if v < 999.5 {
		return whole(v) + " B"
	}
	units := [...]string{"kB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for v /= 1000; v >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	if v < 99.95 {
		return fixed(v, 1) + " " + units[i]
	}
	return whole(v) + " " + units[i]
}

// significant writes a value that is not negative with three digits.
func significant(v float64) string {
	switch {
	case v < 9.995:
		return fixed(v, 2)
	case v < 99.95:
		return fixed(v, 1)
	}
	return whole(v)
}

func plain(v float64) string {
	a := math.Abs(v)
	switch {
	case v == math.Trunc(v) && a < 1e15:
		return whole(v)
	case a >= 1e15 || a < 1e-4:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a < 1:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case v < 0:
		return negative(significant(-v))
	}
	return significant(v)
}

// twoParts writes n, counted in the small unit, as so many large and small
// units.
func twoParts(n float64, small int64, large, little string) string {
	if n > 1e15 {
		return strconv.FormatFloat(n/float64(small), 'g', 4, 64) + large
	}
	i := int64(n)
	rest := strconv.FormatInt(i%small, 10)
	if len(rest) < 2 {
		rest = "0" + rest
	}
	return strconv.FormatInt(i/small, 10) + large + rest + little
}

func fixed(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if zero := strconv.FormatFloat(0, 'f', decimals, 64); s == "-"+zero {
		return zero
	}
	return s
}

func whole(v float64) string { return fixed(v, 0) }

// negative puts a minus before what is not zero.
func negative(s string) string {
	for _, r := range s {
		if r >= '1' && r <= '9' || r == '∞' {
			return "-" + s
		}
	}
	return s
}
