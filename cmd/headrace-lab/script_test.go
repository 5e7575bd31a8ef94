package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"headrace/cli/clitest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"headrace-lab": main}) }

// TestScript runs the command line. Besides the usual commands, scripts have status,
// as those of headrace.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// Else every process that the race detector watches sleeps a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": clitest.Status},
	})
}

func TestEveryCommandHasHelp(t *testing.T) {
	clitest.EveryCommandHasHelp(t, newRoot(&app{in: os.Stdin, out: os.Stdout, err: os.Stderr}), 12)
}
