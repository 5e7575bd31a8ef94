package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/wire"
)

// several are flags that name tasks in place of ids: of a job, of a user, or all that a verb is for.
type several struct {
	all    bool
	filter taskFilter
}

// define adds the flags to a verb for tasks of which each "is running", say.
func (f *several) define(cmd *cobra.Command, is string) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.filter.jobs, "job", "j", nil, "each task of this `JOB` that "+is+"; may be repeated")
	flags.StringArrayVarP(&f.filter.users, "user", "u", nil, "each task of this `USER` that "+is+"; may be repeated")
	flags.BoolVar(&f.all, "all", false, "each of your tasks that "+is+"; for root, of everybody's")
}

// given reports whether tasks are named by the flags. A nil f has none.
func (f *several) given() bool { return f != nil && (f.all || f.filter.given()) }

// words returns ids as they were given, or of those tasks that are meant by the flags: of which the verb is for, that is.
func (f *several) words(a taskVerbs, cmd *cobra.Command, ids []string, is string, want func(*wire.Task) bool) ([]string, error) {
	verb, many := cmd.CommandPath(), f.given()
	switch {
	case many && len(ids) > 0:
		return nil, cli.UsageErrorf("%s: give either ids or --job, --user and --all", verb)
	case f.all && f.filter.given():
		return nil, cli.UsageErrorf("%s: --all is every task; leave out --job and --user, or --all", verb)
	case !many && len(ids) == 0:
		return nil, cli.UsageErrorf("%s: the id of a task is missing (see %s --help)", verb, verb)
	case !many:
		return ids, nil
	}
	d, err := a.daemon()
	if err != nil {
		return nil, err
	}
	list, err := d.List(cmd.Context(), &wire.ListRequest{})
	if err != nil {
		return nil, err
	}
	for _, t := range list.Tasks {
		if want(t) && f.filter.picks(t) {
			ids = append(ids, t.Id)
		}
	}
	if len(ids) == 0 {
		return nil, cli.Exit(cli.ExitNotFound, fmt.Errorf("no task that %s is meant: see headrace ps", is))
	}
	return ids, nil
}
