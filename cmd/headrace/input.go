package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/split"
	"headrace/fileset"
	"headrace/wire"
)

// inputFlags say what a task reads and how.
type inputFlags struct {
	paths     []string
	split     split.Flag
	delimiter split.Delimiter
	tasks     count
	buffer    cli.Size
	noWarm    bool
}

func (f *inputFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "input", nil, "a `PATH` that it reads: a file, a directory, or a pattern; may be repeated")
	flags.Var(&f.split, "split", "how --input is dealt to the tasks: none, lines, lines:DELIM, fixed:SIZE, raw, files")
	flags.Var(&f.delimiter, "delimiter", `what ends a record of --split lines; \n, \0, \t, \xHH are understood (default \n)`)
	flags.Var(&f.tasks, "tasks", "how many tasks share --input")
	flags.Var(&f.buffer, "buffer", "the shared memory that --input is read into (default: the daemon's)")
	flags.BoolVar(&f.noWarm, "no-warm", false, "do not read --input into memory while the task waits for its turn")
	cli.CompleteValues(cmd, "split", "none", "lines", "fixed:", "raw", "files")
}

// message returns nil when there is no input.
func (f *inputFlags) message(argv []string, stdin string) (*wire.Input, error) {
	if err := f.check(argv, stdin); err != nil || len(f.paths) == 0 {
		return nil, err
	}
	in := &wire.Input{
		Split: f.split.Rule, Delimiter: slices.Concat(f.split.Delimiter, f.delimiter), RecordSize: f.split.Record,
		Tasks: f.tasks.number(), Buffer: int64(f.buffer), NoWarm: f.noWarm,
	}
	var err error
	in.Paths, err = absolutePaths(f.paths)
	return in, err
}

func (f *inputFlags) check(argv []string, stdin string) error {
	rule := f.split.Rule
	if len(f.paths) == 0 {
		return f.needless()
	}
	switch {
	case f.delimiter != nil && rule != wire.Split_SPLIT_LINES:
		return cli.UsageErrorf("--delimiter ends the records of --split lines; the split is %s", f.split.String())
	case f.delimiter != nil && f.split.Delimiter != nil:
		return cli.UsageErrorf("the delimiter is given twice: with --split %s and with --delimiter", f.split.String())
	case rule == wire.Split_SPLIT_NONE && f.tasks.number() > 1:
		return cli.UsageErrorf("--tasks %d: with --split none each of them would read everything; say how they share it, with --split lines for example", f.tasks)
	case rule == wire.Split_SPLIT_NONE && f.buffer > 0:
		return cli.UsageErrorf("--buffer: with --split none the command opens the files itself and there is no buffer")
	case rule != wire.Split_SPLIT_NONE && stdin != "":
		return cli.UsageErrorf("--stdin and --split %s: the command has one standard input; leave one of them out", f.split.String())
	}
	return f.checkBraces(argv)
}

// needless finds a flag that says something about an input that is not there.
func (f *inputFlags) needless() error {
	for _, given := range []struct {
		is   bool
		name string
	}{
		{f.split.Rule != wire.Split_SPLIT_NONE, "--split"}, {f.delimiter != nil, "--delimiter"}, {f.tasks.number() > 1, "--tasks"},
		{f.buffer > 0, "--buffer"}, {f.noWarm, "--no-warm"},
	} {
		if given.is {
			return cli.UsageErrorf("%s is about an input: name the files with --input", given.name)
		}
	}
	return nil
}

// checkBraces looks at {}: with --split files the path goes there. With records
// it may be meant for another program, such as xargs.
func (f *inputFlags) checkBraces(argv []string) error {
	const braces = "{}"
	switch f.split.Rule {
	case wire.Split_SPLIT_FILES:
		if !slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, braces) }) {
			return cli.UsageErrorf("--split files: the command has no {} where the path of a file would go")
		}
	case wire.Split_SPLIT_NONE:
		if slices.Contains(argv, braces) {
			return cli.UsageErrorf("{} becomes the path of a file only with --split files; without it the command opens the files itself")
		}
	}
	return nil
}

// absolutePaths returns paths and patterns as seen from here.
func absolutePaths(paths []string) ([]string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	all := make([]string, len(paths))
	for i, p := range paths {
		switch {
		case p == "":
			return nil, cli.UsageErrorf("a path is empty")
		case !utf8.ValidString(p):
			return nil, cli.UsageErrorf("%q is not UTF-8 and cannot be sent", p)
		}
		all[i] = fileset.Absolute(dir, p)
	}
	return all, nil
}

// count is a flag for a number of things that there is at least one of; its
// zero value is 1.
type count uint32

func (n *count) Type() string   { return "N" }
func (n *count) String() string { return strconv.FormatUint(uint64(n.number()), 10) }
func (n count) number() uint32  { return max(uint32(n), 1) }

func (n *count) Set(s string) error {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil || v == 0 || v > math.MaxInt32 {
		return fmt.Errorf("want a number, 1 or more")
	}
	*n = count(v)
	return nil
}
