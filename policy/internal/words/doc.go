// Package words says numbers as a person reads them, in the reasons of decisions.
package words

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Size writes a number of bytes, rounded up to whole units below a GiB.
func Size(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	if n > 0 && n < 1<<20 {
		return fmt.Sprintf("%.0f KiB", math.Ceil(float64(n)/(1<<10)))
	}
	return fmt.Sprintf("%.0f MiB", math.Ceil(float64(n)/(1<<20)))
}

// Seconds turns seconds into a duration, cut to what one can hold.
func Seconds(s float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second))
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, most) * float64(time.Second))
}

// Short writes seconds, rounded.
func Short(seconds float64) string {
	d := Seconds(seconds)
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// Percent writes a share; one that is not whole is never said to be.
func Percent(share float64) string { return strconv.Itoa(int(math.Floor(share*100))) + " %" }
