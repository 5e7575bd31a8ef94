package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"sort"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/cmd/headrace/screen"
	"headrace/report"
	"headrace/wire"
)

func topVerb(a taskVerbs) *cobra.Command {
	every := cli.Span(time.Second)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the machine and the tasks that use it",
		Long: `Top shows the machine's slots, memory, swap and stores, and the tasks, those
that use most processor time first. On a terminal it is kept up to date until q
is typed; elsewhere it is written once, with the use over the whole running time.`,
		Example: `  headrace top
  headrace top --interval 5s`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.daemon()
			if err != nil {
				return err
			}
			t := &top{daemon: d}
			_, onTerminal := cli.AsTerminal(a.Out)
			if !onTerminal || a.Format == cli.FormatJSON {
				return a.topOnce(cmd.Context(), t)
			}
			return a.topLive(cmd.Context(), t, time.Duration(every))
		},
	}
	cmd.Flags().Var(&every, "interval", "the time between two looks")
	return cmd
}

func (a taskVerbs) topOnce(ctx context.Context, t *top) error {
	list, err := t.List(ctx, &wire.ListRequest{})
	if err != nil {
		return err
	}
	if a.Format == cli.FormatJSON {
		return jsonout.Write(a.Out, list)
	}
	return t.write(a.Out, list, cli.TerminalOf(a.Out))
}

func (a taskVerbs) topLive(ctx context.Context, t *top, every time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, err := screen.KeyboardOf(a.In)
	if err != nil {
		return err
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	p := screen.New(a.Out, true, keys)
	defer p.Close()
	if err := t.paint(ctx, p, a.Out); err != nil {
		return err
	}
	if keys != nil {
		go func() {
			defer cancel()
			keys.AwaitQuit()
		}()
	}
	return screen.Repeat(ctx, every, resized, func() error { return t.paint(ctx, p, a.Out) })
}

func (t *top) paint(ctx context.Context, p *screen.Painter, out io.Writer) error {
	list, err := t.List(ctx, &wire.ListRequest{})
	if err != nil {
		return err
	}
	var frame bytes.Buffer
	if err := t.write(&frame, list, cli.TerminalOf(out)); err != nil {
		return err
	}
	frame.WriteString("\nq quits\n")
	return p.Paint(frame.String())
}

// top remembers the look before, to tell what was used since.
type top struct {
	*daemon
	at     time.Time
	before map[string]float64
}

// write shows what the daemon has told and remembers it.
func (t *top) write(w io.Writer, list *wire.ListResponse, term report.Terminal) error {
	now := time.Now()
	use := t.use(list.Tasks, now)
	t.at, t.before = now, map[string]float64{}
	for _, task := range list.Tasks {
		t.before[task.Id] = cpuOf(task)
	}
	tasks := list.Tasks
	sort.SliceStable(tasks, func(i, j int) bool { return use[tasks[i].Id] > use[tasks[j].Id] })

	if err := nodeTable(list.Node, term).WriteTerminal(w, term); err != nil {
		return err
	}
	if err := writeHangs(w, list.Node.GetHangs()); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return topTable(tasks, use).WriteTerminal(w, term)
}

// use returns how many processors each task keeps busy: since the look before if
// there was one, else over its running time.
func (t *top) use(tasks []*wire.Task, now time.Time) map[string]float64 {
	use := map[string]float64{}
	for _, task := range tasks {
		since, seen := t.before[task.Id]
		span := now.Sub(t.at).Seconds()
		if !seen {
			since, span = 0, task.Usage.GetRunning()
		}
		if used := cpuOf(task) - since; used > 0 && span > 0 {
			use[task.Id] = used / span
		}
	}
	return use
}

func topTable(tasks []*wire.Task, use map[string]float64) *report.Table {
	t := &report.Table{Columns: []report.Column{
		{Title: "id"}, {Title: "name", Flex: true, Least: 10}, {Title: "user"}, {Title: "prio"}, {Title: "state"},
		{Title: "cpu", Align: report.Right}, {Title: "time", Align: report.Right, Drop: 1},
		{Title: "rss", Align: report.Right}, {Title: "swapped", Align: report.Right, Drop: 2},
		{Title: "dirty", Align: report.Right, Drop: 3}, {Title: "done", Align: report.Right},
	}}
	for _, task := range tasks {
		u := task.Usage
		t.Add(report.Str(task.Id), report.Str(nameOf(task)), report.Str(task.User), report.Str(priorityOf(task)), stateCell(task),
			report.Str(report.Percent(use[task.Id])), report.Str(report.Seconds(cpuOf(task))),
			report.Str(report.Bytes(u.GetResident())), report.Str(report.Bytes(u.GetSwapped())),
			report.Str(report.Bytes(u.GetDirty())), report.Str(progressOf(task)))
	}
	return t
}
