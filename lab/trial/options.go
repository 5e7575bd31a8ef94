package trial

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"headrace/lab/rig"
	"headrace/report"
)

// Output is where a run talks to people. The zero value writes to the standard
// streams without colours.
type Output struct {
	// Stdout gets results, Stderr progress; nil: the process's own.
	Stdout, Stderr io.Writer
	// Terminal says what Stdout can show; Live that Stderr is a terminal, on which
	// lines may be overwritten.
	Terminal report.Terminal
	Live     bool
}

// Complete fills in the standard streams.
func (o *Output) Complete() {
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
}

// Options are what all experiments have in common. The zero value is the whole of
// an experiment.
type Options struct {
	Output

	// Quick takes the smallest sizes and fewest points that still go through
	// everything: seconds, not measurements.
	Quick bool
	// Repeats is how often everything runs; 0: by experiment.
	Repeats int
	// NoProgress keeps tasks from telling how much of them is done, as most programs do.
	NoProgress bool
	// Seed orders what is compared; 0: 1.
	Seed uint64

	// Dir is where state directories and data lie; empty: os.TempDir, or /var/tmp
	// if that is in memory.
	Dir string
	rig.Programs
	// SoloFlags are added to the command line of every daemon.
	SoloFlags []string

	// HTML, JSON and Markdown are files to write; empty: none. If all three are
	// empty and so is From, HTML and JSON are out/EXPERIMENT.html and .json.
	HTML, JSON, Markdown string
	// From is a file written by JSON: nothing is run, and the report is made from
	// it again.
	From string
	// Command is the command line to be shown in the report; empty: os.Args.
	Command []string
}

// Complete fills in the defaults; repeats and quick are those of Repeats.
func (o *Options) Complete(experiment string, repeats, quick int) error {
	o.Output.Complete()
	o.Repeats = cmp.Or(o.Repeats, Sized(o.Quick, repeats, quick))
	if o.Repeats < 1 || o.Repeats > 1000 {
		return fmt.Errorf("%d repeats: want 1 to 1000", o.Repeats)
	}
	o.Seed = cmp.Or(o.Seed, 1)
	if len(o.Command) == 0 {
		o.Command = os.Args
	}
	if o.HTML+o.JSON+o.Markdown+o.From == "" {
		o.HTML, o.JSON = "out/"+experiment+".html", "out/"+experiment+".json"
	}
	rig.DefaultDir(&o.Dir)
	return nil
}

// Sized returns the value of a whole run, or that of a quick one.
func Sized[T any](quick bool, whole, small T) T {
	if quick {
		return small
	}
	return whole
}

// KnownNames returns those of given, or all that are known when none is given.
func KnownNames(what string, given, known []string) ([]string, error) {
	for _, name := range given {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s %q: want %s", what, name, strings.Join(known, ", "))
		}
	}
	if len(given) == 0 {
		return known, nil
	}
	return given, nil
}

// Bench returns one for an experiment that tells its progress to p. Whoever uses it
// closes it (With).
func (o *Options) Bench(p *report.Progress, c *Circumstances) *rig.Bench {
	return &rig.Bench{Dir: o.Dir, Programs: o.Programs, Flags: o.SoloFlags, NoProgress: o.NoProgress, Seed: o.Seed, Skip: c.Skip, Progress: p, Todo: 1}
}
