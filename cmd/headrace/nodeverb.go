package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/filesystem"
	"headrace/cmd/headrace/settings"
	"headrace/data/blocks"
	"headrace/hdfs/replica"
	"headrace/internal/accounts"
	"headrace/migrate"
	"headrace/node"
	"headrace/solo"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

type nodeFlags struct {
	soloFlags
	manager, tokenFile, ca, name string
	operators                    []string
	archive                      string
	unclaimed                    time.Duration
	hdfsData, hdfsHosts          []string
	hdfsSite, dfsNode            string
}

func nodeVerb(a clusterVerbs) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:   "node",
		Short: "The daemon of a machine in a cluster: containers can give way",
		Long: `Node is headrace solo on a machine of a cluster that another scheduler runs, such
as YARN. The scheduler's agent on the machine, run by an --operator, announces
containers; their commands then run as tasks. The node reports them to the manager,
and suspends, checkpoints and resumes them as the manager says. ps, top, suspend,
checkpoint and the other verbs work on them as on other tasks, by the containers'
names.

Its own tasks are scheduled as by headrace solo; give --slots and --memory so that
both have room. Containers do not need the daemon, nor the manager: either may be
stopped, killed and started again at any time.`,
		Example: `  headrace node --manager http://rm.example:7411 --token-file /etc/headrace/token --operator yarn
  headrace node --manager https://rm.example:7411 --ca /etc/headrace/ca.pem --name $(hostname -f) --operator yarn`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			told, err := f.load(cmd.Flags())
			if err != nil {
				return err
			}
			return a.node(cmd.Context(), &f, told)
		},
	}
	f.define(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.manager, "manager", "", "the `URL` of the manager, http://HOST:PORT or https://HOST:PORT; must be given")
	tokenFlag(cmd, &f.tokenFile)
	flags.StringVar(&f.name, "name", "", "the `NAME` of this machine, different from all others' (default: its host name)")
	flags.StringArrayVar(&f.operators, "operator", nil, "a `USER` besides root that may announce containers; may be repeated")
	flags.StringVar(&f.archive, "archive", "", "a `PLACE` that all nodes reach, for containers that go on elsewhere: a DIR that is there already, or webhdfs://[USER@]HOST:PORT/DIR, with ?principal=NAME@REALM&keytab=FILE behind it where Kerberos is; with ,zstd behind it compressed")
	flags.StringArrayVar(&f.hdfsData, "hdfs-data", nil, "a `DIR` where the DataNode of this machine keeps blocks (dfs.datanode.data.dir), so that they can be warmed; may be repeated")
	flags.StringVar(&f.hdfsSite, "hdfs-site", "", "the DataNode's hdfs-site.xml, a `FILE`, in place of --hdfs-data")
	flags.StringVar(&f.dfsNode, "dfs-node", "", "in place of a DataNode, the node of headrace dfs on this machine, hdfs://HOST:PORT, run by the same user or with this daemon run by root")
	flags.StringArrayVar(&f.hdfsHosts, "hdfs-host", nil, "a `NAME` that HDFS has for this machine, beside --name; may be repeated")
	flags.DurationVar(&f.unclaimed, "unclaimed", node.Unclaimed, "how long containers stay suspended or checkpointed, and blocks in memory for jobs, when no manager is heard of; then they go on by themselves, and are let go. 0: for ever")
	flags.StringVar(&f.ca, "ca", "", "a `FILE` with certificates in PEM that the manager's is checked against (default: the system's)")
	return cmd
}

func (a clusterVerbs) node(ctx context.Context, f *nodeFlags, s *settings.Settings) error {
	if f.manager == "" {
		return cli.UsageErrorf("--manager is missing: say where the manager is, such as http://HOST:PORT")
	}
	operators, err := userIDs(f.operators)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.Level(f.level)}))
	agent := node.Config{Manager: f.manager, Name: f.name, Version: cli.Version, CA: f.ca, Unclaimed: f.unclaimed, Log: log}
	tokens, err := a.tokens(f.tokenFile)
	if err != nil {
		return err
	}
	agent.Token = tokens[0]
	if agent.Name == "" {
		if agent.Name, err = os.Hostname(); err != nil {
			return fmt.Errorf("find out the name of this machine: %w; give one with --name", err)
		}
	}
	config, err := f.config(a.stateDir, log)
	if err != nil {
		return s.Blame(err)
	}
	config.Operators, config.Limits = operators, s.Limits
	if config.DataNode, err = f.dataNode(log); err != nil {
		return err
	}
	var mover *migrate.Mover
	if f.archive != "" {
		if mover, err = newMover(f.archive, tokens, agent.Name, &config, log); err != nil {
			return err
		}
		config.Elsewhere = mover
	}
	far := &cluster{}
	config.Cluster = far
	daemon, err := solo.New(config)
	if err != nil {
		return s.Blame(err)
	}
	if far.agent, err = node.New(agent, daemon.Host()); err != nil {
		return cli.UsageErrorf("%w", err)
	}
	if f.file.Check {
		return a.Tables(s.Tables())
	}
	filesystem.WarnOfAccounts(log)
	s.Keep(ctx, log)
	if mover != nil {
		mover.Ended = far.agent.Ended
		sweeping, stop := context.WithCancel(ctx)
		defer stop()
		go mover.Watch(sweeping, log)
	}
	return runNode(ctx, daemon, far.agent, log)
}

// dataNode is that of HDFS on this machine; nil: there is none.
func (f *nodeFlags) dataNode(log *slog.Logger) (*solo.DataNode, error) {
	dirs := f.hdfsData
	switch {
	case len(dirs) > 0 && f.hdfsSite != "", f.dfsNode != "" && (len(dirs) > 0 || f.hdfsSite != ""):
		return nil, cli.UsageErrorf("give one of --hdfs-data, --hdfs-site and --dfs-node")
	case f.dfsNode != "":
		addresses, err := filesystem.Addresses(f.dfsNode)
		if err != nil || len(addresses) != 1 {
			return nil, cli.UsageErrorf("--dfs-node %q: want hdfs://HOST:PORT", f.dfsNode)
		}
		return &solo.DataNode{Replicas: &blocks.Near{Address: addresses[0]}, Hosts: f.hdfsHosts}, nil
	case f.hdfsSite != "":
		var err error
		if dirs, err = replica.Configured(f.hdfsSite); err != nil {
			return nil, fmt.Errorf("--hdfs-site: %w", err)
		}
	case len(dirs) == 0:
		return nil, nil
	}
	volumes, err := replica.Open(dirs)
	if err != nil {
		return nil, cli.UsageErrorf("--hdfs-data: %w", err)
	}
	look, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	for dir, problem := range volumes.Check(look) {
		log.Warn("blocks of a volume cannot be warmed", "volume", dir, "err", problem)
	}
	return &solo.DataNode{Replicas: blocks.Volumes{Volumes: volumes}, Hosts: f.hdfsHosts}, nil
}

// cluster is what the daemon asks the agent, which in turn needs the daemon.
type cluster struct{ agent *node.Agent }

// Application tells a user about containers on other machines.
func (c *cluster) Application(ctx context.Context, user, scheduler, application string, aside bool) ([]*wire.Container, error) {
	return c.agent.Application(ctx, user, scheduler, application, aside)
}

// Inputs answers about files of the cluster.
func (c *cluster) Inputs() wireconnect.InputServiceHandler { return c.agent.Inputs() }

// Progress tells how far containers are.
func (c *cluster) Progress(user string, shares map[string]float64) { c.agent.Progress(user, shares) }

// runNode runs the daemon and, as long as that is up, the agent.
func runNode(ctx context.Context, daemon *solo.Daemon, agent *node.Agent, log *slog.Logger) error {
	agentCtx, stop := context.WithCancel(ctx)
	go notifyReady(agentCtx, daemon.Ready(), log)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-daemon.Ready():
			var beside sync.WaitGroup
			defer beside.Wait()
			if b := daemon.Host().Blocks(); b != nil {
				beside.Go(func() { agent.Exchange(agentCtx, b) })
			}
			agent.Run(agentCtx)
		case <-agentCtx.Done():
		}
	}()
	err := daemon.Run(ctx)
	stop()
	<-ended
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// userIDs looks users up, by name or number.
func userIDs(names []string) ([]uint32, error) {
	var ids []uint32
	for _, name := range names {
		who, err := accounts.Here.User(name)
		id := who.UID
		if errors.Is(err, accounts.ErrUnknown) { // a number is one, whether anybody has it or not
			if id, err = accounts.ParseID(name); err != nil {
				return nil, cli.UsageErrorf("--operator %q: there is no such user on this machine", name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("--operator %q: %w", name, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// checkAddress refuses what is no HOST:PORT.
func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n > 65535 {
		return cli.UsageErrorf("--listen %q: want HOST:PORT, such as %s", s, defaultManager)
	}
	return nil
}
