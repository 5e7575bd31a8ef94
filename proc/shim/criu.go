package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"headrace/internal/criu"
)

const (
	dumpLog    = "dump.log"
	restoreLog = "restore.log"
)

// criuCommon are the options that a dump and its restore must agree on.
//
//	--file-locks         locks are dumped and taken again
//	--ghost-limit        such files are kept up to this size
//	--tcp-established    connections are kept (the dump also has --network-lock:
//	                     their packets are held back until the restore)
//	--manage-cgroups     cgroups are ours to set, not CRIU's to remember
var criuCommon = []string{
	"-v2", "--file-locks", "--ghost-limit", "1G",
	"--tcp-established", "--manage-cgroups=ignore",
}

// linkRemap lets CRIU give files that were deleted under one name, and have others,
// a name for a while. It makes and removes that as root in a directory that may be
// another user's, so it is for root's own tasks only.
const linkRemap = "--link-remap"

// criuFailure makes one error of a failed run: what CRIU said last and what it
// means. truePaths puts right the paths that it names.
func criuFailure(what string, runErr error, log *os.File, truePaths func(string) string) error {
	said := criu.LastErrors(fmt.Sprintf("/proc/self/fd/%d", log.Fd()))
	if said == "" {
		said = strings.TrimSpace(wordsOf(log))
	}
	said = truePaths(said)
	text := said
	if why := criu.Explain(said); why != "" {
		text = fmt.Sprintf("%s (CRIU: %s)", why, said)
	}
	return fmt.Errorf("%s: %w: %s", what, runErr, text)
}

// criuLog makes what CRIU has as its log and its output: a file in memory. CRIU gives it to the code that it runs inside a process of the
// task, from which the task's user can take it, write to it and keep it. A file of root's would be made as large as the disk.
func criuLog() (*os.File, error) { return memoryFile("criu.out", nil) }

// keepLog writes the end of a log into the task's directory, for `headrace show` and for
// whoever looks into a failure.
func keepLog(log *os.File, taskDir, name string) {
	const most = 256 << 10
	var b []byte
	end, err := log.Seek(0, io.SeekEnd)
	if err == nil {
		b, err = io.ReadAll(io.NewSectionReader(log, max(0, end-most), most))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(taskDir, name), b, 0o600)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "keep %s: %v\n", name, err)
	}
}

// errCRIUKilled: something has ended CRIU in the middle of a dump. A process may be left with what CRIU had put into it.
var errCRIUKilled = errors.New("CRIU was killed")

// errNoInit: something has ended the root process while the tree was being restored.
// The image itself was checked.
var errNoInit = errors.New("the restored tree has no root process; it was ended meanwhile")
