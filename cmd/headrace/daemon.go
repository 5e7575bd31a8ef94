package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

// daemon is a connection to the daemon; nothing is sent before the first call.
type daemon struct {
	wireconnect.TaskServiceClient
	node   wireconnect.NodeServiceClient
	data   wireconnect.DataServiceClient
	inputs wireconnect.InputServiceClient
	socket string
}

func (a *app) daemon() (*daemon, error) {
	dir, err := wire.StateDirForClient(a.stateDir)
	if err != nil {
		return nil, err
	}
	socket := wire.SocketPath(dir)
	client := wire.NewHTTPClient(socket)
	return &daemon{
		TaskServiceClient: wireconnect.NewTaskServiceClient(client, wire.BaseURL),
		node:              wireconnect.NewNodeServiceClient(client, wire.BaseURL),
		data:              wireconnect.NewDataServiceClient(client, wire.BaseURL),
		inputs:            wireconnect.NewInputServiceClient(client, wire.BaseURL),
		socket:            socket,
	}, nil
}

// find returns the task that a person means, by its id or by its name. A name that
// several tasks have means the one that has not ended, if there is just one. Root's own tasks come before those of
// others: else anybody could have a name mean theirs.
func (d *daemon) find(ctx context.Context, word string) (*wire.Task, error) {
	if !utf8.ValidString(word) {
		return nil, cli.UsageErrorf("%q is not UTF-8 and cannot be the name of a task", word)
	}
	task, err := d.Get(ctx, &wire.GetRequest{Id: word})
	if err == nil || connect.CodeOf(err) != connect.CodeNotFound {
		return task, err
	}
	list, err := d.List(ctx, &wire.ListRequest{All: true})
	if err != nil {
		return nil, err
	}
	found := named(ofUser(list.Tasks, userName()), word)
	if len(found) == 0 {
		found = named(list.Tasks, word)
	}
	switch len(found) {
	case 0:
		return nil, cli.Exit(cli.ExitNotFound, fmt.Errorf("no task %q: see headrace ps --all", word))
	case 1:
		return found[0], nil
	}
	return nil, cli.Exit(cli.ExitNotFound, fmt.Errorf("%q could be %s: use an id", word, idsOf(found)))
}

func ofUser(tasks []*wire.Task, user string) (own []*wire.Task) {
	for _, t := range tasks {
		if t.User == user {
			own = append(own, t)
		}
	}
	return own
}

func named(tasks []*wire.Task, name string) []*wire.Task {
	var all, live []*wire.Task
	for _, t := range tasks {
		if name == "" || t.Name != name {
			continue
		}
		all = append(all, t)
		if !ended(t) {
			live = append(live, t)
		}
	}
	if len(live) == 1 {
		return live
	}
	return all
}

func idsOf(tasks []*wire.Task) string {
	const most = 5
	var ids []string
	for i, t := range tasks {
		if i == most {
			return fmt.Sprintf("%s and %d more", strings.Join(ids, ", "), len(tasks)-most)
		}
		ids = append(ids, t.Id)
	}
	return strings.Join(ids[:len(ids)-1], ", ") + " or " + ids[len(ids)-1]
}

// ended reports whether the task is in a final state. A state that this
// program does not know yet is not final.
func ended(t *wire.Task) bool { return convert.Final(t) }

func notEnded(t *wire.Task) bool { return !ended(t) }

const completionTime = 2 * time.Second

// complete offers what ask gets from the daemon, in that order: nothing if it does not
// answer in time.
func (a *app) complete(ask func(ctx context.Context, d *daemon, args []string) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (offer []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		if d, err := a.daemon(); err == nil {
			if offer, err = ask(ctx, d, args); err != nil {
				offer = nil
			}
		}
		return offer, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeTasks offers the ids of the tasks that want accepts.
func (a taskVerbs) completeTasks(want func(*wire.Task) bool) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, d *daemon, args []string) (ids []cobra.Completion, err error) {
		list, err := d.List(ctx, &wire.ListRequest{All: true})
		for _, t := range list.GetTasks() {
			if want(t) && !slices.Contains(args, t.Id) {
				ids = append(ids, cobra.CompletionWithDesc(t.Id, cli.OneLine(t.Name+" "+convert.StateName(t))))
			}
		}
		return ids, err
	})
}
