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
	"google.golang.org/protobuf/proto"

	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/node"
	"headrace/report"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

type askFlags struct {
	manager, tokenFile, ca, application string
}

func clusterVerb(a clusterVerbs) *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "List the nodes of a cluster and their containers",
		Long: `Cluster asks the manager which nodes there are and what their containers are
doing. A node that nothing is heard of is away: what is shown of it was true last.
An arrow behind a container's state is what was ordered and is not done yet.`,
		Example: `  headrace cluster
  headrace cluster --manager http://rm.example:7411 --token-file /etc/headrace/token
  headrace cluster --application application_1700000000000_0042
  headrace cluster --format json | jq '.containers[] | select(.taskState == "TASK_STATE_SUSPENDED").id'`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.cluster(cmd.Context(), &f)
		},
	}
	f.define(cmd)
	cmd.Flags().StringVar(&f.application, "application", "", "list only the containers of this application, by the `ID` that its scheduler has given it")
	cmd.AddCommand(a.TextOnly(drainVerb(a)), a.TextOnly(forgetNodeVerb(a)), jobsVerb(a))
	return cmd
}

// define adds what it takes to reach a manager.
func (f *askFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.manager, "manager", "http://"+defaultManager, "the `URL` of the manager, http://HOST:PORT or https://HOST:PORT")
	tokenFlag(cmd, &f.tokenFile)
	flags.StringVar(&f.ca, "ca", "", "a `FILE` with certificates in PEM that the manager's is checked against (default: the system's)")
}

func (a clusterVerbs) clusterClient(f *askFlags) (wireconnect.ManagerServiceClient, error) {
	token, err := a.token(f.tokenFile)
	if err != nil {
		return nil, err
	}
	client, err := node.NewClient(f.manager, token, f.ca)
	if err != nil {
		return nil, cli.UsageErrorf("%w", err)
	}
	return client, nil
}

func (a clusterVerbs) cluster(ctx context.Context, f *askFlags) error {
	client, err := a.clusterClient(f)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, cli.AnswerTime)
	defer cancel()
	res, tables, err := askCluster(call, client, f.application)
	switch {
	case err != nil && ctx.Err() == nil:
		return noManager(f.manager, err)
	case err != nil:
		return err
	case a.Format == cli.FormatJSON:
		return jsonout.Write(a.Out, res)
	}
	return a.Tables(tables)
}

// askCluster gets what there is to show: of all nodes, or of one application.
func askCluster(ctx context.Context, client wireconnect.ManagerServiceClient, application string) (proto.Message, []*report.Table, error) {
	if application != "" {
		res, err := client.Containers(ctx, &wire.ContainersRequest{Application: application})
		return res, []*report.Table{containersTable(res.GetContainers())}, err
	}
	res, err := client.Nodes(ctx, &wire.NodesRequest{})
	if err != nil {
		return nil, nil, err
	}
	tables := []*report.Table{nodesTable(res)}
	if len(res.Containers) > 0 {
		tables = append(tables, containersTable(res.Containers))
	}
	return res, tables, nil
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
	return cli.Exit(cli.ExitNoDaemon, fmt.Errorf("no manager at %s: %s; see there: systemctl status headrace-manager, or name another with --manager (https:// if it has a certificate)", manager, why))
}

func nodesTable(res *wire.NodesResponse) *report.Table {
	mode := ""
	if res.Draining {
		mode = ", draining: nothing gives way"
	}
	t := &report.Table{
		Title: fmt.Sprintf("policy %s, headrace %s%s%s", res.Policy, res.Version, uptime(&wire.NodeInfo{StartedMs: res.StartedMs}), mode),
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
		states[c.Node][convert.StateName(c)]++
		states[c.Node][""]++
	}
	for _, n := range res.Nodes {
		is := "here"
		if n.AwayMs != 0 {
			is = "away for " + report.Duration(max(0, time.Since(time.UnixMilli(n.AwayMs))))
		}
		if hangs := n.Info.GetHangs(); len(hangs) > 0 && n.AwayMs == 0 {
			is += ", disk " + hangs[0].Disk + " does not answer"
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
		{Title: "container"}, {Title: "node"}, {Title: "user"}, {Title: "queue"}, {Title: "prio", Align: report.Right}, {Title: "state"}, {Title: "for", Align: report.Right},
		{Title: "preemptions", Align: report.Right}, {Title: "reason", Flex: true},
	}}
	for _, c := range containers {
		state := report.Str(convert.StateName(c))
		if s, err := convert.State(c); err == nil {
			state = report.State(s)
		}
		state.Text = containerState(c)
		since := ""
		if c.SinceMs != 0 {
			since = report.Duration(max(0, time.Since(time.UnixMilli(c.SinceMs))))
		}
		t.Add(report.Str(c.Id), report.Str(c.Node), report.Str(c.User), report.Str(c.Hosting.GetQueue()),
			report.Num(float64(c.Priority), report.UnitNone), state, report.Str(since), report.Num(float64(c.Preemptions), report.UnitNone), report.Str(c.Reason))
	}
	return t
}

// containerState returns what it does or is, and what is ordered.
func containerState(c *wire.Container) string {
	text := []string{cmp.Or(convert.Doing(c), convert.StateName(c))}
	if c.Held {
		text = append(text, "held")
	}
	if c.Away {
		text = append(text, "away")
	}
	all := strings.Join(text, ", ")
	if ordered := convert.Ordered(c); ordered != "" {
		all += " → " + ordered
	}
	return all
}
