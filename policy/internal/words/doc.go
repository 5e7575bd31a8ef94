// Package words says numbers as a person reads them, in the reasons of decisions.
package words

import (
	"fmt"
	"math"
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
