package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/proc/attach"
	"headrace/wire"
)

type runFlags struct {
	name, job, user    string
	priority           cli.Priority
	cpus               cli.CPUs
	memory             cli.Size
	pids               int64
	ioWeight           uint32
	env                []string
	cleanEnv           bool
	cwd, output, stdin string
	restart, held      bool
	wait, logs, quiet  bool
	pipes              bool     // the command gets what is piped to this program
	piped              *os.File // the file with that, while it is ours; nil: it is somebody else's
	patience           cli.Span
	input              inputFlags
}

func runVerb(a taskVerbs) *cobra.Command {
	f := runFlags{priority: cli.Priority(headrace.Normal), cpus: 1}
	cmd := &cobra.Command{
		Use:        "run [flags] [--] COMMAND [ARG...]",
		Short:      "Accept a command as a task; prints its id",
		SuggestFor: []string{"submit", "add", "srun", "sbatch", "qsub", "exec"},
		Long: `Run hands a command to the daemon, which starts it when its turn has come, and
prints the id of the task. The command runs as the caller, in this directory,
with this environment, without a shell; flags behind it are its own. What it
writes is kept: see headrace logs.

With --wait it waits for the task and ends with its exit code, or 128 plus the
signal that ended it; with --logs it also shows what the task writes, and says
what it waits for. Both print the id on standard error: standard output is the
command's. Ctrl-C then ends the waiting, not the task.

The command has no standard input unless --stdin says so.

With --input the daemon knows what the command reads. It reads the files into
memory while the task waits for its turn, and lets tasks go first whose files
are there. With --split it also reads for them, once and in order, and deals
what it reads to --tasks tasks, each of which gets as much as it can take:

  lines, lines:DELIM   whole records that end with DELIM, on standard input
  fixed:SIZE           whole records of SIZE bytes, on standard input
  raw                  bytes, cut anywhere, on standard input
  files                {} in the command becomes a file; it runs once for each
  none                 nothing: the command opens the files itself (default)

Gzip and zstd files are unpacked on the way, and each goes to one task. All
records are dealt once, also when tasks are preempted or fail and start again.
The ids of all tasks are printed; --wait waits for all of them and ends with the
first exit code that is not 0; --logs shows the lines of all of them.

Sizes: K, M, G, T are powers of 1024; kB, MB, GB, TB of 1000.`,
		Example: `  headrace run --priority low --name nightly -- python3 train.py
  headrace run --priority high --wait -- ./urgent.sh
  headrace run --cpus 2 --memory 4G --output build.log make -j2
  headrace run -f --input access.log --split lines --tasks 4 -- grep -c ' 500 '
  headrace run -f --input 'logs/*.gz' --split files --tasks 4 -- ./parse.sh {}`,
		Args:              cli.Takes(1, -1, "the command"),
		ValidArgsFunction: completeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), &f, args)
		},
	}
	f.define(cmd)
	return cmd
}

func (f *runFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.VarP(&f.priority, "priority", "p", "free, low, normal, high, production, or 0 to 11")
	flags.StringVarP(&f.name, "name", "n", "", "a `NAME` for people")
	flags.StringVar(&f.job, "job", "", "the `JOB` that the task belongs to")
	flags.Var(&f.cpus, "cpus", "how many CPUs it keeps busy")
	flags.Var(&f.memory, "memory", "how much memory it needs, and may use at most (default: unknown)")
	flags.Int64Var(&f.pids, "pids", 0, "the greatest `NUMBER` of processes and threads it may have (default: 16,384)")
	flags.Uint32Var(&f.ioWeight, "io-weight", 0, "its share of the disks, a `NUMBER` from 1 to 10000 (default: 100)")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "`KEY=VALUE`, or KEY to take the caller's value; may be repeated")
	flags.BoolVar(&f.cleanEnv, "clean-env", false, "pass nothing of this environment but what --env says")
	flags.StringVar(&f.cwd, "cwd", "", "the `DIR` to run in (default: this one)")
	flags.StringVar(&f.user, "user", "", "run as this `USER`; root only")
	flags.StringVar(&f.output, "output", "", "a `FILE` for standard output and error together (default: kept for headrace logs)")
	flags.StringVar(&f.stdin, "stdin", "", "a `FILE` for standard input; -: what is piped to this command (default: no input)")
	flags.BoolVar(&f.restart, "restart", false, "start it again if its processes vanish, by a reboot say, and no checkpoint is left")
	flags.BoolVar(&f.held, "held", false, "do not start it before headrace resume")
	flags.BoolVarP(&f.wait, "wait", "w", false, "wait for the task and exit with its exit code")
	flags.BoolVarP(&f.logs, "logs", "f", false, "wait, and show what it writes")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not print the id")
	patienceFlag(cmd, &f.patience)
	f.input.define(cmd)
	cli.CompleteValues(cmd, "priority", "free", "low", "normal", "high", "production")
}

// completeCommand leaves the command itself to the shell.
func completeCommand(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func (a taskVerbs) run(ctx context.Context, f *runFlags, argv []string) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	if err := a.chooseStdin(f); err != nil {
		return err
	}
	req, err := f.request(argv, a.Say)
	if err != nil {
		return err
	}
	if err := checkPaths(req); err != nil {
		return err
	}
	if err := a.readStdin(ctx, d, f, req); err != nil {
		return err
	}
	defer a.keepPiped(f)
	resp, err := a.submit(ctx, d, f, req)
	if err != nil {
		return err
	}
	ids, err := accepted(req, resp)
	if err != nil {
		return err
	}
	if err := a.tellIDs(f, resp, ids); err != nil {
		return fmt.Errorf("accepted as %s, which cannot be written: %w", strings.Join(ids, " "), err)
	}
	if !f.wait && !f.logs {
		return nil
	}
	w := &runWait{app: a, ids: ids, job: resp.Job, logs: f.logs, elsewhere: f.output != "", dealt: req.Input.GetSplit() != wire.Split_SPLIT_NONE}
	w.follower = &follower{daemon: d, patience: f.patience, say: w.say}
	return w.run(ctx)
}

// submit hands the tasks to the daemon. What was piped may have taken long to come: a daemon that is away meanwhile, or
// refuses more for now, is asked again for a while.
func (a taskVerbs) submit(ctx context.Context, d *daemon, f *runFlags, req *wire.RunRequest) (*wire.RunResponse, error) {
	said := false
	for began, pause := time.Now(), pauses(0); ; {
		resp, err := a.submitOnce(ctx, d, f, req)
		passes := errors.As(err, new(*wire.NoDaemonError)) || connect.CodeOf(err) == connect.CodeResourceExhausted
		if err == nil || f.piped == nil || !passes || time.Since(began) > time.Duration(f.patience) {
			return resp, err
		}
		if !said {
			said = true
			_, line := cli.Outcome(err)
			a.Say("%s; trying again for up to %s", line, time.Duration(f.patience))
		}
		if err := pause.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// submitOnce does so once. Who is interrupted meanwhile waits a while for the
// answer all the same: without it nobody knows whether there are tasks.
func (a taskVerbs) submitOnce(ctx context.Context, d *daemon, f *runFlags, req *wire.RunRequest) (*wire.RunResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cli.AnswerTime, cancel) })()
	resp, err := d.Run(late, req)
	maybe := err != nil && severed(err) && !errors.As(err, new(*wire.NoDaemonError))
	if maybe && f.piped != nil {
		a.tellPiped(f.piped, "whether the task was accepted is not known: see headrace ps. If it was not, hand it in with --stdin %[1]s, which holds what was piped; else remove %[1]s")
	}
	if err == nil || maybe { // it is the daemon's
		f.piped.Close()
		f.piped = nil
	}
	return resp, err
}

// tellIDs prints the ids of the tasks: on standard output, but where that is the
// command's on standard error.
func (a taskVerbs) tellIDs(f *runFlags, resp *wire.RunResponse, ids []string) error {
	switch {
	case f.quiet:
		return nil
	case a.Format == cli.FormatJSON && (f.logs || f.wait):
		return jsonout.Write(a.Err, resp)
	case a.Format == cli.FormatJSON:
		return jsonout.Write(a.Out, resp)
	case f.logs || f.wait:
		what := "task"
		if len(ids) > 1 {
			what = "tasks"
		}
		a.Say("%s %s", what, strings.Join(ids, " "))
		return nil
	}
	_, err := fmt.Fprintln(a.Out, strings.Join(ids, "\n"))
	return err
}

// accepted returns the ids of all tasks. A daemon that knows of no input passes
// over it.
func accepted(req *wire.RunRequest, resp *wire.RunResponse) ([]string, error) {
	if len(resp.Ids) > 0 {
		return resp.Ids, nil
	}
	if req.Input != nil {
		return nil, fmt.Errorf("the daemon is older than this program and does not know --input; task %s runs without it: end it with headrace kill %s, and start the daemon again", resp.Id, resp.Id)
	}
	return []string{resp.Id}, nil
}

func (f *runFlags) request(argv []string, say func(string, ...any)) (*wire.RunRequest, error) {
	if argv[0] == "" {
		return nil, cli.UsageErrorf("the command is empty: see headrace run --help")
	}
	for _, arg := range append([]string{f.name, f.job, f.cwd, f.user, f.output, f.stdin}, argv...) {
		if !utf8.ValidString(arg) {
			return nil, cli.UsageErrorf("%q is not UTF-8 and cannot be sent", arg)
		}
	}
	env, err := f.environment(say)
	if err != nil {
		return nil, err
	}
	cwd, err := filepath.Abs(f.cwd)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	req := &wire.RunRequest{
		Argv: argv, Name: f.name, Job: f.job, Priority: uint32(f.priority),
		Cpus: float64(f.cpus), Memory: int64(f.memory),
		Env: env, Cwd: cwd, User: f.user,
		Umask: proto.Uint32(umask()), Held: f.held,
		Limits: limitsHere(), Nice: niceHere(), Pids: f.pids, IoWeight: f.ioWeight,
	}
	if f.restart {
		req.Restart = wire.Restart_RESTART_ON_LOSS
	}
	if req.Output, err = absolute(f.output); err != nil {
		return nil, err
	}
	if req.Stdin, err = absolute(f.stdin); err != nil {
		return nil, err
	}
	req.Input, err = f.input.message(argv, f.stdin)
	return req, err
}

// absolute returns path as seen from here; empty stays empty.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// environment returns what the task gets. Of the caller's, it leaves out with a
// warning what the protocol cannot carry.
func (f *runFlags) environment(say func(string, ...any)) ([]string, error) {
	var env []string
	if !f.cleanEnv {
		env = os.Environ()
	}
	env = slices.DeleteFunc(env, func(e string) bool {
		if utf8.ValidString(e) {
			return false
		}
		key, _, _ := strings.Cut(e, "=")
		say("the environment variable %q is not UTF-8 and is left out", key)
		return true
	})
	for _, e := range f.env {
		key, _, given := strings.Cut(e, "=")
		if key == "" {
			return nil, cli.UsageErrorf("--env %q: want KEY=VALUE", e)
		}
		if !given {
			value, set := os.LookupEnv(key)
			if !set {
				return nil, cli.UsageErrorf("--env %s: it is not set here: give it a value with --env %s=VALUE", key, key)
			}
			e = key + "=" + value
		}
		if !utf8.ValidString(e) {
			return nil, cli.UsageErrorf("--env %s: it is not UTF-8 and cannot be sent", key)
		}
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, key+"=") })
		env = append(env, e)
	}
	return env, nil
}

// limitsHere returns the resource limits of this process, which the task gets.
func limitsHere() []*wire.ResourceLimit {
	var out []*wire.ResourceLimit
	for _, l := range attach.Limits() {
		out = append(out, &wire.ResourceLimit{Resource: attach.ResourceName(l.Resource), Soft: l.Soft, Hard: l.Hard})
	}
	return out
}

// niceHere returns the niceness of this process; nil where it cannot be found out.
func niceHere() *int32 {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return nil
	}
	return proto.Int32(int32(20 - raw)) // the system call has it that way round
}

// umask returns that of this process, which the kernel tells only in exchange for
// another one.
func umask() uint32 {
	old := syscall.Umask(0o077)
	syscall.Umask(old)
	return uint32(old)
}
