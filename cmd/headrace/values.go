package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace"
	"headrace/policy"
)

// format is the value of --format.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
)

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "table|json" }

func (f *format) Set(s string) error {
	if !slices.Contains([]format{formatTable, formatJSON}, format(s)) {
		return fmt.Errorf("want table or json")
	}
	*f = format(s)
	return nil
}

// priority is a flag for a headrace.Priority.
type priority headrace.Priority

func (p *priority) String() string { return headrace.Priority(*p).String() }
func (p *priority) Type() string   { return "PRIORITY" }

func (p *priority) Set(s string) error {
	v, err := headrace.ParsePriority(s)
	if err != nil {
		return fmt.Errorf("want free, low, normal, high, production or a number from 0 to %d", headrace.MaxPriority)
	}
	*p = priority(v)
	return nil
}

// size is a flag for a number of bytes, with the suffixes of the coreutils:
// K, M, G, T and KiB, ... are powers of 1024, kB, MB, ... of 1000.
type size int64

func (n *size) Type() string { return "SIZE" }

func (n *size) String() string {
	if *n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

func (n *size) Set(s string) error {
	v, err := parseSize(s)
	if err != nil {
		return err
	}
	*n = size(v)
	return nil
}

func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGtTiIbB")
	suffix := strings.ToLower(s[len(digits):])
	v, err := strconv.ParseFloat(digits, 64)
	factor, known := sizeFactor(suffix)
	if err != nil || !known || math.IsNaN(v) || v < 0 || strings.ContainsAny(digits, "xXpP_") {
		return 0, fmt.Errorf("want a size such as 512M, 1.5G or 2GB")
	}
	if v *= factor; v >= math.MaxInt64 {
		return 0, fmt.Errorf("too large")
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

// span is a flag for a duration: 10s, 1m30s, or a plain number of seconds.
type span time.Duration

func (d *span) Type() string { return "DURATION" }

func (d *span) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *span) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		v, err = time.ParseDuration(s + "s")
	}
	if err != nil || v < 0 {
		return fmt.Errorf("want a duration such as 10s or 1m30s")
	}
	*d = span(v)
	return nil
}

func (d span) seconds() float64 { return time.Duration(d).Seconds() }

// rule is a flag for a duration of which 0 switches a rule of the policy off.
type rule time.Duration

func (r *rule) Type() string { return "DURATION" }

func (r *rule) String() string {
	if *r == 0 {
		return ""
	}
	return time.Duration(*r).String()
}

func (r *rule) Set(s string) error {
	var d span
	if err := d.Set(s); err != nil {
		return err
	}
	*r = rule(d)
	if d == 0 {
		*r = rule(policy.None)
	}
	return nil
}

// level is a flag for a slog.Level; its zero value is info.
type level slog.Level

func (l *level) Type() string   { return "LEVEL" }
func (l *level) String() string { return strings.ToLower(slog.Level(*l).String()) }

func (l *level) Set(s string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	v, known := levels[s]
	if !known {
		return errors.New("want debug, info, warn or error")
	}
	*l = level(v)
	return nil
}

// slots is a flag for a number of CPUs, which may be a fraction.
type slots float64

func (c *slots) Type() string   { return "N" }
func (c *slots) String() string { return strconv.FormatFloat(float64(*c), 'g', -1, 64) }

func (c *slots) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1e6 {
		return fmt.Errorf("want a number of CPUs above 0, such as 1 or 0.5")
	}
	*c = slots(v)
	return nil
}

func completeValues(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}
