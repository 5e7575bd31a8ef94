package clitest

import (
	"errors"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

// Status runs a command of scripts: status N prog [arg...] runs prog, whose exit code
// must be N.
func Status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N prog [arg...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	WantCode(ts, args[0], err)
}

// WantCode fails unless err is that of a program with this exit code.
func WantCode(ts *testscript.TestScript, want string, err error) {
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// EveryCommandHasHelp fails for commands below root without help or without a check of
// their arguments, and if there are fewer than least.
func EveryCommandHasHelp(t *testing.T, root *cobra.Command, least int) {
	t.Helper()
	count := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		count++
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: no short help or no example", c.CommandPath())
		}
		if c.Args == nil {
			t.Errorf("%s: arguments are not checked", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if count < least {
		t.Errorf("only %d commands", count)
	}
}
