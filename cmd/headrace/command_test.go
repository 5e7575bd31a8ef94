package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func everyCommand(t *testing.T, do func(*cobra.Command)) {
	t.Helper()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		do(c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&app{format: formatTable, in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

func TestEveryCommandHasHelp(t *testing.T) {
	count := 0
	everyCommand(t, func(c *cobra.Command) {
		count++
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: no short help or no example", c.CommandPath())
		}
		if c.Args == nil {
			t.Errorf("%s: arguments are not checked", c.CommandPath())
		}
	})
	if count < 15 {
		t.Errorf("only %d commands", count)
	}
}

func TestSizes(t *testing.T) {
	good := map[string]int64{
		"0": 0, "1": 1, "1024": 1024, "512M": 512 << 20, "1.5G": 3 << 29, "2GB": 2e9, "2GiB": 2 << 30,
		"10k": 10240, "10kB": 10000, "1T": 1 << 40, "7B": 7,
	}
	for text, want := range good {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "G", "-1", "-1G", "1GG", "1X", "1 G", "NaN", "Inf", "inf", "0x10", "1_000", "1e30", "9999999999T", "1iB", "1bib", "--", "1i"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: accepted as %d", text, got)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"1", "1.5G", "2GiB", "nan", "1e18T", "kkkk"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseSize(s); err == nil && (n < 0 || n == math.MaxInt64) {
			t.Errorf("%q: %d", s, n)
		}
	})
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]float64{"10": 10, "1.5": 1.5, "1m30s": 90, "0": 0, "250ms": 0.25} {
		var d span
		if err := d.Set(text); err != nil || d.seconds() != want {
			t.Errorf("%q: %v, %v, want %v s", text, d.seconds(), err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "soon", "1e400", "99999999999h"} {
		var d span
		if err := d.Set(text); err == nil {
			t.Errorf("%q: accepted as %v s", text, d.seconds())
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\tc":     "a; b c",
		"\x1b[2Jx":    "\uFFFD[2Jx",
		"caf\u00e9\n": "caf\u00e9",
		"\u009b1m":    "\uFFFD1m",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestWhatTheProtocolCannotCarry(t *testing.T) {
	t.Setenv("HR_BAD", "\xff")
	t.Setenv("HR_GOOD", "1")
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }

	req, err := (&runFlags{}).request([]string{"true"}, say)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "HR_BAD") {
		t.Errorf("said %q about the variable that is left out", said)
	}
	if !slices.Contains(req.Env, "HR_GOOD=1") {
		t.Error("a good variable is missing")
	}
	if slices.ContainsFunc(req.Env, func(e string) bool { return strings.HasPrefix(e, "HR_BAD=") }) {
		t.Error("the bad variable is there")
	}
	for name, f := range map[string]*runFlags{
		"name": {name: "\xff"}, "env": {env: []string{"HR_X=\xff"}}, "env from here": {env: []string{"HR_BAD"}},
	} {
		_, err := f.request([]string{"true"}, say)
		if code, _ := outcome(err); code != exitUsage {
			t.Errorf("%s: %v, want wrong usage", name, err)
		}
	}
	if _, err := (&runFlags{}).request([]string{"echo", "\xff"}, say); err == nil {
		t.Error("an argument that cannot be sent was accepted")
	}
}
