package slurm

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"headrace/trace/workload"
)

// maxBytes is the most memory of a task, 1 EiB.
const maxBytes = 1 << 60

// parseTime returns a time since 1970, and whether there is one.
func parseTime(s string) (time.Duration, bool, error) {
	switch s {
	case "", "Unknown", "None", "N/A":
		return 0, false, nil
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil && v >= 0 && v <= int64(workload.MaxTime/time.Second) {
		return time.Duration(v) * time.Second, true, nil // SLURM_TIME_FORMAT=%s
	}
	t, err := time.Parse("2006-01-02T15:04:05", s)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0, false, errors.New("want a time such as 2026-01-02T15:04:05")
	}
	return time.Duration(t.UnixNano()), true, nil
}

// parseElapsed returns what is written as [DAYS-[HOURS:]]MINUTES:SECONDS[.PART].
func parseElapsed(s string) (time.Duration, error) {
	wrong := errors.New("want a time such as 1-02:03:04")
	days, rest, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, rest = "0", s
	}
	parts := strings.Split(rest, ":")
	if len(parts) < 2 || len(parts) > 3 || hasDays && len(parts) != 3 {
		return 0, wrong
	}
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	total := 0.0
	for i, p := range append([]string{days}, parts...) {
		v, err := strconv.ParseFloat(p, 64)
		if err != nil || !(v >= 0 && v < 1e5) || strings.Trim(p, "0123456789.") != "" {
			return 0, wrong
		}
		total = total*[]float64{0, 24, 60, 60}[i] + v
	}
	return time.Duration(math.Round(total * float64(time.Second))), nil
}

// size is an amount of memory: of 'c' each processor, 'n' each node, 0 the whole job.
type size struct {
	bytes float64
	of    byte
}

// parseSize reads a size such as 4000Mc, 4Gn or 16G; without a letter it is in units.
func parseSize(s string, unit float64) (size, error) {
	wrong := errors.New("want a size such as 4000M, 4Gn or 16G")
	var z size
	if rest, ok := strings.CutSuffix(s, "c"); ok {
		s, z.of = rest, 'c'
	} else if rest, ok := strings.CutSuffix(s, "n"); ok {
		s, z.of = rest, 'n'
	}
	if s == "" {
		return z, wrong
	}
	if i := strings.IndexByte("KMGTP", s[len(s)-1]); i >= 0 {
		unit = math.Pow(1024, float64(i+1))
		s = s[:len(s)-1]
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v < 1e18) || strings.Trim(s, "0123456789.") != "" {
		return z, wrong
	}
	z.bytes = v * unit
	return z, nil
}

// parseCount reads a whole number, which sacct may shorten (2K).
func parseCount(s string) (float64, error) {
	z, err := parseSize(s, 1)
	switch {
	case err != nil || z.of != 0:
		return 0, errors.New("want a whole number")
	case strings.HasSuffix(s, "K"):
		return z.bytes / 1024 * 1000, nil
	}
	return math.Floor(z.bytes), nil
}

// counted is so much of a resource.
type counted struct {
	name string
	n    float64
}

// parseTRES returns the memory and the counted resources of a list such as
// cpu=4,mem=16G,gres/gpu=2,gres/gpu:a100=2. A resource that is there by kinds and as a
// whole counts once.
func parseTRES(s string) (memory float64, list []counted, err error) {
	if s == "" {
		return 0, nil, nil
	}
	kinds := map[string]float64{}
	whole := map[string]bool{}
	var order []string
	for item := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return 0, nil, errors.New("want a list such as cpu=4,mem=16G,gres/gpu=2")
		}
		resource, isCounted := strings.CutPrefix(name, "gres/")
		if !isCounted {
			resource, isCounted = strings.CutPrefix(name, "license/")
		}
		if name != "mem" && !isCounted {
			continue
		}
		v, err := parseSize(value, 1)
		if err != nil {
			return 0, nil, errors.New(name + " has no number")
		}
		if name == "mem" {
			if memory = v.bytes; !strings.ContainsAny(value, "KMGTP") {
				memory *= 1 << 20
			}
			continue
		}
		resource, _, kind := strings.Cut(resource, ":")
		if resource == "" || resource != strings.ToValidUTF8(resource, "") || strings.ContainsFunc(resource, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			continue
		}
		if _, known := kinds[resource]; !known {
			order = append(order, resource)
		}
		switch {
		case !kind:
			kinds[resource], whole[resource] = v.bytes, true
		case !whole[resource]:
			kinds[resource] += v.bytes
		}
	}
	for _, name := range order {
		list = append(list, counted{name, kinds[name]})
	}
	return memory, list, nil
}
