package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/hdfs"
	"headrace/manager"
	"headrace/manager/inputs"
	"headrace/policy"
)

// defaultManager is where a manager listens unless it is told otherwise.
const defaultManager = "127.0.0.1:7411"

type managerFlags struct {
	listen, tokenFile, cert, key string
	policy                       string
	minRun                       cli.Rule
	network                      budget
	hdfs                         []string
	hdfsProxy                    string
	kerberos                     hdfs.Kerberos
	drain                        bool
	level                        cli.Level
}

func managerVerb(a clusterVerbs) *cobra.Command {
	var f managerFlags
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "The daemon of a cluster: decide how its containers give way",
		Long: `Manager is the daemon of a cluster that another scheduler runs, such as YARN. Its
nodes (headrace node) report to it; the scheduler's plug-in asks it how containers
are to give way, and has them go on later. It decides by --policy, for each of
them, with what their node has measured.

It keeps nothing on disk and may be stopped, killed and started again at any time:
the nodes tell it again. While it is not there, the scheduler does what it would do
without it.

Every caller must have the token. The file is made if it is not there; nodes and
schedulers need a copy. Without --tls-cert and --tls-key the token crosses the
network as it is. http://ADDRESS/metrics is for Prometheus (from other machines
with the token), /healthz tells whether it is there.`,
		Example: `  headrace manager &
  headrace manager --listen 0.0.0.0:7411 --token-file /etc/headrace/token --policy suspend
  headrace cluster`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.manager(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", defaultManager, "the `HOST:PORT` to listen on")
	tokenFlag(cmd, &f.tokenFile)
	flags.StringVar(&f.policy, "policy", string(policy.Cost), "how containers give way: "+cli.List(policy.Names()))
	flags.Var(&f.minRun, "min-run", "how long a container that came back runs before it gives way again; 0: no such rule (default 5s)")
	flags.Var(&f.network, "network", "the bandwidth between machines, in bytes per second (default 100MB)")
	flags.StringArrayVar(&f.hdfs, "hdfs", nil, "a file system whose files may be warmed: `[NAME=]URL[,URL]`, what follows hdfs:// in its paths, and the HTTP addresses of its name nodes; may be repeated")
	flags.StringVar(&f.hdfsProxy, "hdfs-proxy", "", "a `USER` who may act for others there (hadoop.proxyuser.USER); without it the file system is asked as whoever asks")
	flags.StringVar(&f.kerberos.Principal, "hdfs-principal", "", "the `PRINCIPAL` of Kerberos to prove to be there, where that is asked for; it may act for others, as with --hdfs-proxy")
	flags.StringVar(&f.kerberos.Keytab, "hdfs-keytab", "", "a `FILE` with its keys")
	flags.BoolVar(&f.drain, "drain", false, "start as after headrace cluster drain: all containers go on, none gives way")
	flags.StringVar(&f.cert, "tls-cert", "", "a `FILE` with the certificate in PEM, to serve https")
	flags.StringVar(&f.key, "tls-key", "", "the `FILE` with its key")
	flags.Var(&f.level, "log-level", "debug, info, warn or error")
	cli.CompleteValues(cmd, "policy", cli.Texts(policy.Names())...)
	cli.CompleteValues(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

func (a clusterVerbs) manager(ctx context.Context, f *managerFlags) error {
	c := manager.Config{
		Listen: f.listen, Cert: f.cert, Key: f.key, Version: cli.Version,
		Policy: policy.Config{MinRun: time.Duration(f.minRun)}, Network: float64(f.network), Drain: f.drain,
		Log: slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.Level(f.level)})),
	}
	var err error
	if c.Policy.Policy, err = policy.ParsePolicy(f.policy); err != nil {
		return cli.UsageErrorf("--policy: %w", err)
	}
	if (f.cert == "") != (f.key == "") {
		return cli.UsageErrorf("--tls-cert and --tls-key go together")
	}
	if err := checkAddress(f.listen); err != nil {
		return err
	}
	if c.Inputs.FileSystems, err = f.fileSystems(); err != nil {
		return err
	}
	tokens, err := a.madeTokens(f.tokenFile)
	if err != nil {
		return err
	}
	c.Token, c.AcceptedTokens = tokens[0], tokens[1:]
	m, err := manager.New(c)
	if err != nil {
		return err
	}
	go notifyReady(ctx, m.Ready(), c.Log)
	return m.Run(ctx)
}

// fileSystems reads what the flags say about HDFS.
func (f *managerFlags) fileSystems() (list []inputs.FileSystem, err error) {
	var kerberos *hdfs.Kerberos
	switch {
	case (f.kerberos.Principal == "") != (f.kerberos.Keytab == ""):
		return nil, cli.UsageErrorf("--hdfs-principal and --hdfs-keytab go together")
	case f.kerberos.Principal != "" && f.hdfsProxy != "":
		return nil, cli.UsageErrorf("--hdfs-principal says who acts for others; leave --hdfs-proxy out")
	case f.kerberos.Principal != "":
		kerberos = &f.kerberos
	}
	for _, text := range f.hdfs {
		name, nodes, named := strings.Cut(text, "=")
		if !named {
			name, nodes = "", text
		}
		list = append(list, inputs.FileSystem{Name: name, NameNodes: strings.Split(nodes, ","), Proxy: f.hdfsProxy, Kerberos: kerberos})
	}
	return list, nil
}
