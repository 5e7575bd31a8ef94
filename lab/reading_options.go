package lab

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"headrace/report"
)

// RunOptions are what the experiments on reading have in common. The zero value
// is the whole of an experiment.
type RunOptions struct {
	Output

	// Quick takes the smallest sizes and fewest points that still go through
	// everything: seconds, not measurements.
	Quick bool
	// Repeats is how often everything runs; 0: 3 (1 with Quick).
	Repeats int
	// Seed orders what is compared; 0: 1.
	Seed uint64

	// Dir is where state directories and data lie; empty: os.TempDir, or /var/tmp
	// if that is in memory.
	Dir string
	Programs
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

// complete fills in the defaults.
func (o *RunOptions) complete(experiment string) error {
	o.Output.complete()
	if o.Repeats == 0 {
		o.Repeats = 3
		if o.Quick {
			o.Repeats = 1
		}
	}
	if o.Repeats < 1 || o.Repeats > 1000 {
		return fmt.Errorf("%d repeats: want 1 to 1000", o.Repeats)
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if len(o.Command) == 0 {
		o.Command = os.Args
	}
	if o.HTML+o.JSON+o.Markdown+o.From == "" {
		o.HTML, o.JSON = "out/"+experiment+".html", "out/"+experiment+".json"
	}
	completePlace(&o.Dir)
	return nil
}

// circumstances are those of a run that begins now.
func (o *RunOptions) circumstances(experiment string) (Circumstances, error) {
	machine, err := thisMachine()
	return Circumstances{Version: resultsVersion, Experiment: experiment, Command: strings.Join(o.Command, " "),
		Started: time.Now(), Machine: machine, Seed: o.Seed, Repeats: o.Repeats}, err
}

// harness is one for an experiment on reading. Whoever uses it closes it (with).
func (o *RunOptions) harness(p *report.Progress) *harness {
	common := &PreemptOptions{Output: o.Output, Repeats: o.Repeats, Seed: o.Seed, Dir: o.Dir, Programs: o.Programs, SoloFlags: o.SoloFlags}
	return &harness{o: common, res: &Results{}, progress: p, todo: 1}
}

// progress shows how far the experiment is.
func (o *RunOptions) progress() *report.Progress {
	p := report.NewProgress(o.Stderr, o.Live)
	p.Terminal = o.Terminal
	p.Every = 30 * time.Second
	return p
}

// needsRoot says why an experiment cannot be run by an ordinary user.
func needsRoot(why string) error {
	if os.Geteuid() != 0 {
		return errors.New("not root: " + why + "; run it with sudo")
	}
	return nil
}
