package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace"
	"headrace/policy"
)

// Priority is a flag for a headrace.Priority.
type Priority headrace.Priority

func (p *Priority) String() string { return headrace.Priority(*p).String() }

// Type returns what the help calls a value.
func (p *Priority) Type() string { return "PRIORITY" }

// Set reads a value.
func (p *Priority) Set(s string) error {
	v, err := headrace.ParsePriority(s)
	if err != nil {
		return fmt.Errorf("want free, low, normal, high, production or a number from 0 to %d", headrace.MaxPriority)
	}
	*p = Priority(v)
	return nil
}

// Span is a flag for a duration: 10s, 1m30s, or a plain number of seconds.
type Span time.Duration

// Type returns what the help calls a value.
func (d *Span) Type() string { return "DURATION" }

func (d *Span) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Set reads a value.
func (d *Span) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		v, err = time.ParseDuration(s + "s")
	}
	if err != nil || v < 0 {
		return fmt.Errorf("want a duration such as 10s or 1m30s")
	}
	*d = Span(v)
	return nil
}

// Seconds is the duration as a number.
func (d Span) Seconds() float64 { return time.Duration(d).Seconds() }

// Rule is a flag for a duration of which 0 switches a rule of the policy off.
type Rule time.Duration

// Type returns what the help calls a value.
func (r *Rule) Type() string { return "DURATION" }

func (r *Rule) String() string {
	switch *r {
	case 0:
		return ""
	case Rule(policy.None):
		return "0s"
	}
	return time.Duration(*r).String()
}

// Set reads a value.
func (r *Rule) Set(s string) error {
	var d Span
	if err := d.Set(s); err != nil {
		return err
	}
	*r = Rule(d)
	if d == 0 {
		*r = Rule(policy.None)
	}
	return nil
}

// Level is a flag for a slog.Level; its zero value is info.
type Level slog.Level

// Type returns what the help calls a value.
func (l *Level) Type() string { return "LEVEL" }

func (l *Level) String() string { return strings.ToLower(slog.Level(*l).String()) }

// Set reads a value.
func (l *Level) Set(s string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	v, known := levels[s]
	if !known {
		return errors.New("want debug, info, warn or error")
	}
	*l = Level(v)
	return nil
}

// CPUs is a flag for a number of CPUs, which may be a fraction.
type CPUs float64

// Type returns what the help calls a value.
func (c *CPUs) Type() string { return "N" }

func (c *CPUs) String() string { return strconv.FormatFloat(float64(*c), 'g', -1, 64) }

// Set reads a value.
func (c *CPUs) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1e6 {
		return fmt.Errorf("want a number of CPUs above 0, such as 1 or 0.5")
	}
	*c = CPUs(v)
	return nil
}

// CompleteLists completes a flag that takes several words with commas between
// them; those that are there are not offered again.
func CompleteLists(cmd *cobra.Command, flag string, values ...string) {
	complete := func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before, word := "", typed
		if i := strings.LastIndexByte(typed, ','); i >= 0 {
			before, word = typed[:i+1], typed[i+1:]
		}
		var found []cobra.Completion
		for _, v := range values {
			if strings.HasPrefix(v, word) && !slices.Contains(strings.Split(before, ","), v) {
				found = append(found, before+v)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

// Lines returns the values of a flag, with the lines of a file in place of @FILE.
func Lines(flag string, values []string) (lines []string, err error) {
	for _, v := range values {
		path, isFile := strings.CutPrefix(v, "@")
		if !isFile {
			lines = append(lines, v)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, UsageErrorf("--%s %s: %w", flag, v, err)
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	return lines, nil
}
