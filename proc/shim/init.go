package shim

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// Names of files in the task's directory.
const (
	stdoutFile  = "stdout"
	stderrFile  = "stderr"
	exitFile    = "exit.json"
	commandExit = "command-exit"
	keyringFile = "keyring" // the number of the session keyring that the task was given
	lockFile    = "shim.lock"

	progressFile = proc.ProgressFile
)

// errorFD is the descriptor on which the parts that start the command report: init
// the command's pid, what becomes the command the file that it writes to, and
// whoever fails why. The end of it without a failure means that the command runs.
const errorFD = 3

// commandStatus is how the command itself ended; init leaves it in the file
// commandExit, for its own exit code cannot tell a signal from a number.
type commandStatus struct {
	Code   int `json:"code"`
	Signal int `json:"signal"`
}

// startReport is a report on errorFD: a pid, an output file, or a failure.
type startReport struct {
	PID int `json:"pid,omitempty"`
	// User: what follows may come from a process that is the user's.
	User bool `json:"user,omitempty"`
	// Output is answered with a line when it is recorded: empty, or what went wrong.
	Output *proc.OutputMark `json:"output,omitempty"`
	Code   int              `json:"code,omitempty"`
	Text   string           `json:"text,omitempty"`
	// Lacking: the failure was for want of something that there may be later.
	Lacking bool `json:"lacking,omitempty"`
}

// maxReports bounds what is read of reports, in bytes: they come from a process
// that is the user's already.
const maxReports = 1 << 20

// report is the last word of this process on errorFD.
func report(r startReport) {
	f := os.NewFile(errorFD, "error report")
	json.NewEncoder(f).Encode(r) // without a reader there is nobody to tell
	f.Close()
}

func reportStartFailure(code int, err error) {
	report(startReport{Code: code, Text: err.Error(), Lacking: linux.Lacking(err)})
}

// runInit starts the command of the spec in the task's directory and reaps all
// that is re-parented to it until the command ends. Everything below it belongs
// to the task, also what the command leaves behind.
func runInit(args []string) error {
	if len(args) != 1 {
		return errors.New("want the task's directory")
	}
	dir := args[0]
	spec, err := proc.ReadSpec(dir)
	if err == nil {
		err = linux.JoinCgroups(spec.Cgroups)
	}
	if err != nil {
		reportStartFailure(126, err)
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	// Signals meant for the task must not end its root. They are caught, not
	// ignored: an ignored signal stays ignored in the command.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGUSR2)
	pid, err := startExec(dir, spec)
	if err != nil {
		reportStartFailure(126, err)
		return err
	}
	report(startReport{PID: pid})
	st, err := reapUntil(pid)
	if err != nil {
		return err
	}
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return writeInTime(filepath.Join(dir, commandExit), b)
}

// startExec forks the process that becomes the command, in a process group of its
// own. It has the daemon's rights at first, so nothing of the user's environment
// may reach it: not what the dynamic linker would load, nor Go's own settings.
func startExec(dir string, s proc.Spec) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(self, []string{"headrace-shim", "exec", dir}, &syscall.ProcAttr{
		Dir: "/", Env: []string{proc.TaskIDEnv + "=" + string(s.ID), progressMark(dir)}, Files: []uintptr{0, 1, 2, errorFD}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// progressMark returns the entry of the environment by which processes of a task are
// known when nothing else tells (package proc, endOrphans); init has it too.
func progressMark(dir string) string {
	return proc.ProgressEnv + "=" + filepath.Join(dir, progressFile)
}

// taskEnv returns the environment of the spec, with one addition: Go programs open
// multipath TCP listeners by default, which CRIU cannot dump.
func taskEnv(spec []string) []string {
	const setting = "multipathtcp=0"
	env := append([]string{}, spec...)
	for i, e := range env {
		if v, ok := strings.CutPrefix(e, "GODEBUG="); ok {
			if !strings.Contains(v, "multipathtcp=") {
				env[i] = "GODEBUG=" + strings.TrimPrefix(v+","+setting, ",")
			}
			return env
		}
	}
	return append(env, "GODEBUG="+setting)
}

func reapUntil(pid int) (commandStatus, error) {
	for {
		var ws syscall.WaitStatus
		p, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return commandStatus{}, os.NewSyscallError("wait4", err)
		}
		if p != pid {
			continue
		}
		if ws.Signaled() {
			return commandStatus{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}, nil
		}
		return commandStatus{Code: ws.ExitStatus()}, nil
	}
}

// runInCgroups joins the cgroups named before "--", behind the task's directory, and becomes the command after
// it, whose files are for nobody else: CRIU leaves some in the task's directory, and
// gives those of the task their own modes.
func runInCgroups(args []string) error {
	runtime.LockOSThread() // the keyring is the thread's, and this one becomes the command
	unix.Umask(0o077)
	if len(args) == 0 {
		return errors.New("want the task's directory")
	}
	if err := leaveKeyring(args[0]); err != nil {
		return err
	}
	args = args[1:]
	for i, a := range args {
		if a == "--" && i+1 < len(args) {
			if err := linux.JoinCgroups(args[:i]); err != nil {
				return err
			}
			if err := allDescriptors(); err != nil {
				return err
			}
			return syscall.Exec(args[i+1], args[i+1:], os.Environ())
		}
	}
	return errors.New("want DIRECTORY CGROUP-DIRECTORY ... -- COMMAND [ARG ...]")
}

// allDescriptors raises how many descriptors this process, and what it becomes, may have to what it may raise it to. CRIU needs
// some above the greatest of the task, which has limits of its own.
func allDescriptors() error {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		return err
	}
	own.Cur = own.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &own) // that of syscall: else it puts back the old one when it becomes the command
}
