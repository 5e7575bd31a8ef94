package work

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"headrace/config"
)

// Task runs one workload in this process and writes its answer to out: args is its kind (parse, dirty,
// kmeans, touch, disk, map, consume) and its flags. The last line is
// "KIND SUM", where SUM depends on every byte the workload has computed and is the
// same for the same flags. An error means that the workload found its memory or
// its input other than it must be, or could not run.
func Task(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("bench-task: no kind given: want %s", strings.Join(taskKinds(), ", "))
	}
	for _, k := range kinds {
		if k.name == args[0] {
			return runTask(k, args[1:], out)
		}
	}
	return fmt.Errorf("bench-task %q: no such kind: want %s", args[0], strings.Join(taskKinds(), ", "))
}

// work is a workload that is ready to run.
type work interface {
	// run does all of it and returns the checksum of its answer.
	run(m *meter) (uint64, error)
}

type kind struct {
	name string
	// new defines the flags and returns the workload that they fill in.
	new func(fs *flag.FlagSet) work
}

var kinds = []kind{
	{"parse", newParse},
	{"dirty", newDirty},
	{"kmeans", newKmeans},
	{"touch", newTouch},
	{"disk", newDisk},
	{"map", newMapper},
	{"consume", newConsume},
}

func taskKinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func runTask(k kind, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("bench-task "+k.name, flag.ContinueOnError)
	var marks []mark
	fs.Func("mark", "SHARE:FILE: make FILE when this share is done", func(s string) error {
		mk, err := parseMark(s)
		marks = append(marks, mk)
		return err
	})
	var book account
	silent := fs.Bool("no-progress", false, "keep the share that is done from the daemon")
	fs.StringVar(&book.path, "account", "", "FILE: write down the share that is done and the processor time so far")
	w := k.new(fs)
	fs.SetOutput(io.Discard)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(out)
			fs.Usage()
			return err
		}
		return fmt.Errorf("bench-task %s: %w", k.name, err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("bench-task %s: unexpected %q", k.name, fs.Arg(0))
	}
	m := newMeter(marks)
	m.account = book
	if *silent {
		m.path = ""
	}
	sum, err := w.run(m)
	if err == nil {
		err = m.close()
	}
	if err != nil {
		return fmt.Errorf("bench-task %s: %w", k.name, err)
	}
	_, err = fmt.Fprintln(out, Answer(k.name, sum))
	return err
}

// Answer returns the last line of a workload's output.
func Answer(kind string, sum uint64) string { return fmt.Sprintf("%s %016x", kind, sum) }

// LastOf returns the last line of an output: the answer of a workload.
func LastOf(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// A Size is a flag for bytes, as config.Size reads them.
type Size int64

// String returns the number with the largest unit that divides it.
func (s *Size) String() string {
	v := int64(*s)
	for _, u := range []string{"", "K", "M"} {
		if v == 0 || v%1024 != 0 {
			return strconv.FormatInt(v, 10) + u
		}
		v /= 1024
	}
	return strconv.FormatInt(v, 10) + "G"
}

// Set reads it.
func (s *Size) Set(text string) error {
	v, err := config.Size(text)
	*s = Size(v)
	return err
}
