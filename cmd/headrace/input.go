package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/config"
	"headrace/fileset"
	"headrace/wire"
)

// inputFlags say what a task reads and how.
type inputFlags struct {
	paths     []string
	split     split
	delimiter delimiter
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
		Split: f.split.rule, Delimiter: slices.Concat(f.split.delimiter, f.delimiter), RecordSize: f.split.record,
		Tasks: f.tasks.number(), Buffer: int64(f.buffer), NoWarm: f.noWarm,
	}
	var err error
	in.Paths, err = absolutePaths(f.paths)
	return in, err
}

func (f *inputFlags) check(argv []string, stdin string) error {
	rule := f.split.rule
	if len(f.paths) == 0 {
		return f.needless()
	}
	switch {
	case f.delimiter != nil && rule != wire.Split_SPLIT_LINES:
		return cli.UsageErrorf("--delimiter ends the records of --split lines; the split is %s", f.split.String())
	case f.delimiter != nil && f.split.delimiter != nil:
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
		{f.split.rule != wire.Split_SPLIT_NONE, "--split"}, {f.delimiter != nil, "--delimiter"}, {f.tasks.number() > 1, "--tasks"},
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
	switch f.split.rule {
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

// split is a flag for how an input is dealt.
type split struct {
	rule      wire.Split
	delimiter []byte
	record    int64
}

func (s *split) Type() string { return "RULE" }

func (s *split) String() string {
	name := strings.ToLower(strings.TrimPrefix(s.rule.String(), "SPLIT_"))
	switch {
	case s.delimiter != nil:
		return name + ":" + escapeBytes(s.delimiter)
	case s.rule == wire.Split_SPLIT_FIXED:
		return name + ":" + strconv.FormatInt(s.record, 10)
	}
	return name
}

func (s *split) Set(text string) error {
	name, arg, has := strings.Cut(text, ":")
	rule, known := wire.Split_value["SPLIT_"+strings.ToUpper(name)]
	if !known || name != strings.ToLower(name) {
		return fmt.Errorf("want none, lines, lines:DELIM, fixed:SIZE, raw or files")
	}
	next := split{rule: wire.Split(rule)}
	var err error
	switch next.rule {
	case wire.Split_SPLIT_LINES:
		if has {
			next.delimiter, err = parseBytes(arg)
		}
	case wire.Split_SPLIT_FIXED:
		next.record, err = config.Size(arg)
		if err != nil || next.record == 0 {
			err = fmt.Errorf("want fixed:SIZE with the bytes of a record, 1 or more")
		}
	default:
		if has {
			err = fmt.Errorf("%s takes nothing behind it", name)
		}
	}
	if err == nil {
		*s = next
	}
	return err
}

// delimiter is a flag for bytes; nil when it is not given.
type delimiter []byte

func (d *delimiter) Type() string   { return "DELIM" }
func (d *delimiter) String() string { return escapeBytes(*d) }

func (d *delimiter) Set(s string) error {
	b, err := parseBytes(s)
	*d = b
	return err
}

var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '0': 0, '\\': '\\'}

// parseBytes reads one byte or more with the escapes that a shell cannot pass.
func parseBytes(s string) ([]byte, error) {
	if s == "" {
		return nil, fmt.Errorf(`the delimiter is empty: give one byte or more, such as ; or \0`)
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		rest := s[i+1:]
		if rest == "" {
			return nil, fmt.Errorf(`a backslash ends the delimiter: write \\ for one`)
		}
		if c, known := escapes[rest[0]]; known {
			b = append(b, c)
			i++
			continue
		}
		if len(rest) >= 3 && rest[0] == 'x' {
			if v, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
				b = append(b, byte(v))
				i += 3
				continue
			}
		}
		return nil, fmt.Errorf(`\%c is not known: want \n, \t, \r, \0, \\ or \xHH`, []rune(rest)[0])
	}
	return b, nil
}

// escapeBytes returns what parseBytes reads as b.
func escapeBytes(b []byte) string {
	var s bytes.Buffer
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case b[i] == '\\':
			s.WriteString(`\\`)
		case b[i] == '\n':
			s.WriteString(`\n`)
		case b[i] == '\t':
			s.WriteString(`\t`)
		case r == utf8.RuneError && n == 1, !strconv.IsPrint(r):
			for _, c := range b[i : i+n] {
				fmt.Fprintf(&s, `\x%02x`, c)
			}
		default:
			s.WriteRune(r)
		}
		i += n
	}
	return s.String()
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
