package shim

import (
	"fmt"
	"os"
)

// Main runs the part that args[0] names and returns the exit code.
func Main(args []string) int {
	if len(args) == 0 {
		return usage()
	}
	var err error
	switch args[0] {
	case "supervise":
		err = supervise(args[1:])
	case "init":
		err = runInit(args[1:])
	case "exec":
		err = runExec(args[1:])
	case "in-cgroups":
		err = runInCgroups(args[1:])
	case "dump":
		err = runDump(os.Stdin, os.Stdout)
	case "take-locks":
		err = runTakeLocks(os.Stdin)
	case "swap-probe":
		err = runSwapProbe(args[1:], os.Stdout)
	case "--help", "-h", "help":
		usage()
		return 0
	default:
		return usage()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "headrace-shim %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

func usage() int {
	fmt.Fprint(os.Stderr, `headrace-shim supervises one task of Headrace. The daemon starts it; there is
nothing to do with it by hand. It keeps tasks/ID in the state directory open, and its
children are the task's processes: fuser -v STATEDIR/tasks/ID names it.

  headrace-shim attach -socket SOCKET -id ID [-timeout 5s] -- COMMAND [ARG ...]

runs COMMAND as a task of the daemon that listens on SOCKET, in the place of this
process; without such a daemon it becomes COMMAND.
`)
	return 2
}
