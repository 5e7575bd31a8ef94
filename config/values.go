package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size reads a number of bytes, with the suffixes of the coreutils: K, M, G, T and
// KiB, ... are powers of 1024, kB, MB, ... of 1000.
func Size(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGtTiIbB")
	suffix := strings.ToLower(s[len(digits):])
	v, err := strconv.ParseFloat(digits, 64)
	factor, known := sizeFactor(suffix)
	if err != nil || !known || math.IsNaN(v) || v < 0 || strings.ContainsAny(digits, "xXpP_") {
		return 0, errors.New("want a size such as 512M, 1.5G or 2GB")
	}
	if v *= factor; v >= math.MaxInt64 {
		return 0, errors.New("too large")
	}
	return int64(v), nil
}

func sizeFactor(suffix string) (factor float64, known bool) {
	if suffix == "" || suffix == "b" {
		return 1, true
	}
	power := strings.IndexByte("kmgt", suffix[0]) + 1
	if power == 0 {
		return 0, false
	}
	switch suffix[1:] {
	case "", "ib":
		return math.Pow(1024, float64(power)), true
	case "b":
		return math.Pow(1000, float64(power)), true
	}
	return 0, false
}

// Bool reads yes, no, on, off, true, false, 1 and 0.
func Bool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "yes", "on", "true", "1":
		return true, nil
	case "no", "off", "false", "0":
		return false, nil
	}
	return false, errors.New("want yes or no")
}
