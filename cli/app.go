package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"headrace/report"
)

// AnswerTime is how long a manager or a file system may take to answer a person.
const AnswerTime = 10 * time.Second

// An App is what the verbs of a program share: where they read and write, and in which form results are.
type App struct {
	Format   Format
	In       *os.File
	Out, Err io.Writer
}

// Say writes one line for the person; it is not a result.
func (a *App) Say(format string, args ...any) {
	fmt.Fprintf(a.Err, "headrace: %s\n", OneLine(fmt.Sprintf(format, args...)))
}

// Notes says each of them.
func (a *App) Notes(notes []string) {
	for _, n := range notes {
		a.Say("%s", n)
	}
}

// Table writes a table for where standard output goes.
func (a *App) Table(t *report.Table) error { return t.WriteTerminal(a.Out, TerminalOf(a.Out)) }

// Tables writes tables with a line between them.
func (a *App) Tables(tables []*report.Table) error {
	for i, t := range tables {
		if i > 0 {
			if _, err := fmt.Fprintln(a.Out); err != nil {
				return err
			}
		}
		if err := a.Table(t); err != nil {
			return err
		}
	}
	return nil
}

// Bar returns a progress bar on a terminal, and nothing elsewhere.
func (a *App) Bar() *report.Progress {
	_, is := AsTerminal(a.Err)
	bar := report.NewProgress(a.Err, is && a.Format != FormatJSON)
	bar.Terminal = TerminalOf(a.Err)
	return bar
}
