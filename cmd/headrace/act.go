package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"headrace/wire"
)

// act asks the daemon to do something to one task and returns the task as it
// then is.
type act func(ctx context.Context, d *daemon, id string) (*wire.Task, error)

// actOnEach does it to every task that words name, one after the other, and
// says how it went. A failure does not keep the others from their turn; the
// exit code is that of the first one.
func (a *app) actOnEach(cmd *cobra.Command, words []string, do act, tell func(*wire.Task) string) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	first := 0
	for _, word := range words {
		task, err := d.find(cmd.Context(), word)
		if err == nil {
			task, err = do(cmd.Context(), d, task.Id)
		}
		if err != nil {
			if len(words) == 1 || cmd.Context().Err() != nil {
				return err
			}
			code, line := outcome(err)
			a.say("%s: %s", word, line)
			if first == 0 {
				first = code
			}
			continue
		}
		if err := a.told(task, tell); err != nil {
			return err
		}
	}
	if first != 0 {
		return &exitError{code: first}
	}
	return nil
}

func (a *app) told(task *wire.Task, tell func(*wire.Task) string) error {
	if a.format == formatJSON {
		return writeMessage(a.out, task)
	}
	_, err := fmt.Fprintln(a.out, oneLine(tell(task)))
	return err
}

// tellState is "ID STATE".
func tellState(t *wire.Task) string { return t.Id + " " + t.State }
