package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"headrace/report"
	"headrace/wire"
)

func psVerb(a *app) *cobra.Command {
	var all, watch bool
	every := span(time.Second)
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List tasks",
		Long: `Ps lists the tasks that have not ended: cpu is the processor time used so far,
rss the memory in use now, running the time in the state running. A "!" behind
the state marks tasks that cannot be checkpointed or suspended; why is below.

With --watch on a terminal the list is kept up to date in place. Elsewhere each
change becomes a line (with --format json, a JSON object on a line).`,
		Example: `  headrace ps
  headrace ps --all --format json | jq '.tasks[].state'
  headrace ps --watch`,
		Args:              takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.daemon()
			if err != nil {
				return err
			}
			_, onTerminal := asTerminal(a.out)
			switch {
			case !watch:
				return a.psOnce(cmd.Context(), d, all)
			case onTerminal && a.format == formatTable:
				return a.psInPlace(cmd.Context(), d, all, time.Duration(every))
			}
			return a.psChanges(cmd.Context(), d, all)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&all, "all", "a", false, "also tasks that have ended")
	flags.BoolVarP(&watch, "watch", "w", false, "go on showing changes until Ctrl-C")
	flags.Var(&every, "interval", "with --watch on a terminal, the time between two looks")
	return cmd
}

func (a *app) psOnce(ctx context.Context, d *daemon, all bool) error {
	list, err := d.List(ctx, &wire.ListRequest{All: all})
	if err != nil {
		return err
	}
	if a.format == formatJSON {
		return writeMessage(a.out, list)
	}
	return writeTasks(a.out, list.Tasks, terminalOf(a.out))
}

func writeTasks(w io.Writer, tasks []*wire.Task, term report.Terminal) error {
	if err := tasksTable(tasks).WriteTerminal(w, term); err != nil {
		return err
	}
	limits := limitsTable(tasks)
	if limits == nil {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return limits.WriteTerminal(w, term)
}

func (a *app) psInPlace(ctx context.Context, d *daemon, all bool, every time.Duration) error {
	p := newPainter(a.out, false)
	defer p.close()
	return repeat(ctx, every, nil, func() error {
		list, err := d.List(ctx, &wire.ListRequest{All: all})
		if err != nil {
			return err
		}
		var frame bytes.Buffer
		if err := writeTasks(&frame, list.Tasks, terminalOf(a.out)); err != nil {
			return err
		}
		return p.paint(frame.String())
	})
}

// psChanges writes a line for every task and then for every change of one.
func (a *app) psChanges(ctx context.Context, d *daemon, all bool) error {
	stream, err := d.Watch(ctx, &wire.WatchRequest{})
	if err != nil {
		return err
	}
	defer stream.Close()
	shown := map[string]string{}
	for stream.Receive() {
		for _, t := range stream.Msg().Tasks {
			line := fmt.Sprintf("%-8s %-20s %-16s %s", t.Id, nameOf(t), stateOf(t), t.Reason)
			_, before := shown[t.Id]
			if shown[t.Id] == line || ended(t) && !all && !before {
				continue
			}
			shown[t.Id] = line
			if err := a.psChange(t, line); err != nil {
				return err
			}
		}
		for _, id := range stream.Msg().Forgotten {
			delete(shown, id)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := stream.Err(); err != nil && !severed(err) {
		return err
	}
	return &wire.NoDaemonError{Socket: d.socket, Err: errSevered}
}

func (a *app) psChange(t *wire.Task, line string) error {
	if a.format == formatJSON {
		return writeMessageLine(a.out, t)
	}
	_, err := fmt.Fprintln(a.out, oneLine(line))
	return err
}
