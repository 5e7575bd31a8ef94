package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headrace/cli"
	"headrace/cmd/headrace/filesystem"
	"headrace/cmd/headrace/settings"
	"headrace/internal/linux"
	"headrace/policy"
	"headrace/policy/prefetch"
	"headrace/solo"
	"headrace/solo/store"
	"headrace/wire"
)

type soloFlags struct {
	file                    settings.Flags
	slots                   cli.CPUs
	memory                  budget
	swapReserve             cli.Size
	enforce                 bool
	warmBudget, buffer      budget
	noWarm                  bool
	policy, victims         string
	minRun, ageing          cli.Rule
	suspendGrace, killGrace span
	keepEnded               kept
	stallLimit              span
	requests, userRequests  budget
	userConns               kept
	stores, newStores       []string
	metrics, criu, shim     string
	level                   cli.Level

	noResidencyOrder, warmFIFO bool
}

func soloVerb(a *app) *cobra.Command {
	var f soloFlags
	var fs filesystem.StartFlags
	cmd := &cobra.Command{
		Use:        "solo",
		Short:      "The daemon: run tasks on this machine",
		SuggestFor: []string{"daemon", "serve", "server"},
		Long: `Solo is the daemon of one machine. It listens on a socket in its state
directory, runs what headrace run hands to it, and makes room for urgent tasks.
Its tasks do not need it: it may be stopped, killed and started again at any
time. On SIGTERM or Ctrl-C it stops and leaves them running.

Run by root it serves every user, each with their own tasks, and can checkpoint.
Run by an ordinary user it suspends and kills, and serves that user alone.

Settings and limits of users may be in a file, with the flags' names as keys:
[daemon], [limits], [limits user NAME], [limits group NAME]. On SIGHUP the limits
are read again.

Policies: cost, the default, takes the cheapest for each victim; adaptive is the
published algorithm; wait, kill, suspend and checkpoint take that one.`,
		Example: `  headrace solo &
  headrace solo --slots 2 --memory 8G --policy cost
  headrace solo --check-config
  headrace solo --store fast=/dev/shm/headrace --store disk=/var/lib/headrace/checkpoints,zstd`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			told, err := f.load(cmd.Flags())
			if err != nil {
				return err
			}
			return a.solo(cmd.Context(), &f, &fs, told)
		},
	}
	f.define(cmd)
	defineBeside(cmd, &fs)
	return cmd
}

// defineBeside defines the flags of a node of a file system that is in the daemon.
func defineBeside(cmd *cobra.Command, fs *filesystem.StartFlags) {
	cmd.Flags().StringVar(&fs.Dir, "dfs", "", "be a node of a file system as well, in `DIR`, as headrace dfs start is; its other flags are called --dfs-listen and so on here")
	fs.Define(cmd, "dfs-")
	cmd.Flags().VisitAll(func(f *pflag.Flag) { // they have their own help
		if strings.HasPrefix(f.Name, "dfs-") {
			f.Hidden = true
		}
	})
}

func (f *soloFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.file.Define(flags)
	flags.Var(&f.slots, "slots", "how many CPUs tasks may use (default: all of them)")
	flags.Var(&f.memory, "memory", "how much memory all tasks together may use (default: 90 % of the machine's)")
	flags.BoolVar(&f.enforce, "enforce-memory", false, "have the kernel enforce --memory with a memory cgroup")
	flags.Var(&f.swapReserve, "swap-reserve", "swap space that is left to others")
	flags.Var(&f.warmBudget, "warm-budget", "how much of files may be kept in memory ahead of their readers; nothing: --no-warm (default: a quarter of the memory)")
	flags.BoolVar(&f.noWarm, "no-warm", false, "keep no files in memory; headrace warm fails")
	flags.Var(&f.buffer, "buffer", "the shared memory that the input of a job is read into, unless headrace run says (default 100MB)")
	flags.StringVar(&f.policy, "policy", string(policy.Cost), "how to make room: "+cli.List(policy.Names()))
	flags.StringVar(&f.victims, "victims", "", "whom first: "+cli.List(policy.VictimOrders())+" (default: by policy)")
	flags.Var(&f.minRun, "min-run", "how long a task runs between two preemptions; 0: no such rule (default 5s)")
	flags.Var(&f.ageing, "ageing", "how long a task waits for its priority to rise by one; 0: no such rule (default 10m)")
	flags.Var(&f.suspendGrace, "suspend-grace", "how long handlers of SIGTSTP get (default 100ms)")
	flags.Var(&f.killGrace, "kill-grace", "time between SIGTERM and SIGKILL for headrace kill (default 10s)")
	flags.Var(&f.keepEnded, "keep-ended", "keep this `NUMBER` of ended tasks (default 10000)")
	flags.Var(&f.stallLimit, "stall-limit", "how long CRIU may make no progress in a checkpoint or a restore until it is ended (default 1m)")
	flags.Var(&f.requests, "request-bytes", "how much of requests that are not answered yet is kept for all users but root (default 96MiB)")
	flags.Var(&f.userRequests, "user-request-bytes", "how much of that for one user (default 24MiB)")
	flags.Var(&f.userConns, "user-connections", "the `NUMBER` of connections to each socket that one user may have, all but root three times as many (default 256)")
	flags.StringArrayVar(&f.stores, "store", nil, "a `NAME=DIR` for checkpoints, with ,zstd behind it compressed; may be repeated (default: in the state directory)")
	flags.StringArrayVar(&f.newStores, "new-store", nil, "a `DIR` of these in which what was there is lost; may be repeated (otherwise that waits until the store is mounted)")
	flags.StringVar(&f.metrics, "metrics", "", "serve Prometheus on this loopback `ADDR`, such as 127.0.0.1:9464")
	flags.StringVar(&f.criu, "criu", "", "the `PATH` of CRIU (default $HEADRACE_CRIU, else where scripts/get-criu puts it, else on PATH)")
	flags.StringVar(&f.shim, "shim", "", "the `PATH` of headrace-shim (default: beside this program, else on PATH)")
	flags.Var(&f.level, "log-level", "debug, info, warn or error")
	flags.BoolVar(&f.noResidencyOrder, "no-residency-order", false, "leave tasks and files in their order, whether they are in memory or not")
	flags.BoolVar(&f.warmFIFO, "warm-fifo", false, "read the files of the task that was submitted first into memory first, not those of the smallest")
	hideFlag(cmd, "no-residency-order") // both are for the experiments
	hideFlag(cmd, "warm-fifo")
	cli.CompleteValues(cmd, "policy", cli.Texts(policy.Names())...)
	cli.CompleteValues(cmd, "victims", cli.Texts(policy.VictimOrders())...)
	cli.CompleteValues(cmd, "log-level", "debug", "info", "warn", "error")
}

// load reads the file with settings and sets those flags that were not given.
func (f *soloFlags) load(flags *pflag.FlagSet) (*settings.Settings, error) {
	return settings.Load(flags, &f.file, settingNames(flags))
}

// settingNames returns those flags of a daemon that may be in the file: all of headrace solo but
// those about the file, and those for experiments.
func settingNames(flags *pflag.FlagSet) []string {
	cmd := &cobra.Command{}
	new(soloFlags).define(cmd)
	defineBeside(cmd, new(filesystem.StartFlags))
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil && (!f.Hidden || strings.HasPrefix(f.Name, "dfs-")) && !slices.Contains([]string{"config", "check-config", "limit"}, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

func (a *app) solo(ctx context.Context, f *soloFlags, fs *filesystem.StartFlags, s *settings.Settings) error {
	log := slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.Level(f.level)}))
	config, err := f.config(a.stateDir, log)
	if err != nil {
		return s.Blame(err)
	}
	config.Limits = s.Limits
	if fs.Dir != "" {
		if err := fs.Check(); err != nil {
			return s.Blame(err)
		}
	}
	daemon, err := solo.New(config)
	if err != nil {
		return s.Blame(err)
	}
	daemon.AlsoTell(fs.Hangs)
	if f.file.Check {
		return a.Tables(s.Tables())
	}
	if err := checkShim(config.Shim); err != nil {
		return err
	}
	filesystem.WarnOfAccounts(log)
	s.Keep(ctx, log)
	go notifyReady(ctx, daemon.Ready(), log)
	defer filesystem.Beside(ctx, &a.App, fs, log)()
	if err := daemon.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// notifyReady tells systemd when a daemon answers.
func notifyReady(ctx context.Context, ready <-chan struct{}, log *slog.Logger) {
	select {
	case <-ready:
		if err := linux.NotifyReady(); err != nil {
			log.Warn("systemd cannot be told that the daemon is up", "err", err)
		}
	case <-ctx.Done():
	}
}

func (f *soloFlags) config(stateDir string, log *slog.Logger) (solo.Config, error) {
	c := solo.Config{
		Slots: float64(f.slots), Memory: int64(f.memory), EnforceMemory: f.enforce, SwapReserve: int64(f.swapReserve),
		WarmBudget: int64(f.warmBudget), NoWarm: f.noWarm, Buffer: int64(f.buffer),
		SuspendGrace: time.Duration(f.suspendGrace), KillGrace: time.Duration(f.killGrace), KeepEnded: int(f.keepEnded),
		StallLimit: time.Duration(f.stallLimit), RequestBytes: int64(f.requests), UserRequestBytes: int64(f.userRequests),
		UserConnections: int(f.userConns), Metrics: f.metrics, Version: cli.Version, Log: log,
	}
	if f.warmFIFO {
		c.Warm.Order = prefetch.FIFO
	}
	if f.noWarm && f.warmBudget > 0 {
		return c, cli.UsageErrorf("--no-warm and --warm-budget exclude each other")
	}
	var err error
	if c.Policy, err = f.policyConfig(); err != nil {
		return c, err
	}
	if c.Stores, err = f.parseStores(); err != nil {
		return c, err
	}
	for _, dir := range f.newStores {
		if dir, err = filepath.Abs(dir); err != nil {
			return c, fmt.Errorf("--new-store: %w", err)
		}
		c.NewStores = append(c.NewStores, dir)
	}
	if c.StateDir, err = wire.StateDirForDaemon(stateDir); err != nil {
		return c, err
	}
	if c.Shim, err = findShim(f.shim); err != nil {
		return c, err
	}
	path, why, err := findCRIU(f.criu)
	if why != nil && os.Geteuid() == 0 {
		log.Warn("tasks cannot be checkpointed; see headrace doctor", "reason", why)
	}
	c.CRIU = path
	return c, err
}

func (f *soloFlags) policyConfig() (policy.Config, error) {
	c := policy.Config{MinRun: time.Duration(f.minRun), Ageing: time.Duration(f.ageing), NoResidencyOrder: f.noResidencyOrder}
	var err error
	if c.Policy, err = policy.ParsePolicy(f.policy); err != nil {
		return c, cli.UsageErrorf("--policy: %w", err)
	}
	if c.VictimOrder, err = policy.ParseVictimOrder(f.victims); err != nil {
		return c, cli.UsageErrorf("--victims: %w", err)
	}
	if err = c.Validate(); err != nil {
		return c, cli.UsageErrorf("%w", err)
	}
	return c, nil
}

// parseStores reads --store.
func (f *soloFlags) parseStores() (stores []store.Config, err error) {
	for _, s := range f.stores {
		store, err := parseStore(s)
		if err != nil {
			return nil, err
		}
		stores = append(stores, store)
	}
	return stores, nil
}

// parseStore reads NAME=DIR[,zstd].
func parseStore(s string) (store.Config, error) {
	name, dir, found := strings.Cut(s, "=")
	dir, compressed := strings.CutSuffix(dir, ",zstd")
	if !found || name == "" || dir == "" {
		return store.Config{}, cli.UsageErrorf("--store %q: want NAME=DIR or NAME=DIR,zstd", s)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return store.Config{}, fmt.Errorf("--store %q: %w", s, err)
	}
	return store.Config{Name: name, Dir: abs, Compress: compressed}, nil
}

// hideFlag leaves a flag out of the help. It must have been defined.
func hideFlag(cmd *cobra.Command, name string) {
	if err := cmd.Flags().MarkHidden(name); err != nil {
		panic(err)
	}
}
