package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"headrace/internal/criu"
	"headrace/proc"
)

const (
	dumpLog    = "dump.log"
	restoreLog = "restore.log"
)

// criuCommon are the options that a dump and its restore must agree on.
//
//	--file-locks         locks are dumped and taken again
//	--link-remap         files that were deleted while open get a name for a while
//	--ghost-limit        such files are kept up to this size
//	--tcp-established    connections are kept (the dump also has --network-lock:
//	                     their packets are held back until the restore)
//	--manage-cgroups     cgroups are ours to set, not CRIU's to remember
var criuCommon = []string{
	"-v2", "--file-locks", "--link-remap", "--ghost-limit", "1G",
	"--tcp-established", "--manage-cgroups=ignore",
}

// criuFailure makes one error of a failed run: what CRIU said last and what it
// means.
func criuFailure(what string, runErr error, log, output string) error {
	said := criu.LastErrors(log)
	if said == "" {
		said = strings.TrimSpace(output)
	}
	text := said
	if why := criu.Explain(said); why != "" {
		text = fmt.Sprintf("%s (CRIU: %s)", why, said)
	}
	return fmt.Errorf("%s: %w: %s", what, runErr, text)
}

// keepLog copies the end of a log to the task's directory, for `headrace show`
// and for whoever looks into a failure; the original goes with its image.
func keepLog(from, taskDir, name string) {
	b, err := os.ReadFile(from)
	if err == nil {
		const most = 256 << 10
		err = os.WriteFile(filepath.Join(taskDir, name), b[max(0, len(b)-most):], 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "keep %s: %v\n", name, err)
	}
}

var errNoInitInImage = fmt.Errorf("%w: the restored tree has no root process", proc.ErrNoImage)
