package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// echo is how long a signal that comes again counts as the same.
const echo = time.Second

// reloads tells that SIGHUP means something else than the end.
var reloads atomic.Bool

// ReloadsOnHangup has SIGHUP not end the program any more: whoever calls it handles the signal.
func ReloadsOnHangup() { reloads.Store(true) }

// force has what is to be done before a signal may end the program by force.
var force struct {
	sync.Mutex
	do map[*func()]bool
}

// BeforeForce has do called once the program has been told to end and not done so within a second: the next signal
// ends it at once, and nothing is left behind then. Forget takes that back. Safe for concurrent use; do may call forget.
func BeforeForce(do func()) (forget func()) {
	force.Lock()
	defer force.Unlock()
	if force.do == nil {
		force.do = map[*func()]bool{}
	}
	force.do[&do] = true
	return func() {
		force.Lock()
		defer force.Unlock()
		delete(force.do, &do)
	}
}

// beforeForce does all that.
func beforeForce() {
	force.Lock()
	all := slices.Collect(maps.Keys(force.do))
	force.Unlock()
	for _, do := range all {
		(*do)()
	}
}

// Main runs a program until it has done what its arguments say, or SIGINT, SIGTERM or SIGHUP
// comes, and ends the process with the exit code.
func Main(execute func(ctx context.Context, args []string, in *os.File, out, errOut io.Writer) (code int)) {
	ctx, end := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGHUP || !reloads.Load() {
				end()
				break
			}
		}
		// A second signal ends the process at once, but not the echo of the first: timeout(1)
		// signals its command and then the group that it is in.
		time.Sleep(echo)
		done := make(chan struct{})
		go func() {
			defer close(done)
			beforeForce()
		}()
		select {
		case <-done:
		case <-time.After(echo): // a terminal that takes nothing must not keep the second signal from the end
		}
		signal.Stop(signals)
	}()
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// failing remembers that something could not be written, for who does not look at errors.
type failing struct {
	io.Writer
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if f.err == nil {
		f.err = err
	}
	return n, err
}

// Execute runs a command line, tells what went wrong, and returns the exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string, in *os.File, out, errOut io.Writer) int {
	root.SetArgs(args)
	root.SetIn(in)
	help := &failing{Writer: out}
	root.SetOut(help)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = help.err
	}
	code, line := Outcome(err)
	if exit := new(ExitError); code != 0 && ctx.Err() != nil && !errors.As(err, &exit) {
		code = ExitInterrupted
	}
	if line != "" {
		fmt.Fprintf(errOut, "%s: %s\n", root.Name(), line)
	}
	return code
}

// Root makes cmd a whole program; it still needs its verbs.
func Root(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Version = Version
	cmd.SetVersionTemplate(cmd.Name() + " {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageErrorf("%w (see %s --help)", err, cmd.CommandPath())
	})
	cmd.CompletionOptions.DisableDefaultCmd = true
	return Group(cmd)
}

// Group has cmd only show its help, and do with verbs below it whatever it does.
func Group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = noVerb
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(verbs...)
	return cmd
}

// noVerb refuses what is not the name of a verb below cmd.
func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("see %s --help", cmd.CommandPath())
	if near := meant(cmd, args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return Unknown(cmd, args[0], hint)
}

// Unknown says that cmd has no such verb, and what to do instead.
func Unknown(cmd *cobra.Command, verb, hint string) error {
	return UsageErrorf("unknown command %q for %s (%s)", verb, cmd.CommandPath(), hint)
}

// meant returns the verbs that word may stand for: those that other programs call so,
// else those that look like it.
func meant(cmd *cobra.Command, word string) []string {
	var same []string
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, word) {
			same = append(same, c.Name())
		}
	}
	if len(same) > 0 {
		return same
	}
	return cmd.SuggestionsFor(word)
}

// Takes checks the number of arguments; at most max, without limit if negative.
func Takes(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return UsageErrorf("%s: %s is missing (see %s --help)", cmd.CommandPath(), what, cmd.CommandPath())
		case max == 0 && len(args) > 0:
			return UsageErrorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
		case max >= 0 && len(args) > max:
			return UsageErrorf("%s takes %d argument, got %d (see %s --help)", cmd.CommandPath(), max, len(args), cmd.CommandPath())
		}
		return nil
	}
}
