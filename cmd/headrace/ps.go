package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"headrace"
	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/cmd/headrace/screen"
	"headrace/doctor"
	"headrace/report"
	"headrace/wire"
)

func psVerb(a taskVerbs) *cobra.Command {
	var f psFlags
	every := cli.Span(time.Second)
	cmd := &cobra.Command{
		Use:        "ps",
		Short:      "List tasks",
		SuggestFor: []string{"list", "ls", "queue", "squeue", "qstat", "jobs", "tasks", "status"},
		Long: `Ps lists the tasks that have not ended: cpu is the processor time used so far,
rss the memory in use now, running the time in the state running. A "!" behind
the state marks tasks that cannot be checkpointed or suspended; why is below. Whose
the tasks are is shown when not all of them are yours. A terminal that is too
narrow for all columns gets the most important ones. A disk or file server that
does not answer has a line at the end: since when, who hangs and who waits.

With --watch on a terminal the list is kept up to date in place. Elsewhere each
change becomes a line (with --format json, a JSON object on a line).`,
		Example: `  headrace ps
  headrace ps --all --format json | jq '.tasks[].taskState'
  headrace ps --state pending --job j7
  headrace ps --watch`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkStates(f.states); err != nil {
				return err
			}
			d, err := a.daemon()
			if err != nil {
				return err
			}
			_, onTerminal := cli.AsTerminal(a.Out)
			switch {
			case !f.watch:
				return a.psOnce(cmd.Context(), d, &f)
			case onTerminal && a.Format == cli.FormatTable:
				return a.psInPlace(cmd.Context(), d, &f, time.Duration(every))
			}
			return a.psChanges(cmd.Context(), d, &f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.all, "all", "a", false, "also tasks that have ended")
	flags.BoolVarP(&f.watch, "watch", "w", false, "go on showing changes until Ctrl-C")
	flags.StringArrayVarP(&f.users, "user", "u", nil, "only tasks of this `USER`; may be repeated")
	flags.StringArrayVarP(&f.jobs, "job", "j", nil, "only tasks of this `JOB`; may be repeated")
	flags.StringArrayVarP(&f.states, "state", "s", nil, "only tasks in this `STATE`, also if they have ended; may be repeated")
	cli.CompleteValues(cmd, "state", states...)
	flags.Var(&every, "interval", "with --watch on a terminal, the time between two looks")
	return cmd
}

var states = []string{"pending", "running", "suspended", "checkpointed", "done", "failed", "killed", "lost"}

// checkStates refuses what is neither a state nor what can be done to a task: nothing would be listed for it.
func checkStates(words []string) error {
	for _, w := range words {
		_, noState := headrace.ParseTaskState(w)
		if o, err := headrace.ParseOperation(w); noState != nil && (err != nil || o == headrace.Idle) {
			return cli.UsageErrorf("--state %q: want %s, or what is being done, such as checkpointing", w, cli.List(states))
		}
	}
	return nil
}

type psFlags struct {
	all, watch bool
	taskFilter
}

// shows reports whether a task is to be listed. Who names a final state wants to
// see what has ended.
func (f *psFlags) shows(t *wire.Task) bool {
	return (f.all || !ended(t) || len(f.states) > 0) && f.picks(t)
}

func (f *psFlags) list(ctx context.Context, d *daemon) (*wire.ListResponse, error) {
	list, err := d.List(ctx, &wire.ListRequest{All: f.all || len(f.states) > 0})
	if err == nil {
		list.Tasks = slices.DeleteFunc(list.Tasks, func(t *wire.Task) bool { return !f.shows(t) })
	}
	return list, err
}

func (a taskVerbs) psOnce(ctx context.Context, d *daemon, f *psFlags) error {
	list, err := f.list(ctx, d)
	if err != nil {
		return err
	}
	if a.Format == cli.FormatJSON {
		return jsonout.Write(a.Out, list)
	}
	return writeList(a.Out, list, cli.TerminalOf(a.Out))
}

// writeList writes tasks, and below them which disks do not answer.
func writeList(w io.Writer, list *wire.ListResponse, term report.Terminal) error {
	if err := writeTasks(w, list.Tasks, term); err != nil {
		return err
	}
	return writeHangs(w, list.Node.GetHangs())
}

// writeHangs writes a line for each disk that does not answer.
func writeHangs(w io.Writer, hangs []*wire.DiskHang) error {
	for i, h := range hangs {
		space := ""
		if i == 0 {
			space = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s! %s\n", space, cli.OneLine(doctor.Hang(h, time.Now()))); err != nil {
			return err
		}
	}
	return nil
}

func writeTasks(w io.Writer, tasks []*wire.Task, term report.Terminal) error {
	if err := tasksTable(tasks, userName()).WriteTerminal(w, term); err != nil {
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

func (a taskVerbs) psInPlace(ctx context.Context, d *daemon, f *psFlags, every time.Duration) error {
	p := screen.New(a.Out, false, nil)
	defer p.Close()
	return screen.Repeat(ctx, every, nil, func() error {
		list, err := f.list(ctx, d)
		if err != nil {
			return err
		}
		var frame bytes.Buffer
		if err := writeList(&frame, list, cli.TerminalOf(a.Out)); err != nil {
			return err
		}
		return p.Paint(frame.String())
	})
}

// psChanges writes a line for every task and then for every change of one. What had ended before is left out unless it
// is asked for; a task that begins and ends between two messages is first heard of when it has ended, and is not.
func (a taskVerbs) psChanges(ctx context.Context, d *daemon, f *psFlags) error {
	before, err := d.List(ctx, &wire.ListRequest{All: true})
	if err != nil {
		return err
	}
	past := map[string]bool{}
	for _, t := range before.Tasks {
		if !f.shows(t) {
			past[t.Id] = ended(t)
		}
	}
	stream, err := d.Watch(ctx, &wire.WatchRequest{})
	if err != nil {
		return err
	}
	defer stream.Close()
	shown := map[string]string{}
	var still stillness
	for stream.Receive() {
		for _, t := range stream.Msg().Tasks {
			line := fmt.Sprintf("%-8s %-20s %-16s %s", t.Id, nameOf(t), stateOf(t), t.Reason)
			_, known := shown[t.Id]
			if shown[t.Id] == line || !known && (past[t.Id] || !f.picks(t)) {
				continue
			}
			shown[t.Id] = line
			if err := still.during(func() error { return a.psChange(t, line) }); err != nil {
				return err
			}
		}
		for _, id := range stream.Msg().Forgotten {
			delete(shown, id)
			delete(past, id)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := stream.Err(); err != nil && !severed(err) {
		return err
	}
	if err := still.brokeOff(time.Now()); err != nil {
		return err
	}
	return &wire.NoDaemonError{Socket: d.socket, Err: errSevered}
}

func (a taskVerbs) psChange(t *wire.Task, line string) error {
	if a.Format == cli.FormatJSON {
		return jsonout.WriteLine(a.Out, t)
	}
	_, err := fmt.Fprintln(a.Out, cli.OneLine(line))
	return err
}
