package lab

import (
	"fmt"
	"io"
	"os"
	"slices"

	"headrace/cli"
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

func (o *Output) complete() {
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
}

// PreemptOptions says which experiments to run and how large. The zero value is
// the whole of it, in below half an hour on two processors.
type PreemptOptions struct {
	Output

	// Quick takes the smallest sizes, shortest tasks and fewest points that still
	// go through everything: minutes, not measurements.
	Quick bool
	// Only names the experiments: a, b, c, d. Empty: all.
	Only []string
	// Repeats is how often every policy runs at every point; 0: 5 (2 with Quick).
	Repeats int
	// Size is the memory of a task with large dirty memory, in bytes; the other
	// experiments take parts of it. 0: 512 MiB, or less if the machine has less
	// than 8 GiB.
	Size int64
	// Seed orders the policies and fills the memories; 0: 1.
	Seed uint64

	// Dir is where state directories, the swap file and the checkpoints on disk
	// lie; empty: os.TempDir, or /var/tmp if that is in memory.
	Dir string
	Programs
	// SoloFlags are added to the command line of every daemon.
	SoloFlags []string

	// HTML, JSON and Markdown are files to write; empty: none. If all three are
	// empty and so is From, HTML and JSON are out/preempt.html and .json.
	HTML, JSON, Markdown string
	// Media is a file to write with what the simulator needs to know of storage and
	// mechanisms (sim.Measurements); empty: none. It takes experiments a and c.
	Media string
	// From is a file written by JSON: nothing is run, and the report is made from
	// it again.
	From string
	// Command is the command line to be shown in the report; empty: os.Args.
	Command []string
}

// Experiments are the names that PreemptOptions.Only takes.
var Experiments = []string{"a", "b", "c", "d"}

func (o *PreemptOptions) complete() error {
	o.Output.complete()
	if o.Repeats == 0 {
		o.Repeats = 5
		if o.Quick {
			o.Repeats = 2
		}
	}
	if o.Repeats < 1 || o.Repeats > 1000 {
		return fmt.Errorf("%d repeats: want 1 to 1000", o.Repeats)
	}
	for _, e := range o.Only {
		if !slices.Contains(Experiments, e) {
			return fmt.Errorf("experiment %q: want a, b, c or d", e)
		}
	}
	if len(o.Only) == 0 {
		o.Only = Experiments
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Size != 0 && o.Size < 16<<20 {
		return fmt.Errorf("size %d: want at least 16M", o.Size)
	}
	if len(o.Command) == 0 {
		o.Command = os.Args
	}
	if o.HTML+o.JSON+o.Markdown+o.From == "" {
		o.HTML, o.JSON = "out/preempt.html", "out/preempt.json"
	}
	completePlace(&o.Dir)
	return nil
}

// DemoOptions says how large the demonstration is.
type DemoOptions struct {
	Output

	// Size is how much text the low-priority job parses, in bytes; 0: 2 GB, or
	// less when memory or disk is short.
	Size int64
	// Text is a directory tree to take the text from; empty: Go's source tree,
	// else what /usr/share and /usr/include hold.
	Text string

	// Dir, Programs and SoloFlags are as in PreemptOptions.
	Dir string
	Programs
	SoloFlags []string
	// HTML is the page to write; empty: out/demo.html.
	HTML string
}

func (o *DemoOptions) complete() error {
	o.Output.complete()
	if o.Size != 0 && o.Size < 1<<20 {
		return fmt.Errorf("size %d: want at least 1M of text", o.Size)
	}
	if o.HTML == "" {
		o.HTML = "out/demo.html"
	}
	completePlace(&o.Dir)
	return nil
}

func completePlace(dir *string) {
	if *dir == "" {
		*dir = os.TempDir()
		if onTmpfs(*dir) {
			*dir = "/var/tmp"
		}
	}
}

// Programs are what experiments start.
type Programs struct {
	// Headrace is the daemon, with headrace-shim beside it; empty: beside this program,
	// else on PATH.
	Headrace string
	// Lab is headrace-lab, for the workloads and the modelled disk: everybody whose
	// tasks they are has to be able to run it. Empty: this process's own.
	Lab string
}

// find looks for those that were not given.
func (p *Programs) find() (err error) {
	if p.Headrace == "" {
		if p.Headrace, err = cli.FindProgram("headrace"); err != nil {
			return err
		}
	}
	if p.Lab == "" {
		if p.Lab, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	return nil
}
