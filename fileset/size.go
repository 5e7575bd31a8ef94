package fileset

import "math"

// AddSizes returns the sum of two sizes of files, in bytes, at most the greatest there
// is: those of files with holes may be anything.
func AddSizes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
