package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/report"
	"headrace/wire"
)

type versions struct {
	cli.Build
	// Socket is where a daemon was looked for; Daemon is what it says it is, or
	// empty when there is none.
	Socket string `json:"socket"`
	Daemon string `json:"daemon"`
}

func versionVerb(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell the version of this program and of the daemon",
		Example: `  headrace version
  headrace version --format json`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.versions(cmd.Context())
			if err != nil {
				return err
			}
			if a.Format == cli.FormatJSON {
				return cli.WriteJSON(a.Out, v)
			}
			running := v.Daemon
			if running == "" {
				running = "none at " + v.Socket
			}
			t := v.Table("headrace")
			t.Add(report.Str("daemon"), report.Str(running))
			return a.Table(t)
		},
	}
}

func (a *app) versions(ctx context.Context) (versions, error) {
	v := versions{Build: cli.ThisBuild()}
	d, err := a.daemon()
	if err != nil {
		return v, err
	}
	v.Socket = d.socket
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	info, err := d.node.Info(ctx, &wire.InfoRequest{})
	var none *wire.NoDaemonError
	if errors.As(err, &none) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	v.Daemon = info.Version
	return v, nil
}
