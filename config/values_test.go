package config

import (
	"math"
	"testing"
)

func TestSizes(t *testing.T) {
	good := map[string]int64{
		"0": 0, "1": 1, "1024": 1024, "512M": 512 << 20, "1.5G": 3 << 29, "2GB": 2e9, "2GiB": 2 << 30,
		"10k": 10240, "10kB": 10000, "1T": 1 << 40, "7B": 7,
	}
	for text, want := range good {
		if got, err := Size(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "G", "-1", "-1G", "1GG", "1X", "1 G", "NaN", "Inf", "inf", "0x10", "1_000", "1e30", "9999999999T", "1iB", "1bib", "--", "1i"} {
		if got, err := Size(text); err == nil {
			t.Errorf("%q: accepted as %d", text, got)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"1", "1.5G", "2GiB", "nan", "1e18T", "kkkk"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Size(s); err == nil && (n < 0 || n == math.MaxInt64) {
			t.Errorf("%q: %d", s, n)
		}
	})
}
