package report

import (
	"math"
	"testing"
	"time"
	"unicode/utf8"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 999: "999 B", 1000: "1.0 kB", 1400000000: "1.4 GB", 14600000: "14.6 MB",
		99949: "99.9 kB", 99951: "100 kB", 999499: "999 kB", 999500: "1.0 MB", -1500: "-1.5 kB",
		math.MaxInt64: "9.2 EB", math.MinInt64: "-9.2 EB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCapacity(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 16 << 30: "16 GiB", 2 << 40: "2 TiB", 1536 << 30: "1536 GiB", 1 << 20: "1 MiB", 4096: "4 KiB", 16e9: "16.0 GB", 1000: "1.0 kB", 17e9 + 1: "17.0 GB", 1 << 62: Bytes(1 << 62)} {
		if got := Capacity(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0s", 350: "350ns", 12300: "12.3µs", 412 * time.Millisecond: "412ms",
		999499 * time.Microsecond: "999ms", 999500 * time.Microsecond: "1.00s",
		4120 * time.Millisecond: "4.12s", 9996 * time.Millisecond: "10.0s",
		21340 * time.Millisecond: "21.3s", 59949 * time.Millisecond: "59.9s", 59950 * time.Millisecond: "1m00s",
		3*time.Minute + 12*time.Second: "3m12s", 3*time.Minute + 2*time.Second: "3m02s",
		3599 * time.Second: "59m59s", 3599*time.Second + 500*time.Millisecond: "1h00m",
		2*time.Hour + 5*time.Minute + 29*time.Second: "2h05m", day - time.Second: "1d00h",
		3*day + 4*time.Hour: "3d04h", -192 * time.Second: "-3m12s", math.MinInt64: "-106752d00h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	cases := []struct {
		unit Unit
		v    float64
		want string
	}{
		{UnitPercent, 0.034, "3.4 %"}, {UnitPercent, 1, "100 %"}, {UnitPercent, 0.9996, "100 %"},
		{UnitPercent, -0.00001, "0.0 %"}, {UnitPercent, -0.015, "-1.5 %"},
		{UnitRatio, 1.034, "1.03×"}, {UnitRatio, 12.36, "12.4×"}, {UnitRatio, 130.2, "130×"}, {UnitRatio, -0.001, "0.00×"},
		{UnitBytesPerSecond, 250e6, "250 MB/s"}, {UnitTenths, 140.04, "140.0s"}, {UnitTenths, -0.01, "0.0s"},
		{UnitNone, 3, "3"}, {UnitNone, 0.125, "0.125"}, {UnitNone, -2.5, "-2.50"}, {UnitNone, 1e-9, "1e-09"}, {UnitNone, 1e20, "1e+20"},
		{"pages", 12, "12 pages"}, {UnitSeconds, 1e300, "1.157e+295d"},
		{UnitSeconds, nan, "–"}, {UnitBytes, inf, "∞"}, {UnitPercent, -inf, "-∞"}, {UnitRatio, nan, "–"}, {UnitTenths, inf, "∞"},
	}
	for _, c := range cases {
		if got := c.unit.Format(c.v); got != c.want {
			t.Errorf("%q.Format(%g) = %q, want %q", c.unit, c.v, got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	cases := []struct {
		axis   Axis
		lo, hi float64
		n      int
		want   string
	}{
		{Axis{Unit: UnitSeconds}, 0, 180, 6, "0 30s 1m 1m30s 2m 2m30s 3m "},
		{Axis{Unit: UnitSeconds}, 0, 7000, 4, "0 30m 1h 1h30m "},
		{Axis{Unit: UnitSeconds}, 0, 0.02, 4, "0 5ms 10ms 15ms 20ms "},
		{Axis{Unit: UnitSeconds}, 0, 0.000004, 4, "0 1µs 2µs 3µs 4µs "},
		{Axis{Unit: UnitBytes}, 0, 4.4e9, 5, "0 1 GB 2 GB 3 GB 4 GB "},
		{Axis{Unit: UnitPercent}, .1, .9, 5, "20 % 40 % 60 % 80 % "},
		{Axis{}, -3, 3, 6, "-3 -2 -1 0 1 2 3 "},
		{Axis{}, 0.1, 0.3, 2, "0.1 0.2 0.3 "},
		{Axis{Unit: UnitBytesPerSecond, Log: true}, 10e6, 3e9, 6, "10 MB/s 30 MB/s 100 MB/s 300 MB/s 1 GB/s 3 GB/s "},
		{Axis{Unit: UnitHours}, 0, 100000, 4, "0 12h 24h "},
		{Axis{Unit: UnitSeconds, Log: true}, 0.5, 100000, 4, "1s 10s 1m 10m 1h 10h 1d "},
		{Axis{Log: true}, 1, 20, 6, "1 2 5 10 20 "},
		{Axis{Log: true}, 1, 1e6, 6, "1 10 100 1000 10000 100000 1000000 "},
	}
	for _, c := range cases {
		got := ""
		for _, v := range c.axis.ticks(c.lo, c.hi, c.n) {
			got += c.axis.Unit.tick(v) + " "
		}
		if got != c.want {
			t.Errorf("%+v from %g to %g: %q, want %q", c.axis, c.lo, c.hi, got, c.want)
		}
	}
}

func FuzzFormat(f *testing.F) {
	for _, v := range []float64{0, 1, -1, 59.9499, 999.5, 1e18, 5e-324, math.MaxFloat64, math.NaN(), math.Inf(-1)} {
		f.Add(v, v/3)
	}
	units := []Unit{UnitNone, UnitSeconds, UnitTenths, UnitBytes, UnitBytesPerSecond, UnitPercent, UnitRatio, "x\x00"}
	f.Fuzz(func(t *testing.T, v, w float64) {
		for _, u := range units {
			for _, s := range []string{u.Format(v), u.tick(v)} {
				if s == "" || !utf8.ValidString(s) || s != clean(s) {
					t.Errorf("%q of %g: %q", u, v, s)
				}
			}
			for _, log := range []bool{false, true} {
				checkAxis(t, Axis{Unit: u, Log: log}, []float64{v, w})
			}
		}
	})
}

// checkAxis holds an axis to what the drawings rely on: a domain that is not a
// point and holds the data, and few ticks inside of it.
func checkAxis(t *testing.T, a Axis, values []float64) {
	for name, domain := range map[string]func() (float64, float64){
		"tight": func() (float64, float64) { return a.tight(values) },
		"roomy": func() (float64, float64) { return a.roomy(values, 5) },
	} {
		lo, hi := domain()
		if !(lo < hi) || !finite(lo) || !finite(hi) || a.Log && lo <= 0 {
			t.Fatalf("%+v %s of %g: %g to %g", a, name, values, lo, hi)
		}
		x := scale{min: lo, max: hi, log: a.Log, from: 0, to: 1000}
		for _, v := range values {
			if p := x.at(v); a.holds(v) && !(p > -1 && p < 1001) {
				t.Errorf("%+v %s: %g is placed at %g in %g to %g", a, name, v, p, lo, hi)
			}
		}
		ticks := a.ticks(lo, hi, 5)
		if len(ticks) > 25 {
			t.Errorf("%+v %s of %g: %d ticks", a, name, values, len(ticks))
		}
		for _, v := range ticks {
			if p := x.at(v); !(p > -1 && p < 1001) {
				t.Errorf("%+v %s: tick %g is placed at %g in %g to %g", a, name, v, p, lo, hi)
			}
		}
	}
}
