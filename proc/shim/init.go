package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// Names of files in the task's directory.
const (
	specFile    = "spec.json"
	stdoutFile  = "stdout"
	stderrFile  = "stderr"
	exitFile    = "exit.json"
	commandExit = "command-exit"
	lockFile    = "shim.lock"

	progressFile = "progress"
)

// errorFD is the descriptor on which the parts that start the command report a
// failure. The end of it without a word means that the command runs.
const errorFD = 3

// commandStatus is how the command itself ended; init leaves it in the file
// commandExit, for its own exit code cannot tell a signal from a number.
type commandStatus struct {
	Code   int `json:"code"`
	Signal int `json:"signal"`
}

// startFailure is the report on errorFD.
type startFailure struct {
	Code int    `json:"code"`
	Text string `json:"text"`
}

func reportStartFailure(code int, err error) {
	f := os.NewFile(errorFD, "error report")
	json.NewEncoder(f).Encode(startFailure{Code: code, Text: err.Error()}) // without a reader there is nobody to tell
	f.Close()
}

// runInit starts the command of the spec in the task's directory and reaps all
// that is re-parented to it until the command ends. Everything below it belongs
// to the task, also what the command leaves behind.
func runInit(args []string) error {
	if len(args) != 1 {
		return errors.New("want the task's directory")
	}
	dir := args[0]
	spec, err := readSpec(dir)
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
	if err := unix.Close(errorFD); err != nil {
		return err
	}
	st, err := reapUntil(pid)
	if err != nil {
		return err
	}
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return linux.WriteFileDurably(filepath.Join(dir, commandExit), b, 0o600)
}

func readSpec(dir string) (proc.Spec, error) {
	var s proc.Spec
	b, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

// startExec forks the process that becomes the command, as the task's user, in
// a process group of its own.
func startExec(dir string, s proc.Spec) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	argv := append([]string{"headrace-shim", "exec", s.Stdin, s.Output, strconv.FormatUint(uint64(s.Umask), 8), "--"}, s.Argv...)
	env := append(taskEnv(s.Env),
		proc.TaskIDEnv+"="+string(s.ID), progressMark(dir))
	sys := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		sys.Credential = &syscall.Credential{Uid: s.UID, Gid: s.GID, Groups: s.Groups}
	}
	pid, err := syscall.ForkExec(self, argv, &syscall.ProcAttr{
		Dir: s.Cwd, Env: env, Files: []uintptr{0, 1, 2, errorFD}, Sys: sys,
	})
	if err != nil {
		return 0, fmt.Errorf("start in directory %s: %w (does it exist, and may the user enter it?)", s.Cwd, err)
	}
	return pid, nil
}

// progressMark is the entry of the environment by which processes of a task are
// known when nothing else tells (package proc, endOrphans); init has it too.
func progressMark(dir string) string {
	return proc.ProgressEnv + "=" + filepath.Join(dir, progressFile)
}

// taskEnv is the environment of the spec, with one addition: Go programs open
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

// runExec runs as the user: it opens the user's files and becomes the command.
func runExec(args []string) error {
	if len(args) < 5 || args[3] != "--" {
		return errors.New("want STDIN OUTPUT UMASK -- COMMAND [ARG ...]")
	}
	unix.CloseOnExec(errorFD)
	err := openUserFiles(args[0], args[1], args[2])
	if err != nil {
		reportStartFailure(126, err)
		return err
	}
	code, err := become(args[4:])
	reportStartFailure(code, err)
	return err
}

func openUserFiles(stdin, output, umask string) error {
	mask, err := strconv.ParseUint(umask, 8, 32)
	if err != nil {
		return err
	}
	unix.Umask(int(mask))
	if stdin != "" {
		// Not blocking: a named pipe without a writer must not hold up the start.
		fd, err := unix.Open(stdin, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			return fmt.Errorf("open %s for standard input: %w", stdin, err)
		}
		if err := unix.SetNonblock(fd, false); err != nil {
			return err
		}
		if err := move(fd, 0); err != nil {
			return err
		}
	}
	if output != "" {
		fd, err := unix.Open(output, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOCTTY, 0o666)
		if err != nil {
			return fmt.Errorf("open %s for output: %w", output, err)
		}
		if err := unix.Dup3(fd, 2, 0); err != nil {
			return err
		}
		return move(fd, 1)
	}
	return nil
}

func move(fd, to int) error {
	if err := unix.Dup3(fd, to, 0); err != nil {
		return err
	}
	return unix.Close(fd)
}

// become replaces this process by the command. It returns only on failure, with
// the exit code that a shell would give.
func become(argv []string) (int, error) {
	path := argv[0]
	if !strings.Contains(path, "/") {
		found, err := exec.LookPath(path)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return 127, fmt.Errorf("%s: command not found in PATH=%s", path, os.Getenv("PATH"))
		}
		path = found
	}
	// What the supervisor protects itself with is not for the command.
	os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0) // lowering it again is what may be refused
	err := syscall.Exec(path, argv, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!, as a shell would run it
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...), os.Environ())
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return 127, fmt.Errorf("%s: no such file (or its interpreter is missing)", argv[0])
	case errors.Is(err, syscall.EACCES):
		return 126, fmt.Errorf("%s: no permission to execute it", argv[0])
	}
	return 126, fmt.Errorf("%s: %w", argv[0], err)
}

// runInCgroups joins the cgroups named before "--" and becomes the command
// after it.
func runInCgroups(args []string) error {
	for i, a := range args {
		if a == "--" && i+1 < len(args) {
			if err := linux.JoinCgroups(args[:i]); err != nil {
				return err
			}
			return syscall.Exec(args[i+1], args[i+1:], os.Environ())
		}
	}
	return errors.New("want CGROUP-DIRECTORY ... -- COMMAND [ARG ...]")
}
