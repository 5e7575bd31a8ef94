package main

import (
	"context"
	"slices"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/wire"
	"headrace/wire/convert"
)

// act asks the daemon to do something to one task and returns the task as it
// then is.
type act func(ctx context.Context, d *daemon, id string) (*wire.Task, error)

// sideBySide is how many requests of one command the daemon gets at a time. Kills wait
// for what they end, ten seconds each if that does not listen: there are more of them. Each has
// a connection to itself and may leave one behind that is just being closed, and a user has 256.
const sideBySide, killsSideBySide = 8, 96

// actOnEach does it to every task that words name, to so many at a time, and says how
// it went, in their order. A failure does not keep the others from their turn; the exit code
// is that of the first one. Many is what has named the tasks; nil: ids.
func (a taskVerbs) actOnEach(cmd *cobra.Command, many *several, words []string, atOnce int, do act, tell func(*wire.Task) string) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	turns := &turns{say: a.Say}
	return a.actOn(cmd.Context(), words, atOnce, func(ctx context.Context, word string) (task *wire.Task, err error) {
		err = turns.take(ctx, func() error {
			if many.given() {
				task, err = do(ctx, d, word)
				task, err = d.unlessEnded(ctx, word, task, err)
			} else if task, err = d.find(ctx, word); err == nil {
				task, err = do(ctx, d, task.Id)
			}
			return err
		})
		return task, err
	}, tell)
}

// unlessEnded returns what became of a call about a task that was there when the call was decided on: that it has
// ended by itself meanwhile is no error. A task that nobody remembers any more is nil.
func (d *daemon) unlessEnded(ctx context.Context, id string, task *wire.Task, err error) (*wire.Task, error) {
	switch connect.CodeOf(err) {
	case connect.CodeFailedPrecondition:
		if now, _ := d.Get(ctx, &wire.GetRequest{Id: id}); now != nil && ended(now) {
			return now, nil
		}
	case connect.CodeNotFound:
		return nil, nil
	}
	return task, err
}

// actOn calls do with each word, with at most atOnce of them at a time.
func (a taskVerbs) actOn(ctx context.Context, words []string, atOnce int, do func(ctx context.Context, word string) (*wire.Task, error), tell func(*wire.Task) string) error {
	type result struct {
		task *wire.Task
		err  error
	}
	results := make([]chan result, len(words))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		free := make(chan struct{}, atOnce)
		for i, word := range words {
			select {
			case free <- struct{}{}:
			case <-over:
				return
			}
			go func() {
				task, err := do(ctx, word)
				results[i] <- result{task, err}
				<-free
			}()
		}
	}()
	first := 0
	for i, word := range words {
		r := <-results[i]
		if r.err != nil {
			if len(words) == 1 || ctx.Err() != nil {
				return r.err
			}
			code, line := cli.Outcome(r.err)
			a.Say("%s: %s", word, line)
			if first == 0 {
				first = code
			}
			continue
		}
		if r.task == nil {
			continue
		}
		if err := a.answer(r.task, cli.OneLine(tell(r.task))); err != nil {
			return err
		}
	}
	if first != 0 {
		return cli.Exit(first, nil)
	}
	return nil
}

// tellState returns "ID STATE".
func tellState(t *wire.Task) string { return t.Id + " " + convert.StateName(t) }

// taskFilter picks tasks by what its flags name; nothing given picks all.
type taskFilter struct{ users, jobs, states []string }

func (f *taskFilter) given() bool { return len(f.users)+len(f.jobs)+len(f.states) > 0 }

func (f *taskFilter) picks(t *wire.Task) bool {
	among := func(names []string, of ...string) bool {
		return len(names) == 0 || slices.ContainsFunc(of, func(s string) bool { return s != "" && slices.Contains(names, s) })
	}
	return among(f.users, t.User) && among(f.jobs, t.Job) && among(f.states, convert.StateName(t), convert.Doing(t))
}
