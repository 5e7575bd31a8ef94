package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"headrace/report"
	"headrace/wire"
)

// version is set by the linker.
var version = "unknown"

type versions struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
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
		Args:              takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.versions(cmd.Context())
			if err != nil {
				return err
			}
			if a.format == formatJSON {
				return writeJSON(a.out, v)
			}
			running := v.Daemon
			if running == "" {
				running = "none at " + v.Socket
			}
			t := report.Table{Columns: []report.Column{{Title: "headrace"}, {Title: v.Version}}}
			t.Add(report.Str("built with"), report.Str(v.Go+" for "+v.System))
			t.Add(report.Str("daemon"), report.Str(running))
			return a.table(&t)
		},
	}
}

func (a *app) versions(ctx context.Context) (versions, error) {
	v := versions{Version: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
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
