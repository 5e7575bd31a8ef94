package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/cli"
	"headrace/config"
	"headrace/policy"
)

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

// budget is a size that is more than nothing.
type budget cli.Size

func (n *budget) Type() string   { return (*cli.Size)(n).Type() }
func (n *budget) String() string { return (*cli.Size)(n).String() }

func (n *budget) Set(s string) error {
	v, err := config.Size(s)
	if err == nil && v == 0 {
		err = fmt.Errorf("want more than nothing; leave it out for the default")
	}
	if err == nil {
		*n = budget(v)
	}
	return err
}

// kept is a flag for how many things are kept, 1 or more; 0: not given.
type kept uint32

func (n *kept) Type() string { return "NUMBER" }

func (n *kept) String() string {
	if *n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*n), 10)
}

func (n *kept) Set(s string) error { return (*count)(n).Set(s) }

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
