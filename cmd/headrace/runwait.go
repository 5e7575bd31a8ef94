package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"headrace/cli"
	"headrace/cmd/headrace/lines"
	"headrace/cmd/headrace/screen"
	"headrace/report"
	"headrace/wire"
)

// runWait waits for the tasks of one run.
type runWait struct {
	app taskVerbs
	*follower
	ids []string
	job string
	// logs: show what they write. dealt: they share an input, whose progress a
	// terminal shows.
	logs, dealt bool
	// elsewhere: what they write goes to a file of the user's.
	elsewhere bool

	bar     *report.Progress // nil: none
	mu      sync.Mutex
	said    string // the last line of say, and when
	when    time.Time
	unshown []string // of which tasks not all was shown
}

func (w *runWait) run(ctx context.Context) error {
	stop := w.showProgress(ctx)
	defer stop()
	if w.logs {
		defer w.tellWaiting(ctx, w.ids[0])()
		if err := w.showLogs(ctx); err != nil && ctx.Err() == nil {
			stop()
			return cli.Exit(cli.ExitFailure, fmt.Errorf("%w; %s", err, w.goOn()))
		}
	}
	var tasks []*wire.Task
	for _, id := range w.ids {
		task, err := w.end(ctx, id)
		if err != nil && ctx.Err() == nil {
			return err
		}
		tasks = append(tasks, task)
	}
	stop()
	if ctx.Err() != nil {
		return cli.Exit(cli.ExitInterrupted, errors.New(w.goOn()))
	}
	var verdicts []error
	for _, task := range tasks {
		verdicts = append(verdicts, w.app.verdict(task))
	}
	if n := len(w.unshown); n > 0 {
		w.app.Say("what %d of the tasks have written was not shown, or not all of it: see headrace logs %s", n, w.unshown[0])
		verdicts = append(verdicts, cli.Exit(cli.ExitFailure, nil))
	}
	return errors.Join(verdicts...)
}

// goOn tells how to come back to tasks that are not waited for any more.
func (w *runWait) goOn() string {
	const most = 5
	switch ids := strings.Join(w.ids, " "); {
	case len(w.ids) == 1:
		return fmt.Sprintf("task %s goes on: wait for it with headrace wait %s, end it with headrace kill %s", ids, ids, ids)
	case len(w.ids) <= most:
		return fmt.Sprintf("tasks %s go on: wait for them with headrace wait %s, end them with headrace kill %s", ids, ids, ids)
	}
	return fmt.Sprintf("the %d tasks of job %s go on: see headrace ps; headrace kill ID... ends them", len(w.ids), w.job)
}

// logsSideBySide is how many logs of one job are followed at a time: half of the answers that go on which the daemon
// gives to one user. The others are shown when some have ended: what they have written is there then.
const logsSideBySide = 64

// showLogs shows what all tasks write until they have ended, or what they write cannot be
// written here.
func (w *runWait) showLogs(ctx context.Context) error {
	if len(w.ids) == 1 && w.bar == nil {
		return w.showLog(ctx, w.ids[0], w.app.Out, w.app.Err)
	}
	merger := &lines.Merger{Around: w.interrupt}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(logsSideBySide)
	for _, id := range w.ids {
		all.Go(func() error {
			out, errOut := merger.Writer(w.app.Out), merger.Writer(w.app.Err)
			if err := w.showLog(ctx, id, out, errOut); err != nil {
				return err
			}
			return errors.Join(out.Flush(), errOut.Flush())
		})
	}
	return all.Wait()
}

// showLog fails if what is shown cannot be written here. All else it says, and run fails in the end.
func (w *runWait) showLog(ctx context.Context, id string, out, errOut io.Writer) error {
	err := w.follower.logs(ctx, &wire.LogsRequest{Id: id, Follow: true}, out, errOut)
	if errors.As(err, new(*cli.ExitError)) { // nobody else makes such a one here
		return err
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if !w.elsewhere {
		w.mu.Lock()
		w.unshown = append(w.unshown, id)
		w.mu.Unlock()
	}
	if !errors.As(err, new(*wire.NoDaemonError)) || len(w.ids) == 1 { // else said once, when the end is waited for
		_, line := cli.Outcome(err)
		w.say("the log of task %s cannot be shown: %s", id, line)
	}
	return nil
}

// say says a line once where several who wait have the same to say.
func (w *runWait) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if line == w.said && time.Since(w.when) < 5*time.Second {
		return
	}
	w.said, w.when = line, time.Now()
	w.interrupt(func() error { w.app.Say("%s", line); return nil })
}

// interrupt writes to the terminal beside the progress.
func (w *runWait) interrupt(write func() error) error {
	if w.bar == nil {
		return write()
	}
	return w.bar.Interrupt(write)
}

// showProgress shows how much of the input has been dealt until stop is called.
func (w *runWait) showProgress(ctx context.Context) (stop func()) {
	_, is := cli.AsTerminal(w.app.Err)
	if !is || !w.dealt || w.app.Format == cli.FormatJSON {
		return func() {}
	}
	bar := report.NewProgress(w.app.Err, true)
	bar.Terminal = cli.TerminalOf(w.app.Err)
	return w.follow(ctx, bar)
}

// follow keeps a bar up to date until stop is called.
func (w *runWait) follow(ctx context.Context, bar *report.Progress) (stop func()) {
	w.bar = bar
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		screen.Repeat(ctx, time.Second/2, nil, func() error {
			task, err := w.Get(ctx, &wire.GetRequest{Id: w.ids[0]})
			if err == nil { // else the daemon is away: say says it
				bar.Set(dealtShare(task.Input), dealtText(task.Input))
			}
			return nil
		})
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-over
		bar.Done()
	})
}

// dealtShare returns how much of a job's input has been dealt, 0 to 1; negative:
// unknown.
func dealtShare(in *wire.TaskInput) float64 {
	if in.GetBytes() <= 0 || in.GetStream() == "" {
		return -1
	}
	return float64(in.Dealt) / float64(in.Bytes)
}

func dealtText(in *wire.TaskInput) string {
	if dealtShare(in) < 0 {
		return "waiting for the input"
	}
	return fmt.Sprintf("%s of %s dealt", report.Bytes(in.Dealt), report.Bytes(in.Bytes))
}
