package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"headrace"
	"headrace/node"
	"headrace/report"
	"headrace/wire"
)

// clusterTime is how long a manager may take to answer a person.
const clusterTime = 10 * time.Second

func clusterVerb(a *app) *cobra.Command {
	var manager, tokenFile, ca string
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "List the nodes of a cluster and their containers",
		Long: `Cluster asks the manager which nodes there are and what their containers are
doing. A node that nothing is heard of is away: what is shown of it was true last.
An arrow behind a container's state is what was ordered and is not done yet.`,
		Example: `  headrace cluster
  headrace cluster --manager http://rm.example:7411 --token-file /etc/headrace/token
  headrace cluster --format json | jq '.containers[] | select(.state == "suspended").id'`,
		Args:              takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.clusterOnce(cmd.Context(), manager, tokenFile, ca)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&manager, "manager", "http://"+defaultManager, "where the manager is, such as http://`HOST:PORT`")
	tokenFlag(cmd, &tokenFile)
	flags.StringVar(&ca, "ca", "", "a `FILE` with certificates in PEM that the manager's is checked against (default: the system's)")
	return cmd
}

func (a *app) clusterOnce(ctx context.Context, manager, tokenFile, ca string) error {
	token, err := a.token(tokenFile)
	if err != nil {
		return err
	}
	client, err := node.NewClient(manager, token, ca)
	if err != nil {
		return usageErrorf("%w", err)
	}
	call, cancel := context.WithTimeout(ctx, clusterTime)
	defer cancel()
	res, err := client.Nodes(call, &wire.NodesRequest{})
	if err != nil && ctx.Err() == nil {
		return noManager(manager, err)
	}
	if err != nil {
		return err
	}
	if a.format == formatJSON {
		return writeMessage(a.out, res)
	}
	tables := []*report.Table{nodesTable(res)}
	if len(res.Containers) > 0 {
		tables = append(tables, containersTable(res.Containers))
	}
	return a.tables(tables)
}

// noManager says that the manager did not answer, if that is what err means.
func noManager(manager string, err error) error {
	remote := new(connect.Error)
	if errors.As(err, &remote) && connect.IsWireError(err) {
		return err
	}
	why := err.Error()
	if remote != nil {
		why = remote.Message()
	}
	return &exitError{exitNoDaemon, fmt.Errorf("no manager at %s: %s; start one with: headrace manager", manager, why)}
}

func nodesTable(res *wire.NodesResponse) *report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("policy %s, headrace %s%s", res.Policy, res.Version, uptime(&wire.NodeInfo{StartedMs: res.StartedMs})),
		Columns: []report.Column{
			{Title: "node", Flex: true}, {Title: "is"}, {Title: "containers", Align: report.Right}, {Title: "suspended", Align: report.Right},
			{Title: "checkpointed", Align: report.Right}, {Title: "memory", Align: report.Right}, {Title: "of", Align: report.Right},
			{Title: "swap free", Align: report.Right}, {Title: "version"},
		},
	}
	states := map[string]map[string]int{}
	for _, c := range res.Containers {
		if states[c.Node] == nil {
			states[c.Node] = map[string]int{}
		}
		states[c.Node][c.State]++
		states[c.Node][""]++
	}
	for _, n := range res.Nodes {
		is := "here"
		if n.AwayMs != 0 {
			is = "away for " + report.Duration(max(0, time.Since(time.UnixMilli(n.AwayMs))))
		}
		count := func(state string) report.Cell { return report.Num(float64(states[n.Name][state]), report.UnitNone) }
		t.Add(report.Str(n.Name), report.Str(is), count(""), count("suspended"), count("checkpointed"),
			report.Str(report.Bytes(n.Info.GetMemoryUsed())), report.Str(report.Bytes(n.Info.GetMemory())),
			report.Str(report.Bytes(n.Info.GetSwapFree())), report.Str(n.Info.GetVersion()))
	}
	return t
}

func containersTable(containers []*wire.Container) *report.Table {
	t := &report.Table{Columns: []report.Column{
		{Title: "container"}, {Title: "node"}, {Title: "user"}, {Title: "queue"}, {Title: "state"}, {Title: "for", Align: report.Right},
		{Title: "preemptions", Align: report.Right}, {Title: "reason", Flex: true},
	}}
	for _, c := range containers {
		state := report.Str(c.State)
		if s, err := headrace.ParseTaskState(c.State); err == nil {
			state = report.State(s)
		}
		state.Text = containerState(c)
		since := ""
		if c.SinceMs != 0 {
			since = report.Duration(max(0, time.Since(time.UnixMilli(c.SinceMs))))
		}
		t.Add(report.Str(c.Id), report.Str(c.Node), report.Str(c.User), report.Str(c.Hosting.GetQueue()), state, report.Str(since),
			report.Num(float64(c.Preemptions), report.UnitNone), report.Str(c.Reason))
	}
	return t
}

// containerState is what it does or is, and what is ordered.
func containerState(c *wire.Container) string {
	text := []string{cmp.Or(c.Doing, c.State)}
	if c.Held {
		text = append(text, "held")
	}
	if c.Away {
		text = append(text, "away")
	}
	all := strings.Join(text, ", ")
	if c.Ordered != "" {
		all += " → " + c.Ordered
	}
	return all
}
