package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/filesystem"
	"headrace/doctor"
	"headrace/report"
	"headrace/wire"
)

func doctorVerb(a *app) *cobra.Command {
	var f soloFlags
	daemon := &cobra.Command{}
	f.define(daemon)
	defineBeside(daemon, new(filesystem.StartFlags))
	noSmoke := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine can do, what not, why, and how to get it",
		Long: `Doctor tries out what Headrace needs of this machine, as the user who calls it,
and says what is missing, why it matters and how to get it. It needs no daemon; one
that runs is asked which disks do not answer, and which tasks it has left alone. It
reads the settings as headrace solo does: which CRIU, and where checkpoints go. The
code is 1 when something is missing, 0 when there are only warnings. What could not
be found out is unknown.`,
		Example: `  headrace doctor
  sudo headrace doctor
  headrace doctor --format json | jq '.[] | select(.status != "ok")'`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := f.load(daemon.Flags()); err != nil {
				return err
			}
			o := doctor.Options{NoSmoke: noSmoke}
			stores, err := f.parseStores()
			if err != nil {
				return err
			}
			for _, store := range stores {
				o.Stores = append(o.Stores, store.Dir)
			}
			if f.criu != "" {
				if o.CRIU, err = filepath.Abs(f.criu); err != nil {
					return err
				}
			}
			if o.StateDir, err = wire.StateDirForDaemon(a.stateDir); err != nil {
				return err
			}
			d, err := a.daemon()
			if err != nil {
				return err
			}
			o.Ask = func(ctx context.Context) (*wire.NodeInfo, error) { return d.node.Info(ctx, &wire.InfoRequest{}) }
			findings := doctor.Check(cmd.Context(), o)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			return a.diagnosis(findings)
		},
	}
	cmd.Flags().AddFlag(daemon.Flags().Lookup("config"))
	cmd.Flags().BoolVar(&noSmoke, "no-smoke", false, "do not try to checkpoint and restore a process")
	return cmd
}

// diagnosis shows the findings; the error has the exit code.
func (a *app) diagnosis(findings []doctor.Finding) error {
	show := func() error { return writeFindings(a.Out, findings, cli.TerminalOf(a.Out)) }
	if a.Format == cli.FormatJSON {
		show = func() error { return cli.WriteJSON(a.Out, findings) }
	}
	if err := show(); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Status == doctor.Missing }) {
		return cli.Exit(cli.ExitFailure, nil)
	}
	return nil
}

var findingTones = map[doctor.Status]report.Tone{
	doctor.OK: report.Good, doctor.Unknown: report.Dim, doctor.Warning: report.Caution, doctor.Missing: report.Bad,
}

// writeFindings writes a line for each finding and then, for those that are not
// well, why it matters and what to do.
func writeFindings(w io.Writer, findings []doctor.Finding, term report.Terminal) error {
	t := report.Table{Columns: []report.Column{{Title: "status"}, {Title: "what"}, {Title: "found", Wrap: true}}}
	var advice strings.Builder
	for _, f := range findings {
		t.Add(report.Toned(string(f.Status), findingTones[f.Status]), report.Str(f.Name), report.Str(f.What))
		if f.Status != doctor.OK {
			advice.WriteString(adviceOn(f))
		}
	}
	if err := t.WriteTerminal(w, term); err != nil {
		return err
	}
	_, err := io.WriteString(w, advice.String())
	return err
}

func adviceOn(f doctor.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n  %s\n", cli.OneLine(f.Name), cli.OneLine(f.What), cli.OneLine(f.Why))
	if f.How == "" {
		return b.String()
	}
	for line := range strings.Lines(strings.TrimRight(f.How, "\n")) {
		fmt.Fprintf(&b, "    %s\n", cli.OneLine(line))
	}
	return b.String()
}
